"""The rows that a form chose: ticked ones, all that a query matches, or patterns' stuck tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import QueryDict

from dashboard.deadletters.listing import DEADLETTERS
from dashboard.escalations.inbox import filters as inbox_filters
from dashboard.escalations.inbox.selection import select_inbox
from dashboard.form_values import read_past_time
from dashboard.instructions.listing import INSTRUCTIONS
from dashboard.listing import Listing
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.query_box import BoxQuery
from dashboard.lists.selection import read_selection
from dashboard.lists.shared_queries import of_project
from dashboard.patterns.listing import PATTERNS
from dashboard.tasks import filters as task_filters
from dashboard.tasks import queries as task_queries
from ledger.database import server_time
from ledger.models import DeadLetter, Instruction, Project, Task
from ledger.values.ids import first_id
from retries.failures.stuck_tasks import stuck_tasks
from retries.models import Escalation, FailurePattern

Filter = Callable[[str, Project | None, Any], QuerySet[Any]]


@dataclass(frozen=True, slots=True)
class ListedNoun:
    """A list whose rows can be chosen: its rows, its filter and the name of its URL."""

    model: type[Model]
    parse: Callable[[str], BoxQuery]
    filter: Filter
    place: str
    icon: str


def filter_tasks(text: str, project: Project | None, viewer: Any) -> QuerySet[Any]:
    return task_queries.filter_tasks(task_filters.parse(text).seen_by(viewer), project)


def filter_inbox(text: str, project: Project | None, viewer: Any) -> QuerySet[Any]:
    return select_inbox(inbox_filters.parse(text), project, now=server_time.now(), viewer=viewer)


def filter_by(listing: Listing[Any]) -> Filter:
    return lambda text, project, viewer: listing.select(text, project, viewer)


NOUNS = {
    "task": ListedNoun(Task, task_filters.parse, filter_tasks, "tasks", "n-tasks"),
    "dead_letter": ListedNoun(
        DeadLetter, DEADLETTERS.parse, filter_by(DEADLETTERS), "deadletters", "n-dead"
    ),
    "instruction": ListedNoun(
        Instruction, INSTRUCTIONS.parse, filter_by(INSTRUCTIONS), "instructions", "n-instructions"
    ),
    "escalation": ListedNoun(
        Escalation, inbox_filters.parse, filter_inbox, "escalations", "n-escalations"
    ),
    "pattern": ListedNoun(
        FailurePattern, PATTERNS.parse, filter_by(PATTERNS), "patterns", "n-patterns"
    ),
}


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Ticked rows by their ids, or all that match `query` and were there at `counted_at`.

    With `of_patterns`, the ids are those of patterns, and the tasks that are stuck because of them
    are chosen.
    """

    noun: str
    ids: list[UUID]
    matching: bool
    query: str
    counted_at: datetime
    of_patterns: bool = False
    viewer: Any = None  # the person whom `me` means in the query

    def __bool__(self) -> bool:
        return bool(self.ids) or self.matching

    @property
    def is_of_one_group(self) -> bool:
        # The key of a group says nothing to a person.
        return self.query.startswith("same:") and " " not in self.query

    @property
    def source(self) -> str:
        return describe_patterns(self.ids) if self.of_patterns else self.query

    def list_problems(self, project: Project | None) -> list[str]:
        """Return the parts of the query that its list does not read and would not filter by."""
        if not self.matching:
            return []
        listed = NOUNS[self.noun]
        return list_problems(listed.parse(self.query), listed.place, project)

    def rows(self, project: Project | None) -> QuerySet[Any]:
        # Rows that were created after the count are not part of the selection.
        listed = NOUNS[self.noun]
        if self.of_patterns:
            stuck = of_project(stuck_tasks(self.ids), project)
            return stuck.filter(id__lt=first_id(self.counted_at))
        if not self.matching:
            manager = listed.model._default_manager
            return of_project(manager.filter(pk__in=self.ids), project)
        return listed.filter(self.query, project, self.viewer).filter(
            id__lt=first_id(self.counted_at)
        )


def describe_patterns(ids: list[UUID]) -> str:
    rows = FailurePattern.objects.filter(pk__in=ids).order_by("id")
    names = [each[:12] for each in rows.values_list("fingerprint", flat=True)]
    return f"pattern:{','.join(names)}" if names else ""


def read_chosen(noun: str, data: QueryDict, *, now: datetime, viewer: Any) -> ChosenRows:
    # No time, or one in the future, counts as now.
    of_patterns = noun == "task" and data.get("of") == "patterns"
    matching = data.get("matching") == "yes" and not of_patterns
    return ChosenRows(
        noun=noun,
        ids=[] if matching else read_selection(data),
        matching=matching,
        query=data.get("q", "")[:500] if matching else "",
        counted_at=read_past_time(data.get("counted_at", ""), now=now) or now,
        of_patterns=of_patterns,
        viewer=viewer,
    )
