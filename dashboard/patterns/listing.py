"""The list of failure patterns: `state:ignored agent:coder older:7d connection refused`."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models import Value as V
from django.db.models.functions import Coalesce

from dashboard.assignment import assigned_to
from dashboard.frame.rendering import Visit
from dashboard.listing import Column, Listing, ListPage, State, any_of, older_than, within
from dashboard.lists.query_box import ANY, Names, StateQuery, Values
from dashboard.lists.query_values import Period, read_age, read_period
from dashboard.lists.shared_queries import named_pattern, of_project, pattern_has_words
from dashboard.lists.sorting import largest
from dashboard.patterns import queries
from ledger.models import Agent, Project
from ledger.states import FailureType
from retries.failures import figures
from retries.models import FailureCount, FailurePattern, Grouped
from retries.states import TROUBLING, PatternState
from retries.verbs import patterns

NEWEST_FAILURES = 200  # a pattern's newest failures, whose task types `type:` searches

LAST_FAILURE = Grouped.objects.filter(pattern=OuterRef("pk")).order_by("-at")
TASK_TYPES = ArraySubquery(LAST_FAILURE.values("failure__task__type")[:NEWEST_FAILURES])
# empty for a pattern whose failures were deleted
FAILED_AS = Coalesce(Subquery(LAST_FAILURE.values("failure__type")[:1]), V(""))


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternQuery(StateQuery):
    agent: Values = ANY
    type: Values = ANY  # the type of its failures' tasks
    plan: Values = ANY
    pattern: Values = ANY
    error: Values = ANY
    assignee: Values = ANY
    older: timedelta | None = None  # the time since it was last seen
    seen: Period | None = None
    first: Period | None = None


def has_agent(name: str) -> Q:
    agents = Agent.objects.filter(name=name).values("pk")
    return Q(Exists(FailureCount.objects.filter(pattern=OuterRef("pk"), agent__in=agents)))


def has_plan(ref: str) -> Q:
    return Q(pk__in=Grouped.objects.filter(failure__task__plan__ref=ref).values("pattern"))


def failed_with(text: str) -> Q:
    """Return the condition that the last failure has this type, or that a failure has words."""
    return Q(failed_as=text) if text in FailureType else pattern_has_words(text)


class PatternList(Listing[PatternQuery]):
    name = "patterns"
    row_page = "pattern"
    current = "patterns"
    heading = "Patterns"
    nouns = "patterns"

    model = FailurePattern
    query = PatternQuery
    keys = {
        "agent": Names(),
        "state": Names(("open", "ignored", "resolved", "regressed", "all")),
        "type": Names(),
        "plan": Names(),
        "pattern": Names(),
        "error": Names(),
        "assignee": Names(),
        "older": read_age("older"),
        "seen": read_period("seen"),
        "first": read_period("first"),
    }
    conditions = {
        "agent": any_of(has_agent),
        "type": any_of(lambda name: Q(task_types__contains=[name])),
        "plan": any_of(has_plan),
        "pattern": any_of(named_pattern),
        "error": any_of(failed_with),
        "assignee": any_of(assigned_to),
        "older": older_than("last_seen"),
        "seen": within("last_seen"),
        "first": within("first_seen"),
    }
    states = {
        "open": State("Open", TROUBLING),
        "ignored": State("Ignored", (PatternState.IGNORED,)),
        "resolved": State("Resolved", (PatternState.RESOLVED,)),
        "regressed": State("", (PatternState.REGRESSED,)),
        "all": State("All", tuple(PatternState)),
    }
    default_state = "open"

    template = "patterns/index.html"
    part = "patterns/_patterns.html"
    row = "patterns/_row.html"
    empty = "patterns/_none.html"
    table = "tbl rows pat"
    example = "words in the error, agent:coder  seen:24h"
    columns = (
        Column("State"),
        Column("Error"),
        Column("Failures", "r", "failures", largest(figures.FAILURES)),
        Column("To answer", "r"),
        Column("Last 24 h", "c-md"),
        Column("Agents", "c-lg"),
        Column("First seen", "c-lg r", "first", largest(F("first_seen"))),
        Column("Last seen", "r", "seen", largest(F("last_seen"), is_indexed=True)),
    )
    default_sort = "-seen"
    verbs = ("patterns_act",)

    export_columns = {
        "id": "id",
        "project": "project__name",
        "state": "state",
        "fingerprint": "fingerprint",
        "template": "template",
        "example": "example",
        "failures": "failures",
        "first_seen": "first_seen",
        "last_seen": "last_seen",
        "assignee": "assignee__username",
        "ignored_until": "ignored_until",
        "note": "note",
    }

    def rows(self, project: Project | None) -> QuerySet[Any]:
        rows = of_project(FailurePattern.objects.current(), project)
        found: QuerySet[Any] = rows.alias(task_types=TASK_TYPES, failed_as=FAILED_AS)
        return found

    def has_word(self, word: str) -> Q:
        return pattern_has_words(word)

    def load(self, rows: QuerySet[Any], opened: UUID | None) -> QuerySet[Any]:
        found: QuerySet[Any] = rows.annotate(assignee_name=F("assignee__username"))
        return found.select_related("project")

    def for_export(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        found: QuerySet[Any] = rows.annotate(failures=figures.FAILURES)
        return found

    def build_title(self, query: PatternQuery, counts: Any) -> str:
        return f"{counts['open']:,} open · Patterns" if counts["open"] else self.heading

    def read_extra(self, page: ListPage, visit: Visit) -> dict[str, Any]:
        return {"actions": patterns.PAGE}

    def build_entries(self, page: ListPage, visit: Visit) -> list[Any]:
        return queries.describe_patterns(page.page.rows, now=visit.now)


PATTERNS = PatternList()
