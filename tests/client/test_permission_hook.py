"""`tenfour hook` at PermissionRequest: a decision of the server, or nothing printed at all."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tenfour.hooks.permission_hook import (
    Unsendable,
    mask_values,
    read_decision,
    read_when_silent,
    reduce_request,
)

from tests.client.command import Ran, run_command
from tests.client.faulty import DROPPED, Fault, FaultyLine, problem
from tests.serving import environment
from tests.waiting import PATIENCE_S, wait_until

ID = "01a1fe6d-9b01-7830-98b6-0164ecc5924c"
EVENT = {
    "hook_event_name": "PermissionRequest",
    "session_id": "s-1",
    "cwd": "/srv/app",
    "tool_name": "Bash",
    "tool_input": {"command": "npm test", "description": "run the tests"},
}
HTML = {"Content-Type": "text/html"}


def answer(value: Any, status: int = 200) -> Fault:
    return Fault(status, {"Content-Type": "application/json"}, json.dumps(value).encode())


def decided(**decision: Any) -> dict[str, Any]:
    output = {"hookEventName": "PermissionRequest", "decision": decision}
    return {"hookSpecificOutput": output}


def held(**more: Any) -> Fault:
    return answer({"tenfour": {"permission": ID, "poll_after_s": 0.1} | more})


ALLOWED = answer(decided(behavior="allow"))
DENIED = answer(decided(behavior="deny", message="Use pnpm instead."))


@pytest.fixture
def line() -> Iterator[FaultyLine]:
    """A server that gives the answers in `faults`; nothing is behind it."""
    with FaultyLine("http://127.0.0.1:1") as line:
        yield line


Hook = Callable[..., Ran]


@pytest.fixture
def hook(line: FaultyLine, tmp_path: Path) -> Hook:
    """Runs `tenfour hook` with a request on stdin."""

    def hook(*args: str, wait_s: int = 20, env: dict[str, str] | None = None, **fields: Any) -> Ran:
        return run_command(
            "hook",
            *args,
            f"--wait={wait_s}",
            stdin=json.dumps(EVENT | fields),
            env=environment_of(line.url, tmp_path) | (env or {}),
            cwd=tmp_path,
            hook_timeout_s=PATIENCE_S,
        )

    return hook


def environment_of(url: str, folder: Path) -> dict[str, str]:
    return {
        "TENFOUR_URL": url,
        "TENFOUR_TOKEN": "tenfour_agt_x",
        "TENFOUR_STATE": str(folder / "state"),
        "HOME": str(folder),
    }


def bodies(line: FaultyLine) -> list[Any]:
    return [json.loads(seen.body) for seen in line.seen]


# ---- decisions


@pytest.mark.parametrize("given", [ALLOWED, DENIED], ids=["allow", "deny"])
def test_a_decision_is_printed_as_it_is(given: Fault, hook: Hook, line: FaultyLine) -> None:
    line.faults.append(given)
    ran = hook()
    assert (ran.status, ran.err) == (0, "")
    assert json.loads(ran.out) == json.loads(given.body)


def test_a_held_request_is_asked_for_until_it_is_decided(
    hook: Hook, line: FaultyLine, tmp_path: Path
) -> None:
    line.faults.extend([held(), held(), DENIED])
    ran = hook("--agent", "codex", wait_s=77)
    assert json.loads(ran.out) == json.loads(DENIED.body)
    first, *polls = bodies(line)
    asked = {"wait_s": 77, "when_silent": "terminal_asks"}
    assert first["tool_input"] == EVENT["tool_input"] and first["program"] == "codex"
    assert first["tenfour"]["permission"] == asked | {"said": ""}
    assert [poll["tenfour"]["permission"] for poll in polls] == [asked | {"id": ID}] * 2
    assert {seen.path for seen in line.seen} == {"/v1/hooks/agent"}
    assert [*tmp_path.glob("state/hooks/*/kept/*")] == []


def test_the_answers_of_a_question_pass_unchanged(hook: Hook, line: FaultyLine) -> None:
    questions = [{"question": "Which?", "options": [{"label": "A"}, {"label": "Ü"}]}]
    given = {"questions": questions, "answers": {"Which?": "Ü"}}
    line.faults.append(answer(decided(behavior="allow", updatedInput=given)))
    ran = hook(tool_name="AskUserQuestion", tool_input={"questions": questions})
    assert json.loads(ran.out) == decided(behavior="allow", updatedInput=given)
    assert bodies(line)[0]["tool_input"] == {"questions": questions}


# ---- nothing is allowed by silence

WRONG = [
    {},
    {"decision": "approve"},
    {"hookSpecificOutput": None},
    {"hookSpecificOutput": {"decision": {"behavior": "allow"}}},
    {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}},
    {"hookSpecificOutput": {"hookEventName": "PreToolUse", "decision": {"behavior": "allow"}}},
    decided(),
    decided(behavior="ask"),
    decided(behavior="ALLOW"),
    decided(behavior=True),
    decided(behavior=["allow"]),
    decided(behavior="allow", updatedInput="rm -rf /"),
    decided(behavior="allow", updatedInput=None),
    decided(behavior="allow", updatedPermissions=[{"type": "addRules"}]),
    decided(behavior="deny", message=7),
    {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": "allow"}},
    {"tenfour": {"permission": ""}},
    {"tenfour": {"permission": 7}},
    {"tenfour": [ID]},
    {"allow": True},
    [],
    None,
    "allow",
]


@pytest.mark.parametrize("value", WRONG, ids=lambda value: json.dumps(value)[:60])
@pytest.mark.parametrize("at", ["first", "later"])
def test_an_answer_that_is_no_decision_decides_nothing(
    value: Any, at: str, hook: Hook, line: FaultyLine
) -> None:
    line.faults.extend([held()] * (at == "later"))
    line.faults.append(answer(value))
    ran = hook()
    assert (ran.status, ran.out) == (0, "")


BROKEN = {
    "500": Fault(500, HTML, b"<h1>Internal Server Error</h1>"),
    "404": problem(404, "not_found"),
    "401": problem(401, "token_unknown"),
    "422": problem(422, "invalid"),
    "html": Fault(200, HTML, b'<html>{"behavior": "allow"}</html>'),
    "html of a proxy": Fault(302, HTML | {"Location": "http://portal/"}, b"<html>Log in</html>"),
    "no body": Fault(200, {"Content-Type": "application/json"}, b""),
    "half a body": Fault(200, {"Content-Type": "application/json"}, ALLOWED.body[:-3]),
    "two values": Fault(200, {"Content-Type": "application/json"}, ALLOWED.body * 2),
    "not UTF-8": Fault(200, {"Content-Type": "application/json"}, b"\xff" + ALLOWED.body),
    "a decision with an error": answer(decided(behavior="allow"), 500),
    "a decision that is refused": answer(decided(behavior="allow"), 403),
    "a cut connection": DROPPED,
}


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("strict", [False, True])
def test_an_error_decides_nothing(fault: Fault, strict: bool, hook: Hook, line: FaultyLine) -> None:
    """Exit code 2 would lose the reason, and decide nothing either."""
    line.faults.append(fault)
    ran = hook(*["--strict"] * strict)
    assert (ran.status, ran.out) == (0, "") and ran.err.startswith("tenfour: ")
    assert len(line.seen) == 1


def test_no_server_decides_nothing(hook: Hook) -> None:
    ran = hook("--strict", env={"TENFOUR_URL": "http://127.0.0.1:1"})
    assert (ran.status, ran.out) == (0, "") and "cannot be reached" in ran.err
    ran = hook(env={"TENFOUR_TOKEN": ""})
    assert (ran.status, ran.out) == (0, "") and "TENFOUR_TOKEN is not set" in ran.err


def test_the_end_of_the_wait_decides_nothing(hook: Hook, line: FaultyLine) -> None:
    line.faults.extend([held()] * 40)
    began = time.monotonic()
    ran = hook(wait_s=1)
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert time.monotonic() - began >= 0.8 and len(line.seen) < 20


def test_an_outage_in_the_middle_loses_no_answer(hook: Hook, line: FaultyLine) -> None:
    away = [DROPPED, Fault(502, HTML, b"<h1>Bad Gateway</h1>"), problem(503, "unavailable")]
    line.faults.extend([held(), *away, held(), ALLOWED])
    assert json.loads(hook().out) == json.loads(ALLOWED.body)


def test_a_server_that_stays_away_decides_nothing(hook: Hook, line: FaultyLine) -> None:
    line.faults.extend([held(), *[DROPPED] * 200])
    ran = hook("--strict", wait_s=1)
    assert (ran.status, ran.out) == (0, "")
    assert len(line.seen) > 2


@pytest.mark.parametrize("code", [400, 403, 404, 422])
def test_a_refused_poll_ends_the_wait(code: int, hook: Hook, line: FaultyLine) -> None:
    line.faults.extend([held(), problem(code, "refused"), ALLOWED])
    ran = hook()
    assert (ran.status, ran.out) == (0, "") and len(line.seen) == 2


@pytest.mark.parametrize("pause", [None, 0, -5, 10**9, "soon", True, [1]])
def test_a_pause_that_makes_no_sense_is_one_second(
    pause: Any, hook: Hook, line: FaultyLine
) -> None:
    line.faults.extend([held(poll_after_s=pause), ALLOWED])
    began = time.monotonic()
    assert hook().out and time.monotonic() - began >= 1


def test_a_deaf_server_decides_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        env = environment_of(f"http://127.0.0.1:{server.getsockname()[1]}", tmp_path)
        event = json.dumps(EVENT)
        ran = run_command("hook", "--wait=20", stdin=event, env=env, hook_timeout_s=0.5)
    assert (ran.status, ran.out) == (0, "") and "did not respond" in ran.err


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_an_ended_hook_withdraws_what_it_asks(
    sent: signal.Signals, line: FaultyLine, tmp_path: Path
) -> None:
    line.faults.extend([held(poll_after_s=30)] * 2)
    process = subprocess.Popen(
        [sys.executable, "-m", "tenfour", "hook", "--wait=500"],
        env=environment(environment_of(line.url, tmp_path)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps(EVENT).encode())
    process.stdin.close()
    wait_until(lambda: len(line.seen) == 1)
    time.sleep(0.2)  # for the answer to be read
    process.send_signal(sent)
    assert (process.wait(PATIENCE_S), process.stdout.read()) == (0, b"")
    process.stdout.close()
    assert [seen.path for seen in line.seen][1:] == [f"/v1/permissions/{ID}/withdraw"]


# ---- what is sent


def test_the_whole_call_is_sent_without_this_machines_secrets(hook: Hook, line: FaultyLine) -> None:
    line.faults.append(answer({}))
    edits = [{"old_string": "a", "new_string": "b" * 50_000 + "hunter2hunter2"}]
    given = {"file_path": "/srv/app/a.py", "edits": edits, "replace_all": True, "count": 3}
    hook(tool_name="MultiEdit", tool_input=given, env={"DB_PASSWORD": "hunter2hunter2"})
    sent = bodies(line)[0]["tool_input"]
    masked = [{"old_string": "a", "new_string": "b" * 50_000 + "[redacted:env]"}]
    assert sent == given | {"edits": masked}


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_input": {"content": "x" * 200 * 1024}},
        {"tool_input": {"content": "ü" * 110 * 1024}},
        {"tool_input": "rm -rf /"},
        {"tool_input": None},
        {"tool_name": "T" * 200},
        {"cwd": "/" + "d" * 2000},
    ],
    ids=["large", "large in UTF-8", "a text", "none", "tool", "folder"],
)
def test_what_people_would_not_see_whole_is_not_asked(
    fields: dict[str, Any], hook: Hook, line: FaultyLine
) -> None:
    line.faults.append(ALLOWED)
    ran = hook(**fields)
    assert (ran.status, ran.out) == (0, "") and "no one was asked" in ran.err
    assert line.seen == []


def test_a_call_whose_fields_would_become_one_is_not_sent() -> None:
    environ = {"A_TOKEN": "secret-one-1", "B_TOKEN": "secret-two-2"}
    assert mask_values({"secret-one-1": [1]}, environ) == {"[redacted:env]": [1]}
    with pytest.raises(Unsendable):
        mask_values({"secret-one-1": 1, "secret-two-2": 2}, environ)


def test_the_other_fields_are_those_of_every_event() -> None:
    event = EVENT | {"transcript_path": "/home/x", "permission_suggestions": [{"type": "setMode"}]}
    assert reduce_request(event, {}) == EVENT


@pytest.mark.parametrize(
    ("program", "environ", "expected"),
    [
        ("claude", {"CLAUDE_CODE_ENTRYPOINT": "cli"}, "terminal_waits"),
        ("claude", {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}, "refuses"),
        ("claude", {"CLAUDE_CODE_SESSION_ATTENDED": "0"}, "refuses"),
        ("claude", {"CLAUDE_CODE_SESSION_ATTENDED": "1"}, "terminal_waits"),
        ("claude", {}, "terminal_waits"),
        ("codex", {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}, "terminal_asks"),
    ],
)
def test_what_silence_means_is_told(program: str, environ: dict[str, str], expected: str) -> None:
    assert read_when_silent(program, environ) == expected


# ---- the forms of MCP servers

FORM = {
    "hook_event_name": "Elicitation",
    "session_id": "s-1",
    "mcp_server_name": "deployer",
    "message": "Where to?",
    "mode": "form",
    "requested_schema": {"type": "object", "properties": {"place": {"type": "string"}}},
}


def test_a_form_is_sent_as_an_input() -> None:
    sent = reduce_request(FORM, {})
    names = ("mcp_server_name", "message", "requested_schema")
    assert sent["tool_name"] == "Elicitation"
    assert sent["tool_input"] == {name: FORM[name] for name in names}
    with pytest.raises(Unsendable):
        reduce_request(FORM | {"mode": "url"}, {})


@pytest.mark.parametrize(
    ("output", "is_kept"),
    [
        ({"action": "accept", "content": {"place": "live"}}, True),
        ({"action": "accept", "content": {}}, True),
        ({"action": "decline"}, True),
        ({"action": "accept"}, False),
        ({"action": "decline", "content": {}}, False),
        ({"action": "maybe", "content": {}}, False),
        ({"decision": {"behavior": "allow"}}, False),
    ],
)
def test_only_a_whole_answer_to_a_form_is_printed(output: dict[str, Any], is_kept: bool) -> None:
    said = {"hookSpecificOutput": {"hookEventName": "Elicitation", **output}}
    assert read_decision(said, "Elicitation") == (said if is_kept else None)
    assert read_decision(said) is None


# ---- what the agent said


def claude(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": role, "message": {"role": role, "content": content}, **more}


def codex(role: str, kind: str, text: str) -> dict[str, Any]:
    payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"type": "response_item", "payload": payload}


RESULT = [{"type": "tool_result", "tool_use_id": "t", "content": "ran"}]
SPOKEN = {
    "claude": [
        claude("user", "Go"),
        claude("assistant", [{"type": "text", "text": "I run the tests."}]),
        claude("assistant", [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]),
        claude("user", RESULT),
        claude("user", "a reminder", isMeta=True),
    ],
    "codex": [
        codex("user", "input_text", "Go"),
        codex("assistant", "output_text", "I run the tests."),
        {"type": "response_item", "payload": {"type": "function_call", "name": "exec_command"}},
        codex("developer", "input_text", "context"),
        {"type": "event_msg", "payload": {"type": "token_count"}},
    ],
}


@pytest.mark.parametrize("program", SPOKEN)
def test_the_agents_last_text_comes_along(
    program: str, hook: Hook, line: FaultyLine, tmp_path: Path
) -> None:
    transcript = tmp_path / "s-1.jsonl"

    def said(*more: dict[str, Any], **fields: Any) -> str:
        lines = [*SPOKEN[program], *more]
        transcript.write_text("".join(json.dumps(each) + "\n" for each in lines))
        line.faults.append(answer({}))
        hook("--agent", program, transcript_path=str(transcript), **fields)
        return str(bodies(line)[-1]["tenfour"]["permission"]["said"])

    assert said() == "I run the tests."
    assert said({"message": 7}, {"payload": []}) == "I run the tests."
    long = "x" * 5000 + "hunter2hunter2"
    spoken = claude("assistant", long) if program == "claude" else codex("assistant", "text", long)
    transcript_env = {"env": {"DB_PASSWORD": "hunter2hunter2"}}
    text = said(spoken, **transcript_env)
    assert len(text) == 4000 and text.endswith("x[redacted:env]")
    prompt = claude("user", "Next") if program == "claude" else codex("user", "input_text", "Next")
    assert said(prompt) == ""


def test_a_subagents_own_text_comes_along(hook: Hook, line: FaultyLine, tmp_path: Path) -> None:
    (tmp_path / "s-1.jsonl").write_text(json.dumps(claude("assistant", "The parent.")) + "\n")
    own = tmp_path / "s-1" / "subagents" / "agent-a1.jsonl"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps(claude("assistant", "The subagent.")) + "\n")
    for agent, text in (("a1", "The subagent."), ("a2", ""), ("../../s-1", "")):
        line.faults.append(answer({}))
        hook(transcript_path=str(tmp_path / "s-1.jsonl"), agent_id=agent)
        assert bodies(line)[-1]["tenfour"]["permission"]["said"] == text
