"""The list of dead letters, by cause or by time: `agent:codex error:timeout attempts:>1`."""

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Lower

from dashboard.assignment import assigned_to
from dashboard.deadletters import queries
from dashboard.deadletters.causes import CauseGroup, add_counts, group_by_cause
from dashboard.frame.rendering import Visit
from dashboard.listing import Column, Listing, ListPage, State, any_of, equals, older_than, within
from dashboard.lists import shared_queries
from dashboard.lists.query_box import ANY
from dashboard.lists.shared_queries import failed_in_pattern, match_any, title_of
from dashboard.lists.sorting import BY_ID, SortColumn, largest
from dashboard.tasks.filters import ERRORS, LETTER_KEYS, LETTER_STATES, TaskQuery
from dashboard.tasks.queries import fetch_last_headlines
from ledger.models import DeadLetter, Project
from ledger.search_words import find_failures
from retries.verbs import dead_letters


def failed_with(text: str) -> Q:
    """Return the condition that an error contains the text, or a failure matches it."""
    found = Q(task__in=shared_queries.failed_with(text))
    return found if text in ERRORS else found | Q(error__icontains=text)


class DeadLetterList(Listing[TaskQuery]):
    """Open dead letters, unless the query names a state or an id."""

    name = "deadletters"
    row_page = "deadletter"
    current = "deadletters"
    heading = "Dead letters"
    nouns = "dead letters"
    file_name = "dead-letters"

    model = DeadLetter
    query = TaskQuery
    keys = LETTER_KEYS
    conditions = {
        "agent": equals("agent__name"),
        "type": equals("type"),
        "plan": equals("task__plan__ref"),
        "reason": equals("reason"),
        "error": any_of(failed_with),
        "assignee": any_of(partial(assigned_to, path="task__")),
        "older": older_than("failed_at"),
        "failed": within("failed_at", is_creation=True),
        "attempts_over": lambda number: Q(task__attempts__gt=number),
        "attempts_under": lambda number: Q(task__attempts__lt=number),
    }
    searched = ("error", "task__title", "type")
    states = {name: State(name.capitalize()) for name in LETTER_STATES}
    default_state = "open"
    dates = "failed"

    template = "deadletters/index.html"
    part = "deadletters/_deadletters.html"
    empty = "deadletters/_none.html"
    bar = "listing__bar listing__bar--dense"
    example = "agent:codex  error:timeout"
    columns = (
        Column("Key", "c-md"),
        Column("Name", "", "name", SortColumn(Lower(title_of("task__")))),
        Column("Agent", "", "agent", SortColumn(F("agent__name"))),
        Column("Type", "c-lg", "type", SortColumn(F("type"))),
        Column("Attempts", "", "attempts", largest(F("task__attempts"))),
        Column("Failed", "r", "failed", BY_ID),
    )
    default_sort = "-failed"
    verbs = ("deadletter_act", "operation_new")

    export_columns = {
        "id": "id",
        "project": "project__name",
        "task": "task_id",
        "plan": "task__plan__ref",
        "ref": "task__ref",
        "title": "task__title",
        "type": "type",
        "agent": "agent__name",
        "reason": "reason",
        "error": "error",
        "attempts": "task__attempts",
        "assignee": "task__assignee__username",
        "failed_at": "failed_at",
        "closed_at": "closed_at",
        "closed_as": "closed_as",
        "closed_by": "closed_by_name",
        "note": "note",
    }

    def narrow(
        self, rows: QuerySet[Any], query: TaskQuery, project: Project | None
    ) -> QuerySet[Any]:
        return rows.filter(
            match_any(query.pattern, lambda text: Q(task__in=failed_in_pattern(text, project)))
        )

    def in_state(self, name: str) -> Q:
        return Q(closed_at=None) if name == "open" else Q(closed_as=name)

    def has_word(self, word: str) -> Q:
        return super().has_word(word) | Q(task__in=find_failures(word).values("task"))

    def with_ids(self, rows: QuerySet[Any], ids: Sequence[UUID]) -> QuerySet[Any]:
        return rows.filter(Q(id__in=ids) | Q(task_id__in=ids))

    def read_counts(self, rows: QuerySet[Any]) -> dict[str, int]:
        found = dict(rows.values_list("closed_as").annotate(n=Count("pk")))
        counts = {name: found.get(None if name == "open" else name, 0) for name in LETTER_STATES}
        return counts | {"all": sum(counts.values())}

    def load(self, rows: QuerySet[Any], opened: UUID | None) -> QuerySet[Any]:
        return queries.with_extras(rows).only(*queries.COLUMNS)

    def asked_sort(self, visit: Visit) -> str:
        return "" if is_by_cause(visit) else super().asked_sort(visit)

    def title_of(self, counts: Any) -> str:
        count = counts["open"]
        return f"{count:,} dead letter{'' if count == 1 else 's'}" if count else self.heading

    def read_extra(self, page: ListPage, visit: Visit) -> dict[str, Any]:
        query, project, letters = page.query, visit.scope.project, page.page.rows
        assert isinstance(query, TaskQuery)
        queries.add_task_outcomes(letters)
        groups = self.read_groups(letters, query, project) if is_by_cause(visit) else []
        cause = find_cause(groups, visit.request.GET.get("cause", ""))
        last = cause.last.task_id if cause else None
        return {
            "by_cause": is_by_cause(visit),
            "groups": groups or ([CauseGroup("all", "", letters)] if letters else []),
            "cause": cause,
            "headline": fetch_last_headlines([last]).get(last, "") if last else "",
            "bulk_verbs": dead_letters.VERBS,
            "recently_closed": queries.list_recently_closed(project) if not query.text else [],
            "can_act_on_all": self.state_of(query) == "open",
        }

    def read_groups(
        self, letters: list[Any], query: TaskQuery, project: Project | None
    ) -> list[CauseGroup]:
        """Return the groups of a page with the counts of the whole list."""
        groups = group_by_cause(letters)
        ids = [group.pattern_id for group in groups if group.pattern_id]
        # A query for patterns also finds dead letters by their other failures; those are counted on
        # the page alone.
        if query.pattern != ANY or not ids:
            return add_counts(groups, {})
        found = self.find(query, project).order_by("-id")
        return add_counts(groups, queries.count_causes(found, ids, of=(query, project)))


DEADLETTERS = DeadLetterList()


def is_by_cause(visit: Visit) -> bool:
    return visit.request.GET.get("group") != "time"


def find_cause(groups: list[CauseGroup], id: str) -> CauseGroup | None:
    return next((group for group in groups if group.id == id), groups[0] if groups else None)
