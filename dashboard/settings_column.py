"""The column beside every page of the settings: its groups, the current page, and counts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from dashboard.frame.access import may_open
from dashboard.frame.navigation import Scope
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.shared_queries import CountOf
from dashboard.notifications.delivery_queries import select_given_up
from dashboard.people.queries import members_of, select_people
from dashboard.tokens.queries import select_tokens
from dashboard.wording.formatting import COUNT_CAP, capped
from ledger.models import Project

# the pages by their groups: the name of the URL pattern, the label, and the icon
GROUPS = (
    (
        "Project",
        (
            ("people", "People", "people"),
            ("tokens", "Tokens", "key"),
            ("notifications", "Notifications", "bell"),
            ("deliveries", "Deliveries", "ch-mail"),
            ("on_call", "On call", "people"),
            ("permission_rules", "Permission rules", "f-permission"),
            ("policies", "Policies", "rule"),
            ("budgets", "Budgets", "clock"),
            ("operations", "Operations", "group"),
        ),
    ),
    ("You", (("profile", "Profile", "person"),)),
    ("Instance", (("audit", "Audit log", "shield"), ("settings", "Deployment", "n-settings"))),
)


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """A page of the settings in the column."""

    label: str
    icon: str
    url: str
    current: str  # the value of aria-current, or empty
    count: str
    is_alert: bool  # whether the count is of failures


@dataclass(frozen=True, slots=True)
class ColumnGroup:
    title: str
    entries: list[ColumnEntry]


def list_groups(request: HttpRequest, scope: Scope, *, now: datetime) -> list[ColumnGroup]:
    counts: dict[str, int] = next(iter(count_entries(scope.only, scope.project, now)), {})
    groups = (
        ColumnGroup(
            title,
            [
                ColumnEntry(
                    label=label,
                    icon=icon,
                    url=reverse(f"dashboard:{name}") + scope.query,
                    current=find_current(request.path, reverse(f"dashboard:{name}")),
                    count=capped(counts[name]) if counts.get(name) else "",
                    is_alert=name == "deliveries",
                )
                for name, label, icon in pages
                if may_open(request.user, name)
            ],
        )
        for title, pages in GROUPS
    )
    return [group for group in groups if group.entries]


def find_current(path: str, url: str) -> str:
    """Return the value of aria-current: "page" for the page itself, "true" for one below it.

    >>> find_current("/settings/people/", "/settings/people/")
    'page'
    >>> find_current("/settings/people/invitations/", "/settings/people/")
    'true'
    >>> find_current("/settings/people/", "/settings/")
    ''
    """
    if path == url:
        return "page"
    return "true" if path.startswith(url) and url != reverse("dashboard:settings") else ""


@compiled
def count_entries(
    project: Project | None, scope: Project | None, now: datetime
) -> QuerySet[Any, dict[str, Any]]:
    wanted = {
        "people": select_people(members_of(project)) if project else None,
        "tokens": select_tokens(scope, now=now),
        "deliveries": select_given_up(scope),
    }
    counts = {
        name: CountOf(rows.order_by().values("pk")[:COUNT_CAP])
        for name, rows in wanted.items()
        if rows is not None
    }
    found: QuerySet[Any, dict[str, Any]] = (
        Project.objects.order_by().annotate(**counts).values(*counts)
    )
    return found[:1]
