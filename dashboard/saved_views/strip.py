"""Read the views of a list: built-in ones, and those that the project's people saved."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import QuerySet
from django.db.models.functions import JSONObject
from django.urls import reverse

from dashboard.frame.rendering import Visit
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.shared_queries import CountOf, hash_of
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Project, SavedView

COUNTED = 1_000  # counting for a view stops here
BUILT_IN: dict[str, tuple[tuple[str, str], ...]] = {
    "tasks": (
        ("Failed in 24 h", "state:failed changed:24h"),
        ("Tried three times", "attempts:>2"),
        ("Running for 2 h", "state:running older:2h"),
        ("Assigned to me", "assignee:me"),
    ),
    "instructions": (
        ("Waiting for 1 h", "state:waiting older:1h"),
        ("Gave up in 24 h", "state:gave-up sent:24h"),
        ("Slow to acknowledge", "ack:>2m"),
    ),
    "deadletters": (
        ("Several attempts", "attempts:>1"),
        ("Older than a day", "older:1d"),
        ("Assigned to me", "assignee:me"),
    ),
    "patterns": (
        ("New in 24 h", "first:24h"),
        ("Regressed", "state:regressed"),
        ("Assigned to me", "assignee:me"),
    ),
    "plans": (("Not moving", "state:active older:1d"), ("New in 7 days", "created:7d")),
    "sessions": (("Stuck buffer", "state:buffering older:1h"), ("Last hour", "newer:1h")),
    "activity": (("By people", "by:people since:24h"), ("Gave up", "kind:instruction.failed")),
    "agents": (("Away for a day", "older:1d"),),
    "escalations": (
        ("Mine that block tasks", "assignee:me blocks:yes"),
        ("Unassigned for 3 h", "assignee:none older:3h"),
    ),
    "rules": (("Rarely followed", "followed:<70%"), ("Hold the stop", "holds:yes")),
    "deliveries": (("Server errors", "code:5xx"), ("No answer", "code:none state:gave-up")),
    "permission_rules": (("Denials", "verdict:deny"), ("Used today", "used:24h")),
    "operations": (("Stopped", "state:stopped"), ("Last 7 days", "started:7d")),
    "audit": (("Answers", "kind:escalation since:7d"), ("Tokens", "kind:token since:30d")),
}


@dataclass(frozen=True, slots=True)
class View:
    """A view of a list; a built-in one has no id."""

    name: str
    query: str
    sort: str
    current: bool
    id: UUID | None = None
    by: str = ""
    count: int | None = None

    @property
    def number(self) -> str:
        if self.count is None:
            return ""
        return f"{COUNTED:,}+" if self.count > COUNTED else f"{self.count:,}"


@dataclass(frozen=True, slots=True)
class ViewStrip:
    """The views of a list, and whether its current filter can be saved as one."""

    list: str
    views: Sequence[View]
    everything: bool  # no filter is set
    project: Project | None

    @property
    def url(self) -> str:
        return reverse(f"dashboard:{self.list}")

    @property
    def current(self) -> View | None:
        return next((view for view in self.views if view.current), None)

    @property
    def is_new(self) -> bool:
        return not self.everything and self.current is None


def read_views(
    visit: Visit,
    noun: str,
    text: str,
    sort: str = "",
    *,
    rows: Callable[[str], QuerySet[Any]] | None = None,
    saved: Sequence[SavedView] | None = None,
) -> ViewStrip:
    """Return the views of a list; `rows` finds the rows of a query, to count them."""
    # `saved` is given if another statement has read the saved views.
    project = visit.scope.project
    known: list[tuple[str, str, str, UUID | None, str]]
    known = [(name, query, "", None, "") for name, query in BUILT_IN.get(noun, ())]
    if project:
        saved = list_saved(project, noun) if saved is None else saved
        known += [(each.name, each.query, each.sort, each.pk, each.created_by) for each in saved]
    # the counts are the same for all viewers
    texts = [query for _, query, *_ in known if "assignee:" not in query.lower()]
    counts = count_rows(texts, project, noun, rows) if rows else {}
    views = [
        View(name, query, by, (query, by) == (text, sort), id, who, counts.get(query))
        for name, query, by, id, who in known
    ]
    return ViewStrip(noun, views, not text and not sort, project)


@compiled
def list_saved(project: Project, noun: str) -> QuerySet[SavedView]:
    return select_saved(project, noun)


def select_saved(project: Project | None, noun: str) -> QuerySet[SavedView]:
    return SavedView.objects.filter(project=project, list=noun).order_by("name")


def saved_as_json(project: Project | None, noun: str) -> ArraySubquery:
    """Return the saved views as an expression for a statement that a page runs anyway."""
    columns = ("id", "name", "query", "sort", "created_by")
    line = JSONObject(**{name: name for name in columns})
    return ArraySubquery(select_saved(project, noun).values(line=line))


def parse_saved(rows: Sequence[dict[str, Any]] | None) -> list[SavedView]:
    return [SavedView(**row | {"id": UUID(row["id"])}) for row in rows or ()]


def count_rows(
    texts: list[str], project: Project | None, noun: str, rows: Callable[[str], QuerySet[Any]]
) -> dict[str, int]:
    def count() -> dict[str, int]:
        numbers = {
            f"n{at}": CountOf(rows(text).order_by().values("pk")[: COUNTED + 1])
            for at, text in enumerate(texts)
        }
        found = Project.objects.order_by().annotate(**numbers).values(*numbers)
        row = next(iter(found[:1]), None) or {}
        return {text: row[f"n{at}"] for at, text in enumerate(texts) if row}

    if not texts:
        return {}
    where = project.id if project else "all"
    return get_or_compute_slow(f"views:{where}:{noun}:{hash_of(tuple(texts))}", count)
