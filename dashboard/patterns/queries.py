"""What the Patterns pages ask the database: which there are, how often, whose, and one of them."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count, Max, QuerySet

from dashboard.shared_queries import hash_of, of_project
from dashboard.sparklines import Bars, bars
from dashboard.tasks.queries import HEAVY
from ledger import sql
from ledger.models import Agent, Project
from ledger.optional_cache import figure
from ledger.states import TaskState
from retries.failures import grouping, patterns
from retries.failures.patterns import BATCH_SIZE
from retries.models import FailurePattern, Grouped
from retries.states import TROUBLING, PatternState

PAGE = 40
CONSIDERED = 500  # the ones seen last: nobody looks further
BARS_TALL = 22
HOURS, DAYS = 24, 14
EXAMPLES = 3
LOOKED_AT = 40  # failures, for examples that differ
FAILURES_SHOWN = 15

STATES: dict[str, tuple[PatternState, ...]] = {
    "open": TROUBLING,
    "ignored": (PatternState.IGNORED,),
    "resolved": (PatternState.RESOLVED,),
    "all": tuple(PatternState),
}
MARK = re.compile(r"(‹[^›]*›)")


@dataclass(frozen=True, slots=True)
class Recurring:
    """A pattern in the list, with its failures counted."""

    row: FailurePattern
    total: int
    last_at: datetime
    agents: list[str]
    today: int
    bars: Bars


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of them; `page` counts from 1."""

    rows: list[Recurring]
    page: int
    more: bool

    @property
    def newer(self) -> int | None:
        return self.page - 1 or None

    @property
    def older(self) -> int | None:
        return self.page + 1 if self.more else None


def matching(project: Project | None, *, state: str, words: str) -> QuerySet[FailurePattern]:
    rows = of_project(FailurePattern.objects.filter(state__in=STATES[state]), project)
    for word in words.split():
        rows = rows.filter(template__icontains=word)
    return rows


def counts(project: Project | None, *, words: str) -> dict[str, int]:
    """How many there are in each segment of the list."""

    def count() -> dict[str, int]:
        rows = matching(project, state="all", words=words).order_by().values_list("state")
        found = dict(rows.annotate(n=Count("*")))
        return {name: sum(found.get(each, 0) for each in of) for name, of in STATES.items()}

    return figure(f"patterns:{project.id if project else 'all'}:{words}", count)


def listed(
    project: Project | None, *, state: str, words: str, often: bool, page: int, now: datetime
) -> Listed:
    """Those seen last, or of these those seen most often, with their figures."""
    rows = matching(project, state=state, words=words).order_by("-last_seen", "-id")
    ids = list(rows.values_list("pk", flat=True)[:CONSIDERED])
    if often:
        known = totals(ids)
        ids.sort(key=lambda id: -known[id].total if id in known else 0)
    start = (page - 1) * PAGE
    return Listed(told(ids[start : start + PAGE], now=now), page, len(ids) > start + PAGE)


TOTALS = """select pattern_id, count(*) as total, max(at) as last_at
from retries_grouped where pattern_id = any(%(ids)s) group by 1"""
WHOSE = """select g.pattern_id, array_agg(a.name order by a.name) as names
from (select distinct pattern_id, agent_id from retries_grouped where pattern_id = any(%(ids)s)) g
join ledger_agent a on a.id = g.agent_id group by 1"""
TREND = """select pattern_id, ceil(extract(epoch from %(now)s - at) / %(step)s)::int as ago,
    count(*) as n
from retries_grouped
where pattern_id = any(%(ids)s) and at > %(now)s - %(step)s * %(steps)s * interval '1 second'
    and at <= %(now)s
group by 1, 2"""


@dataclass(frozen=True, slots=True)
class Total:
    """All failures of a pattern that are kept."""

    total: int
    last_at: datetime


def totals(ids: list[UUID]) -> dict[UUID, Total]:
    def count() -> dict[UUID, Total]:
        rows = sql.run(TOTALS, ids=ids)
        return {row["pattern_id"]: Total(row["total"], row["last_at"]) for row in rows}

    return figure(f"patterns:totals:{hash_of(ids)}", count)


def whose(ids: list[UUID]) -> dict[UUID, list[str]]:
    """The names of the agents whose failures these are."""

    def look() -> dict[UUID, list[str]]:
        return {row["pattern_id"]: row["names"] for row in sql.run(WHOSE, ids=ids)}

    return figure(f"patterns:whose:{hash_of(ids)}", look)


def told(ids: list[UUID], *, now: datetime) -> list[Recurring]:
    """These, in this order, each with all that a line shows."""
    rows = FailurePattern.objects.select_related("project").in_bulk(ids)
    known, names = totals(ids), whose(ids)
    hours = trends(ids, step=timedelta(hours=1), steps=HOURS, now=now)
    made = []
    for row in filter(None, map(rows.get, ids)):
        seen, per_hour = known.get(row.pk, Total(0, row.last_seen)), hours[row.pk]
        bad = per_hour if row.is_troubling else [0] * HOURS
        drawn = bars(per_hour, bad, tall=BARS_TALL)
        of = names.get(row.pk, [])
        made.append(Recurring(row, seen.total, seen.last_at, of, sum(per_hour), drawn))
    return made


def trends(ids: list[UUID], *, step: timedelta, steps: int, now: datetime) -> dict[UUID, list[int]]:
    """How many failures there were in each of the last steps of time, oldest first."""
    found = {id: [0] * steps for id in ids}
    seconds = step.total_seconds()
    for row in sql.run(TREND, ids=ids, now=now, step=seconds, steps=steps):
        found[row["pattern_id"]][steps - max(row["ago"], 1)] += row["n"]
    return found


# ---- one


def exists(pattern_id: UUID) -> bool:
    return FailurePattern.objects.filter(pk=pattern_id).exists()


def one(pattern_id: UUID) -> FailurePattern | None:
    return FailurePattern.objects.select_related("project").filter(pk=pattern_id).first()


@dataclass(frozen=True, slots=True)
class Days:
    """The failures of the last two weeks, day by day."""

    total: int
    bars: Bars


def days(row: FailurePattern, *, now: datetime) -> Days:
    per_day = trends([row.pk], step=timedelta(days=1), steps=DAYS, now=now)[row.pk]
    bad = per_day if row.is_troubling else [0] * DAYS
    return Days(sum(per_day), bars(per_day, bad, tall=3 * BARS_TALL))


def agents(row: FailurePattern) -> list[Agent]:
    """Whose failures these are, with `n`, the most first."""
    found = row.grouped.order_by().values("agent").annotate(n=Count("*"), last=Max("at"))
    by_agent = {each["agent"]: each["n"] for each in found.order_by("-n", "-last")[:PAGE]}
    known = Agent.objects.in_bulk(by_agent)
    for id, number in by_agent.items():
        known[id].n = number  # type: ignore[attr-defined]
    return [known[id] for id in by_agent]


def failures(row: FailurePattern) -> list[Grouped]:
    """The newest of them, with what they say and their tasks."""
    rows = row.grouped.select_related("failure__attempt", "failure__task", "agent")
    heavy = [f"failure__task__{name}" for name in HEAVY]
    return list(rows.defer(*heavy).order_by("-at", "-failure_id")[:LOOKED_AT])


@dataclass(frozen=True, slots=True)
class Example:
    """A failure by the line that it is grouped by."""

    grouped: Grouped
    line: str


def examples(found: list[Grouped]) -> list[Example]:
    """The newest that do not say the very same."""
    lines: dict[str, Example] = {}
    for each in found:
        line = grouping.headline_of(each.failure)
        lines.setdefault(line, Example(each, line))
        if len(lines) == EXAMPLES:
            break
    return list(lines.values())


@dataclass(frozen=True, slots=True)
class Stuck:
    """How many tasks stand still or wait because of a pattern."""

    dead: int
    waiting: int
    asked: int

    @property
    def total(self) -> int:
        return self.dead + self.waiting + self.asked


def stuck(row: FailurePattern) -> Stuck:
    states = [task.state for task in patterns.stuck_tasks([row.pk]).only("state")[:BATCH_SIZE]]
    return Stuck(*map(states.count, (TaskState.FAILED, TaskState.RETRY, TaskState.ESCALATED)))


def pieces(template: str) -> list[tuple[str, bool]]:
    """A template's text in pieces, each with whether it stands for what differs.

    >>> pieces("no module ‹text›.")
    [('no module ', False), ('‹text›', True), ('.', False)]
    """
    return [(each, bool(MARK.fullmatch(each))) for each in MARK.split(template) if each]
