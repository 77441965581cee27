"""Small cases after reports of users, over HTTP and through the command `tenfour hook`."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from tenfour.hooks.hook_events import reduce_event

from ledger.access.audit import audit
from ledger.instructions import Expect
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Attempt, Event, Instruction, Task
from ledger.standing_instructions.editing import On, RuleSpec, create_rule
from ledger.tokens import TrustedCaller
from retries.attempts import leases, releases
from retries.models import Escalation
from retries.tasks import actions as task_actions
from tests.conftest import Api
from tests.factories import send, state_of
from tests.retries.agent_hooks.test_api import context, make_task

pytestmark = pytest.mark.django_db

SHELL = {"stdout": "", "stderr": "", "interrupted": False}
RUNNING = [{"id": "a1", "type": "subagent", "status": "running"}]
COMMAND_RUNS = [{"id": "b1", "type": "shell", "status": "running"}]
Hook = Callable[..., dict[str, Any]]


@pytest.fixture(params=["http", "command"])
def hook(request: pytest.FixtureRequest, coder: Api) -> Hook:
    """Sends an event of the session `s-1`, as Claude Code does or as `tenfour hook` does."""

    def hook(event: str, *, session: str = "s-1", checked: int | None = None, **fields: Any) -> Any:
        body = {"hook_event_name": event, "session_id": session, "cwd": "/app", **fields}
        if request.param == "command":
            local: dict[str, Any] = {"folder": "/app"}
            if checked is not None:
                local["verification"] = {"command": "make test", "exit_code": checked}
            body = reduce_event(body, {}) | {"program": "claude", "tenfour": local}
        response = coder("POST", "/hooks/agent", body)
        assert response.status_code == 200, response.body
        return response.body

    hook.is_http = request.param == "http"  # type: ignore[attr-defined]
    return hook


def ran(hook: Hook, command: str, *, response: Any = None, **more: Any) -> dict[str, Any]:
    given = {"command": command} | more.pop("input", {})
    answer = {**SHELL, **(response or {})}
    return hook("PostToolUse", tool_name="Bash", tool_input=given, tool_response=answer, **more)


def wrote(hook: Hook, path: str = "/app/src/a.py") -> dict[str, Any]:
    given = {"file_path": path, "content": "x"}
    return hook(
        "PostToolUse", tool_name="Write", tool_input=given, tool_response={"type": "create"}
    )


# ---- what is not known to have passed


@pytest.mark.parametrize(
    ("given", "response"),
    [
        ({"run_in_background": True}, {"backgroundTaskId": "b1"}),
        ({"run_in_background": True}, {}),
        ({}, {"backgroundTaskId": "b1"}),
        ({}, {"interrupted": True}),
        ({}, {"returnCodeInterpretation": "No matches found"}),
    ],
    ids=["background", "asked", "moved", "interrupted", "interpreted"],
)
def test_a_check_without_a_known_end_proves_nothing(
    agent: Agent, hook: Hook, given: dict[str, Any], response: dict[str, Any]
) -> None:
    """F02, AGT-1: a check that was only started, or was interrupted, has no exit code."""
    task = make_task(agent)
    expect = Expect("fs_command", {"line": "make test", "exit_code": 0})
    waiting = send(agent, "Run the tests", expect=expect)
    hook("UserPromptSubmit", prompt="go")
    ran(hook, "make test", input=given, response=response, tool_use_id="t1")
    assert hook("Stop", last_assistant_message="It runs.", background_tasks=COMMAND_RUNS) == {}
    task.refresh_from_db()
    assert task.state == "running"
    asked = hook("Stop", last_assistant_message="It ran.", background_tasks=[])
    if hook.is_http:  # type: ignore[attr-defined]
        assert asked["decision"] == "block" and "make test" in asked["reason"]
    else:
        assert asked["tenfour"]["verify"] == {"command": "make test"}
    assert state_of(waiting) == "delivered"
    task.refresh_from_db()
    assert task.state == "running"


@pytest.mark.parametrize(
    "line", ["make test | tail -3", "make test || true", "make test; echo ok", "make test &"]
)
def test_a_hidden_exit_code_is_neither_a_success_nor_a_failure(
    agent: Agent, hook: Hook, line: str
) -> None:
    task = make_task(agent)
    hook("UserPromptSubmit", prompt="go")
    ran(hook, line)
    answer = hook("Stop", last_assistant_message="Passed.")
    if hook.is_http:  # type: ignore[attr-defined]
        assert "was hidden by the rest of the line" in answer["reason"]
    task.refresh_from_db()
    assert (task.state, Attempt.objects.count()) == ("running", 1)


def test_the_check_that_the_agent_ran_is_stored_with_its_proof(agent: Agent, hook: Hook) -> None:
    """F02: what hooks saw of the check, and what the agent's side ran, in their order."""
    task = make_task(agent)
    hook("UserPromptSubmit", prompt="go")
    ran(hook, "make test", response={"interrupted": True})
    ran(hook, "make test")
    hook("Stop", last_assistant_message="Done.", **({} if hook.is_http else {"checked": 0}))  # type: ignore[attr-defined]
    task.refresh_from_db()
    assert (task.state, task.proof) == ("done", "proven")
    checks = Attempt.objects.get().checks
    assert [(each["exit_code"], each["seen_by"]) for each in checks] == [(0, "hook")] + (
        [] if hook.is_http else [(0, "client")]  # type: ignore[attr-defined]
    )
    assert checks[0]["cwd"] == "/app" and checks[0]["unknown"] is None


@pytest.mark.parametrize(
    ("evidence", "command", "proof"),
    [
        (None, "make lint", "proven"),
        (None, "make other", "claimed"),
        ("ask", "make lint", "proven"),
        ("record", "", "claimed"),
    ],
)
def test_a_claim_without_a_check_is_sent_back_once_with_one(
    agent: Agent, hook: Hook, evidence: str | None, command: str, proof: str
) -> None:
    """AGT-2: a task without a check was done at any Stop."""
    near = make_task(agent, verify="make lint")
    hook("UserPromptSubmit", session="s-0", prompt="go")
    ran(hook, "make lint", session="s-0")
    hook("Stop", session="s-0", **({} if hook.is_http else {"checked": 0}))  # type: ignore[attr-defined]
    if not hook.is_http:  # type: ignore[attr-defined]
        Attempt.objects.update(checks=[])
        Task.objects.filter(pk=near.pk).update(proof="proven")
    task = make_task(agent, verify="", evidence=evidence)
    hook("UserPromptSubmit", prompt="go")
    wrote(hook)
    asked = hook("Stop", last_assistant_message="Done.")
    if not command:
        assert asked == {}
    else:
        assert asked["decision"] == "block" and "make lint" in asked["reason"]
        ran(hook, command)
        assert hook("Stop", last_assistant_message="Done.") == {}
    task.refresh_from_db()
    assert (task.state, task.proof) == ("done", proof)


def test_a_hook_s_stop_without_the_required_proof_asks_a_person(agent: Agent, hook: Hook) -> None:
    make_task(agent, verify="", evidence="require")
    hook("UserPromptSubmit", prompt="go")
    answer = hook("Stop", last_assistant_message="Done.")
    assert "a person is asked" in answer["systemMessage"]
    assert Escalation.objects.get().reason == "unproven"


@pytest.mark.parametrize(
    ("status", "summary", "code"),
    [
        ("failed", 'Background command "bg" failed with exit code 7', 7),
        ("completed", 'Background command "bg" completed (exit code 0)', 0),
        ("completed", "Background command completed", 0),
        ("killed", "Background command was stopped", None),
    ],
)
def test_the_end_of_a_background_command_is_known_later(
    agent: Agent, hook: Hook, status: str, summary: str, code: int | None
) -> None:
    make_task(agent)
    expect = Expect("fs_command", {"line": "make test", "exit_code": 0})
    waiting = send(agent, "Run the tests", expect=expect)
    hook("UserPromptSubmit", prompt="go")
    ran(hook, "make test", response={"backgroundTaskId": "b1"}, tool_use_id="t1")
    notice = (
        f"<task-notification>\n<task-id>b1</task-id>\n<tool-use-id>t1</tool-use-id>\n"
        f"<status>{status}</status>\n<summary>{summary}</summary>\n</task-notification>"
    )
    hook("UserPromptSubmit", prompt=notice)
    assert Attempt.objects.get().progress["check"].get("exit_code") == code
    assert state_of(waiting) == ("acknowledged" if code == 0 else "delivered")
    if hook.is_http:  # type: ignore[attr-defined]
        hook("Stop", last_assistant_message="Passed.")
        assert Task.objects.get().state == ("done" if code == 0 else "running")


def notice(call: str, status: str, summary: str) -> str:
    return (
        f"<task-notification>\n<task-id>b1</task-id>\n<tool-use-id>{call}</tool-use-id>\n"
        f"<status>{status}</status>\n<summary>{summary}</summary>\n</task-notification>"
    )


@pytest.mark.parametrize(
    ("line", "status", "summary", "end"),
    [
        ("make test || true", "completed", "Background command completed", (None, "hidden")),
        ("make test | tail", "completed", 'Command "x" (exit code 0)', (None, "hidden")),
        ("cd . && make test", "failed", "It failed with exit code 2", (2, None)),
        # The agent's own words stand in front of the exit code.
        ("make test", "failed", 'Command "exit code 0" failed with exit code 7', (7, None)),
        ("make test", "killed", 'Command "exit code 0" was stopped', (None, "moved_to_background")),
    ],
)
def test_a_check_in_the_background_ends_as_its_own_part_of_the_line(
    agent: Agent, hook: Hook, line: str, status: str, summary: str, end: tuple[Any, Any]
) -> None:
    make_task(agent)
    hook("UserPromptSubmit", prompt="go")
    ran(hook, line, response={"backgroundTaskId": "b1"}, tool_use_id="t1")
    hook("UserPromptSubmit", prompt=notice("t0", "failed", "x") + notice("t1", status, summary))
    check = Attempt.objects.get().progress["check"]
    assert (check["exit_code"], check["unknown"]) == end


def test_an_agent_is_told_in_which_folder_its_check_counts(agent: Agent, hook: Hook) -> None:
    make_task(agent)
    hook("UserPromptSubmit", prompt="go")
    ran(hook, "make test", cwd="/app/docs")
    answer = hook("Stop", last_assistant_message="Passed.", cwd="/app/docs")
    if hook.is_http:  # type: ignore[attr-defined]
        assert "Run the check by itself, in /app. " in answer["reason"]
        ran(hook, "cd /app && make test", cwd="/app")
        assert hook("Stop", last_assistant_message="Passed.") == {}
    else:
        assert answer["tenfour"]["verify"] == {"command": "make test"}


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("git commit -am Done && git push", True),
        ("git status; cat a.txt | head -3 2>/dev/null", True),
        ("sed -i s/a/b/ src/a.py", False),
        ("git checkout .", False),
        ("python migrate.py", False),
        ("echo x > src/a.py", False),
        ("echo it's", False),
    ],
)
def test_a_check_counts_until_a_later_call_may_have_changed_files(
    agent: Agent, hook: Hook, line: str, counts: bool
) -> None:
    """Over HTTP no one reads the files. `tenfour hook` compares them when the agent stops."""
    task = make_task(agent)
    hook("UserPromptSubmit", prompt="go")
    ran(hook, "make test")
    ran(hook, line)
    asked = hook("Stop", last_assistant_message="Done.")
    task.refresh_from_db()
    if hook.is_http and counts:  # type: ignore[attr-defined]
        assert (asked, task.proof) == ({}, "proven")
    else:
        assert "make test" in str(asked) and task.state == "running"


def test_a_turn_that_leaves_work_running_is_no_result(agent: Agent, hook: Hook) -> None:
    """F03, AGT-3: the Stop after the last subagent reports."""
    task = make_task(agent, verify="")
    hook("UserPromptSubmit", prompt="go")
    wrote(hook)
    lease = Attempt.objects.get().lease_expires_at
    for tasks in (RUNNING, COMMAND_RUNS):
        assert hook("Stop", last_assistant_message="I wait.", background_tasks=tasks) == {}
    attempt = Attempt.objects.get()
    assert attempt.outcome is None and attempt.lease_expires_at > lease
    ended = [RUNNING[0] | {"status": "completed"}]
    assert hook("Stop", last_assistant_message="Done.", background_tasks=ended) == {}
    task.refresh_from_db()
    assert task.state == "done"


@pytest.mark.parametrize(
    ("message", "is_limit"),
    [
        ("You've hit your 5-hour limit · resets 9:06pm (UTC)", True),
        ("API Error: Request rejected (429) · This would exceed your account's rate limit.", True),
        ("API Error: 400 The request was not valid.", False),
        ("", False),
    ],
)
def test_a_turn_that_ends_at_a_limit_makes_the_agent_wait(
    agent: Agent, hook: Hook, message: str, is_limit: bool
) -> None:
    """F07: Claude Code reports it as StopFailure, and sends no Stop."""
    task = make_task(agent)
    hook("UserPromptSubmit", prompt="go")
    failed = {"error": "rate_limit", "last_assistant_message": message}
    assert hook("StopFailure", agent_id="sub-1", **failed) == {}
    assert Attempt.objects.get().outcome is None
    assert hook("StopFailure", **failed) == {}
    for found in (task, agent):
        found.refresh_from_db()
    assert (task.state, task.retry_count) == ("retry" if is_limit else "running", 0)
    assert (agent.waits_until is not None) is is_limit
    assert not is_limit or context(hook("UserPromptSubmit", prompt="Go on")) == ""


def test_a_server_that_runs_on_does_not_hold_back_a_proven_result(agent: Agent, hook: Hook) -> None:
    task = make_task(agent)
    hook("UserPromptSubmit", prompt="go")
    wrote(hook)
    ran(hook, "make test")
    hook("Stop", last_assistant_message="Done.", background_tasks=COMMAND_RUNS, checked=0)
    task.refresh_from_db()
    assert task.state == "done"


def test_an_agent_that_waits_is_not_held(agent: Agent, hook: Hook) -> None:
    """F31: no block, and none is counted, while a subagent runs."""
    rule = RuleSpec(
        on=On(event="signal", type="fs_write", match={"path": {"glob": "src/**"}}),
        content="Run the tests after changing code.",
        expect=Expect("fs_command", {"line": "make test"}),
        hold_stop=True,
    )
    create_rule(rule, project=agent.project, stamp=Stamp(SYSTEM))
    wrote(hook)
    for _ in range(10):
        assert hook("Stop", last_assistant_message="waiting", background_tasks=RUNNING) == {}
    assert Instruction.objects.get().holds == 0
    reasons = [hook("Stop", last_assistant_message="Done.")["reason"] for _ in range(4)]
    assert [text[:13] for text in reasons] == [
        "Run the tests",
        "Run the tests",
        "**IMPORTANT:*",
        "**URGENT:** R",
    ]
    assert all("after you have run 'make test'" in text for text in reasons)
    assert Instruction.objects.get().deliveries == 5  # one with the write, and four at Stop


@pytest.mark.parametrize(
    "message",
    [
        "Which database should I use, PostgreSQL or SQLite? I have not started yet.",
        "I looked at the code.\n\nShould I delete the old parser?",
        "**Do you want the JSON or the YAML form?**",
    ],
)
def test_a_turn_that_ends_with_a_question_asks_a_person(
    agent: Agent, hook: Hook, operator: Api, message: str
) -> None:
    """F30, AGT-12: nothing was done, so it is no success."""
    task = make_task(agent, verify="")
    hook("UserPromptSubmit", prompt="go")
    shown = hook("Stop", last_assistant_message=message)["systemMessage"]
    escalation = Escalation.objects.get()
    assert shown.endswith(f"/escalations/{escalation.id}/")
    assert (escalation.question, escalation.reason) == (message, "agent_question")
    task.refresh_from_db()
    assert task.state == "escalated"
    body = {"text": "answer: PostgreSQL"}
    assert operator("POST", f"/escalations/{escalation.id}/resolve", body).status_code == 200
    assert "PostgreSQL" in context(hook("UserPromptSubmit", prompt="Go on"))


@pytest.mark.parametrize(
    ("message", "writes"),
    [
        ("Parser written. Should I also write the docs?", True),
        ("The disk is half full.", False),
        ("Is it broken? No: the disk is half full.\n\nNothing to do.", False),
        ("The report is in the chat. Is there anything else I can do?", False),
        ("```\nwhy?\n```", False),
    ],
)
def test_a_turn_that_ends_without_a_question_is_reported(
    agent: Agent, hook: Hook, message: str, writes: bool
) -> None:
    task = make_task(agent, verify="")
    hook("UserPromptSubmit", prompt="go")
    if writes:
        wrote(hook)
    assert hook("Stop", last_assistant_message=message) == {}
    task.refresh_from_db()
    assert task.state == "done"


# ---- what is a command


def test_a_text_in_a_here_document_is_no_command(agent: Agent, hook: Hook) -> None:
    """F11, AGT-9."""
    id = send(agent, "Run the tests", expect=Expect("fs_command", {"line": "make test"}))
    hook("UserPromptSubmit", prompt="go")
    ran(hook, "cat > GUIDE.md <<'EOF'\nRun this:\nmake test\nEOF")
    assert state_of(id) == "delivered"


@pytest.mark.parametrize("line", ["make test > out.txt 2>&1", "timeout 300 make test"])
def test_redirections_and_launchers_are_no_part_of_a_command(
    agent: Agent, hook: Hook, line: str
) -> None:
    """F12, AGT-10."""
    id = send(agent, "Run the tests", expect=Expect("fs_command", {"line": "make test"}))
    hook("UserPromptSubmit", prompt="go")
    ran(hook, line)
    assert state_of(id) == "acknowledged"


# ---- who has a task


def test_a_session_that_is_only_opened_claims_nothing(agent: Agent, hook: Hook) -> None:
    """F20, AGT-13."""
    make_task(agent)
    for session, source in (("orig", "resume"), ("phantom", "startup")):
        assert hook("SessionStart", session=session, source=source) == {}
    assert Attempt.objects.count() == 0
    assert "Write a parser" in context(hook("UserPromptSubmit", session="orig", prompt="go"))


def lose(agent: Agent, how: str) -> None:
    attempt = Attempt.objects.get(outcome=None)
    if how == "released":
        releases.release(attempt.id, caller=TrustedCaller(SYSTEM, agent=agent), reason="shutdown")
    else:
        leases.expire(now=attempt.lease_expires_at + timedelta(seconds=1))
        Task.objects.update(due_at=timezone.now())


@pytest.mark.parametrize("how", ["released", "expired"])
def test_a_lost_attempt_is_told_once_and_given_again_at_stop(
    agent: Agent, hook: Hook, how: str
) -> None:
    """F28, AGT-11: the session hears that its attempt is over, and its work is recorded."""
    task = make_task(agent, verify="", title="Parser", max_attempts=3)
    hook("UserPromptSubmit", prompt="go")
    ran(hook, "ls")
    lose(agent, how)
    told = context(ran(hook, "ls"))
    assert told.startswith("Attempt 1 of the task 'Parser' is over: ")
    assert ("given back" if how == "released" else "its lease expired") in told
    assert ran(hook, "ls") == {}
    again = hook("Stop", last_assistant_message="All done.")
    assert again["decision"] == "block" and "the task is yours again" in again["reason"]
    assert hook("Stop", last_assistant_message="All done.") == {}
    task.refresh_from_db()
    assert (task.state, task.attempts) == ("done", 2)


def test_a_claim_that_nothing_follows_is_released_after_five_minutes(
    agent: Agent, hook: Hook
) -> None:
    """F20, AGT-13: it costs no attempt."""
    task = make_task(agent, verify="")
    hook("UserPromptSubmit", prompt="go")
    claimed = Attempt.objects.get()
    assert claimed.lease_expires_at - claimed.started_at == timedelta(minutes=5)
    lose(agent, "expired")
    task.refresh_from_db()
    claimed.refresh_from_db()
    assert (task.state, task.retry_count, claimed.outcome) == ("queued", 0, "released")
    # The session was only slow: it goes on as if nothing had happened.
    assert ran(hook, "ls") == ({} if hook.is_http else {"tenfour": held()})  # type: ignore[attr-defined]
    assert hook("Stop", last_assistant_message="Done.") == {}
    task.refresh_from_db()
    assert (task.state, task.attempts) == ("done", 2)


def held() -> dict[str, Any]:
    return {"attempt": str(Attempt.objects.get(outcome=None).id), "verify": None}


def test_another_session_can_take_what_was_released(agent: Agent, hook: Hook) -> None:
    make_task(agent, verify="", title="Parser")
    hook("UserPromptSubmit", prompt="go")
    lose(agent, "expired")
    assert "Write a parser" in context(hook("UserPromptSubmit", session="s-2", prompt="go"))
    assert "it was given back" in context(ran(hook, "ls"))


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("PostToolUse", {"tool_name": "Read", "tool_input": {}, "tool_response": {}}),
        ("PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "make test"}}),
        ("SubagentStop", {"agent_id": "sub-1", "last_assistant_message": "Done."}),
        ("UserPromptSubmit", {"prompt": "and?"}),
        ("Stop", {"last_assistant_message": "I wait.", "background_tasks": RUNNING}),
    ],
)
def test_a_sign_of_life_makes_the_lease_long(
    agent: Agent, hook: Hook, event: str, fields: dict[str, Any]
) -> None:
    make_task(agent, verify="make test")
    hook("UserPromptSubmit", prompt="go")
    assert hook(event, **fields) == {}
    attempt = Attempt.objects.get()
    assert attempt.heartbeat_at is not None
    assert attempt.lease_expires_at - attempt.heartbeat_at == timedelta(minutes=30)
    assert "check" not in (attempt.progress or {})


def test_a_call_is_refused_after_an_abort(agent: Agent, hook: Hook) -> None:
    task = make_task(agent, verify="")
    call = {"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}}
    hook("UserPromptSubmit", prompt="go")
    assert hook("PreToolUse", **call) == {}
    task_actions.abort([task.pk], stamp=Stamp(SYSTEM))
    refused = hook("PreToolUse", **call)["hookSpecificOutput"]
    assert refused["permissionDecision"] == "deny"


def test_a_report_of_a_lost_attempt_is_recorded_as_late(agent: Agent, hook: Hook) -> None:
    """F28: another session has the task, and what this one did is not lost."""
    task = make_task(agent, verify="")
    hook("UserPromptSubmit", prompt="go")
    lose(agent, "released")
    hook("UserPromptSubmit", prompt="go", session="s-2")
    ended = hook("Stop", last_assistant_message="Wrote the parser.")
    assert "attempt 1 of the task" in ended["systemMessage"].lower()
    late = Event.objects.get(kind="task.reported_late")
    assert late.subject_id == task.pk and late.to_state is None
    assert late.data == {"attempt": 1, "status": "success", "summary": "Wrote the parser."}
    hook("Stop", last_assistant_message="Wrote the parser.")
    assert Event.objects.filter(kind="task.reported_late").count() == 1
    assert hook("Stop", last_assistant_message="Done.", session="s-2") == {}
    task.refresh_from_db()
    assert (task.state, task.attempts) == ("done", 2)
    assert list(audit()) == []


def test_a_reported_attempt_is_not_lost(agent: Agent, hook: Hook) -> None:
    make_task(agent, verify="")
    hook("UserPromptSubmit", prompt="go")
    hook("Stop", last_assistant_message="Done.")
    assert ran(hook, "ls") == {}
    assert hook("Stop", last_assistant_message="Yes.") == {}


def test_an_abort_ends_the_turn_at_the_next_call(agent: Agent, hook: Hook) -> None:
    """AGT-11: people press abort because the agent does damage now."""
    task = make_task(agent, verify="")
    hook("UserPromptSubmit", prompt="go")
    task_actions.abort([task.pk], stamp=Stamp(SYSTEM))
    answer = ran(hook, "rm -rf build")
    assert answer["continue"] is False and "aborted" in answer["stopReason"]
    task.refresh_from_db()
    assert task.state == "aborted"
    assert Attempt.objects.get().outcome == "aborted"


# ---- what waits reaches the agent


def test_an_instruction_reaches_a_working_agent_at_its_next_call(agent: Agent, hook: Hook) -> None:
    """F29, AGT-4."""
    hook("SessionStart", source="startup")
    id = send(agent, "Stop after the parser", priority=True)
    assert context(ran(hook, "ls")) == "Stop after the parser"
    row = Instruction.objects.get(pk=id)
    assert (row.state, row.deliveries, row.delivered_to) == ("delivered", 1, "s-1")
    assert ran(hook, "ls") == {}


def test_an_instruction_holds_the_stop_once(agent: Agent, hook: Hook) -> None:
    task = make_task(agent, verify="")
    hook("UserPromptSubmit", prompt="go")
    id = send(agent, "Write the docs, too")
    held = hook("Stop", last_assistant_message="Done.")
    assert held == {"decision": "block", "reason": "Write the docs, too"}
    assert state_of(id) == "delivered"
    task.refresh_from_db()
    assert task.state == "running"
    assert hook("Stop", last_assistant_message="Done.") == {}
    task.refresh_from_db()
    assert task.state == "done"


def test_a_subagent_is_not_told_what_is_meant_for_its_session(agent: Agent, hook: Hook) -> None:
    id = send(agent, "Stop after the parser")
    assert ran(hook, "ls", agent_id="sub-1") == {}
    assert state_of(id) == "queued"
    assert context(ran(hook, "ls")) == "Stop after the parser"


def test_a_tool_that_only_reads_asks_what_waits(agent: Agent, hook: Hook) -> None:
    send(agent, "Stop after the parser")
    read = hook("PostToolUse", tool_name="Read", tool_input={"file_path": "/a"}, tool_response={})
    assert context(read) == "Stop after the parser"
    assert Event.objects.filter(kind="signal.received").count() == 0
