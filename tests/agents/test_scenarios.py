"""What happens to tasks while real agents work: by hooks, by MCP, and by both as `init` writes them.

Each agent has two tasks in its queue and works on the first one. No run ends with a task done that
no agent did.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import datetime

import pytest
from django.db import connection
from django.utils import timezone
from tenfour import Client

from ledger.models import AccountWindow, Attempt, Instruction, Task
from retries.attempts.leases import expire
from retries.models import Escalation
from tests.agents.command_lines import AGENTS, OLDER, Agent, Codex, Ended
from tests.agents.conftest import Connect
from tests.agents.scripted_model import Request, Say, ScriptedModel, Step
from tests.serving import Tenfour
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

Script = Generator[Step, Request, None]
Part = Generator[Step, Request, Request]
WAYS = ("hooks", "mcp", "both")
EACH = [(name, way) for name in AGENTS for way in WAYS]
WITH_OLDER = [*EACH, *((name + OLDER, "both") for name in AGENTS)]

FIRST, SECOND = "Write the parser.", "Write the printer."
QUESTION = "Which database should I use, PostgreSQL or SQLite? I have not started yet."


@dataclass
class Work:
    """An agent that is connected in one way, with two tasks in its queue."""

    agent: Agent
    way: str
    model: ScriptedModel
    producer: Client
    operator: Client
    first: str
    second: str

    @property
    def has_hooks(self) -> bool:
        return self.way != "mcp"

    def run(self, script: Callable[[Request], Script], *, resume: bool = False) -> Ended:
        self.model.play(script)
        return self.agent.run("Work on your Tenfour task", resume=resume)

    def take(self, request: Request) -> Part:
        """Take the first task: a hook has given it, and the tools' own text says to claim one."""
        if self.has_hooks:
            assert FIRST in request.newest and SECOND not in request.newest
        if self.way != "hooks":
            request = yield self.agent.call_mcp("claim_task")
        assert FIRST in request.newest and SECOND not in request.newest
        return request

    def finish(self) -> Part:
        """Say that the task is done: with hooks, the end of the turn is the report."""
        if not self.has_hooks:
            request = yield self.agent.call_mcp(
                "report_result", status="success", exit_code=0, output="1 passed"
            )
            assert "The task is done" in request.newest
        return (yield Say("Done."))

    def state(self) -> str:
        return self.producer.tasks.get(self.first).state

    def assert_states(self, first: str) -> None:
        """Assert the first task's state, and that nothing has happened to the second one."""
        assert self.state() == first
        untouched = self.producer.tasks.get(self.second)
        assert (untouched.state, untouched.attempts) == ("queued", 0)
        is_done = (self.agent.work / "fixed").exists()
        assert is_done or first != "done"


MakeWork = Callable[[str, str], Work]


@pytest.fixture
def work(
    connect: Connect, model: ScriptedModel, producer: Client, tenfour_server: Tenfour
) -> Iterator[MakeWork]:
    with tenfour_server.client("operator") as operator:

        def make(name: str, way: str) -> Work:
            agent = connect(name, way=way)
            ids = [
                producer.tasks.enqueue(
                    "coder",
                    "implementation",
                    {"action": action, "verify": {"command": check}},
                    max_attempts=3,
                ).id
                for action, check in ((FIRST, "make test"), (SECOND, "test -f printer"))
            ]
            return Work(agent, way, model, producer, operator, *ids)

        yield make


@pytest.mark.parametrize(("name", "way"), WITH_OLDER)
def test_the_agent_does_the_first_of_two_tasks(name: str, way: str, work: MakeWork) -> None:
    """AGT-2: both ways of one session mean the same task."""
    given = work(name, way)

    def script(request: Request) -> Script:
        yield from given.take(request)
        yield given.agent.write_file("fixed", "now\n")
        yield from given.finish()

    assert given.run(script).code == 0
    given.assert_states("done")
    assert Attempt.objects.get().decision["reason"] == "verified"


@pytest.mark.parametrize(("name", "way"), EACH)
def test_a_task_that_the_agent_leaves_undone_is_not_done(
    name: str, way: str, work: MakeWork
) -> None:
    given = work(name, way)

    def script(request: Request) -> Script:
        yield from given.take(request)
        while True:
            yield Say("All done.")

    assert given.run(script).code == 0
    # Without hooks, nothing tells the end of the turn: the lease runs out.
    given.assert_states("failed" if given.has_hooks else "running")
    assert not Attempt.objects.filter(outcome="success").exists()


@pytest.mark.parametrize(("name", "way"), EACH)
def test_a_check_in_the_background_proves_nothing_until_it_ends(
    name: str, way: str, work: MakeWork
) -> None:
    """AGT-1: the agent says that it passed while it still runs."""
    given = work(name, way)
    agent = given.agent

    def script(request: Request) -> Script:
        yield from given.take(request)
        yield agent.start("until test -f go; do sleep 0.05; done; make test")
        assert given.state() == "running"
        if given.has_hooks:
            let_go(given)
            request = yield Say("The tests pass.")
        else:
            request = yield agent.call_mcp("report_result", status="success", summary="It passed.")
            assert "Run `make test` to its end first" in request.newest
            (agent.work / "go").touch()
            request = yield agent.shell("make test")
        assert given.state() != "done"
        if given.has_hooks and "task-notification" in request.newest:
            request = yield Say("The tests have passed.")
        assert "no file named fixed" in request.newest
        yield agent.write_file("fixed", "now\n")
        yield from given.finish()

    assert given.run(script).code == 0
    given.assert_states("done")


@pytest.mark.parametrize(("name", "way"), EACH)
def test_a_subagent_works_on_the_task_of_its_agent(name: str, way: str, work: MakeWork) -> None:
    """AGT-3: a turn that ends while a subagent works is no result."""
    given = work(name, way)
    agent = given.agent

    def subagent(request: Request) -> Script:
        if way != "hooks":
            request = yield agent.call_mcp("claim_task")
            assert FIRST in request.newest
        assert SECOND not in request.newest
        yield agent.shell("until test -f go; do sleep 0.05; done; touch fixed")
        yield Say("Written.")

    def script(request: Request) -> Script:
        yield from given.take(request)
        request = yield agent.delegate("SUBTASK: write the file named fixed")
        let_go(given)
        if isinstance(agent, Codex):  # its turn waits for a subagent, which ends with the program
            request = yield agent.wait_for(request)
        else:
            request = yield Say("A subagent works on it.")
        assert given.state() == "running"
        yield from given.finish()

    given.model.play(subagent, when="SUBTASK")
    assert given.run(script).code == 0
    given.assert_states("done")
    assert Attempt.objects.count() == 1


@pytest.mark.parametrize(("name", "way"), WITH_OLDER)
def test_an_instruction_reaches_the_agent_in_mid_turn(name: str, way: str, work: MakeWork) -> None:
    """AGT-4: the agent reads it with its next step, and follows it."""
    given = work(name, way)
    agent, text = given.agent, "Run make check, too."
    expect = {"type": "fs_command", "match": {"line": "make check"}}

    def script(request: Request) -> Script:
        yield from given.take(request)
        given.producer.instructions.send("coder", text, expect=expect if given.has_hooks else None)
        request = yield agent.write_file("fixed", "now\n")
        if not given.has_hooks:
            request = yield agent.call_mcp("heartbeat")
        assert text in request.newest
        yield agent.shell("make check")
        if not given.has_hooks:
            yield agent.call_mcp("ack_instruction", note="checked")
        yield from given.finish()

    assert given.run(script).code == 0
    sent = Instruction.objects.get()
    assert (sent.state, sent.deliveries) == ("acknowledged", 1)
    given.assert_states("done")


@pytest.mark.parametrize(("name", "way"), WITH_OLDER)
def test_an_abort_reaches_the_agent_in_mid_turn(name: str, way: str, work: MakeWork) -> None:
    given = work(name, way)
    agent = given.agent

    def script(request: Request) -> Script:
        yield from given.take(request)
        given.operator.tasks.abort(given.first)
        request = yield agent.shell("ls")
        if given.has_hooks:
            assert agent.name == "codex"  # Claude Code's turn is over
            assert "A person has aborted the task" in request.newest
        else:
            request = yield agent.call_mcp("heartbeat")
            assert "A person asked you to stop" in request.newest
            yield agent.call_mcp("report_result", status="failure", summary="Stopped.")
        yield Say("Stopped.")

    assert given.run(script).code == 0
    given.assert_states("aborted")
    assert Attempt.objects.count() == 1


@pytest.mark.parametrize(("name", "way"), EACH)
def test_a_question_is_answered_and_the_agent_continues(
    name: str, way: str, work: MakeWork
) -> None:
    """AGT-5, AGT-12: the answer comes with the next prompt, or with the next claim."""
    given = work(name, way)
    agent = given.agent

    def ask(request: Request) -> Script:
        yield from given.take(request)
        if way == "hooks":
            yield Say(QUESTION)
        else:
            request = yield agent.call_mcp("ask_human", question=QUESTION)
            assert "A person was asked" in request.newest
            yield Say("I have asked.")

    def go_on(request: Request) -> Script:
        if not given.has_hooks:
            request = yield agent.call_mcp("claim_task")
        assert "Use SQLite" in request.newest and SECOND not in request.newest
        yield agent.write_file("fixed", "now\n")
        yield from given.finish()

    assert given.run(ask).code == 0
    assert given.state() != "done"
    escalation = Escalation.objects.get()
    assert escalation.question == QUESTION
    given.operator.escalations.resolve(str(escalation.id), "answer: Use SQLite")
    assert given.run(go_on, resume=True).code == 0
    given.assert_states("done")


@pytest.mark.parametrize(("name", "way"), EACH)
def test_an_agent_whose_attempt_was_lost_is_told(name: str, way: str, work: MakeWork) -> None:
    """AGT-11: what it did counts in the next attempt, which it gets."""
    given = work(name, way)
    agent = given.agent

    def script(request: Request) -> Script:
        yield from given.take(request)
        yield agent.call_mcp("heartbeat") if given.way == "mcp" else agent.shell("ls")
        lose_attempt()
        request = yield agent.write_file("fixed", "now\n")
        if given.has_hooks:
            assert "is over: its lease expired" in request.newest
            request = yield Say("I have stopped.")
            assert "the task is yours again" in request.newest
        else:
            request = yield agent.call_mcp("heartbeat")
            assert "is over: its lease expired" in request.newest
            wait_until(lambda: is_due(given.first))
            request = yield agent.call_mcp("claim_task")
            assert FIRST in request.newest
        yield from given.finish()

    assert given.run(script).code == 0
    given.assert_states("done")
    outcomes = Attempt.objects.order_by("number").values_list("outcome", flat=True)
    assert list(outcomes) == ["failure", "success"]


@pytest.mark.parametrize(("name", "way"), EACH)
def test_a_limit_of_the_account_ends_nothing(name: str, way: str, work: MakeWork) -> None:
    given = work(name, way)

    def script(request: Request) -> Script:
        yield from given.take(request)
        while True:
            yield given.agent.limit("You've hit your 5-hour limit")

    assert given.run(script).code != 0
    attempt = Attempt.objects.get()
    if given.has_hooks:
        assert attempt.outcome == "released"
        # Claude Code reports the limit, if it calls its hook before it ends.
        is_reported = attempt.task.agent.waits_until is not None
        given.assert_states("retry" if is_reported else "queued")
    else:
        assert attempt.outcome is None
        given.assert_states("running")
    assert Task.objects.get(pk=given.first).retry_count == 0


# Older versions of Claude Code record no reset.
@pytest.mark.parametrize("name", [*AGENTS, f"{Codex.name}{OLDER}"])
def test_an_account_at_its_limit_gives_no_task_until_the_reset(name: str, work: MakeWork) -> None:
    """F07: the program's own record says when; the other agents of the account wait as well."""
    given = work(name, "hooks")
    # Claude Code records the reset when it tries again.
    given.agent.env["CLAUDE_CODE_MAX_RETRIES"] = "1"
    resets_at = int(time.time()) + 3600

    def script(request: Request) -> Script:
        yield from given.take(request)
        while True:
            yield given.agent.limit("This request would exceed it", resets_at=resets_at)

    assert given.run(script).code != 0
    [window] = AccountWindow.objects.all()
    assert (window.account, window.window, window.used) == ("coder", "five_hours", 1)
    assert window.resets_at and int(window.resets_at.timestamp()) == resets_at
    agent = given.operator.agents.get("coder")
    assert agent.waits_until and 0 <= agent.waits_until.timestamp() - resets_at < 1
    assert (agent.account, agent.limits[0]["source"]) == ("coder", name.removesuffix(OLDER))
    assert Task.objects.get(pk=given.first).retry_count == 0


def lease_of() -> datetime:
    try:
        found: datetime = Attempt.objects.get(ended_at=None).lease_expires_at
        return found
    finally:
        connection.close()  # the connection of the model's thread


def let_go(given: Work) -> None:
    """Let the background work go on after the hook of the turn's end, which renews the lease."""
    before = lease_of()

    def wait() -> None:
        wait_until(lambda: lease_of() != before)
        (given.agent.work / "go").touch()

    if given.has_hooks and given.agent.name == "claude":
        threading.Thread(target=wait, daemon=True).start()
    else:
        (given.agent.work / "go").touch()


def is_due(task: str) -> bool:
    """Return whether the next attempt of a task may start."""
    try:
        return Task.objects.filter(pk=task, due_at__lte=timezone.now()).exists()
    finally:
        connection.close()  # the connection of the model's thread


def lose_attempt() -> None:
    """Let the lease of the open attempt run out."""
    try:
        Attempt.objects.filter(ended_at=None).update(lease_expires_at=timezone.now())
        assert expire(now=timezone.now()) == 1
    finally:
        connection.close()  # the connection of the model's thread
