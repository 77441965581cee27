"""Escalations over HTTP: read by whom it concerns, answered by people alone."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event
from retries.escalations import answering, expiry
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.states import Answer
from tests.conftest import Api
from tests.factories import NOW, make_agent, make_project, pull
from tests.ledger.api.test_instructions import problem
from tests.ledger.plans.test_import_writer import imported
from tests.retries.escalations.test_answering import ignored
from tests.retries.escalations.test_task_effects import about, escalated
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db


def test_it_is_listed_read_and_answered(operator: Api, agent: Agent) -> None:
    escalation = ignored(agent)
    (row,) = operator("GET", "/escalations?state=open").body["data"]
    assert row["id"] == str(escalation.id) and row["agent"] == "coder"
    assert [option["name"] for option in row["options"]] == ["fix", "retry", "skip", "abort"]
    assert row["url"].endswith(f"/escalations/{escalation.id}/")
    body = {"action": "fix", "instruction": "Use v2", "note": "seen", "version": 1}
    told = operator("POST", f"/escalations/{escalation.id}/resolve", body)
    assert told.status_code == 200
    assert (
        told.body["escalation"]["state"] == "resolved" and told.body["escalation"]["options"] == []
    )
    assert told.body["decision"]["action"] == "fix" and told.body["decision"]["channel"] == "api"
    assert pull(agent) == ["Use v2"]
    read = operator("GET", f"/escalations/{escalation.id}").body
    assert read["resolution"]["resent_as"] == told.body["decision"]["resent_as"]
    assert operator("GET", "/escalations?state=open").body["data"] == []


def test_one_line_of_text_does_as_well(operator: Api, agent: Agent) -> None:
    escalation = ignored(agent)
    told = operator("POST", f"/escalations/{escalation.id}/resolve", {"text": "fix: Use v2"})
    assert told.body["decision"]["instruction"] == "Use v2"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/action"),
        ({"action": "skip", "text": "skip"}, "/action"),
        ({"action": "explode"}, "/action"),
        ({"action": "fix"}, "/instruction"),
        ({"action": "fix", "instruction": "  "}, "/instruction"),
        ({"action": "fix", "instruction": "x" * 4001}, "/instruction"),
        ({"action": "skip", "instruction": "x"}, "/instruction"),
        ({"text": "maybe"}, "/text"),
        ({"text": "fix: trim\nskip"}, "/text"),
        ({"text": "retry", "instruction": "Trim first"}, "/instruction"),
        ({"text": "fix: trim", "instruction": "Trim first"}, "/instruction"),
        ({"action": "skip", "version": "1"}, "/version"),
    ],
)
def test_a_bad_answer_is_told(
    operator: Api, agent: Agent, body: dict[str, str], pointer: str
) -> None:
    escalation = ignored(agent)
    told = problem(
        operator("POST", f"/escalations/{escalation.id}/resolve", body), 422, "validation_error"
    )
    assert told["errors"][0]["pointer"] == pointer
    assert Escalation.objects.get().is_open


def test_a_second_answer_is_409_with_the_first(operator: Api, agent: Agent) -> None:
    escalation = ignored(agent)
    operator("POST", f"/escalations/{escalation.id}/resolve", {"action": "skip"})
    told = problem(
        operator("POST", f"/escalations/{escalation.id}/resolve", {"action": "retry"}),
        409,
        "already_resolved",
    )
    assert told["resolution"]["action"] == "skip"


def test_a_stale_version_is_412(operator: Api, agent: Agent) -> None:
    escalation = ignored(agent)
    body = {"action": "skip", "version": 7}
    told = operator("POST", f"/escalations/{escalation.id}/resolve", body)
    assert problem(told, 412, "version_mismatch")["current"] == 1


@pytest.mark.parametrize("kind", ["agent", "orchestrator", "reader"])
def test_only_a_person_may_answer(api: Callable[..., Api], agent: Agent, kind: str) -> None:
    escalation = ignored(agent)
    caller = api(kind, **({"agent": agent} if kind == "agent" else {}))
    told = caller("POST", f"/escalations/{escalation.id}/resolve", {"action": "skip"})
    problem(told, 403, "human_required")
    assert Escalation.objects.get().is_open
    assert caller("GET", f"/escalations/{escalation.id}").status_code == 200


def test_what_belongs_to_others_is_not_found(api: Callable[..., Api], operator: Api) -> None:
    stranger = ignored(make_agent("coder", project=make_project("other")))
    neighbour = ignored(make_agent("codex"))
    coder = api("agent", agent=make_agent("coder"))
    for caller, escalation in [(operator, stranger), (coder, stranger), (coder, neighbour)]:
        problem(caller("GET", f"/escalations/{escalation.id}"), 404, "not_found")
        assert str(escalation.id) not in caller("GET", "/escalations").content.decode()
    answer = operator("POST", f"/escalations/{stranger.id}/resolve", {"action": "skip"})
    problem(answer, 404, "not_found")
    assert not Event.objects.filter(kind="escalation.resolved").exists()


def test_the_same_key_replays_the_answer(operator: Api, agent: Agent) -> None:
    escalation = ignored(agent)
    path, body = f"/escalations/{escalation.id}/resolve", {"action": "retry"}
    first = operator("POST", path, body, Idempotency_Key="k")
    again = operator("POST", path, body, Idempotency_Key="k")
    assert (again.status_code, again.body) == (200, first.body)
    assert again["Idempotency-Replayed"] == "true"


# ---- tasks


def test_a_task_is_told_and_skipped_with_what_depends_on_it(operator: Api, agent: Agent) -> None:
    """S1.38, S1.45, S1.51"""
    asked = escalated(agent, attempts=1, title="Backfill")
    make_task(agent, title="Reconcile", needs=[asked.task_id])
    path = f"/escalations/{asked.pk}"
    read = operator("GET", path)
    assert read["ETag"] == '"v1"'
    assert read.body["message"].startswith("## Task Escalation Required\n\n**Task:** Backfill\n")
    skip = next(option for option in read.body["options"] if option["name"] == "skip")
    assert skip["description"] == "1 task depends on it and may fail without it: Reconcile."
    assert [way["name"] for way in skip["dependents"]] == ["continue", "block", "skip"]
    stale = operator("POST", f"{path}/resolve", {"text": "skip"}, If_Match='"v7"')
    assert problem(stale, 412, "version_mismatch")["current"] == 1
    bad = operator("POST", f"{path}/resolve", {"text": "skip"}, If_Match="7")
    problem(bad, 422, "validation_error")
    body = {"text": "skip", "dependents": "skip"}
    done = operator("POST", f"{path}/resolve", body, If_Match='"v1"')
    assert done.status_code == 200 and done.body["task"]["state"] == "skipped"
    states = operator("GET", "/tasks?state=skipped").body["data"]
    assert {row["title"] for row in states} == {"Backfill", "Reconcile"}


def test_a_task_names_what_is_asked_about_it(coder: Api, operator: Api, agent: Agent) -> None:
    asked = escalated(agent)
    path = f"/tasks/{asked.task_id}"
    read = coder("GET", path).body
    assert (read["state"], read["escalation"]) == ("escalated", str(asked.pk))
    operator("POST", f"/escalations/{asked.pk}/resolve", {"action": "retry"})
    assert coder("GET", path).body["escalation"] is None


def test_a_fix_begins_with_what_may_help(operator: Api, agent: Agent) -> None:
    """api.md §4.5: `prompt_fill`; without anything known it is empty."""
    id = make_task(agent, max_attempts=1, on_exhausted="escalate")
    fail(agent, attempt_of(claim(agent, task=id)), now=NOW, message="Cannot find module 'uuid'")
    known, plain = about(id), escalated(agent, attempts=1)
    rows = {row["id"]: row for row in operator("GET", "/escalations").body["data"]}
    fills = {
        id: {each["name"]: each["prompt_fill"] for each in row["options"]}
        for id, row in rows.items()
    }
    assert fills[str(known.pk)]["fix"].startswith("Add it to the project's dependencies")
    assert fills[str(known.pk)]["retry"] == fills[str(plain.pk)]["fix"] == ""


def test_over_the_api_nothing_waits_for_an_undo(operator: Api, agent: Agent) -> None:
    asked = escalated(agent, attempts=1)
    done = operator("POST", f"/escalations/{asked.pk}/resolve", {"text": "fix: Trim first"})
    assert done.body["task"]["state"] == "queued"
    assert done.body["decision"]["undo_until"] is None


def test_a_dead_letter_takes_its_dependents_along(operator: Api, agent: Agent) -> None:
    root = make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    make_task(agent, title="Reconcile", needs=[root])
    (letter,) = operator("GET", "/dead-letters").body["data"]
    operator("POST", f"/dead-letters/{letter['id']}/dismiss", {"dependents": "skip"})
    (row,) = operator("GET", "/tasks?state=skipped").body["data"]
    assert row["title"] == "Reconcile"
    bad = operator("POST", f"/dead-letters/{letter['id']}/dismiss", {"dependents": "explode"})
    problem(bad, 422, "validation_error")


# ---- questions


def begun(caller: Api) -> str:
    claimed = caller("POST", "/claims", {"worker_id": "w1"}).body["data"][0]
    id: str = claimed["attempt"]["id"]
    return id


ASK = {
    "question": "Drop the table?",
    "options": [{"name": "yes", "title": "Drop it"}],
    "client_state": {"thread": [1, None]},
}


def test_an_agent_asks_and_a_person_answers(operator: Api, coder: Api, agent: Agent) -> None:
    make_task(agent)
    attempt = begun(coder)
    asked = coder("POST", f"/attempts/{attempt}/escalate", ASK, Idempotency_Key="k")
    assert asked.status_code == 201
    again = coder("POST", f"/attempts/{attempt}/escalate", ASK, Idempotency_Key="k")
    assert (again.status_code, again.body) == (201, asked.body)
    late = coder("POST", f"/attempts/{attempt}/escalate", ASK)
    problem(late, 409, "lease_lost")
    path = f"/escalations/{asked.body['id']}"
    read = operator("GET", path).body
    assert (read["question"], read["client_state"]) == ("Drop the table?", {"thread": [1, None]})
    assert read["choices"][0]["title"] == "Drop it"
    for caller, status, code in ((coder, 403, "human_required"),):
        body = {"action": "answer", "instruction": "yes"}
        problem(caller("POST", f"{path}/resolve", body), status, code)
    told = operator("POST", f"{path}/resolve", {"action": "answer", "instruction": "Keep a copy"})
    assert told.body["decision"]["instruction"] == "Keep a copy"
    assert begun(coder) != attempt
    assert coder("GET", path).body["resolution"]["action"] == "answer"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/question"),
        ({"question": "x" * 4001}, "/question"),
        ({"question": "x", "severity": "loud"}, "/severity"),
        ({"question": "x", "on_expiry": "explode"}, "/on_expiry"),
        ({"question": "x", "client_state": "y" * 8193}, "/client_state"),
        ({"question": "x", "options": [{"name": str(n)} for n in range(11)]}, "/options"),
    ],
)
def test_a_bad_question_is_told(coder: Api, agent: Agent, body: object, pointer: str) -> None:
    make_task(agent)
    attempt = begun(coder)
    told = problem(coder("POST", f"/attempts/{attempt}/escalate", body), 422, "validation_error")
    assert told["errors"][0]["pointer"] == pointer
    assert not Escalation.objects.exists()


def test_nobody_asks_for_another(
    api: Callable[..., Api], operator: Api, coder: Api, agent: Agent
) -> None:
    make_task(agent)
    attempt = begun(coder)
    for caller in (api("agent", agent=make_agent("codex")), operator):
        problem(caller("POST", f"/attempts/{attempt}/escalate", ASK), 404, "not_found")
    problem(api("reader")("POST", f"/attempts/{attempt}/escalate", ASK), 403, "scope_missing")


def test_a_question_is_withdrawn_by_its_agent_alone(
    api: Callable[..., Api], operator: Api, coder: Api, agent: Agent
) -> None:
    make_task(agent)
    asked = coder("POST", f"/attempts/{begun(coder)}/escalate", ASK).body
    path = f"/escalations/{asked['id']}/withdraw"
    problem(api("orchestrator")("POST", path), 403, "human_required")
    problem(api("agent", agent=make_agent("codex"))("POST", path), 404, "not_found")
    assert coder("POST", path).body["state"] == "withdrawn"
    problem(coder("POST", path), 409, "already_resolved")
    theirs = escalated(agent, attempts=1)
    problem(coder("POST", f"/escalations/{theirs.pk}/withdraw"), 403, "human_required")
    problem(operator("POST", f"/escalations/{theirs.pk}/withdraw"), 409, "invalid_transition")


def test_an_agent_that_keeps_asking_withdraws_no_more(
    coder: Api, operator: Api, agent: Agent
) -> None:
    """api.md §5.3: only an `agent_question` that it asked."""
    make_task(agent)
    for _ in range(3):
        asked = coder("POST", f"/attempts/{begun(coder)}/escalate", ASK).body
        assert coder("POST", f"/escalations/{asked['id']}/withdraw").status_code == 200
    asked = coder("POST", f"/attempts/{begun(coder)}/escalate", ASK).body
    path = f"/escalations/{asked['id']}/withdraw"
    problem(coder("POST", path), 403, "human_required")
    assert Escalation.objects.open().get().reason == "questions_exhausted"
    assert operator("POST", path).body["state"] == "withdrawn"


def test_no_agent_passes_a_checkpoint(operator: Api, coder: Api, agent: Agent) -> None:
    """api.md §5.3: only a question that it asked; the plan asks this one."""
    imported({"type": "checkpoint:human-action", "action": "Log in at the registry"})
    asked = Escalation.objects.get()
    path = f"/escalations/{asked.pk}/withdraw"
    problem(coder("POST", path), 403, "human_required")
    asked.refresh_from_db()
    assert asked.is_open
    assert (
        operator("POST", f"/escalations/{asked.pk}/resolve", {"text": "retry"}).status_code == 200
    )


def test_the_answer_to_a_checkpoint_is_told_to_its_first_attempt(
    operator: Api, coder: Api, agent: Agent
) -> None:
    """S1.47: a person's words are never dropped, and no attempt was used for them."""
    imported({"type": "checkpoint:decision", "question": "Which one?"})
    asked = Escalation.objects.get()
    before = coder("GET", f"/tasks/{asked.task_id}/retry-context").content
    body = {"action": "answer", "instruction": "Take <b>, it is ours"}
    assert operator("POST", f"/escalations/{asked.pk}/resolve", body).status_code == 200
    told = coder("GET", f"/tasks/{asked.task_id}/retry-context").content.decode()
    (claimed,) = coder("POST", "/claims", {}).body["data"]
    assert (claimed["attempt"]["number"], claimed["attempt"]["attempt_limit"]) == (1, 3)
    context = claimed["retry_context"]
    assert before == b"" and told == context and claimed["prompt"].startswith(context)
    assert "User answered: Take &lt;b&gt;, it is ours</instruction>" in context
    assert '<question trust="agent">Which one?</question>' in context
    assert "This is attempt 1 of 3." in context and "retry attempt" not in context


def test_values_are_asked_for_and_given(operator: Api, coder: Api, agent: Agent) -> None:
    """api.md §4.5: `response_schema` is held, when it is asked and when it is answered."""
    make_task(agent)
    path = f"/attempts/{begun(coder)}/escalate"
    schema: dict[str, Any] = {"type": "object", "properties": {"rows": {"type": "array"}}}
    told = problem(coder("POST", path, ASK | {"response_schema": schema}), 422, "validation_error")
    assert told["errors"][0]["pointer"] == "/response_schema/properties/rows/type"
    schema["properties"] = {"rows": {"type": "integer", "minimum": 1}}
    asked = coder("POST", path, ASK | {"response_schema": schema | {"required": ["rows"]}}).body
    resolve = f"/escalations/{asked['id']}/resolve"
    for response, where in (({}, "/rows"), ({"rows": 0}, "/rows"), ({"x": 1}, "/x")):
        body = {"action": "answer", "instruction": "yes", "response": response}
        told = problem(operator("POST", resolve, body), 422, "validation_error")
        assert told["errors"][0]["pointer"] == f"/response{where}"
    line = {"text": "retry", "response": {"rows": 1}}
    problem(operator("POST", resolve, line), 422, "validation_error")
    done = operator("POST", resolve, {"action": "answer", "response": {"rows": 7}}).body
    assert done["decision"]["response"] == {"rows": 7}
    assert done["decision"]["instruction"] == "rows: 7"
    mine = coder("GET", f"/escalations/{asked['id']}").body
    assert mine["resolution"]["response"] == {"rows": 7}


def test_an_expired_one_is_gone(operator: Api, coder: Api, agent: Agent) -> None:
    make_task(agent)
    until = timezone.now() + timedelta(hours=1)
    body = ASK | {"expires_at": until.isoformat(), "on_expiry": "retry"}
    asked = coder("POST", f"/attempts/{begun(coder)}/escalate", body).body
    assert expiry.process_due(now=until)["expired"] == 1
    told = operator("POST", f"/escalations/{asked['id']}/resolve", {"text": "retry"})
    problem(told, 410, "escalation_expired")


def test_it_is_assigned_and_commented(
    operator: Api, coder: Api, agent: Agent, django_user_model: Any
) -> None:
    django_user_model.objects.create_superuser("jonas")
    escalation = ignored(agent)
    path = f"/escalations/{escalation.id}"
    assert operator("POST", f"{path}/assign", {"user": "jonas"}).body["assignee"] == "jonas"
    (row,) = operator("GET", "/escalations?assignee=jonas").body["data"]
    assert row["id"] == str(escalation.id)
    problem(operator("POST", f"{path}/assign", {"user": "x"}), 422, "validation_error")
    assert operator("POST", f"{path}/comment", {"text": "On it"}).status_code == 200
    problem(operator("POST", f"{path}/comment", {"text": " "}), 422, "validation_error")
    for verb, body in (("assign", {"user": None}), ("comment", {"text": "x"})):
        problem(coder("POST", f"{path}/{verb}", body), 403, "human_required")


def test_it_is_snoozed_and_brought_back(operator: Api, coder: Api, agent: Agent) -> None:
    path = f"/escalations/{ignored(agent).id}"
    until = (timezone.now() + timedelta(hours=2)).replace(microsecond=0)
    told = operator("POST", f"{path}/snooze", {"until": until.isoformat()})
    assert datetime.fromisoformat(told.body["snoozed_until"]) == until and told["ETag"] == '"v2"'
    assert told.body["state"] == "open"
    problem(
        operator("POST", f"{path}/snooze", {"until": "2020-01-01T00:00Z"}), 422, "validation_error"
    )
    problem(coder("POST", f"{path}/snooze", {}), 403, "human_required")
    assert operator("POST", f"{path}/snooze", {"until": None}).body["snoozed_until"] is None


def test_an_operators_token_undoes_an_answer_from_the_page(
    api: Callable[..., Api], operator: Api, coder: Api, agent: Agent
) -> None:
    asked = escalated(agent)
    task = operator("GET", f"/escalations/{asked.pk}").body["task"]
    before = operator("GET", f"/tasks/{task}").body
    at = f"/escalations/{asked.pk}/undo"
    problem(operator("POST", at), 409, "invalid_transition")  # nothing is answered
    answering.answer(
        asked.pk,
        Choice(Answer.RETRY),
        among=Escalation.objects.all(),
        stamp=Stamp(SYSTEM, timezone.now()),
        channel="page",
        undo_for=timedelta(minutes=1),
    )
    for caller in (coder, api("orchestrator")):
        problem(caller("POST", at), 403, "human_required")
    undone = operator("POST", at)
    assert (undone.body["state"], undone.body["resolution"]) == ("open", None)
    after = operator("GET", f"/tasks/{task}").body
    same = ("state", "retry_count", "attempt_limit", "escalation")
    assert [after[name] for name in same] == [before[name] for name in same]
    assert Event.objects.filter(kind="task.answer_undone", actor_type="token").count() == 1
    problem(operator("POST", at), 409, "invalid_transition")


def test_an_answer_from_the_api_is_final(operator: Api, agent: Agent) -> None:
    asked = escalated(agent)
    operator("POST", f"/escalations/{asked.pk}/resolve", {"action": "retry"})
    refused = problem(operator("POST", f"/escalations/{asked.pk}/undo"), 409, "invalid_transition")
    assert "from the page" in refused["hint"]
