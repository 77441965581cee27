"""The zero-install hooks: each event of an agent's session and what its hook answers."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from ledger.instructions import Expect, cancel_all
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Attempt, DeadLetter, Event, Instruction, Task
from ledger.standing_instructions.editing import SESSION_START, On, RuleSpec, create_rule
from ledger.states import TaskState
from ledger.tasks import Change, enqueue
from ledger.tokens import TrustedCaller
from ledger.values.ids import first_id
from retries import deadletters
from retries.agent_hooks import stops
from retries.claiming.session_names import LAST_ATTEMPT
from retries.models import Escalation
from retries.plans import aborting, restarting
from retries.tasks import actions as task_actions
from tests.conftest import Api
from tests.factories import NOW, make_agent, send, state_of
from tests.ledger.plans.test_import_writer import imported
from tests.ledger.sessions.test_transcript_limits import api_error, token_count, window
from tests.retries.moves import attempt_of, claim, fail

pytestmark = pytest.mark.django_db

OUTPUT = {"stdout": "1 failed\nFAIL test_parser", "stderr": ""}
Hook = Callable[..., dict[str, Any]]


@pytest.fixture
def hook(coder: Api) -> Hook:
    """Sends an event of the session `s-1`; `local` is what `tenfour hook` would add."""

    def hook(event: str, *, session: str = "s-1", local: Any = None, **fields: Any) -> Any:
        body = {"hook_event_name": event, "session_id": session, "cwd": "/app", **fields}
        response = coder("POST", "/hooks/agent", body | ({"tenfour": local} if local else {}))
        assert response.status_code == 200, response.body
        return response.body

    return hook


@pytest.fixture
def ran(hook: Hook) -> Hook:
    """Reports a command that the agent ran, as Claude Code does."""

    def ran(command: str, *, code: int = 0, **more: Any) -> Any:
        given = {"tool_name": "Bash", "tool_input": {"command": command}}
        if code:
            error = f"Exit code {code}\n{OUTPUT['stdout']}"
            return hook("PostToolUseFailure", **given, error=error, **more)
        return hook("PostToolUse", **given, tool_response=OUTPUT, **more)

    return ran


def make_task(agent: Agent, *, verify: str = "make test", **more: Any) -> Task:
    payload = {"action": "Write a parser"} | ({"verify": {"command": verify}} if verify else {})
    return Task.objects.get(pk=enqueue(agent, "implementation", payload, **more))


def cancel(agent: Agent) -> None:
    """Settle the agent's instructions, so that a rule may send the same again."""
    cancel_all(TrustedCaller(SYSTEM, agent=agent), now=timezone.now())


def context(answer: dict[str, Any]) -> str:
    return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))


# ---- instructions


def test_a_prompt_delivers_instructions_and_a_command_acknowledges_one(
    agent: Agent, hook: Hook, ran: Hook
) -> None:
    """S0.27, S0.29: the text has no id, and the ack needs none."""
    id = send(agent, "Run the linter", expect=Expect("fs_command", {"command": "make"}))
    plain = send(agent, "Be brief", tracked=False)
    answer = hook("UserPromptSubmit", prompt="Go on")
    assert answer == {
        "hookSpecificOutput": {
            "hookEventName": "UserPromptSubmit",
            "additionalContext": "Run the linter\n\nBe brief",
        }
    }
    assert (state_of(id), state_of(plain)) == ("delivered", "delivered")
    assert set(Instruction.objects.values_list("delivered_to", flat=True)) == {"s-1"}
    ran("ls -la")
    assert state_of(id) == "delivered"
    ran("cd app && make lint", code=2)
    assert state_of(id) == "acknowledged"
    assert hook("UserPromptSubmit") == {}


def test_what_does_not_fit_waits_for_the_next_prompt(agent: Agent, hook: Hook) -> None:
    ids = [send(agent, letter * 4000) for letter in "abc"]
    assert len(context(hook("UserPromptSubmit"))) < 9500
    assert [state_of(id) for id in ids] == ["delivered", "delivered", "queued"]
    assert context(hook("UserPromptSubmit")) == "c" * 4000


# ---- the session's task


def test_a_session_gets_one_task_and_its_check_decides_when_it_stops(
    agent: Agent, hook: Hook, ran: Hook
) -> None:
    task = make_task(agent)
    other = make_task(agent)
    assert "Write a parser" in context(hook("UserPromptSubmit", prompt="Work"))
    asked = hook("Stop", stop_hook_active=False)
    assert asked == {
        "decision": "block",
        "reason": "Before you stop, run the check of your task: make test",
    }
    ran("make test", code=2)
    blocked = hook("Stop", stop_hook_active=True)
    assert blocked["decision"] == "block"
    assert '<retry_context attempt="2" max_attempts="3">' in blocked["reason"]
    assert "FAIL test_parser" in blocked["reason"]
    assert "tenfour" not in blocked
    ran("make test")
    assert hook("Stop", stop_hook_active=True) == {}
    task.refresh_from_db()
    assert (task.state, task.attempts) == ("done", 2)
    outcomes = Attempt.objects.filter(task=task).order_by("number").values_list("outcome", "number")
    assert list(outcomes) == [("failure", 1), ("success", 2)]
    # The person keeps talking: the session's work is over.
    assert hook("UserPromptSubmit", prompt="Thanks") == {}
    other.refresh_from_db()
    assert other.state == "queued"
    assert "Write a parser" in context(hook("UserPromptSubmit", session="s-2"))


def test_a_check_that_ran_before_the_last_change_does_not_count(
    agent: Agent, hook: Hook, ran: Hook
) -> None:
    make_task(agent)
    hook("UserPromptSubmit")
    ran("make test")
    hook("PostToolUse", tool_name="Write", tool_input={"file_path": "/app/src/a.py"})
    # A heartbeat is due at most every 30 seconds, but this one matters.
    assert hook("Stop")["reason"].startswith("Before you stop, run the check")


def test_an_agent_that_never_runs_the_check_is_let_go_and_the_attempt_fails(
    agent: Agent, hook: Hook
) -> None:
    task = make_task(agent)
    hook("UserPromptSubmit")
    answers = [hook("Stop") for _ in range(stops.MOST_BLOCKS)]
    assert {answer["decision"] for answer in answers} == {"block"}
    assert "will be retried" in hook("Stop")["systemMessage"]
    task.refresh_from_db()
    assert task.state == TaskState.RETRY
    failure = Attempt.objects.get(task=task).failure
    assert (failure.type, failure.code) == ("verification_failed", "verification_missing")


def test_the_last_failure_asks_a_person_and_the_answer_comes_back(
    agent: Agent, hook: Hook, ran: Hook, operator: Api
) -> None:
    make_task(agent, max_attempts=1, on_exhausted="escalate")
    hook("UserPromptSubmit")
    ran("make test", code=1)
    message = hook("Stop")["systemMessage"]
    escalation = Escalation.objects.get()
    assert message.endswith(f"/escalations/{escalation.id}/")
    assert hook("UserPromptSubmit", prompt="And?") == {}
    body = {"text": "fix: use the new parser"}
    assert operator("POST", f"/escalations/{escalation.id}/resolve", body).status_code == 200
    assert "use the new parser" in context(hook("UserPromptSubmit", prompt="Go on"))


def test_a_task_without_a_check_is_done_when_the_agent_stops(agent: Agent, hook: Hook) -> None:
    task = make_task(agent, verify="")
    hook("UserPromptSubmit")
    assert hook("Stop", last_assistant_message="Parser written.") == {}
    task.refresh_from_db()
    assert task.state == "done"


def test_a_session_is_found_by_its_index(agent: Agent) -> None:
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")
        values = {"agent": agent.id, "worker": "session:s-1"}
        cursor.execute(f"explain {LAST_ATTEMPT}", values)
        plan = str(cursor.fetchall())
    assert "attempt_session" in plan


@pytest.mark.parametrize(
    ("fields", "type"),
    [
        (
            {"title": "Permission needed", "notification_type": "permission_prompt"},
            "permission_prompt",
        ),
        ({}, ""),
    ],
    ids=["typed", "older"],
)
@pytest.mark.parametrize("local", [None, {"folder": "/app"}], ids=["http", "command"])
def test_a_notification_is_noted_once_a_minute(
    agent: Agent, hook: Hook, admin_client: Client, fields: dict[str, str], type: str, local: Any
) -> None:
    """Both forms of the payload, over HTTP and from `tenfour hook`."""
    said = f"Claude needs {first_id(timezone.now())}"  # Redis remembers other tests
    for _ in range(2):
        assert (
            hook(
                "Notification", message=f"{said}\x00\n password=hunter2aaaa", local=local, **fields
            )
            == {}
        )
    noted = Event.objects.get(kind="agent.needs_attention")
    assert (noted.agent_id, noted.subject_id, noted.actor_type) == (agent.id, agent.id, "token")
    assert noted.data["message"].startswith(f"{said} ") and "hunter2" not in noted.data["message"]
    assert (noted.data["type"], noted.data["session"]) == (type, "s-1")
    for url in ("/activity/", f"/agents/{agent.id}/"):
        assert said in admin_client.get(url).content.decode()
    hook("Notification", message="Signed in", notification_type="auth_success")
    hook("Notification", message="Long ago", local={"late": True})
    hook("Notification", message=7, notification_type=[])
    assert Event.objects.filter(kind="agent.needs_attention").count() == 2


def test_the_end_of_a_session_releases_its_attempt(agent: Agent, hook: Hook) -> None:
    task = make_task(agent)
    hook("UserPromptSubmit")
    assert hook("SessionEnd", reason="other") == {}
    task.refresh_from_db()
    assert (task.state, Attempt.objects.get().outcome) == ("queued", "released")


def test_a_resumed_session_is_given_its_task_again(agent: Agent, hook: Hook) -> None:
    make_task(agent)
    assert hook("SessionStart", source="startup") == {}
    first = context(hook("UserPromptSubmit"))
    assert "Write a parser" in first
    assert context(hook("SessionStart", source="compact")) == first
    assert Attempt.objects.count() == 1
    assert hook("UserPromptSubmit") == {}


def test_a_long_prompt_fits_and_says_where_the_rest_is(agent: Agent, hook: Hook) -> None:
    id = enqueue(agent, "implementation", {"action": "long " * 5000})
    text = context(hook("UserPromptSubmit"))
    assert len(text) <= 9500
    assert f"tenfour task show {id}" in text


# ---- standing instructions


def test_an_agent_is_held_until_it_did_what_its_change_asked_for(
    agent: Agent, hook: Hook, ran: Hook
) -> None:
    rule = RuleSpec(
        on=On(event="signal", type="fs_write", match={"path": {"glob": "src/**"}}),
        content="Run the tests: make test",
        expect=Expect("fs_command", {"line": "make test"}),
        hold_stop=True,
    )
    create_rule(rule, project=agent.project, stamp=Stamp(SYSTEM))
    task = make_task(agent, verify="")
    hook("UserPromptSubmit")
    hook("PostToolUse", tool_name="Write", tool_input={"file_path": "/app/docs/a.md"})
    assert Instruction.objects.count() == 0
    hook("PostToolUse", tool_name="Write", tool_input={"file_path": "/app/src/a.py"})
    reason = "Run the tests: make test\n(Tenfour lets you stop after you have run 'make test'.)"
    assert hook("Stop") == {"decision": "block", "reason": reason}
    task.refresh_from_db()
    assert task.state == "running"  # it is not reported before the agent may stop
    ran("cd app && make test")
    assert hook("Stop") == {}
    assert Instruction.objects.get().state == "acknowledged"
    task.refresh_from_db()
    assert task.state == "done"


def test_a_rule_can_wait_for_the_start_of_a_session(agent: Agent, hook: Hook) -> None:
    rule = RuleSpec(on=On(event=SESSION_START), content="Read CONTRIBUTING.md first")
    create_rule(rule, project=agent.project, stamp=Stamp(SYSTEM))
    for source in ("startup", "resume"):
        hook("SessionStart", source=source, local={"folder": "/app"})
        assert context(hook("UserPromptSubmit", local={})) == "Read CONTRIBUTING.md first"
        cancel(agent)
    # Claude Code's HTTP hooks do not send SessionStart: the first prompt stands for it.
    assert context(hook("UserPromptSubmit", session="s-9")) == "Read CONTRIBUTING.md first"
    cancel(agent)
    assert hook("UserPromptSubmit", session="s-9") == {}


# ---- with the command `tenfour hook`


def test_the_agents_side_is_asked_to_run_the_check(agent: Agent, hook: Hook) -> None:
    make_task(agent)
    given = hook("UserPromptSubmit", local={"folder": "/app"})["tenfour"]
    assert given["verify"] == {"command": "make test"}
    asked = hook("Stop", local={"folder": "/app"})
    assert asked == {"tenfour": given}
    failed = {"command": "make test", "exit_code": 2, "output": "FAIL test_parser"}
    blocked = hook("Stop", local={"verification": failed})
    assert blocked["decision"] == "block" and "FAIL test_parser" in blocked["reason"]
    assert blocked["tenfour"]["attempt"] != given["attempt"]
    assert hook("Stop", local={"verification": failed | {"exit_code": 0}}) == {}
    assert Task.objects.get().state == "done"


def test_a_late_report_ends_the_attempt_and_opens_no_other(agent: Agent, hook: Hook) -> None:
    make_task(agent)
    attempt = hook("UserPromptSubmit", local={"folder": "/app"})["tenfour"]["attempt"]
    late = {"late": True, "attempt": attempt, "verification": {"exit_code": 2, "output": "FAIL"}}
    assert hook("Stop", local=late) == {}
    assert hook("Stop", local=late) == {}  # sent twice
    assert Attempt.objects.get().outcome == "failure"
    assert Task.objects.get().state == "retry"


def test_a_late_command_does_not_acknowledge_what_was_sent_after_it(
    agent: Agent, hook: Hook, ran: Hook
) -> None:
    hour_ago = timezone.now() - timedelta(hours=1)
    ids = [send(agent, text, expect=Expect("fs_command", {"command": "make"})) for text in "ab"]
    late = {"late": True, "age_s": 1800}
    ran("make lint", local=late)
    assert [state_of(id) for id in ids] == ["queued", "queued"]
    # The first was sent an hour ago.
    old = first_id(hour_ago)
    Instruction.objects.filter(pk=ids[0]).update(id=old)
    ran("make lint", local=late)
    assert [state_of(id) for id in (old, ids[1])] == ["acknowledged", "queued"]
    ran("make lint")
    assert state_of(ids[1]) == "acknowledged"


def test_inside_tenfour_run_the_hook_only_delivers_and_reports(
    agent: Agent, hook: Hook, ran: Hook
) -> None:
    make_task(agent)
    id = send(agent, "Be brief")
    managed = {"managed": True}
    assert hook("SessionStart", local=managed) == {}
    assert context(hook("UserPromptSubmit", local=managed)) == "Be brief"
    assert hook("Stop", local=managed) == hook("SessionEnd", local=managed) == {}
    assert state_of(id) == "delivered"
    assert Task.objects.get().state == "queued"


def test_a_session_is_started_for_a_named_task(agent: Agent, hook: Hook) -> None:
    make_task(agent)
    second = make_task(agent)
    hook("SessionStart", local={"task": str(second.id)})
    assert Attempt.objects.get().task_id == second.id


@pytest.mark.parametrize("how", ["restart", "replay"])
def test_a_ref_names_the_task_that_has_taken_its_place(agent: Agent, hook: Hook, how: str) -> None:
    stamp = Stamp(SYSTEM, NOW)
    imported({"max_attempts": 1, "on_exhausted": "dead_letter"})
    old = Task.objects.get()
    if how == "restart":
        aborting.abort([old.plan_id or old.pk], stamp=stamp)
        restarting.restart(old.plan_id or old.pk, stamp=stamp)
    else:
        fail(agent, attempt_of(claim(agent)), now=NOW)
        letters = DeadLetter.objects.all()
        deadletters.replay([letters.get().pk], among=letters, stamp=stamp)
    new = Task.objects.current().get()
    assert new.ref == old.ref and new != old
    # PostgreSQL returns a row that has changed since after the others
    task_actions.change(new.pk, Change(priority=1), version=new.version, stamp=stamp)
    hook("SessionStart", local={"task": new.ref})
    assert Attempt.objects.get(outcome=None).task_id == new.pk


# ---- bad input


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"hook_event_name": "WorktreeCreate", "session_id": "s-1"},
        {"hook_event_name": "Stop"},
        {"hook_event_name": "Stop", "session_id": 7, "tool_input": "x"},
        {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": 1}},
        {"hook_event_name": "SessionStart", "session_id": "a\nb"},
        {"hook_event_name": "UserPromptSubmit", "session_id": "x" * 500},
    ],
)
def test_an_event_that_has_no_rule_is_ignored(body: dict[str, Any], coder: Api) -> None:
    response = coder("POST", "/hooks/agent", body)
    assert (response.status_code, response.body) == (200, {})


def test_binary_output_is_no_reason_to_refuse_an_event(coder: Api) -> None:
    body = (
        '{"hook_event_name": "PostToolUse", "tool_name": "Bash", "session_id": "s",'
        ' "tool_input": {"command": "cat x\\u0000"}, "tool_response": {"stdout": "\\ud800"}}'
    )
    assert coder("POST", "/hooks/agent", body).status_code == 200


def test_only_an_agents_token_has_hooks(api: Callable[..., Api]) -> None:
    response = api("operator")("POST", "/hooks/agent", {"hook_event_name": "Stop"})
    assert (response.status_code, response.body["code"]) == (403, "scope_missing")


def test_another_agents_session_is_not_touched(
    agent: Agent, hook: Hook, api: Callable[..., Api]
) -> None:
    make_task(agent)
    hook("UserPromptSubmit")
    other = api("agent", agent=make_agent("other"))
    body = {"hook_event_name": "SessionEnd", "session_id": "s-1"}
    assert other("POST", "/hooks/agent", body).body == {}
    assert Attempt.objects.get().outcome is None
    late = {"late": True, "attempt": str(Attempt.objects.get().id)}
    other("POST", "/hooks/agent", {"hook_event_name": "Stop", "tenfour": late})
    assert Attempt.objects.get().outcome is None


def test_the_ledger_says_that_the_agent_did_it(agent: Agent, hook: Hook) -> None:
    make_task(agent)
    hook("UserPromptSubmit")
    claimed = Event.objects.get(kind="task.claimed")
    assert (claimed.actor_type, claimed.actor_name) == ("token", "coder")
    assert Instruction.objects.count() == 0


# ---- limits of the account


def test_the_records_at_the_end_of_a_session_say_when_the_limit_resets(
    agent: Agent, hook: Hook
) -> None:
    """F07: Codex calls no hook at a limit; its rollout has the reset."""
    task = make_task(agent)
    hook("UserPromptSubmit")
    at = int((timezone.now() + timedelta(hours=1)).timestamp())
    record = token_count(primary=window(100, at=at)) | {"timestamp": timezone.now().isoformat()}
    records = [record, {"type": "event_msg"}]
    hook("SessionEnd", local={"folder": "/app", "limits": records})
    agent.refresh_from_db()
    assert agent.waits_until and int(agent.waits_until.timestamp()) == at
    row = Task.objects.get(pk=task.pk)
    assert (row.state, row.retry_count) == ("queued", 0)
    assert hook("UserPromptSubmit", session="s-2") == {}


def test_a_limit_that_a_record_names_comes_before_the_message(agent: Agent, hook: Hook) -> None:
    """F07: the error of Claude Code's hook names no time."""
    task = make_task(agent)
    hook("UserPromptSubmit")
    at = int((timezone.now() + timedelta(hours=1)).timestamp())
    record = api_error(rateLimitType="five_hour", resetsAt=at)
    record["timestamp"] = timezone.now().isoformat()
    failed = {"error": "rate_limit", "last_assistant_message": "API Error: 429 rate_limit_error"}
    hook("StopFailure", local={"folder": "/app", "limits": [record]}, **failed)
    row = Task.objects.select_related("agent").get(pk=task.pk)
    assert (row.state, row.retry_count) == ("retry", 0)
    assert row.due_at == row.agent.waits_until and int(row.due_at.timestamp()) == at


def test_an_event_counts_although_its_limits_cannot_be_stored(
    agent: Agent, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    task = make_task(agent)
    hook("UserPromptSubmit")
    with connection.cursor() as cursor:
        cursor.execute("alter table ledger_accountwindow rename to elsewhere")
    record = api_error(rateLimitType="five_hour", resetsAt=0)
    failed = {"error": "rate_limit", "last_assistant_message": "API Error: 429 rate_limit_error"}
    hook("StopFailure", local={"folder": "/app", "limits": [record]}, **failed)
    assert Task.objects.get(pk=task.pk).state == "retry" and "were not stored" in caplog.text
