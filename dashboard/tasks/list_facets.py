"""The filters beside the list of tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from dashboard import badges
from dashboard.facets import Facet, build_value_facets
from dashboard.query_box import has_key, term, tokens
from dashboard.query_values import Period, is_a_day, parse_date
from dashboard.tasks.counts import TaskCounts
from dashboard.tasks.facet_counts import PERIODS, ChangeCounts, PatternCount
from dashboard.tasks.filters import STATES, TaskQuery
from dashboard.tasks.order import ORDER
from ledger.states import TaskState

PERIOD_LABELS = {"1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days"}
# the fields of the form for two dates
DATES = ("changed_from", "changed_to")


@dataclass(frozen=True, slots=True)
class DateRange:
    """The first and the last day, in UTC, of a period between dates; an end may be open."""

    start: str = ""
    end: str = ""

    def __bool__(self) -> bool:
        return bool(self.start or self.end)

    @property
    def label(self) -> str:
        """The days in words.

        >>> DateRange("2026-11-01", "2026-11-20").label, DateRange("2026-11-01").label
        ('2026-11-01 to 2026-11-20', 'since 2026-11-01')
        """
        if self.start and self.end:
            return self.start if self.start == self.end else f"{self.start} to {self.end}"
        return f"since {self.start}" if self.start else f"until {self.end}"


@dataclass(frozen=True, slots=True)
class Facets:
    """The filters beside the list; `dates` are those that the query asks for."""

    states: list[Facet]
    agents: list[Facet]
    patterns: list[Facet]
    changes: list[Facet]
    dates: DateRange


def build_facets(
    query: TaskQuery, counts: TaskCounts, patterns: list[PatternCount], changes: ChangeCounts
) -> Facets:
    total = counts.of(query)
    return Facets(
        states=build_states(query, counts),
        agents=build_value_facets(
            *("agent", counts.agents, query.one_agent, query),
            are_some=counts.are_some,
            total=total,
        ),
        patterns=build_patterns(query, patterns, total),
        changes=build_changes(query, changes, total),
        dates=find_dates(query.changed),
    )


def build_states(query: TaskQuery, counts: TaskCounts) -> list[Facet]:
    everything = query.one_state == "all"
    states = [Facet("All", query.having("state", ""), counts.total, everything, "n-tasks")]
    for state in ORDER:
        name = "needs-you" if state == TaskState.ESCALATED else state.value
        current = state in STATES.get(query.one_state, ())
        badge = badges.task_badge(state)
        text = query.having("state", "" if current else f"state:{name}")
        count = counts.states.get(state, 0)
        states.append(Facet(badge.label, text, count, current, badge.icon, badge.css))
    return states


def build_patterns(query: TaskQuery, counted: list[PatternCount], total: int) -> list[Facet]:
    """Return the most frequent patterns, and the one that is asked for."""
    one = query.one_pattern
    facets = []
    for each in counted:
        current = bool(one) and each.fingerprint.startswith(one.lower())
        facets.append(
            Facet(
                each.template,
                query.having("pattern", "" if current else term("pattern", each.fingerprint)),
                total if current else each.tasks,
                current,
                are_some=each.are_some and not current,
                title=each.template,
            )
        )
    if one and not any(facet.current for facet in facets):
        facets.append(Facet(one, query.having("pattern", ""), total, current=True, title=one))
    return facets


def build_changes(query: TaskQuery, counted: ChangeCounts, total: int) -> list[Facet]:
    """Return the periods, and the dates that are asked for."""
    facets = []
    for name, age in PERIODS.items():
        current = query.changed == Period(age)
        text = query.having("changed", "" if current else f"changed:{name}")
        count = total if current else counted.tasks.get(name, 0)
        are_some = counted.are_some and not current
        facets.append(Facet(PERIOD_LABELS[name], text, count, current, are_some=are_some))
    if query.changed and not any(facet.current for facet in facets):
        days = find_dates(query.changed)
        label = days.label if days else read_period_text(query)
        facets.append(Facet(label, query.having("changed", ""), total, current=True))
    return facets


def read_period_text(query: TaskQuery) -> str:
    """Return the period as the query's text has it."""
    terms = [token for token in tokens(query.text) if has_key(token, ("changed",))]
    return terms[-1].partition(":")[2].replace('"', "") if terms else ""


def find_dates(period: Period | None) -> DateRange:
    """Return the days of a period of whole days, or none for another one."""
    start, end = (period.start, period.end) if period else (None, None)
    if not all(each is None or is_midnight(each) for each in (start, end)):
        return DateRange()
    last = end - timedelta(microseconds=1) if isinstance(end, datetime) else None
    return DateRange(
        f"{start:%F}" if isinstance(start, datetime) else "", f"{last:%F}" if last else ""
    )


def is_midnight(end: timedelta | datetime) -> bool:
    """Return whether the end of a period is where a day of UTC begins."""
    return isinstance(end, datetime) and end.astimezone(UTC).time() == time()


def read_dates(query: TaskQuery, typed: Mapping[str, str]) -> str:
    """Return the query's text with the days that a form names; without any, with no period."""
    start, end = (typed.get(name, "").strip() for name in DATES)
    days = [day if is_a_day(day) and parse_date(day) else "" for day in (start, end)]
    if all(days):
        days.sort()
    return query.having("changed", f"changed:{'..'.join(days)}" if any(days) else "")
