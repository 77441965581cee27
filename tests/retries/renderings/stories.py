"""A plan whose tasks went the legal way to where the seed document's sample has them."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger import tasks
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Plan
from ledger.tasks import Backoff
from ledger.tokens import TrustedCaller
from retries import claims
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.states import Answer
from tests.factories import NOW

SECOND = timedelta(seconds=1)
MARA = Actor("user", "1", "mara")
AT_ONCE = Backoff(base_delay_ms=0)


def make_plan(agent: Agent, ref: str = "03-01", *, now: datetime = NOW, **more: Any) -> Plan:
    return Plan.objects.create(
        project=agent.project,
        ref=ref,
        source={},
        content_hash="",
        created_by_type="system",
        created_by_name="tenfour",
        created_at=now,
        updated_at=now,
        **more,
    )


def add(plan: Plan, agent: Agent, number: int, *, now: datetime = NOW, **more: Any) -> UUID:
    """Task `number` of the plan."""
    return tasks.enqueue(
        agent,
        "auto",
        {},
        title=more.pop("title", f"Part {number}"),
        on_exhausted="escalate",
        backoff=AT_ONCE,
        plan_id=plan.pk,
        ref=f"{plan.ref}:task-{number}",
        run=plan.run,
        now=now,
        **more,
    )


def begin(agent: Agent, task: UUID, *, now: datetime) -> UUID:
    """The id of the attempt."""
    found = claims.claim(TrustedCaller(SYSTEM, agent=agent), task=task, now=now)
    id: UUID = found.rows[0]["attempt_id"]
    return id


def end(agent: Agent, attempt: UUID, *, now: datetime, error: str = "", **more: Any) -> None:
    """Report success, or the failure that `error` tells of."""
    status = "failure" if error else "success"
    kind = {"type": "verification_failed", "message": error} if error else {}
    said = Report(**{"status": status, **kind, **more})
    finishing.finish_attempt(attempt, said, caller=TrustedCaller(SYSTEM, agent=agent), now=now)


def attempt(agent: Agent, task: UUID, *, now: datetime, error: str = "", **more: Any) -> datetime:
    """One more attempt, of 45 seconds; when it ended."""
    until = now + 45 * SECOND
    end(agent, begin(agent, task, now=now), now=until, error=error, **more)
    return until


def answer(task: UUID, action: str, *, now: datetime, fix: str = "") -> None:
    asked = Escalation.objects.open().get(task_id=task)
    choice = Choice(Answer(action), fix=fix)
    among = Escalation.objects.all()
    answering.answer(asked.pk, choice, among=among, stamp=Stamp(MARA, now), channel="page")


def sample(agent: Agent, *, now: datetime = NOW) -> tuple[Plan, list[UUID]]:
    """Five tasks: three done at once, one at the second attempt, one skipped after three.

    Each attempt takes 45 seconds; the person's answer comes ten minutes after the first start.
    """
    plan = make_plan(agent, now=now)
    made = [add(plan, agent, number, now=now) for number in range(1, 6)]
    for task in (made[0], made[3], made[4]):
        attempt(agent, task, now=now)
    broken = {"code": "assertion", "root_cause_guess": "Missing edge case handling"}
    attempt(agent, made[1], now=now, error="1 test failed", root_cause_guess="Import errors")
    attempt(agent, made[1], now=now + 60 * SECOND)
    for minute in range(3):
        attempt(
            agent,
            made[2],
            now=now + minute * 60 * SECOND,
            error=f"{3 - minute} tests failed\nin PlannerId",
            suggested_fix="Add a check" if minute < 2 else "",
            **broken,
        )
    answer(made[2], "skip", now=now + 600 * SECOND)
    return plan, made
