"""`tenfour hook` alone: bad input, a server that is away, and what leaves the machine."""

import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tenfour import Client
from tenfour.hooks.hook_events import reduce_event
from tenfour.hooks.hook_store import HookStore

from ledger.models import AccountWindow, Attempt, Event, Instruction, Task
from tests.client.command import Ran, run_command
from tests.client.faulty import DROPPED, Fault, FaultyLine
from tests.serving import Tenfour
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)

SHELL = {"tool_name": "Bash", "tool_input": {"command": "make check"}}
Hook = Callable[..., Ran]


@pytest.fixture
def hook(tenfour_server: Tenfour, tmp_path: Path) -> Hook:
    """Runs `tenfour hook` with an event of the session s-1 on stdin."""
    known = {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
        "TENFOUR_STATE": str(tmp_path / "state"),
        "HOME": str(tmp_path),
    }

    def hook(
        event: Any,
        *args: str,
        timeout_s: float | None = PATIENCE_S,
        env: dict[str, str] | None = None,
        **fields: Any,
    ) -> Ran:
        body = {"hook_event_name": event, "session_id": "s-1", "cwd": str(tmp_path), **fields}
        raw = event if isinstance(event, bytes) else json.dumps(body).encode()
        more = known | (env or {})
        return run_command(
            "hook", *args, stdin=raw, env=more, cwd=tmp_path, hook_timeout_s=timeout_s
        )

    return hook


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not json",
        b"\xff\xfe{}",
        b"[]",
        b"7",
        b"{}",
        b'{"hook_event_name": 7}',
        b'{"hook_event_name": "Teleport", "version": 99}',
        b"[" * 100_000,
    ],
)
def test_input_that_is_no_known_event_is_ignored(raw: bytes, hook: Hook) -> None:
    ran = hook(raw)
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.startswith("tenfour: hook: ") and ran.err.count("\n") == 1


def test_the_status_line_shows_the_limits_and_tells_them_once_a_minute(
    hook: Hook, producer: Client
) -> None:
    """At most: the line is drawn after each step, also while the server is away."""
    resets_at = int(time.time()) + 3600

    def draw(used: float, **env: str) -> Ran:
        limits = {"five_hour": {"used_percentage": used, "resets_at": resets_at}, "seven_day": None}
        given = {"model": {"id": "m"}, "rate_limits": limits}
        return hook(json.dumps(given).encode(), "--status-line", env=env)

    for used in (41.6, 50):
        ran = draw(used)
        assert (ran.status, ran.out, ran.err) == (0, f"5 hours {used:.0f}%\n", "")
    [limit] = producer.agents.get("coder").limits
    limit = {**limit, "used": round(limit["used"], 3)}
    assert (limit["window"], limit["used"], limit["source"]) == ("five_hours", 0.416, "claude")
    away = draw(60, TENFOUR_URL="http://127.0.0.1:9")
    assert (away.status, away.out) == (0, "5 hours 60%\n")
    assert hook(b"[]", "--status-line").out == hook(b"{", "--status-line").out == ""


def test_the_status_line_tells_only_limits_that_changed(
    hook: Hook, producer: Client, tmp_path: Path
) -> None:
    """An idle session shows old figures again and again."""

    def draw(used: str) -> Ran:
        raw = f'{{"rate_limits": {{"five_hour": {{"used_percentage": {used}}}}}}}'
        return hook(raw.encode(), "--status-line")

    def told() -> float:
        [limit] = producer.agents.get("coder").limits
        return round(limit["used"], 3)

    assert not draw("NaN").err and not producer.agents.get("coder").limits
    draw("40")
    [marker] = (tmp_path / "state").rglob("limits-told")
    assert told() == 0.4
    AccountWindow.objects.update(used=0.5)
    for used, expected in (("40", 0.5), ("60", 0.6)):
        os.utime(marker, (0, 0))
        draw(used)
        assert told() == expected


def test_the_status_line_and_the_calls_of_a_session_have_files_of_their_own(
    hook: Hook, tmp_path: Path
) -> None:
    store = HookStore(tmp_path, url="http://x", token="t")
    store.note_told({})
    store.note_reported("s-1", ["call"])
    assert store.reported_calls("s-1") == ["call"]
    (tmp_path / "state").write_text("no folder")
    raw = b'{"rate_limits": {"five_hour": {"used_percentage": 40}}}'
    ran = hook(raw, "--status-line")
    assert (ran.status, ran.out) == (0, "5 hours 40%\n")
    assert ran.err.startswith("tenfour: The limits were not sent:"), ran.err


def test_a_server_that_is_away_blocks_nothing_and_hears_of_it_later(
    hook: Hook, producer: Client, tmp_path: Path
) -> None:
    expect = {"type": "fs_command", "match": {"line": "make check"}}
    producer.instructions.send("coder", "Check", expect=expect)
    assert "Check" in hook("UserPromptSubmit").out
    away = {"TENFOUR_URL": "http://127.0.0.1:1"}
    lost = hook("PostToolUse", **SHELL, env=away)
    assert (lost.status, lost.out) == (0, "") and "cannot be reached" in lost.err
    strict = hook("PostToolUse", "--strict", **SHELL, env=away)
    assert strict.status == 2
    files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    # Another server gets nothing of it.
    hook("UserPromptSubmit")
    assert Instruction.objects.get().state == "delivered"


def test_a_notification_reaches_the_journal(hook: Hook) -> None:
    fields = {"message": "Claude needs your permission", "notification_type": "permission_prompt"}
    ran = hook("Notification", **fields, transcript_path="/private")
    assert ran == Ran(0, "", "")
    noted = Event.objects.get(kind="agent.needs_attention")
    assert noted.data["message"] == "Claude needs your permission"
    assert noted.data["type"] == "permission_prompt"


@pytest.fixture
def deaf() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        server.setblocking(False)
        yield server


def test_a_server_that_does_not_answer_costs_seconds_once(hook: Hook, deaf: socket.socket) -> None:
    """The next event does not even connect."""
    env = {"TENFOUR_URL": f"http://127.0.0.1:{deaf.getsockname()[1]}"}
    began = time.monotonic()
    assert hook("PostToolUse", **SHELL, timeout_s=None, env=env).status == 0
    assert time.monotonic() - began >= 3
    deaf.accept()[0].close()
    assert hook("PostToolUse", **SHELL, timeout_s=None, env=env).status == 0
    with pytest.raises(BlockingIOError):
        deaf.accept()


def test_a_report_survives_and_is_sent_with_the_next_event(
    hook: Hook, producer: Client, line: FaultyLine, tmp_path: Path
) -> None:
    payload = {"action": "Write", "verify": {"command": "echo FAIL; exit 3"}}
    producer.tasks.enqueue("coder", "implementation", payload=payload)
    through = {"TENFOUR_URL": line.url}
    assert "Write" in hook("UserPromptSubmit", env=through).out
    line.faults.extend([DROPPED] * 100)
    stopped = hook("Stop", env=through)
    assert (stopped.status, stopped.out) == (0, "")
    hook("SessionEnd", env=through)
    assert Attempt.objects.get().outcome is None
    line.faults.clear()
    assert hook("UserPromptSubmit", session_id="s-2", env=through).status == 0
    failed = Attempt.objects.order_by("id").first()
    assert failed is not None and failed.outcome == "failure"
    assert failed.failure.verification["output"].strip() == "FAIL"
    assert failed.failure.verification["exit_code"] == 3
    assert [*tmp_path.glob("state/hooks/*/kept/*")] == []


def test_resend_sends_what_hooks_stored(
    hook: Hook, producer: Client, tenfour_server: Tenfour, line: FaultyLine, tmp_path: Path
) -> None:
    expect = {"type": "fs_command", "match": {"line": "make check"}}
    producer.instructions.send("coder", "Check", expect=expect)
    env = {"TENFOUR_URL": line.url, "TENFOUR_TOKEN": tenfour_server.token("agent", "coder")}
    line.faults.append(DROPPED)
    assert hook("PostToolUse", **SHELL, env=env).status == 0
    assert Instruction.objects.get().state == "queued"
    state = {"TENFOUR_STATE": str(tmp_path / "state"), "HOME": str(tmp_path)}
    done = run_command("resend", env=env | state)
    assert done.status == 0 and "Events of hooks that were sent: 1." in done.err, done.err
    assert Instruction.objects.get().state == "acknowledged"


def test_a_wrong_token_blocks_nothing(hook: Hook, tenfour_server: Tenfour) -> None:
    token = tenfour_server.token("agent", "coder")
    last = "y" if token.endswith("x") else "x"
    ran = hook("Stop", env={"TENFOUR_TOKEN": token[:-1] + last})
    assert (ran.status, ran.out) == (0, "") and "not a Tenfour token" in ran.err
    ran = hook("Stop", env={"TENFOUR_TOKEN": ""})
    assert (ran.status, ran.out) == (0, "") and "TENFOUR_TOKEN is not set" in ran.err


def test_inside_tenfour_run_the_hook_leaves_the_attempt_alone(hook: Hook, producer: Client) -> None:
    producer.tasks.enqueue("coder", "implementation", payload={"action": "Write"})
    managed = {"TENFOUR_ATTEMPT": "01a1fe6d-9b01-7830-98b6-0164ecc5924c"}
    assert hook("SessionStart", env=managed).out == hook("Stop", env=managed).out == ""
    assert Task.objects.get().state == "queued"


def test_a_stop_tells_the_tokens_of_the_attempt_alone(
    hook: Hook, producer: Client, tmp_path: Path
) -> None:
    """Of the session's transcript, since it got the task; inside `tenfour run`, for that."""
    transcript = tmp_path / "s-1.jsonl"

    def reply(id: str, age_s: float, tokens: int) -> None:
        stamp = datetime.fromtimestamp(time.time() - age_s, UTC).isoformat()
        message = {"id": id, "model": "opus", "usage": {"input_tokens": 1, "output_tokens": tokens}}
        line = {"type": "assistant", "timestamp": stamp, "message": message}
        with transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")

    reply("before", 60, 900)
    producer.tasks.enqueue("coder", "implementation", payload={"action": "Write"})
    assert "Write" in hook("UserPromptSubmit", transcript_path=str(transcript)).out
    reply("one", -1, 30)
    reply("two", -1, 12)
    assert hook("Stop", transcript_path=str(transcript)).status == 0
    ended = Attempt.objects.get()
    assert (ended.outcome, ended.usage) == (
        "success",
        {"input_tokens": 2, "cached_tokens": 0, "output_tokens": 42, "model": "opus"},
    )
    files = {"TENFOUR_PROMPT_FILE": tmp_path / "prompt", "TENFOUR_USAGE_FILE": tmp_path / "usage"}
    for file in files.values():
        file.touch()
        os.utime(file, (time.time() - 30,) * 2)  # the attempt began then
    managed = {"TENFOUR_ATTEMPT": str(ended.pk)} | {name: str(files[name]) for name in files}
    assert hook("Stop", env=managed, transcript_path=str(transcript)).status == 0
    assert json.loads(files["TENFOUR_USAGE_FILE"].read_text())["output_tokens"] == 42


def test_a_call_tells_the_tokens_once_a_minute(
    hook: Hook, producer: Client, tmp_path: Path
) -> None:
    transcript, calls = tmp_path / "s-1.jsonl", [{**SHELL, "tool_use_id": f"c-{n}"} for n in "ab"]
    task = producer.tasks.enqueue("coder", "implementation", payload={"action": "Write"})
    assert "Write" in hook("UserPromptSubmit", transcript_path=str(transcript)).out
    [held] = tmp_path.glob("state/hooks/*/sessions/*.json")

    def use(tokens: int) -> None:
        at = datetime.fromtimestamp(time.time(), UTC).isoformat()
        message = {"id": "one", "usage": {"input_tokens": 1, "output_tokens": tokens}}
        transcript.write_text(json.dumps({"timestamp": at, "message": message}) + "\n")

    def told() -> Any:
        [attempt] = producer.tasks.attempts(task.id)
        return attempt.usage and attempt.usage["output_tokens"]

    use(30)
    assert hook("PostToolUse", **calls[0], transcript_path=str(transcript)).status == 0
    assert told() is None, "a minute has not passed"
    known = json.loads(held.read_text())
    held.write_text(json.dumps({**known, "since": known["since"] - 61}))
    assert hook("PostToolUse", **calls[0], transcript_path=str(transcript)).status == 0
    assert told() == 30
    use(42)
    assert hook("PostToolUse", **calls[1], transcript_path=str(transcript)).status == 0
    assert told() == 30
    assert hook("Stop", transcript_path=str(transcript)).status == 0
    assert told() == 42


def test_a_stop_is_reported_to_a_server_that_does_not_know_tokens(
    hook: Hook, producer: Client, line: FaultyLine, tmp_path: Path
) -> None:
    transcript = tmp_path / "s-1.jsonl"
    env = {"TENFOUR_URL": line.url}
    producer.tasks.enqueue("coder", "implementation", payload={"action": "Write"})
    assert "Write" in hook("UserPromptSubmit", env=env, transcript_path=str(transcript)).out
    at = datetime.fromtimestamp(time.time() + 1, UTC).isoformat()
    message = {"id": "one", "usage": {"input_tokens": 1, "output_tokens": 2}}
    transcript.write_text(json.dumps({"timestamp": at, "message": message}) + "\n")
    refused = {"code": "validation_error", "errors": [{"pointer": "/tenfour/usage"}]}
    line.faults.append(Fault(422, {}, json.dumps(refused).encode()))
    ran = hook("Stop", env=env, transcript_path=str(transcript))
    assert ran.status == 0 and "older" in ran.err, ran.err
    assert [b"output_tokens" in each.body for each in line.seen] == [False, True, False]
    ended = Attempt.objects.get()
    assert (ended.outcome, ended.usage) == ("success", None)


def test_contents_and_secrets_stay_here() -> None:
    event = {
        "hook_event_name": "PostToolUse",
        "prompt": "private",
        "tool_name": "Write",
        "tool_input": {"file_path": "/a", "content": "private", "command": "x s3cret-value"},
        "tool_response": {"stdout": "private"},
        "transcript_path": "/private",
    }
    reduced = reduce_event(event, {"MY_TOKEN": "s3cret-value"})
    assert "private" not in json.dumps(reduced) and "s3cret" not in json.dumps(reduced)
    patch = "*** Begin Patch\n*** Add File: a.py\n+private\n*** End Patch"
    event |= {"tool_name": "apply_patch", "tool_input": {"command": patch}}
    assert reduce_event(event, {})["tool_input"]["command"].splitlines()[1:2] == [
        "*** Add File: a.py"
    ]
    assert "private" not in json.dumps(reduce_event(event, os.environ)["tool_input"])
