"""Transcripts are imported over HTTP: once, completely, and again when they have grown."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from ledger.models import Attempt, Message, Session, SessionTask
from retries.api.sessions.imports import MOST_IMPORT_BYTES
from retries.sessions.flushing import flush_session_message_blocking
from tests.conftest import Api
from tests.factories import make_agent, make_project, make_token
from tests.ledger.sessions.transcript_files import (
    CLAUDE_SESSION,
    CODEX_SESSION,
    as_lines,
    claude_line,
    recorded,
)

pytestmark = pytest.mark.django_db
JSON_LINES = {"Content_Type": "application/x-ndjson"}


def put(api: Api, data: bytes, query: str = "") -> Any:
    return api("POST", f"/sessions/import{query}", data, **JSON_LINES)


def test_import_again_and_when_it_has_grown(coder: Api, operator: Api) -> None:
    lines = recorded("claude").splitlines(keepends=True)
    start = put(coder, b"".join(lines[:9]) + lines[9][:30])
    assert start.status_code == 201, start.body
    assert start.body["created"]
    assert (start.body["format"], start.body["lines"], start.body["cut_line"]) == ("claude", 9, 10)
    assert (start.body["messages"], start.body["added"]) == (4, 4)
    session = start.body["session"]
    assert session["external_id"] == CLAUDE_SESSION
    assert session["title"] == "Write a parser"
    assert session["messages"]["pending"] == 4

    # A person may import it too, under the agent's name: it is the same session.
    again = put(operator, b"".join(lines[:9]), "?agent=coder")
    assert (again.status_code, again.body["added"]) == (200, 0)
    assert again.body["session"] == session
    whole = put(coder, recorded("claude"))
    assert (whole.status_code, whole.body["added"], whole.body["created"]) == (201, 10, False)
    assert put(coder, recorded("claude")).body["added"] == 0
    rows = Message.objects.filter(session=session["id"]).order_by("order")
    assert [row.order for row in rows] == [*range(1, 15)]
    assert rows[0].sent_at.isoformat() == "2026-11-22T06:38:53.330000+00:00"

    # Another agent's session of the same name is another one.
    other = put(operator, recorded("claude"), f"?agent={make_agent('tester').name}")
    assert other.body["session"]["id"] != session["id"]
    assert Session.objects.count() == 2


@pytest.mark.parametrize(("program", "id"), [("claude", CLAUDE_SESSION), ("codex", CODEX_SESSION)])
def test_tasks_follow(program: str, id: str, coder: Api) -> None:
    # A newer Codex has no tool `update_plan`, and refuses the call.
    data = recorded(program).replace(b"unsupported call: update_plan", b"Plan updated")
    session = put(coder, data).body["session"]
    assert session["external_id"] == id
    flush_session_message_blocking(UUID(session["id"]))
    tasks = coder("GET", f"/sessions/{session['id']}/tasks").body["data"]
    assert [(t["order"], t["description"], t["state"]) for t in tasks] == [
        (1, "Write the parser", "success"),
        (2, "Run the tests", "pending" if program == "claude" else "success"),
    ]
    assert tasks[0]["message_orders"] == [*range(6, 14)] if program == "claude" else True
    status = coder("GET", f"/sessions/{session['id']}/status").body
    assert (status["success"], status["pending"], status["failed"]) == (status["total"], 0, 0)
    # Processed again, as after a lost worker: the tasks stay as they are.
    before = list(SessionTask.objects.order_by("id").values("description", "state", "progress"))
    Message.objects.update(state="pending")
    Session.objects.update(pending_count=status["total"], success_count=0)
    flush_session_message_blocking(UUID(session["id"]))
    assert list(SessionTask.objects.order_by("id").values("description", "state", "progress")) == (
        before
    )


def test_secrets_and_huge_outputs(coder: Api) -> None:
    key = "AKIAIOSFODNN7EXAMPLE"
    output = {"type": "tool_result", "tool_use_id": "t1", "content": f"{key}\n" + "x" * 2_000_000}
    data = as_lines(
        claude_line(1, "user", f"Use {key} \u0000\ud800"), claude_line(2, "user", [output, output])
    )
    done = put(coder, data)
    assert (done.status_code, done.body["added"]) == (201, 2), done.body
    for row in Message.objects.all():
        stored = json.dumps(row.content)
        assert key not in stored
        assert "[redacted:aws]" in stored
        assert len(stored) < 100_000
    assert "characters kept]" in json.dumps(Message.objects.get(order=2).content)


def test_messages_belong_to_an_attempt_of_the_agent(coder: Api) -> None:
    assert coder("POST", "/tasks", {"type": "code"}).status_code == 201
    assert coder("POST", "/claims", {}).status_code == 200
    attempt = Attempt.objects.get()
    done = put(coder, recorded("claude"), f"?attempt={attempt.pk}")
    assert done.status_code == 201
    assert set(Message.objects.values_list("attempt", flat=True)) == {attempt.pk}
    unknown = put(coder, recorded("codex"), "?attempt=0164ecc5-0000-7000-8000-000000000000")
    assert unknown.status_code == 422
    assert unknown.body["errors"][0]["pointer"] == "/attempt"
    assert Session.objects.count() == 1


def test_refusals_store_nothing(coder: Api, operator: Api, api: Callable[..., Api]) -> None:
    good = as_lines(claude_line(1, "user", "Go"))
    assert put(coder, b"").status_code == 422
    xml = coder("POST", "/sessions/import", good, Content_Type="application/xml")
    assert (xml.status_code, "x-ndjson" in xml.body["hint"]) == (415, True)
    large = put(coder, b" " * (MOST_IMPORT_BYTES + 1))
    assert (large.status_code, large.body["limit_bytes"]) == (413, MOST_IMPORT_BYTES)
    for query in ("?format=gemini", "?first_line=0", "?tracker=magic", "?agnet=coder"):
        assert put(coder, good, query).status_code == 422, query
    assert put(coder, good, "?external_id=" + "x" * 201).status_code == 422
    # whose session it is
    assert put(coder, good, "?agent=tester").status_code == 404
    assert put(operator, good).body["errors"][0]["pointer"] == "/agent"
    assert put(operator, good, "?agent=nobody").body["code"] == "unknown_agent"
    assert put(api("reader"), good, "?agent=coder").body["code"] == "scope_missing"
    foreign = Api(make_token("operator", project=make_project("other")))
    assert put(foreign, good, "?agent=coder").body["code"] == "unknown_agent"
    assert not Session.objects.exists()
