"""The journal over HTTP."""

from typing import Any

import pytest

from ledger.models import Agent
from ledger.states import InstructionState
from tests.conftest import Api
from tests.factories import make_agent, make_instruction
from tests.journal_partitions import settle
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_the_request_id_is_in_the_journal(operator: Api, agent: Agent) -> None:
    operator("POST", "/instructions", {"agent": "coder", "content": "x"}, X_Request_Id="req-1")
    settle()
    events = operator("GET", "/events").body["data"]
    assert [row["request_id"] for row in events if row["type"] == "instruction.queued"] == ["req-1"]


@pytest.mark.django_db(transaction=True)
def test_the_journal_is_read_in_pages(operator: Api, agent: Agent) -> None:
    make_instruction(InstructionState.ACKNOWLEDGED, agent=agent)
    settle()
    whole = operator("GET", "/events?limit=100&after=").body["data"]
    assert len(whole) >= 4
    pieces, after = [], ""
    for _ in range(len(whole)):
        page = operator("GET", f"/events?limit=1&after={after}").body
        pieces += page["data"]
        after = page["next_cursor"]
    assert pieces == whole
    assert operator("GET", f"/events?after={after}").body["data"] == []
    problem(operator("GET", "/events?after=x"), 400, "bad_cursor")


@pytest.mark.django_db(transaction=True)
def test_a_stream_can_begin_with_the_next_event(operator: Api, agent: Agent) -> None:
    empty = operator("GET", "/events?after=latest").body
    make_instruction(InstructionState.QUEUED, agent=agent)
    settle()
    page = operator("GET", "/events?after=latest").body
    assert page["data"] == [] and not page["has_more"]
    assert page["next_cursor"] != empty["next_cursor"]
    made = make_instruction(InstructionState.QUEUED, agent=agent)
    settle()
    rows = operator("GET", f"/events?after={page['next_cursor']}").body["data"]
    assert rows and {row["subject"] for row in rows} == {str(made.id)}


def list_all(api: Api, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor = ""
    for _ in range(100):
        page = api("GET", f"/events?limit=2&{query}&cursor={cursor}").body
        rows += page["data"]
        if not page["has_more"]:
            return rows
        cursor = page["next_cursor"]
    raise AssertionError("the list does not end")


def test_events_are_filtered_and_paged(operator: Api, agent: Agent) -> None:
    row = make_instruction(InstructionState.FAILED, agent=agent)
    make_instruction(InstructionState.QUEUED, agent=make_agent("codex"))
    events = operator("GET", "/events?limit=100").body["data"]
    assert [event["id"] for event in events] == sorted((e["id"] for e in events), reverse=True)
    ours = [event for event in events if event["subject"] == str(row.id)]
    assert len(ours) >= 3
    assert list_all(operator, f"subject={row.id}") == ours
    queued = [e for e in events if e["type"] == "instruction.queued"]
    assert list_all(operator, "kind=instruction.queued") == queued and len(queued) == 2
    several = [e for e in events if e["type"] in ("instruction.queued", "instruction.failed")]
    assert list_all(operator, "kind=instruction.queued,instruction.failed") == several
    for name in ("codex", events[0]["agent_id"]):
        only = list_all(operator, f"agent={name}")
        assert only and {event["agent"] for event in only} == {"codex"}
    at = ours[1]["at"]
    assert list_all(operator, f"since={at}") == [e for e in events if e["at"] >= at]
    assert list_all(operator, f"until={at}") == [e for e in events if e["at"] < at]
    assert list_all(operator, f"since={at}&until={at}") == []


def test_a_wrong_filter_on_events_is_refused(operator: Api, agent: Agent) -> None:
    for wrong in ("kind=task.lost", "subject=x", "since=yesterday", "after=&kind=task.created"):
        problem(operator("GET", f"/events?{wrong}"), 422, "validation_error")
    problem(operator("GET", "/events?agent=stranger"), 422, "unknown_agent")
    problem(operator("GET", "/events?cursor=x"), 400, "bad_cursor")
