"""Queries of the Patterns pages: the figures of listed patterns, and one pattern."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from dashboard.assignment import with_people
from dashboard.charts.sparklines import Bars, bars
from dashboard.escalations.inbox.selection import PATTERN_OF
from dashboard.lists.pagination import PAGE
from dashboard.lists.shared_queries import hash_of
from dashboard.patterns.rising import HOURS, find_reason
from dashboard.tasks.queries import HEAVY
from dashboard.wording.formatting import counted
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.markers import find_markers_before
from ledger.models import Agent, Marker
from retries.assignment.rows import PATTERN
from retries.failures import figures, grouping, stuck_tasks
from retries.failures.figures import Total
from retries.failures.stuck_tasks import StuckTasks
from retries.models import FailurePattern, Grouped
from retries.states import EscalationState, PatternState

BAR_HEIGHT = 22
DAYS = 14
SPAN = timedelta(days=DAYS)
EXAMPLES = 3
FAILURES_READ = 40  # to find examples that differ
FAILURES_SHOWN = 15

MARK = re.compile(r"(‹[^‹›]*›)")


@dataclass(frozen=True, slots=True)
class ListedPattern:
    """A pattern in the list, with the figures of its failures.

    `rising` says why it is rising, and is empty if it is not. Only such a pattern is red.
    """

    row: FailurePattern
    rising: str
    open_escalations: int
    total: int
    last_at: datetime
    agents: list[str]
    today: int
    bars: Bars


TREND = """select pattern_id, ceil(extract(epoch from %(now)s - at) / %(step)s)::int as ago,
    count(*) as n
from retries_grouped
where pattern_id = any(%(ids)s) and at > %(now)s - %(step)s * %(steps)s * interval '1 second'
    and at <= %(now)s
group by 1, 2"""


def count_failures(ids: list[UUID]) -> dict[UUID, Total]:
    return get_or_compute_slow(
        f"patterns:totals:{hash_of(ids)}", lambda: figures.count_failures(ids)
    )


def list_agent_names(ids: list[UUID]) -> dict[UUID, list[str]]:
    return get_or_compute_slow(
        f"patterns:whose:{hash_of(ids)}", lambda: figures.list_agent_names(ids)
    )


def describe_patterns(rows: list[FailurePattern], *, now: datetime) -> list[ListedPattern]:
    ids = [row.pk for row in rows]
    known, names = count_failures(ids), list_agent_names(ids)
    hours = count_by_step(ids, step=timedelta(hours=1), steps=2 * HOURS, now=now)
    asked = count_open_escalations(ids, now=now)
    listed = []
    for row in rows:
        seen, today = known.get(row.pk, Total(0, row.last_seen)), hours[row.pk][HOURS:]
        why = find_reason(row, hours[row.pk], now=now)
        listed.append(
            ListedPattern(
                row=row,
                rising=why,
                open_escalations=asked.get(row.pk, 0),
                total=seen.total,
                last_at=seen.last_at,
                agents=names.get(row.pk, []),
                today=sum(today),
                bars=bars(today, today if why else [0] * HOURS, tall=BAR_HEIGHT),
            )
        )
    return listed


OPEN_ESCALATIONS = f"""select last.pattern_id, count(*) as n
from retries_escalation m cross join lateral ({PATTERN_OF}) last
where m.state = '{EscalationState.OPEN}' and m.task_id is not null
    and (m.snoozed_until is null or m.snoozed_until <= %(now)s) and last.pattern_id = any(%(ids)s)
group by 1"""


def count_open_escalations(ids: list[UUID], *, now: datetime) -> dict[UUID, int]:
    """Return the number of escalations in the inbox whose last failure is of a pattern."""

    def count() -> dict[UUID, int]:
        return {row["pattern_id"]: row["n"] for row in sql.run(OPEN_ESCALATIONS, ids=ids, now=now)}

    return get_or_compute_slow(f"patterns:asked:{hash_of(ids)}", count)


def count_by_step(
    ids: list[UUID], *, step: timedelta, steps: int, now: datetime
) -> dict[UUID, list[int]]:
    """Count each pattern's failures in each of the last steps of time, oldest first."""

    def count() -> dict[UUID, list[int]]:
        found = {id: [0] * steps for id in ids}
        seconds = step.total_seconds()
        for row in sql.run(TREND, ids=ids, now=now, step=seconds, steps=steps):
            found[row["pattern_id"]][steps - max(row["ago"], 1)] += row["n"]
        return found

    return get_or_compute_slow(f"patterns:trend:{hash_of((ids, step, steps))}", count)


# ---- one pattern


def exists(pattern_id: UUID) -> bool:
    return FailurePattern.objects.filter(pk=pattern_id).exists()


def list_open(ids: Iterable[UUID]) -> list[UUID]:
    rows = FailurePattern.objects.filter(pk__in=list(ids), state=PatternState.OPEN).order_by("id")
    return list(rows.values_list("pk", flat=True))


def find_pattern(pattern_id: UUID) -> Any:
    """Return a pattern, or the one that it was merged into."""
    rows = with_people(FailurePattern.objects.select_related("project"), PATTERN)
    found = rows.filter(pk=pattern_id).first()
    return rows.filter(pk=found.merged_into_id).first() if found and found.merged_into_id else found


@dataclass(frozen=True, slots=True)
class Days:
    """A pattern's failures of the last two weeks, by day."""

    total: int
    bars: Bars


def count_days(row: FailurePattern, *, now: datetime) -> Days:
    steps = DAYS * HOURS
    hours = count_by_step([row.pk], step=timedelta(hours=1), steps=steps, now=now)[row.pk]
    per_day = [sum(hours[at : at + HOURS]) for at in range(0, steps, HOURS)]
    bad = per_day if find_reason(row, hours[-2 * HOURS :], now=now) else [0] * DAYS
    return Days(sum(per_day), bars(per_day, bad, tall=3 * BAR_HEIGHT))


@dataclass(frozen=True, slots=True)
class MarkerBefore:
    """The marker before a pattern's first failure, and the time between them in words."""

    marker: Marker
    wait: str


def find_marker_before(row: FailurePattern) -> MarkerBefore | None:
    found = find_markers_before([(row.pk, row.project_id, row.first_seen)]).get(row.pk)
    return MarkerBefore(found, describe_wait(row.first_seen - found.at)) if found else None


def describe_wait(wait: timedelta) -> str:
    """Return a time of less than a day in words.

    >>> describe_wait(timedelta(seconds=250)), describe_wait(timedelta(hours=1, minutes=50))
    ('4 minutes', '1 hour')
    """
    seconds = int(wait.total_seconds())
    if seconds < 60:
        return counted(seconds, "second")
    return counted(seconds // 60, "minute") if seconds < 3600 else counted(seconds // 3600, "hour")


def count_all_failures(row: FailurePattern) -> int:
    found = figures.count_failures([row.pk])
    return found[row.pk].total if row.pk in found else 0


BY_AGENT = f"""select a.id, a.name, a.project_id, c.n
from ({figures.BY_AGENT}) c join ledger_agent a on a.id = c.agent_id
order by c.n desc, c.last_at desc"""


def list_agents(row: FailurePattern) -> list[Agent]:
    """Return the agents of a pattern's failures with their number `n`, the most first."""
    return list(Agent.objects.raw(BY_AGENT, {"pattern": row.pk, "most": PAGE}))


def list_failures(row: FailurePattern) -> list[Grouped]:
    rows = row.grouped.select_related("failure__attempt", "failure__task", "agent")
    heavy = [f"failure__task__{name}" for name in HEAVY]
    return list(rows.defer(*heavy).order_by("-at", "-failure_id")[:FAILURES_READ])


@dataclass(frozen=True, slots=True)
class Example:
    grouped: Grouped
    line: str


def pick_examples(failures: list[Grouped]) -> list[Example]:
    lines: dict[str, Example] = {}
    for each in failures:
        line = grouping.headline_of(each.failure)
        lines.setdefault(line, Example(each, line))
        if len(lines) == EXAMPLES:
            break
    return list(lines.values())


def count_stuck_tasks(row: FailurePattern) -> StuckTasks:
    return get_or_compute_slow(
        f"patterns:stuck:{row.pk}", lambda: stuck_tasks.count_stuck_tasks(row.pk)
    )


def split_marks(template: str) -> list[tuple[str, bool]]:
    """Split a template into pieces, each with whether it is a ‹mark› for varying text.

    >>> split_marks("no module ‹text›.")
    [('no module ', False), ('‹text›', True), ('.', False)]
    """
    return [(each, bool(MARK.fullmatch(each))) for each in MARK.split(template) if each]
