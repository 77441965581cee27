"""Transcripts as people's machines have them: torn, repeated, old, and of other programs."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from ledger.models import Message, Session
from retries.sessions.flushing import flush_session_message_blocking
from tests.conftest import Api
from tests.ledger.sessions.transcript_files import as_lines, claude_line, recorded, todo_write

pytestmark = pytest.mark.django_db

FIRST, SECOND, THIRD, FOURTH = (
    as_lines(claude_line(number, "user", f"Step {number}")) for number in range(1, 5)
)


def put(api: Api, data: bytes, query: str = "") -> Any:
    return api("POST", f"/sessions/import{query}", data, **{"Content_Type": "application/x-ndjson"})


def codex_line(number: int, kind: str, **payload: Any) -> dict[str, Any]:
    at = f"2026-05-01T10:00:{number:02}.000Z"
    return {"timestamp": at, "type": kind, "payload": payload}


def said(number: int, text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return codex_line(number, "response_item", type="message", role=role, content=content, **more)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        pytest.param(b"\0" * 900 + b"\n", "it is not JSON", id="F10"),
        (b'{"type": "user", "message": {"role": "us\n', "it is not JSON"),
        (b"\xff\xfe\x80\n", "it is not UTF-8 at byte 1."),
        (b"[1, 2]\n", "it is not a JSON object."),
        (b"[" * 100_000 + b"\n", "nested too deep"),
        (as_lines(claude_line(9, "user", 3)), "no content that is a text"),
        (as_lines(claude_line(9, "king", "Go") | {"type": "user"}), "the role 'king' is unknown."),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_stored(bad: bytes, why: str, coder: Api) -> None:
    """F10, AGT-18."""
    done = put(coder, FIRST + SECOND + bad + THIRD + FOURTH)
    assert (done.status_code, done.body["added"], done.body["cut_line"]) == (201, 4, None)
    (named,) = done.body["skipped_lines"]
    assert (done.body["skipped"], named["line"]) == (1, 3)
    assert why in named["detail"]
    # A part of a file counts from its own first line.
    part = put(coder, FIRST + bad, "?first_line=101&format=claude")
    assert [each["line"] for each in part.body["skipped_lines"]] == [102]


def test_a_line_behind_nul_bytes_is_whole(coder: Api) -> None:
    """F10: the program's next start writes behind the bytes that a crash left."""
    done = put(coder, FIRST + b"\0" * 600 + SECOND + THIRD.strip() + b"\0\0\n")
    assert (done.body["added"], done.body["skipped"]) == (3, 0)


def test_of_very_many_bad_lines_the_first_are_named(coder: Api) -> None:
    done = put(coder, FIRST + b"{no}\n" * 1_000 + SECOND)
    assert (done.body["added"], done.body["skipped"]) == (2, 1_000)
    assert [each["line"] for each in done.body["skipped_lines"]] == [*range(2, 102)]


CALL = {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": "{}"}


@pytest.mark.parametrize(
    ("data", "messages"),
    [
        # The second compaction writes old lines once more.
        pytest.param(FIRST + SECOND + FIRST + SECOND + THIRD, 3, id="F09"),
        (FIRST * 5, 1),
        (as_lines(*[codex_line(1, "session_meta", id="s1")] * 2, *[said(2, "Go", id="m1")] * 3), 1),
        (as_lines(said(1, "Go"), *[codex_line(2, "response_item", **CALL)] * 2), 2),
    ],
)
def test_the_id_of_a_line_counts_once(data: bytes, messages: int, coder: Api) -> None:
    """F09, AGT-18."""
    done = put(coder, data)
    assert (done.body["messages"], done.body["added"]) == (messages, messages)
    assert put(coder, data).body["added"] == 0
    assert Message.objects.count() == messages


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"sessionId":"g9","messages":[{"type":"user","content":"hi"}]}\n', id="F25"),
        as_lines({"type": "user", "sessionId": "g9", "content": [{"text": "hi"}]}),
        as_lines({"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello"}),
        as_lines({"type": "gemini", "content": "hi", "id": "1", "timestamp": "2026-03-01"}),
        b"a plain log\nof two lines\n",
        b"\0" * 400,
        b'{"type": "us',
    ],
)
@pytest.mark.parametrize("query", ["", "?format=claude", "?format=codex"])
def test_a_file_of_another_program_is_refused(data: bytes, query: str, coder: Api) -> None:
    """F25, AGT-38."""
    refused = put(coder, data, query)
    assert (refused.status_code, refused.body["code"]) == (422, "validation_error")
    assert refused.body["detail"] == "No line of it is a message of Claude Code or Codex."
    assert not Session.objects.exists()


def at_of(api: Api, session: Any) -> datetime:
    shown = api("GET", f"/sessions/{session['id']}").body["last_message_at"]
    return datetime.fromisoformat(shown)


def test_an_old_conversation_is_not_new(coder: Api) -> None:
    """F24, AGT-36: its last message is the newest that it has, whenever it was imported."""
    now = timezone.now()
    coder("POST", "/sessions", {"external_id": "live"})
    session = put(coder, FIRST + THIRD + SECOND).body["session"]
    assert session["last_message_at"] == "2026-11-22T06:00:03.000Z"
    listed = coder("GET", "/sessions?limit=2").body["data"]
    assert {row["external_id"] for row in listed} == {"live", "claude-1"}
    # It has grown by a line that is one second younger; a line that is older changes nothing.
    assert at_of(coder, put(coder, FOURTH).body["session"]).second == 4
    older = as_lines(claude_line(5, "user", "Before", timestamp="2026-11-01T06:00:00Z"))
    assert at_of(coder, put(coder, older).body["session"]).second == 4
    # A clock that is ahead does not make a session newer than now.
    ahead = (now + timedelta(days=400)).isoformat()
    future = put(coder, as_lines(claude_line(6, "user", "Later", timestamp=ahead)))
    assert now <= at_of(coder, future.body["session"]) < now + timedelta(minutes=5)
    # A message that comes now is the newest, with and without a conversation before it.
    for external_id in ("claude-1", "live"):
        id = coder("POST", "/sessions", {"external_id": external_id}).body["id"]
        coder("POST", f"/sessions/{id}/messages", {"role": "user", "content": "Go on"})
        assert at_of(coder, {"id": id}) >= now
    # More than one statement stores a long file, and the newest of all counts.
    many = as_lines(*(claude_line(n, "user", "x", sessionId="long") for n in range(1, 700)))
    assert put(coder, many).body["session"]["last_message_at"] == "2026-11-22T06:11:39.000Z"


COMMAND = "<command-name>/clear</command-name>\n<command-message>clear</command-message>"
SUMMARY = "This session is being continued from a previous conversation that ran out of context."


@pytest.mark.parametrize(
    "line",
    [
        claude_line(1, "user", COMMAND),
        claude_line(1, "user", "<command-message>init is analyzing…</command-message>"),
        claude_line(1, "user", "<local-command-stdout>Set model</local-command-stdout>"),
        claude_line(1, "user", [{"type": "text", "text": "[Request interrupted by user]"}]),
        claude_line(1, "user", [{"type": "text", "text": "[Request interrupted by user for tool"}]),
        claude_line(
            1,
            "user",
            "Caveat: The messages below were generated by the user while running"
            " local commands. DO NOT respond to these messages",
        ),
        claude_line(1, "user", SUMMARY),
        claude_line(1, "user", "More", isCompactSummary=True),
        claude_line(1, "user", "<bash-input>ls</bash-input>"),
        claude_line(1, "user", "<task-notification>\n<task-id>b1</task-id>"),
        claude_line(1, "user", "Stop hook feedback:\nRun make test."),
        said(1, "<hook_prompt hook_run_id='1'>Go on</hook_prompt>", id="m1"),
        said(1, "<environment_context>\n  <cwd>/w</cwd>", id="m1"),
        said(1, "<user_shell_command>\nls", id="m1"),
        said(1, "# AGENTS.md instructions for /w\n\nUse tabs.", id="m1"),
    ],
)
def test_the_title_is_the_first_request_of_a_person(line: dict[str, Any], coder: Api) -> None:
    """AGT-37."""
    is_claude = "payload" not in line
    request = claude_line(2, "user", "Fix the parser") if is_claude else said(2, "Fix the parser")
    # also if the program's line comes first, in a request of its own
    assert put(coder, as_lines(line), "?external_id=one").body["session"]["title"] == ""
    for data in (as_lines(request), as_lines(line, request)):
        session = put(coder, data, "?external_id=one").body["session"]
        assert session["title"] == "Fix the parser"
    first = Message.objects.get(order=1)
    assert first.role == "system"


def test_a_title_skips_what_the_program_put_before_a_request(coder: Api) -> None:
    """AGT-37: both in one message, and in a message that comes over the API."""
    content = [
        {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>"},
        {"type": "text", "text": "Fix the <b> tag"},
    ]
    session = put(coder, as_lines(claude_line(1, "user", content))).body["session"]
    assert session["title"] == "Fix the <b> tag"
    assert Message.objects.get().role == "user"
    id = coder("POST", "/sessions", {}).body["id"]
    for text in (COMMAND, "Write docs"):
        coder("POST", f"/sessions/{id}/messages", {"role": "user", "content": text})
    assert coder("GET", f"/sessions/{id}").body["title"] == "Write docs"


def test_real_transcripts_have_no_bad_line(coder: Api) -> None:
    for program in ("claude", "codex"):
        done = put(coder, recorded(program)).body
        assert (done["skipped"], done["skipped_lines"]) == (0, [])
        assert done["session"]["title"] == "Write a parser"
        assert json.dumps(done)


def test_to_dos_that_a_plan_leaves_behind_are_dropped(coder: Api) -> None:
    """AGT-24: they are counted, and shown, as what they are; none has failed."""
    session = put(
        coder,
        as_lines(
            todo_write(1, ("Write it", "completed"), ("Test it", "pending"), ("Ship", "pending")),
            todo_write(2, ("Write it", "completed"), ("Run the linter", "in_progress")),
        ),
    ).body["session"]
    flush_session_message_blocking(UUID(session["id"]))
    shown = coder("GET", f"/sessions/{session['id']}").body["tasks"]
    assert shown == {"pending": 0, "running": 1, "success": 1, "failed": 0, "dropped": 1}
    tasks = coder("GET", f"/sessions/{session['id']}/tasks").body["data"]
    assert ("Ship", "dropped") in [(each["description"], each["state"]) for each in tasks]


def test_a_refusal_behind_its_batch_is_seen(coder: Api) -> None:
    """AGT-18: a batch has at most 32 messages, and the answer to its last call is the 33rd."""
    talk = [claude_line(n, "user", f"Step {n}") for n in range(2, 32)]
    answer = {"type": "tool_result", "tool_use_id": "t32", "is_error": True, "content": "No"}
    lines = [
        todo_write(1, ("Write it", "pending")),
        *talk,
        todo_write(32, ("Other", "pending")),
        claude_line(33, "user", [answer]),
    ]
    session = put(coder, as_lines(*lines)).body["session"]
    flush_session_message_blocking(UUID(session["id"]))
    tasks = coder("GET", f"/sessions/{session['id']}/tasks").body["data"]
    assert [each["description"] for each in tasks] == ["Write it"]
