"""Count the tasks of a list by failure pattern and by the time of their last change.

A short list is read as a whole. In a long one, an index leads to the newest failures of each of the
patterns that were seen last.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, Max, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import JSONObject

from dashboard.lists.compiled_queries import compiled
from dashboard.lists.query_box import ANY
from dashboard.lists.query_values import Period
from dashboard.lists.shared_queries import CountOf, hash_of, match_period, of_project
from dashboard.tasks.filters import TaskQuery
from dashboard.tasks.listing import common_words
from dashboard.tasks.listing.counts import TaskCounts
from dashboard.tasks.queries import filter_tasks
from dashboard.wording.formatting import COUNT_CAP
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Project, Task
from ledger.states import TaskState
from retries.models import FailurePattern, Grouped

SHORT = 4_000  # tasks of a list that is read as a whole
PATTERNS_SHOWN = 5
PATTERNS_COUNTED = 12  # of a long list
FAILURES_WALKED = 1_000  # of each of these patterns
# by their values in the query box
PERIODS = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}


@dataclass(frozen=True, slots=True)
class PatternCount:
    """The number of a list's tasks that failed in a pattern."""

    fingerprint: str
    template: str
    tasks: int
    are_some: bool  # whether there may be more


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The number of a list's tasks that changed in each of PERIODS."""

    tasks: dict[str, int]
    are_some: bool  # whether only the newest tasks were counted


def cached(name: str, query: TaskQuery, project: Project | None) -> str:
    return f"tasks-{name}:{project.id if project else 'all'}:{hash_of(query)}"


# ---- by pattern


def count_patterns(
    query: TaskQuery, project: Project | None, counts: TaskCounts
) -> list[PatternCount]:
    """Return a list's patterns, whatever pattern the query names, the most frequent first."""
    # `counts` are those of the query. In a long list, only the patterns seen last are counted.
    anything = query.patternless()

    def count() -> list[PatternCount]:
        if counts.is_common:
            newest = fetch_patterns_of_newest(anything, project, common_words.MOST_COUNTED)
            return rank(newest, are_some=True)
        if is_short(query, project, counts.of(query)):
            return rank(fetch_patterns(anything, project))
        return rank(fetch_recent_patterns(anything, project, FAILURES_WALKED))

    return get_or_compute_slow(cached("by-pattern", anything, project), count)


def is_short(query: TaskQuery, project: Project | None, total: int) -> bool:
    if query.pattern == ANY:
        return total <= SHORT
    rows = filter_tasks(query.patternless(), project).order_by()
    return rows.values("pk")[: SHORT + 1].count() <= SHORT


def rank(rows: list[dict[str, Any]], *, are_some: bool = False) -> list[PatternCount]:
    # A pattern that two projects have is added up.
    counts: Counter[str] = Counter()
    templates: dict[str, str] = {}
    partial: set[str] = set()
    for row in rows:
        counts[row["fingerprint"]] += row["n"]
        templates[row["fingerprint"]] = row["template"]
        if are_some or row["more"]:
            partial.add(row["fingerprint"])
    return [
        PatternCount(name, templates[name], n, name in partial)
        for name, n in counts.most_common(PATTERNS_SHOWN)
        if n
    ]


@compiled
def fetch_patterns(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    return group_by_pattern(filter_tasks(query, project).order_by())


@compiled
def fetch_patterns_of_newest(
    query: TaskQuery, project: Project | None, most: int
) -> QuerySet[Any, dict[str, Any]]:
    # the limit changes nothing; it tells PostgreSQL that these rows are few
    return group_by_pattern(common_words.list_newest(query, project, most)[:most])


def group_by_pattern(tasks: QuerySet[Task]) -> QuerySet[Any, dict[str, Any]]:
    patterns: QuerySet[Any, Any] = FailurePattern.objects.filter(
        grouped__failure__task__in=tasks.values("pk")
    )
    rows: QuerySet[Any, dict[str, Any]] = patterns.values("fingerprint").annotate(
        template=Max("template"),
        n=Count("grouped__failure__task", distinct=True),
        more=Value(False),
    )
    return rows.order_by("-n", "fingerprint")[:PATTERNS_COUNTED]


@compiled
def fetch_recent_patterns(
    query: TaskQuery, project: Project | None, walked: int
) -> QuerySet[Any, dict[str, Any]]:
    """Return the patterns seen last, with their matching tasks among the newest failures."""
    # At most `walked` failures of a pattern are read; `more` is set if it has others.
    failures = Grouped.objects.order_by("-at")
    newest = failures.filter(pattern=OuterRef(OuterRef("pk"))).values("failure__task")[:walked]
    tasks = filter_tasks(query, project).filter(pk__in=newest)
    others = failures.filter(pattern=OuterRef("pk")).values("pk")
    patterns = of_project(FailurePattern.objects.current(), project).order_by("-last_seen", "-id")
    rows: QuerySet[Any, dict[str, Any]] = patterns.annotate(
        n=CountOf(tasks.order_by().values("pk")), more=CountOf(others[walked : walked + 1])
    ).values("fingerprint", "template", "n", "more")
    return rows[:PATTERNS_COUNTED]


# ---- by the time of the last change


def count_changes(query: TaskQuery, project: Project | None, counts: TaskCounts) -> ChangeCounts:
    """Return the number of a list's tasks that changed in each period."""
    # `counts` are those of the query, whose own time of change is left out.
    anything = query.changeless()

    def count() -> ChangeCounts:
        if counts.is_common:
            newest = fetch_changes_of_newest(anything, project, common_words.MOST_COUNTED)
            return ChangeCounts(next(iter(newest), {}), are_some=True)
        row = next(iter(fetch_changes(anything, project)), {})
        others = row.get("others") or {}
        sums = {name: row.get(name, 0) + others.get(name, 0) for name in PERIODS}
        return ChangeCounts({name: min(n, COUNT_CAP) for name, n in sums.items()}, False)

    return get_or_compute_slow(cached("by-change", anything, project), count)


def count_periods() -> dict[str, Count]:
    return {
        name: Count("pk", filter=match_period(Period(age), "updated_at"))
        for name, age in PERIODS.items()
    }


@compiled
def fetch_changes_of_newest(
    query: TaskQuery, project: Project | None, most: int
) -> QuerySet[Any, dict[str, Any]]:
    return count_each_period(common_words.list_newest(query, project, most))


def count_each_period(rows: QuerySet[Any, Any]) -> QuerySet[Any, dict[str, Any]]:
    """Return one row, or none if there are no rows."""
    each = rows.order_by().values(all=Value(1)).annotate(**count_periods())
    counted: QuerySet[Any, dict[str, Any]] = each.values(*PERIODS)
    return counted


@compiled
def fetch_changes(query: TaskQuery, project: Project | None) -> QuerySet[Any, dict[str, Any]]:
    """Return one row: the finished tasks that changed in each period, and those of `others`."""
    rows = filter_tasks(query, project)
    # Most tasks are finished. This order makes PostgreSQL use the index of last changes.
    finished = rows.filter(state=TaskState.DONE).order_by("-updated_at").values("pk")
    counts: dict[str, Any] = {
        name: CountOf(finished.filter(match_period(Period(age), "updated_at"))[:COUNT_CAP])
        for name, age in PERIODS.items()
    }
    longest = Period(max(PERIODS.values()))
    rest: QuerySet[Any, Any] = rows.exclude(state=TaskState.DONE).filter(
        match_period(longest, "updated_at")
    )
    counted = count_each_period(rest)
    counts["others"] = Subquery(counted.values(each=JSONObject(**{name: name for name in PERIODS})))
    found: QuerySet[Any, dict[str, Any]] = (
        Project.objects.order_by().annotate(**counts).values(*counts)
    )
    return found[:1]
