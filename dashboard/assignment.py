"""Read who takes care of a row, and what people say about it, for the row's page."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, OuterRef, Q, QuerySet
from django.db.models.functions import JSONObject

from dashboard.lists.query_box import ME, NO_ONE
from dashboard.lists.shared_queries import CountOf, of_project
from dashboard.wording.formatting import COUNT_CAP
from ledger.authorization.permissions import people_who_may
from ledger.models import DeadLetter, Event, Project, Task
from ledger.states import FINAL
from retries.assignment.rows import Noun
from retries.models import Escalation, FailurePattern
from retries.states import TROUBLING

PEOPLE_SHOWN = 30
COMMENTS_SHOWN = 50  # the newest
COLUMNS = ("at", "actor_name", "data")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment or an assignment in the journal."""

    at: datetime
    actor_name: str
    data: dict[str, Any]


def with_people(rows: QuerySet[Any], noun: Noun, *, path: str = "") -> QuerySet[Any]:
    """Add the assignee's name, the names of possible assignees, and the comments.

    `path` leads to the row that is assigned. The page's own statement reads all of this.
    """
    people = people_who_may(noun.permission("change"), OuterRef("project"))
    events = Event.objects.about(OuterRef(f"{path}id"))
    said = events.filter(kind__in=(noun.assigned, noun.commented)).order_by("-id")
    line = JSONObject(**{name: name for name in COLUMNS})
    found: QuerySet[Any] = rows.annotate(
        assignee_name=F(f"{path}assignee__username"),
        people=ArraySubquery(people.values("username")[:PEOPLE_SHOWN]),
        said=ArraySubquery(said.values(line=line)[:COMMENTS_SHOWN]),
    )
    return found


def read_comments(row: Any) -> list[Comment]:
    """Return the comments and assignments of a row from `with_people`, oldest first."""
    return [
        Comment(**line | {"at": datetime.fromisoformat(line["at"])}) for line in reversed(row.said)
    ]


@dataclass(frozen=True, slots=True)
class Mine:
    """A list of what a person takes care of: its page, its query, and its number of rows."""

    label: str
    place: str  # the name of the list's URL
    query: str
    count: int

    @property
    def page(self) -> str:
        return f"dashboard:{self.place}"


def list_mine(person: Any, project: Project | None) -> list[Mine]:
    lists = (
        ("Escalations", "escalations", "", Escalation.objects.open().filter(assignee=person)),
        (
            "Tasks",
            "tasks",
            f" -state:{','.join(FINAL)}",
            Task.objects.filter(assignee=person).exclude(state__in=FINAL),
        ),
        (
            "Dead letters",
            "deadletters",
            "",
            DeadLetter.objects.open().filter(task__assignee=person),
        ),
        (
            "Patterns",
            "patterns",
            "",
            FailurePattern.objects.current().filter(assignee=person, state__in=TROUBLING),
        ),
    )
    counts = {
        page: CountOf(of_project(rows, project).order_by().values("pk")[:COUNT_CAP])
        for _, page, _, rows in lists
    }
    found = Project.objects.order_by().annotate(**counts).values(*counts)[:1]
    numbers = next(iter(found), None) or dict.fromkeys(counts, 0)
    return [
        Mine(label, page, f"assignee:{ME}{more}", numbers[page]) for label, page, more, _ in lists
    ]


def assigned_to(name: str, *, path: str = "") -> Q:
    """Return the condition that rows have an assignee with this name, or none for `none`."""
    if name == NO_ONE:
        return Q(**{f"{path}assignee": None})
    # with both conditions, the partial index of assigned rows finds them
    return Q(**{f"{path}assignee__username": name, f"{path}assignee__isnull": False})
