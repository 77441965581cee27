"""Budgets and prices over HTTP: from the limit over the claim and the heartbeat to the grant."""

from typing import Any

import pytest
from django.utils import timezone

from ledger.models import Agent, Budget, Plan, Task
from tests.conftest import Api
from tests.factories import make_agent, make_project, make_token
from tests.ledger.api.test_instructions import problem
from tests.retries.api.calls import claim, enqueue

pytestmark = pytest.mark.django_db

PLAN = {
    "ref": "03-01",
    "agent": "coder",
    "tasks": [{"title": f"Task {n}", "action": "Write it"} for n in range(4)],
}
USED = {"usage": {"input_tokens": 900, "output_tokens": 100}}


@pytest.fixture
def producer(api: Any, agent: Agent) -> Api:
    caller: Api = api("orchestrator")
    return caller


def report(coder: Api, claimed: dict[str, Any], **more: Any) -> dict[str, Any]:
    attempt = claimed["data"][0]["attempt"]["id"]
    body = {"status": "success"} | USED | more
    found: dict[str, Any] = coder("POST", f"/attempts/{attempt}/result", body).body
    return found


def test_a_plan_that_uses_up_its_budget_waits_for_a_grant(
    operator: Api, producer: Api, coder: Api
) -> None:
    """The whole walk: limit, notice, question, claim, heartbeat, report, grant."""
    imported = producer("POST", "/plans?budget=2000%20tokens", PLAN)
    assert imported.status_code == 201, imported.body
    other = enqueue(operator)
    (budget,) = operator("GET", "/budgets?plan=03-01").body["data"]
    assert (budget["limit"], budget["used"], budget["at_limit"]) == (2000, 0, "ask")
    first, running = claim(coder), claim(coder)
    attempt = running["data"][0]["attempt"]["id"]
    beat = coder("POST", f"/attempts/{attempt}/heartbeat").body
    assert (beat["abort_requested"], beat["stop_reason"]) == (False, None)
    assert report(coder, first)["decision"] == "done"
    assert report(coder, claim(coder))["decision"] == "done"
    shown = operator("GET", f"/budgets/{budget['id']}").body
    assert (shown["used"], shown["share"], shown["used_up"]) == (2000, 1.0, True)
    beat = coder("POST", f"/attempts/{attempt}/heartbeat").body
    assert (beat["abort_requested"], beat["stop_reason"]) == (True, "budget_used")
    stopped = report(coder, running, status="failure", usage=None)
    assert (stopped["decision"], stopped["reason"]) == ("wait", "budget_used")
    assert claim(coder)["data"][0]["task"]["id"] == other
    empty = claim(coder)
    assert (empty["data"], empty["reason"], empty["waits_until"]) == ([], "budget_used", None)
    assert empty["retry_after_s"] > 0
    (asked,) = operator("GET", "/escalations?state=open").body["data"]
    assert (asked["reason"], shown["escalation"]) == ("budget_used", asked["id"])
    refused = producer("POST", f"/escalations/{asked['id']}/resolve", {"text": "grant: 9 tokens"})
    problem(refused, 403, "human_required")
    answered = operator(
        "POST", f"/escalations/{asked['id']}/resolve", {"text": "grant: 3000 tokens"}
    )
    assert answered.status_code == 200, answered.body
    assert answered.body["task"]["state"] == "queued"
    assert operator("GET", f"/budgets/{budget['id']}").body["granted"] == 3000
    assert len(claim(coder, limit=5)["data"]) == 2


def test_a_task_is_enqueued_with_its_budget(operator: Api, coder: Api) -> None:
    one = enqueue(operator, budget={"tokens": 500, "at_limit": "stop"})
    many = operator(
        "POST",
        "/tasks/bulk",
        {
            "tasks": [
                {"agent": "coder", "type": "code", "budget": {"usd": 2}},
                {"agent": "coder", "type": "x"},
            ]
        },
    ).body["data"]
    found = {each["task"]: each for each in operator("GET", "/budgets?scope=task").body["data"]}
    assert found.keys() == {one, many[0]["id"]}
    assert (found[one]["limit"], found[one]["unit"], found[one]["at_limit"]) == (
        500,
        "tokens",
        "stop",
    )
    assert (found[many[0]["id"]]["limit"], found[many[0]["id"]]["unit"]) == (2, "usd")
    started = coder("POST", f"/tasks/{one}/start").body
    failed = report(coder, {"data": [{"attempt": started["data"][0]["attempt"]}]}, status="failure")
    assert failed["decision"] == "wait"
    Task.objects.filter(pk=one).update(due_at=timezone.now())
    refused = coder("POST", f"/tasks/{one}/start")
    problem(refused, 409, "invalid_transition")
    assert "waits for a budget" in refused.body["detail"]


@pytest.mark.parametrize(
    "budget",
    [
        {},
        {"tokens": 5, "usd": 5},
        {"tokens": 0},
        {"tokens": 1.5},
        {"usd": -1},
        {"usd": 5, "period": "week"},
        {"tokens": 5, "zone": "Mars/Base"},
        {"tokens": 5, "more": 1},
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(operator: Api, agent: Agent, budget: Any) -> None:
    body = {"agent": "coder", "type": "code", "budget": budget}
    problem(operator("POST", "/tasks", body), 422, "validation_error")
    problem(operator("PUT", "/budgets", budget), 422, "validation_error")
    assert not Task.objects.exists() and not Budget.objects.exists()


def test_budgets_are_set_changed_granted_and_removed(operator: Api, producer: Api) -> None:
    producer("POST", "/plans", PLAN)
    body = {"plan": "03-01", "usd": 5, "period": "day", "zone": "Europe/Berlin"}
    made = operator("PUT", "/budgets", body)
    assert made.status_code == 200, made.body
    id, tag = made.body["id"], made["ETag"]
    assert (made.body["plan_ref"], made.body["zone"], made.body["limit"]) == (
        *("03-01", "Europe/Berlin", 5.0),
    )
    assert operator("PUT", "/budgets", body | {"usd": 6}).body["id"] == id
    problem(operator("PATCH", f"/budgets/{id}", {"usd": 7}), 428, "if_match_required")
    problem(operator("PATCH", f"/budgets/{id}", {"usd": 7}, If_Match=tag), 412, "version_mismatch")
    changed = operator("PATCH", f"/budgets/{id}", {"usd": 7, "at_limit": "stop"}, If_Match='"v2"')
    assert (changed.body["limit"], changed.body["at_limit"]) == (7.0, "stop")
    refused = operator("PATCH", f"/budgets/{id}", {"tokens": 7}, If_Match='"v3"')
    problem(refused, 422, "validation_error")
    granted = operator("POST", f"/budgets/{id}/grant", {"amount": "1.50 USD"}).body
    assert (granted["limit"], granted["granted"]) == (8.5, 1.5)
    problem(
        operator("POST", f"/budgets/{id}/grant", {"amount": "5 tokens"}), 422, "validation_error"
    )
    assert operator("DELETE", f"/budgets/{id}").body == {"removed": id}
    problem(operator("GET", f"/budgets/{id}"), 404, "not_found")


def test_only_people_change_budgets_and_prices(
    operator: Api, producer: Api, coder: Api, agent: Agent
) -> None:
    id = operator("PUT", "/budgets", {"tokens": 500}).body["id"]
    own = operator("PUT", "/budgets", {"tokens": 5, "task": enqueue(operator)}).body["id"]
    for caller in (producer, coder):
        problem(caller("PUT", "/budgets", {"tokens": 9}), 403, "human_required")
        problem(caller("PATCH", f"/budgets/{id}", {"tokens": 9}), 403, "human_required")
        problem(
            caller("POST", f"/budgets/{id}/grant", {"amount": "1 token"}), 403, "human_required"
        )
        problem(caller("DELETE", f"/budgets/{id}"), 403, "human_required")
        price = {"model": "x", "input": 1, "output": 1}
        problem(caller("PUT", "/prices", price), 403, "human_required")
    assert producer("GET", f"/budgets/{id}").body["limit"] == 500
    # an agent sees the budgets that can hold it back
    other = Api(make_token("agent", agent=make_agent("other")))
    assert [each["id"] for each in coder("GET", "/budgets").body["data"]] == [own, id]
    assert [each["id"] for each in other("GET", "/budgets").body["data"]] == [id]
    problem(other("GET", f"/budgets/{own}"), 404, "not_found")


def test_an_import_does_not_change_a_budget_that_is_there(operator: Api, producer: Api) -> None:
    producer("POST", "/plans?budget=2000%20tokens", PLAN)
    producer("POST", "/plans?budget=9000%20tokens", PLAN)
    assert Budget.objects.get().amount == 2000
    operator("POST", "/plans?budget=9000%20tokens&at_limit=stop", PLAN)
    assert (Budget.objects.get().amount, Budget.objects.get().at_limit) == (9000, "stop")
    problem(
        producer("POST", "/plans?budget=lots", PLAN | {"ref": "03-02"}), 422, "validation_error"
    )
    assert Plan.objects.count() == 1
    dry = producer("POST", "/plans?budget=5%20USD&dry_run=true", PLAN)
    assert dry.status_code == 200 and Budget.objects.count() == 1


def test_another_projects_budgets_are_invisible(operator: Api, agent: Agent) -> None:
    id = operator("PUT", "/budgets", {"tokens": 500}).body["id"]
    task = enqueue(operator)
    price = operator("PUT", "/prices", {"model": "own", "input": 1, "output": 2}).body["id"]
    other = Api(make_token(project=make_project("other")))
    make_agent("other", project=make_project("other"))
    assert other("GET", "/budgets").body["data"] == []
    problem(other("GET", f"/budgets/{id}"), 404, "not_found")
    problem(other("DELETE", f"/budgets/{id}"), 404, "not_found")
    problem(other("POST", f"/budgets/{id}/grant", {"amount": "1 token"}), 404, "not_found")
    problem(other("PUT", "/budgets", {"task": task, "tokens": 5}), 404, "not_found")
    problem(other("DELETE", f"/prices/{price}"), 404, "not_found")
    assert all(each["id"] is None for each in other("GET", "/prices").body["data"])


def test_prices_are_listed_set_and_removed(operator: Api, agent: Agent) -> None:
    shipped = operator("GET", "/prices").body["data"]
    sonnet = next(each for each in shipped if each["model"] == "claude-sonnet-4-5")
    assert (sonnet["input"], sonnet["output"], sonnet["cache_read"], sonnet["cache_write"]) == (
        *(3.0, 15.0, 0.3, 3.75),
    )
    body = {"model": "Own-Model", "input": 2, "output": 4, "starts_on": "2026-01-01"}
    made = operator("PUT", "/prices", body).body
    assert (made["model"], made["cache_read"], made["cache_write"]) == ("own-model", 2.0, 2.0)
    assert operator("PUT", "/prices", body | {"cache_read": 0.5}).body["id"] == made["id"]
    assert operator("GET", "/prices").body["data"][0]["cache_read"] == 0.5
    assert operator("DELETE", f"/prices/{made['id']}").body == {"removed": made["id"]}
    problem(operator("DELETE", f"/prices/{made['id']}"), 404, "not_found")
    problem(operator("PUT", "/prices", body | {"input": -1}), 422, "validation_error")
    problem(operator("PUT", "/prices", body | {"model": "\u0000"}), 422, "validation_error")
