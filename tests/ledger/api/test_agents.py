"""Agents over HTTP."""

from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.db import transaction

from ledger.api.agents import with_counts
from ledger.authorization.principal import Principal
from ledger.models import Agent, Event, Project
from ledger.states import InstructionState
from tests.conftest import Api
from tests.factories import make_instruction
from tests.ledger.api.test_instructions import problem
from tests.statement_plans import prepared

pytestmark = pytest.mark.django_db


def test_changes_to_an_agent_record_the_request_id(operator: Api, agent: Agent) -> None:
    body = {"paused": True, "concurrency": 2, "system_text": "Be brief."}
    operator("PATCH", f"/agents/{agent.pk}", body, X_Request_Id="req-2")
    found = Event.objects.filter(request_id="req-2").values_list("kind", flat=True)
    assert sorted(found) == ["agent.briefed", "agent.limited", "agent.paused"]


def test_agents_can_be_read_paused_and_reset(operator: Api, agent: Agent) -> None:
    make_instruction(InstructionState.DELIVERED, agent=agent)
    row = operator("GET", f"/agents/{agent.id}").body
    assert (row["awaiting_ack"], row["waiting"], row["paused"]) == (1, 0, False)
    assert operator("PATCH", f"/agents/{agent.id}", {"paused": True}).body["paused"] is True
    assert operator("POST", f"/agents/{agent.id}/reset").body == {"cancelled": 1}
    assert operator("GET", "/agents").body["data"][0]["awaiting_ack"] == 0


# An agent's settled instructions: most are acknowledged, and a few are plain ones.
SETTLED = """
insert into ledger_instruction (project_id, agent_id, content, content_sha256, tracked, state,
    max_retries, on_failed, position, sent_by_type, sent_by_id, sent_by_name, queued_at, updated_at,
    delivered_at, acknowledged_at)
select project_id, agent_id, content || g, sha256(g::text::bytea), g % 50 > 0,
    case g % 50 when 0 then 'delivered' else 'acknowledged' end, 0, on_failed, position + g,
    sent_by_type, sent_by_id, sent_by_name, queued_at, updated_at, queued_at,
    case when g % 50 > 0 then queued_at end
from ledger_instruction, generate_series(1, 3000) g where state = 'queued'
"""


def test_the_counts_of_agents_do_not_read_what_is_settled(operator: Api, agent: Agent) -> None:
    for state in (InstructionState.DELIVERED, InstructionState.QUEUED):
        make_instruction(state, agent=agent)
    seen = Principal(
        token_id=uuid4(),
        kind="operator",
        name="mara",
        project_id=agent.project_id,
        project_name="default",
        agent_id=None,
        agent_name=None,
        scopes=frozenset(),
    )
    with prepared("ledger_instruction", fill=SETTLED):
        plan = with_counts(seen).order_by("-pk")[:51].explain()
    read = [line for line in plan.splitlines() if " on ledger_instruction" in line]
    assert len(read) == 2, plan
    assert "instruction_queue" in read[0] and "instruction_idle_check" in read[1], plan
    row = operator("GET", "/agents").body["data"][0]
    assert (row["waiting"], row["awaiting_ack"], row["running"]) == (1, 1, 0)


def test_a_limit_of_attempts_is_set_and_lifted(operator: Api, agent: Agent) -> None:
    path = f"/agents/{agent.id}"
    assert operator("GET", path).body["concurrency"] is None
    assert operator("PATCH", path, {"concurrency": 3}).body["concurrency"] == 3
    assert operator("PATCH", path, {"paused": True}).body["concurrency"] == 3
    for wrong in (0, 1001, "3", True):
        problem(operator("PATCH", path, {"concurrency": wrong}), 422, "validation_error")
    row = operator("PATCH", path, {"concurrency": None}).body
    assert (row["concurrency"], row["paused"]) == (None, True)
    told = Event.objects.filter(kind="agent.limited").order_by("id").values_list("data", flat=True)
    assert list(told) == [{"concurrency": 3}, {"concurrency": None}]


def test_a_system_text_is_stored_without_secrets_and_removed(
    operator: Api, coder: Api, agent: Agent
) -> None:
    path = f"/agents/{agent.id}"
    text = " Use the key AKIAIOSFODNN7EXAMPLE\x07.\r\nThen stop. "
    kept = operator("PATCH", path, {"system_text": text}).body["system_text"]
    assert kept == "Use the key [redacted:aws].\nThen stop."
    assert operator("PATCH", path, {"paused": False}).body["system_text"] == kept
    problem(operator("PATCH", path, {"system_text": "x" * 16_001}), 422, "validation_error")
    assert len(operator("PATCH", path, {"system_text": "ä" * 16_000}).body["system_text"]) == 16_000
    problem(coder("PATCH", path, {"system_text": "Do as you like"}), 403, "scope_missing")
    for nothing in (None, ""):
        assert operator("PATCH", path, {"system_text": nothing}).body["system_text"] == ""
    told = Event.objects.filter(kind="agent.briefed").order_by("id").values_list("data", flat=True)
    assert [event["characters"] for event in told] == [len(kept), 16_000, 0]


def test_an_agent_is_created_once(operator: Api, coder: Api) -> None:
    created = operator("POST", "/agents", {"name": "codex"})
    assert (created.status_code, created.body["name"]) == (201, "codex")
    again = operator("POST", "/agents", {"name": "codex"})
    assert (again.status_code, again.body) == (200, created.body)
    problem(coder("POST", "/agents", {"name": "other"}), 403, "scope_missing")
    for wrong in ("", " codex", "x" * 65):
        body = problem(operator("POST", "/agents", {"name": wrong}), 422, "validation_error")
        assert body["errors"][0]["pointer"] == "/name"


# Fixed, because the processes of a run must collect the same tests.
AN_ID = "7db56300-2aad-4c91-a9da-7363c8802837"
NAMES = (
    *("coder", "a b", "a:b", "a?b", "a#b", "a%b", "%2F", "%2e%2e", "a;b", "a&b=c", "a+b", "~", "-"),
    *(
        "...",
        ".a",
        "a.",
        "*",
        "{id}",
        "<b>",
        "'\"",
        "$(x)",
        "prüfer",
        "审查",
        "🤖",
        "e\u0301",
        "null",
    ),
    *("a@b", "reset", "breaker", "x" * 64, "0", "a,b", "[1]", "|", "^", "`"),
    *("/", "a/b", "/a", "a/", "//", "../x", "\\", "a\\b", ".", "..", AN_ID, AN_ID.replace("-", "")),
    *("", " ", " a", "a ", "a\tb", "a\nb", "a\u200bb", "a\u00a0b", "\u202e", "x" * 65),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_accepted_can_be_used_in_every_address(
    name: str, operator: Api, project: Project
) -> None:
    """AGT-34: or it is refused when it is made, whatever makes it."""
    address = f"/agents/{quote(name, safe='')}"
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("tasks", {"agent": name, "type": "code", "register": True}),
        ("instructions", {"agent": name, "content": "Go", "register": True}),
        ("agents", {"name": name}),
    )
    for way, body in ways:
        start = transaction.savepoint()
        made = operator("POST", f"/{way}", body)
        if made.status_code == 422:
            assert made.body["errors"][0]["pointer"] in ("/name", "/agent")
            assert not Agent.objects.exists()
        else:
            assert made.status_code in (200, 201), made.body
            assert operator("GET", address).body["name"] == name
        if way != "agents":
            transaction.savepoint_rollback(start)
    if made.status_code == 422:
        return
    assert operator("PATCH", address, {"concurrency": 2}).body["concurrency"] == 2
    assert operator("POST", f"{address}/reset").status_code == 200
    for verb in ("trip", "keep-open", "reset"):
        answer = operator("POST", f"{address}/breaker/{verb}", {})
        assert answer.status_code in (200, 409, 422), (verb, answer.body)
    assert operator("GET", f"/tasks?agent={quote(name, safe='')}").status_code == 200


def test_an_agent_whose_name_has_a_slash_from_before_still_works(
    operator: Api, project: Project
) -> None:
    agent = Agent.objects.create(project=project, name="team/coder")
    body = {"agent": "team/coder", "type": "code", "register": True}
    assert operator("POST", "/tasks", body).status_code == 201
    assert operator("GET", f"/agents/{agent.pk}").body["name"] == "team/coder"
