"""Read the figures of a digest: stored counts, and what waits, each with a limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.database import sql
from ledger.models import Agent, DeadLetter, Instruction, Marker, Plan
from ledger.states import BreakerState
from ledger.values.ids import SLACK, first_id
from retries.models import Escalation, FailurePattern
from retries.models.activity_count import DAY, HALF_HOUR

MOST_COUNTED = 1_000
MOST_PLANS = 1_000  # the newest, which are searched for those that were completed
LISTED = 3
ONE_MORE = LISTED + 1
ONE_DAY, SLOT = timedelta(days=1), timedelta(minutes=HALF_HOUR)
# Insight counts a day within this time after its end.
COUNTED_WITHIN = timedelta(hours=1)
Projects = list[UUID] | None  # None: all of them
# Whole days in UTC, and the half hours before and after them.
ACTIVITY = f"""select coalesce(sum(tasks_done), 0)::int8 as done,
    coalesce(sum(tasks_failed), 0)::int8 as failed,
    coalesce(sum(tasks_escalated), 0)::int8 as escalated,
    coalesce(sum(attempts), 0)::int8 as attempts
from retries_activitycount
where (%(projects)s::uuid[] is null or project_id = any(%(projects)s))
    and (minutes = {DAY} and at >= %(first)s and at < %(last)s
        or minutes = {HALF_HOUR} and at >= %(since)s and at < least(%(first)s, %(until)s)
        or minutes = {HALF_HOUR} and at >= %(last)s and at < %(until)s)"""
COSTS = """select sum((f.data -> 'days' -> d.day ->> 'cost')::float8) as cost,
    coalesce(sum((f.data -> 'days' -> d.day ->> 'tokens')::int8), 0)::int8 as tokens
from retries_insightfigure f cross join unnest(%(days)s::text[]) d(day)
where f.panel = 'days' and f.days = 0
    and (%(projects)s::uuid[] is null or f.project_id = any(%(projects)s))"""


@dataclass(frozen=True, slots=True)
class Activity:
    """The tasks and attempts that ended in a period."""

    done: int = 0
    failed: int = 0
    escalated: int = 0
    attempts: int = 0

    @property
    def is_any(self) -> bool:
        return bool(self.done or self.failed or self.escalated or self.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A question that waits for a person."""

    title: str
    agent: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The content of a digest; counts end at MOST_COUNTED, and lists have the first of each."""

    project: str
    since: datetime
    until: datetime
    now: Activity = Activity()
    before: Activity = Activity()
    cost: float | None = None
    tokens: int = 0
    days: Sequence[str] = ()  # of the cost, in UTC
    plans: Sequence[str] = ()
    markers: Sequence[str] = ()
    patterns: int = 0
    pattern_texts: Sequence[str] = ()
    open: int = 0
    oldest: Sequence[Waiting] = ()
    letters: int = 0
    instructions: int = 0
    tripped: Sequence[str] = ()

    @property
    def is_quiet(self) -> bool:
        happened = self.now.is_any or self.tokens or self.cost
        return not (happened or self.plans or self.markers or self.patterns or self.open)


def read_figures(
    projects: Projects, *, name: str, since: datetime, until: datetime, with_details: bool
) -> Figures:
    """Return the figures of some projects, or of all; texts of errors only with details."""

    def of(rows: Any) -> Any:
        return rows if projects is None else rows.filter(project__in=projects)

    days = list_days(since, until)
    costs = sql.run(COSTS, projects=projects, days=days)[0]
    asked = of(Escalation.objects.in_inbox(until))
    oldest = asked.select_related("agent", "task", "instruction", "permission").order_by("id")
    created = {"pk__gte": first_id(since - SLACK), "first_seen__range": (since, until)}
    new = of(FailurePattern.objects.current().filter(**created)).order_by("-id")
    newest = of(Plan.objects.all()).order_by("-id").values("pk")[:MOST_PLANS]
    plans = Plan.objects.filter(pk__in=newest, completed_at__gte=since, completed_at__lt=until)
    markers = of(Marker.objects.filter(at__gte=since, at__lt=until)).order_by("-at")
    tripped = of(Agent.objects.filter(breaker__state=BreakerState.OPEN)).order_by("name")
    return Figures(
        project=name,
        since=since,
        until=until,
        now=read_activity(projects, since, until),
        before=read_activity(projects, since - (until - since), since),
        cost=costs["cost"],
        tokens=costs["tokens"],
        days=days,
        plans=[f"{each.ref} {each.title}".strip() for each in plans.order_by("-id")[:ONE_MORE]],
        markers=[each.name for each in markers[:ONE_MORE]],
        patterns=count(new),
        pattern_texts=[each.template for each in new[:LISTED]] if with_details else [],
        open=count(asked),
        oldest=[describe_waiting(each) for each in oldest[:LISTED]],
        letters=count(of(DeadLetter.objects.open())),
        instructions=count(of(Instruction.objects.awaiting_ack())),
        tripped=[each.name for each in tripped[:ONE_MORE]],
    )


def count(rows: Any) -> int:
    return int(rows.order_by().values("pk")[:MOST_COUNTED].count())


def read_activity(projects: Projects, since: datetime, until: datetime) -> Activity:
    start, end = (round_down(each, SLOT) for each in (since, until))
    first, last = (round_down(each, ONE_DAY) for each in (start + ONE_DAY - SLOT / 30, end))
    row = sql.run_custom_plan(
        ACTIVITY, projects=projects, since=start, until=end, first=first, last=max(first, last)
    )[0]
    return Activity(**row)


def round_down(at: datetime, step: timedelta) -> datetime:
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    return begin + (at - begin) // step * step


def list_days(since: datetime, until: datetime) -> list[str]:
    day = round_down(since - COUNTED_WITHIN, ONE_DAY)
    found = []
    while day + ONE_DAY + COUNTED_WITHIN <= until:
        if day + ONE_DAY + COUNTED_WITHIN > since:
            found.append(f"{day:%Y-%m-%d}")
        day += ONE_DAY
    return found


def describe_waiting(row: Escalation) -> Waiting:
    title = row.permission.title if row.permission else ""
    if row.task:
        title = row.task.title or row.task.ref or row.task.type
    elif row.instruction:
        title = row.instruction.content
    return Waiting(title=title or row.reason, agent=row.agent.name, since=row.opened_at)
