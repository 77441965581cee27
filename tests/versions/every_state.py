"""Fill the database of DATABASE_URL with rows in every state, by the code of the last release.

It runs on the files of that release, so it uses only what is there; it prints the tokens.
"""

import json
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.conf import settings  # noqa: E402 - after Django's setup
from django.utils import timezone  # noqa: E402

from ledger.journal import SYSTEM, Stamp  # noqa: E402
from ledger.models import Project, Task  # noqa: E402
from ledger.plans import editing  # noqa: E402
from ledger.sessions import batches  # noqa: E402
from ledger.standing_instructions.editing import pause_rules as pause  # noqa: E402
from ledger.standing_instructions.editing import retire_rules  # noqa: E402
from ledger.states import InstructionState, TaskState  # noqa: E402
from ledger.tokens import TrustedCaller  # noqa: E402
from retries import breaker_actions  # noqa: E402
from retries.attempts import questions  # noqa: E402
from retries.escalations import answering, expiry  # noqa: E402
from retries.escalations.choices import Choice  # noqa: E402
from retries.escalations.lifecycle import Question  # noqa: E402
from retries.models import Delivery, Escalation, NotificationRule  # noqa: E402
from retries.notifications import tick  # noqa: E402
from retries.operations import ending, running  # noqa: E402
from retries.plans import aborting, completing  # noqa: E402
from retries.states import Answer  # noqa: E402
from tests.dashboard.worked import enqueued, make_plan, make_task  # noqa: E402
from tests.factories import make_agent, make_instruction, make_project, make_token, send  # noqa: E402
from tests.ledger.standing_instructions.rules import make_rule, on_write  # noqa: E402
from tests.retries.moves import attempt_of, claim  # noqa: E402
from tests.retries.notifications.receivers import (  # noqa: E402
    Receiver,
    make_person_channel,
    make_webhook,
    receive,
    run_clock,
)
from tests.retries.operations.worlds import LATER, make_person, run, start  # noqa: E402
from tests.retries.sessions.worlds import make_session, store  # noqa: E402
from tests.waiting import wait_until  # noqa: E402

rules = import_module("retries.notifications.rules")  # a package today, a module there
MOVED = find_spec("retries.tasks")  # after the last release
task_actions = import_module("retries.tasks.actions" if MOVED else "retries.task_actions")
HOUR = timedelta(hours=1)
EVERY = Escalation.objects.all()


def add_tasks(now: datetime) -> None:
    for state in TaskState:
        make_task(state, agent=make_agent(f"does-{state}"), now=now)


def add_instructions() -> None:
    # the idle check that lets one fail would send a delivered one again
    for kind in sorted(InstructionState, key=lambda state: state == InstructionState.DELIVERED):
        make_instruction(kind, agent=make_agent(f"hears-{kind}"))


def add_plans(now: datetime) -> None:
    """One that is active, paused, aborted and completed."""
    stamp = Stamp(SYSTEM, now)
    plans = [make_plan(f"03-0{n}", [("Lay", []), ("Build", [1])], now=now) for n in range(1, 5)]
    editing.pause([plans[1][0].pk], stamp=stamp)
    aborting.abort([plans[2][0].pk], stamp=stamp)
    task_actions.skip(plans[3][1], stamp=stamp)
    completing.complete_plans(now=now)


def add_escalations(now: datetime) -> None:
    """One that is resolved, withdrawn and expired; tasks and instructions bring the open ones."""
    agent, stamp = make_agent("asks"), Stamp(SYSTEM, now)
    for state in ("resolved", "withdrawn", "expired"):
        enqueued(agent, f"Its question is {state}", now=now)
        question = Question(text="Why?", choices=[], expires_at=now + HOUR, on_expiry="retry")
        attempt, caller = attempt_of(claim(agent, now=now)), TrustedCaller(SYSTEM, agent=agent)
        asked = questions.ask(attempt, question, caller=caller, now=now)
        if state == "resolved":
            choice = Choice(Answer.SKIP)
            answering.answer(asked.pk, choice, among=EVERY, stamp=stamp, channel="page")
        elif state == "withdrawn":
            task_actions.skip([asked.task_id], stamp=stamp)
        else:
            expiry.process_due(now=now + HOUR)


def add_breakers(now: datetime) -> None:
    stamp = Stamp(SYSTEM, now)
    agents = [make_agent(f"has-{state}") for state in ("closed", "open", "half-open")]
    breaker_actions.trip(agents, reason="Look", stamp=stamp)
    breaker_actions.reset(agents[:1], stamp=stamp)
    breaker_actions.probe(agents[2:], stamp=stamp)


def add_sessions(now: datetime) -> None:
    """Messages that wait, are in a batch, succeeded, failed, or are not tracked."""
    agent = make_agent("talks")
    store(make_session(agent), 2)
    store(make_session(agent, disable_task_tracking=True), 2)
    for failure in ("", "The model is away", None):
        session = make_session(agent)
        store(session, 2)
        lock = batches.take_lock(session.pk)
        assert lock
        batch = batches.begin_batch(lock, most=1, last=1, now=now)
        assert batch
        if failure is not None:
            batches.end_batch(lock, batch.id, failure=failure, now=now)
            batches.release_lock(lock)


def add_rules(now: datetime) -> None:
    """A rule that is active, a draft, paused and retired."""
    stamp = Stamp(SYSTEM, now)
    made = [make_rule(f"Rule {n}", on=on_write({}), paused=n == 1) for n in range(4)]
    pause([made[2].pk], stamp=stamp)
    retire_rules([made[3].pk], stamp=stamp)


def add_operations(now: datetime) -> None:
    agent = make_agent("in-bulk")
    person, stamp = make_person(), Stamp(SYSTEM, now)
    every: dict[str, Any] = {}
    for state in ("waiting", "running", "done", "stopped", "undone"):
        id = enqueued(agent, f"Its operation is {state}", now=now)
        every[state] = start("task.abort", Task.objects.filter(pk=id), by=person, now=now)
    run(every["done"], now=now)
    running.take(every["running"].pk, now=now + LATER)
    running.take(every["stopped"].pk, now=now + LATER)
    among = type(every["done"]).objects.all()
    ending.stop_operation(every["stopped"].pk, among=among, stamp=stamp)
    ending.undo_operation(every["undone"].pk, among=among, stamp=stamp)


def add_deliveries(project: Project) -> None:
    """Deliveries that are delivered, held, summarized, given up, not sent, retried and waiting."""
    with receive() as receiver:
        settings.TENFOUR["WEBHOOK_ALLOW"] = [receiver.allowed]
        hold_deliveries(receiver, project)
        for name, events in (("gone", "task.*"), ("broken", "plan.*"), ("told", "instruction.*")):
            make_webhook(receiver, project=project, name=name, events=(events,))
        agent = make_agent("is-told-of")
        receiver.answer = 410  # it is gone for good
        for state in ("gave_up", "not_sent"):
            enqueued(agent, state, now=timezone.now())
            run_until(state, run_clock)
        receiver.answer = 500
        plan, _ = make_plan("04-01", [("Lay", [])], now=timezone.now())
        editing.pause([plan.pk], stamp=Stamp(SYSTEM))
        run_until("retrying", run_clock)
        send(agent, now=timezone.now())
        run_until("pending", lambda: tick.process_due(now=timezone.now()))


def hold_deliveries(receiver: Receiver, project: Project) -> None:
    """Let one message an hour reach a person; one summary tells what was held back."""
    make_person_channel(f"ntfy://127.0.0.1:{receiver.port}/oncall", project=project)
    for rule in NotificationRule.objects.filter(conditions=["escalation"]):
        rules.update_rule(rule.pk, version=None, stamp=Stamp(SYSTEM), cap_per_hour=1)
    escalate("is-delivered", "delivered")
    escalate("is-summarized", "held")
    Delivery.objects.filter(state="held").update(held_until=timezone.now())
    run_until("summarized", run_clock)
    escalate("is-held", "held")


def escalate(name: str, state: str) -> None:
    make_task(TaskState.ESCALATED, "Question", agent=make_agent(name), now=timezone.now())
    run_until(state, run_clock)


def run_until(state: str, run_once: Callable[[], object]) -> None:
    """Run the clock until a delivery is in a state.

    Its reader stops before what was written since a transaction began that is still under way,
    such as autovacuum's.
    """

    def is_reached() -> bool:
        run_once()
        return Delivery.objects.filter(state=state).exists()

    wait_until(is_reached)


def build() -> dict[str, str]:
    project, now = make_project(), timezone.now()
    add_tasks(now)
    add_instructions()
    add_plans(now)
    add_escalations(now)
    add_breakers(now)
    add_sessions(now)
    add_rules(now)
    add_operations(now)
    add_deliveries(project)
    return {
        "operator": make_token("operator"),
        "orchestrator": make_token("orchestrator"),
        "agent": make_token("agent", agent=make_agent("updated")),
    }


if __name__ == "__main__":
    print(json.dumps(build()))
