"""The real agents with Tenfour's hooks: what they are told, and what the ledger knows of it."""

from collections.abc import Callable, Generator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import expect as expect_page
from pytest_django.live_server_helper import LiveServer
from tenfour import Client

from ledger.models import Attempt, Instruction, Task
from retries.models import Escalation
from retries.reminders import retry_unacknowledged
from tests.agents.command_lines import AGENTS, VERSIONS
from tests.agents.conftest import Connect
from tests.agents.network import Relay
from tests.agents.scripted_model import Request, Say, ScriptedModel, Step, steps
from tests.browser.conftest import PASSWORD, Visitor
from tests.ledger.standing_instructions.rules import make_rule
from tests.serving import Tenfour
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

Script = Generator[Step, Request, None]
BOTH = pytest.mark.parametrize("name", AGENTS)
PLAN = """<plan ref="03-01">
  <title>Parser</title>
  <task type="auto">
    <name>Write the parser</name>
    <action>Write a parser for the new format.</action>
    <verify><automated>make test</automated></verify>
  </task>
</plan>"""
FAILED = "FAIL test_parser: no file named fixed"


def enqueue_task(producer: Client, **more: Any) -> None:
    """Give the agent a task whose tests fail at first."""
    payload = {"action": "Write a parser.", "verify": {"command": "make test"}}
    producer.tasks.enqueue("coder", "implementation", payload=payload, **more)


# ---- 1. instructions


@pytest.mark.parametrize(
    ("name", "http", "ignored", "prefix"),
    [
        ("claude", False, 1, ""),
        ("codex", False, 2, "**IMPORTANT:** "),
        ("claude", True, 2, "**IMPORTANT:** "),
    ],
    ids=["claude", "codex", "claude-http"],
)
def test_an_instruction_is_chased_until_the_agent_runs_the_command(
    name: str,
    http: bool,
    ignored: int,
    prefix: str,
    connect: Connect,
    model: ScriptedModel,
    producer: Client,
    instruction_of: Callable[[], Instruction],
    browser_process: Chromium,
    live_server: LiveServer,
) -> None:
    """S0.12, S0.27: delivered by the prompt, acknowledged by what the agent ran."""
    agent = connect(name, http=http)
    expect = {"type": "fs_command", "match": {"line": "make check"}}
    producer.instructions.send("coder", "Run make check", expect=expect)
    texts = []

    def ignore(request: Request) -> Script:
        texts.append(request.newest)
        yield agent.shell("ls")
        yield Say("Later.")

    for turn in range(ignored):
        model.play(ignore)
        assert agent.run("Start", resume=turn > 0).code == 0
        assert instruction_of().state == "delivered"
        retry_unacknowledged(now=timezone.now(), min_age=timezone.timedelta())
    assert all("Run make check" in text for text in texts)
    assert all(
        ":** Run make check" not in text for text in texts
    )  # the second delivery is a plain reminder

    def obey(request: Request) -> Script:
        assert f"{prefix}Run make check" in request.newest
        yield agent.shell("cd . && make check")
        yield Say("Done.")

    model.play(obey)
    assert agent.run("Go on", resume=True).code == 0
    done = instruction_of()
    assert (done.state, done.deliveries, done.retry_count) == ("acknowledged", ignored + 1, ignored)
    assert done.acknowledged_by["data"]["line"] == "make check"

    User.objects.create_superuser("mara", password=PASSWORD)
    context = browser_process.new_context(reduced_motion="reduce")
    try:
        visitor = Visitor(live_server.url, context)
        steps_shown = visitor.sign_in(f"/instructions/{done.id}/").locator(".steps")
        ladder = ["Delivered to coder", "Queued again as a plain reminder"]
        for step in [*ladder, *["Queued again as IMPORTANT"] * (ignored == 2)]:
            expect_page(steps_shown).to_contain_text(step)
        rung = visitor.open("/instructions/").locator(".rung").nth(ignored)
        expect_page(rung).to_contain_text("1 answered")
        assert visitor.complaints == []
    finally:
        context.close()


# ---- 2. a task with a check


@pytest.mark.parametrize("name", VERSIONS)
def test_the_check_decides_when_the_agent_stops(
    name: str, connect: Connect, model: ScriptedModel, producer: Client, task_of: Callable[[], Task]
) -> None:
    agent = connect(name)
    producer.plans.import_text(PLAN, agent="coder")

    def script(request: Request) -> Script:
        assert "Write a parser for the new format." in request.newest
        request = yield Say("Parser written.")
        assert '<retry_context attempt="2"' in request.newest
        assert FAILED in request.newest
        yield agent.write_file("fixed", "now\n")
        yield Say("Fixed.")

    model.play(script)
    assert agent.run("Work on your task").code == 0
    task = task_of()
    assert (task.state, task.attempts) == ("done", 2)
    first, second = Attempt.objects.filter(task=task).order_by("number")
    assert (first.outcome, second.outcome) == ("failure", "success")
    assert first.failure.verification["command"] == "make test"
    assert FAILED in first.failure.verification["output"]
    assert (first.context_chars, second.context_elements["failure"]) == (None, 1)


def test_without_the_client_the_agent_runs_the_check_itself(
    connect: Connect, model: ScriptedModel, producer: Client, task_of: Callable[[], Task]
) -> None:
    agent = connect("claude", http=True)
    enqueue_task(producer)

    def script(request: Request) -> Script:
        assert "Write a parser." in request.newest
        request = yield Say("Parser written.")
        assert "Before you stop, run the check of your task: make test" in request.newest
        yield agent.shell("make test")
        request = yield Say("It fails.")
        assert '<retry_context attempt="2"' in request.newest
        assert FAILED in request.newest
        yield agent.write_file("fixed", "now\n")
        yield agent.shell("make test")
        yield Say("Fixed.")

    model.play(script)
    assert agent.run("Work on your task").code == 0
    assert (task_of().state, task_of().attempts) == ("done", 2)
    assert len(model.main_requests()) == 6


# ---- 4. a person's answer


@BOTH
def test_a_persons_fix_reaches_the_agents_next_turn(
    name: str,
    connect: Connect,
    model: ScriptedModel,
    producer: Client,
    task_of: Callable[[], Task],
    browser_process: Chromium,
    live_server: LiveServer,
) -> None:
    agent = connect(name)
    enqueue_task(producer, max_attempts=3, on_exhausted="escalate")
    model.play(steps(Say("One."), Say("Two."), Say("Three.")))
    assert agent.run("Work on your task").code == 0
    assert (task_of().state, task_of().attempts) == ("escalated", 3)
    escalation = Escalation.objects.get(task=task_of())

    User.objects.create_superuser("mara", password=PASSWORD)
    context = browser_process.new_context(reduced_motion="reduce")
    try:
        page = Visitor(live_server.url, context).sign_in(f"/escalations/{escalation.id}/")
        page.fill("#fix", "fix: create the file named fixed")
        page.click("#send-fix")
        # For ten seconds the person may take the answer back.
        wait_until(lambda: task_of().state == "retry" and task_of().due_at <= timezone.now())
    finally:
        context.close()

    def script(request: Request) -> Script:
        assert "create the file named fixed" in request.newest
        yield agent.write_file("fixed", "now\n")
        yield Say("Fixed.")

    model.play(script)
    assert agent.run("Go on", resume=True).code == 0
    assert (task_of().state, task_of().attempts) == ("done", 4)


# ---- 5. a server that is down


@BOTH
def test_the_agent_is_not_blocked_while_tenfour_is_down_and_the_report_arrives(
    name: str,
    connect: Connect,
    model: ScriptedModel,
    producer: Client,
    relay: Relay,
    task_of: Callable[[], Task],
    instruction_of: Callable[[], Instruction],
) -> None:
    agent = connect(name)
    expect = {"type": "fs_command", "match": {"line": "make check"}}
    producer.instructions.send("coder", "Run make check", expect=expect)
    enqueue_task(producer)

    def script(request: Request) -> Script:
        assert "Write a parser." in request.newest
        relay.close()
        yield agent.shell("make check")
        yield agent.write_file("fixed", "now\n")
        yield Say("All done.")

    model.play(script)
    ended = agent.run("Work on your task")
    assert ended.code == 0 and "All done." in ended.out
    assert len(model.main_requests()) == 3  # it continued at once, and was not blocked
    assert (task_of().state, instruction_of().state) == ("running", "delivered")
    relay.open()
    model.play(steps(Say("Hello.")))
    assert agent.run("Hello", resume=True).code == 0
    assert (task_of().state, instruction_of().state) == ("done", "acknowledged")
    assert Attempt.objects.get(task=task_of()).decision["reason"] == "verified"


# ---- 6. standing instructions


@BOTH
def test_a_standing_instruction_holds_the_agent_until_it_ran_the_tests(
    name: str,
    connect: Connect,
    model: ScriptedModel,
    tenfour_server: Tenfour,
    instruction_of: Callable[[], Instruction],
) -> None:
    agent = connect(name)
    make_rule("Run the tests", project=tenfour_server.project, hold_stop=True)

    def script(request: Request) -> Script:
        yield agent.write_file("src/parser.py", "pass\n")
        request = yield Say("Done.")
        assert "Run the tests" in request.newest
        yield agent.shell("touch fixed && make test")
        yield Say("Tested.")

    model.play(script)
    ended = agent.run("Write a parser")
    assert ended.code == 0 and "Tested." in ended.out
    sent = instruction_of()
    assert (sent.state, sent.holds) == ("acknowledged", 1)
    assert len(model.main_requests()) == 4
