"""Escalations over HTTP: read by whom it concerns, answered by people alone."""

from collections.abc import Callable

import pytest

from ledger.models import Agent, Event
from retries.models import Escalation
from tests.conftest import Api
from tests.factories import make_agent, make_project, pull
from tests.ledger.api.test_instructions import problem
from tests.retries.test_escalations import ignored

pytestmark = pytest.mark.django_db


def test_it_is_listed_read_and_answered(operator: Api, agent: Agent) -> None:
    escalation = ignored(agent)
    (row,) = operator("GET", "/escalations?state=open").body["data"]
    assert row["id"] == str(escalation.id) and row["agent_name"] == "coder"
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
