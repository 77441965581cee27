"""`tenfour hook` hands the transcript on: only if that is switched on, and never in the way."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tenfour import Client
from tenfour.hooks.hook_transcripts import Progress, TranscriptStore, is_due, send_next_lines

from ledger.models import Attempt, Message, Session
from tests.client.command import Ran, run_command
from tests.client.faulty import DROPPED, FaultyLine
from tests.ledger.sessions.transcript_files import CLAUDE_SESSION, as_lines, claude_line, recorded
from tests.serving import Tenfour
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)

ON = {"TENFOUR_TRANSCRIPTS": "1"}
PASSWORD = "correct-horse-battery"
LINES = recorded("claude").splitlines(keepends=True)
Hook = Callable[..., Ran]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "projects" / f"{CLAUDE_SESSION}.jsonl"


@pytest.fixture
def tenfour(tenfour_server: Tenfour, tmp_path: Path, path: Path) -> Hook:
    """Runs `tenfour` as the agent's program would, with an event of the session on stdin."""
    path.parent.mkdir()
    known = {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
        "TENFOUR_STATE": str(tmp_path / "state"),
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "DB_PASSWORD": PASSWORD,
    }

    def run(*args: str, env: dict[str, str] | None = None, event: str = "", **more: Any) -> Ran:
        body = {
            "hook_event_name": event,
            "session_id": CLAUDE_SESSION,
            "transcript_path": str(path),
            "cwd": str(tmp_path),
            **more,
        }
        return run_command(
            *args,
            stdin=json.dumps(body),
            env=known | (env or {}),
            cwd=tmp_path,
            hook_timeout_s=PATIENCE_S,
        )

    return run


@pytest.fixture
def hook(tenfour: Hook) -> Hook:
    def hook(event: str, *args: str, env: dict[str, str] | None = None, **more: Any) -> Ran:
        return tenfour(
            "hook", "--agent", "claude", *args, event=event, env=ON | (env or {}), **more
        )

    return hook


def orders() -> list[int]:
    return list(Message.objects.order_by("order").values_list("order", flat=True))


def test_a_running_session_appears_by_itself(
    hook: Hook, tenfour: Hook, path: Path, tmp_path: Path
) -> None:
    path.write_bytes(b"".join(LINES[:3]) + LINES[3][:20])
    # off by default
    assert tenfour("hook", event="UserPromptSubmit").status == 0
    assert tenfour("hook", event="Stop", env={"TENFOUR_TRANSCRIPTS": "0"}).status == 0
    assert not Session.objects.exists()
    assert not [each for each in (tmp_path / "state").rglob("*") if "transcripts" in each.parts]

    assert hook("UserPromptSubmit") == Ran(0, "", "")
    session = Session.objects.get()
    assert (session.external_id, session.title) == (CLAUDE_SESSION, "Write a parser")
    assert session.agent.name == "coder"
    # An event that Tenfour has no rule for hands lines on as well.
    path.write_bytes(b"".join(LINES[:12]))
    quick = {"tool_name": "TaskUpdate", "tool_input": {}}
    assert hook("PostToolUse", **quick) == Ran(0, "", "")
    path.write_bytes(b"".join(LINES))
    assert hook("Stop") == Ran(0, "", "")
    assert orders() == [*range(1, 15)]
    # The whole file again, over the API: nothing is new.
    again = tenfour("session", "import", str(path))
    assert again.err.startswith("tenfour: no new message")
    files = [each for each in (tmp_path / "state").rglob("*") if each.is_file()]
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}


def test_messages_are_tied_to_the_attempt(hook: Hook, path: Path, producer: Client) -> None:
    producer.tasks.enqueue("coder", "code")
    # Between `tenfour run` and its agent, the attempt is in the environment.
    path.write_bytes(b"".join(LINES[:3]))
    started = hook("UserPromptSubmit")
    assert started.status == 0
    attempt = Attempt.objects.get()
    path.write_bytes(b"".join(LINES[:12]))
    assert hook("Stop", stop_hook_active=True).status == 0
    assert set(Message.objects.values_list("attempt", flat=True)) == {attempt.pk}
    path.write_bytes(b"".join(LINES))
    # Another agent's attempt is left out, and the lines are not lost.
    foreign = {"TENFOUR_ATTEMPT": "0164ecc5-0000-7000-8000-000000000000"}
    assert hook("SessionEnd", env=foreign).status == 0
    assert orders() == [*range(1, 15)]
    assert Message.objects.filter(attempt=None).count() > 0


def test_nothing_is_lost_while_the_server_is_away(
    hook: Hook, tenfour: Hook, path: Path, tmp_path: Path, line: FaultyLine
) -> None:
    through = {"TENFOUR_URL": line.url}
    path.write_bytes(b"".join(LINES[:3]))
    assert hook("UserPromptSubmit", env=through) == Ran(0, "", "")
    secret = claude_line(99, "user", f"It is {PASSWORD}", sessionId=CLAUDE_SESSION)
    path.write_bytes(b"".join(LINES) + as_lines(secret))
    line.faults.extend([DROPPED] * 100)
    lost = hook("SessionEnd", env=through)
    assert (lost.status, lost.out) == (0, "")
    assert len(orders()) == 1
    line.faults.clear()

    # What one session left behind, another one's hook sends.
    other = tmp_path / "projects" / "other.jsonl"
    other.write_bytes(as_lines(claude_line(1, "user", "Next", sessionId="other")))
    about = {"session_id": "other", "transcript_path": str(other)}
    assert hook("UserPromptSubmit", env=through, **about) == Ran(0, "", "")
    assert Session.objects.count() == 2
    ours = Message.objects.filter(session__external_id=CLAUDE_SESSION)
    assert ours.count() == 15
    assert ours.get(order=15).content[0]["text"] == "It is [redacted:env]"
    assert not any(PASSWORD.encode() in request.body for request in line.seen)

    path.write_bytes(path.read_bytes() + as_lines(claude_line(98, "user", "More")))
    resent = tenfour("resend", env=through)
    assert resent.status == 0, resent.err
    assert ours.count() == 16


def test_a_line_that_cannot_be_read_does_not_stop_the_rest(hook: Hook, path: Path) -> None:
    odd = json.dumps({"type": "user", "sessionId": "x", "uuid": "u", "message": 7}).encode() + b"\n"
    path.write_bytes(b"".join(LINES[:8]) + odd + b"".join(LINES[8:]))
    ran = hook("UserPromptSubmit")
    assert (ran.status, ran.out) == (0, "")
    assert "hook: 1 line can't be read and was left out. Line 9: " in ran.err
    assert len(orders()) == 14
    assert hook("Stop").err == ""
    assert len(orders()) == 14


@pytest.mark.parametrize("event", ["SessionStart", "Stop"])
def test_a_transcript_that_is_not_there(event: str, hook: Hook, path: Path) -> None:
    assert hook(event) == Ran(0, "", "")
    assert hook(event, transcript_path=7) == Ran(0, "", "")
    assert hook(event, transcript_path="/etc/hostname") == Ran(0, "", "")
    assert not Session.objects.exists()


def test_init_switches_it_on(tenfour: Hook, path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"".join(LINES[:3]))
    init = ("init", "--agent", "claude", "--yes")
    shown = tenfour(*init, "--transcripts")
    assert shown.status == 0, shown.err
    assert "the conversation leaves this machine" in shown.err
    assert tenfour("hook", event="Stop").status == 0
    assert len(orders()) == 1
    path.write_bytes(b"".join(LINES))
    # off again; the environment has the last word
    assert tenfour(*init).status == 0
    assert tenfour("hook", event="Stop").status == 0
    assert len(orders()) == 1
    assert tenfour("init", "--agent", "claude", "--http", "--transcripts", "--yes").status == 2


def test_a_file_that_was_begun_again_and_one_that_another_hook_sends(tmp_path: Path) -> None:
    store = TranscriptStore(tmp_path)
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"{}\n" * 3)
    store.save(Progress(str(path), "s", offset=3, line=2))
    sent: list[Any] = []

    def send(call: Any) -> dict[str, Any]:
        sent.append(call)
        return {}

    with store.locked("s") as is_ours:
        assert is_ours
        assert not send_next_lines(store, store.read("s") or Progress("", ""), send, {})
    assert send_next_lines(store, store.read("s") or Progress("", ""), send, {}, limit=3)
    (call,) = sent
    assert (call.body, call.params["first_line"]) == ("{}\n", "2")
    known = store.read("s")
    assert known is not None
    assert (known.offset, known.line, known.is_behind) == (6, 3, True)
    assert not is_due(known, "PostToolUse")
    assert is_due(known, "Stop")
