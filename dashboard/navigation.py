"""What every page has around it: where one can go, which project is looked at, who looks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, QueryDict
from django.urls import reverse

from dashboard import shared_queries
from dashboard.formatting import COUNT_CAP, capped, monogram
from ledger.models import Project


@dataclass(frozen=True, slots=True)
class Counter:
    """The number beside a place."""

    of: Callable[[Project | None], QuerySet[Any]]  # what is counted
    word: str  # what the number counts, for readers of a screen
    says: str
    css: str = "warn"


@dataclass(frozen=True, slots=True)
class Place:
    """A page that the sidebar, the tab bar and the keys G … lead to."""

    name: str  # of its URL
    label: str
    icon: str
    key: str
    tally: Counter | None = None
    in_tabs: bool = True


OPEN = Counter(shared_queries.open_escalations, "open", "wait for your answer", "alert")
WAITING = Counter(shared_queries.waiting_instructions, "waiting", "wait for an acknowledgement")
SILENT = Counter(
    shared_queries.silent_agents, "silent", "do not ask although something waits for them"
)
RUNNING = Counter(shared_queries.running_tasks, "running", "run now", "plain")
DEAD = Counter(
    shared_queries.open_deadletters, "open", "were given up and wait for a decision", "plain"
)

# in the groups of the sidebar
PLACES = (
    (
        Place("home", "Overview", "n-overview", "o"),
        Place("escalations", "Escalations", "n-escalations", "e", OPEN),
        Place("instructions", "Instructions", "n-instructions", "i", WAITING),
        Place("tasks", "Tasks", "n-tasks", "t", RUNNING),
        Place("plans", "Plans", "n-plans", "p", in_tabs=False),
        Place("deadletters", "Dead letters", "n-dead", "d", DEAD, in_tabs=False),
        Place("patterns", "Patterns", "n-patterns", "f", in_tabs=False),
    ),
    (
        Place("agents", "Agents", "n-agents", "a", SILENT, in_tabs=False),
        Place("activity", "Activity", "n-activity", "l", in_tabs=False),
        Place("settings", "Settings", "n-settings", "s", in_tabs=False),
    ),
)


@dataclass(frozen=True, slots=True)
class Scope:
    """The project that a page is about, or all of them."""

    project: Project | None
    projects: list[Project]

    @property
    def label(self) -> str:
        if self.project:
            return self.project.name
        return self.projects[0].name if len(self.projects) == 1 else "all projects"

    @property
    def is_choice(self) -> bool:
        return len(self.projects) > 1

    @property
    def query(self) -> str:
        """What a link to another page carries, so that it is about the same project."""
        return f"?{self.params.urlencode()}" if self.params else ""

    @property
    def params(self) -> QueryDict:
        """The same, for links that carry more."""
        params = QueryDict(mutable=True)
        if self.project is not None and self.is_choice:
            params["project"] = self.project.name
        return params


@dataclass(frozen=True, slots=True)
class SidebarEntry:
    """A line of the sidebar."""

    place: Place
    url: str
    current: bool
    count: int

    @property
    def number(self) -> str:
        return capped(self.count)


@dataclass(frozen=True, slots=True)
class SidebarPlan:
    """A plan under way in the sidebar: how far its ring is closed, red where a person is asked."""

    url: str
    current: bool
    name: str
    met: int
    total: int
    css: str

    @property
    def percent(self) -> int:
        return 100 * self.met // self.total if self.total else 0


@dataclass(frozen=True, slots=True)
class Shell:
    groups: list[list[SidebarEntry]]
    plans: list[SidebarPlan]
    scope: Scope
    here: QueryDict
    who: str
    initials: str

    @property
    def entries(self) -> list[SidebarEntry]:
        return [entry for group in self.groups for entry in group]

    @property
    def needs_you(self) -> int:
        """How many questions wait for a person."""
        return next(entry.count for entry in self.entries if entry.place.tally is OPEN)


def read_scope(request: HttpRequest) -> Scope:
    """The project asked for; raises Http404 where there is none of that name."""
    known, named = shared_queries.list_projects(), requested_project(request)
    if named is None and len(known) == 1:
        return Scope(known[0], known)
    return Scope(named, known)


def requested_project(request: HttpRequest) -> Project | None:
    """The project in the address, or None: then it is about all, of which there may be but one.

    Raises Http404 where there is none of that name.
    """
    name = request.GET.get("project", "")
    if not name:
        return None
    project = shared_queries.find_project(name)
    if project is None:
        raise Http404(f"No project is called “{name[:64]}”.")
    return project


def here_of(request: HttpRequest) -> QueryDict:
    """This page's parameters, without those of a poll."""
    here = request.GET.copy()
    for name in ("since", "held"):
        here.pop(name, None)
    return here


def build_shell(request: HttpRequest, scope: Scope, *, current: str) -> Shell:
    numbers = read_counts(scope.project)
    plans = [sidebar_plan(row, scope, path=request.path) for row in numbers.get("under_way", [])]
    if any(plan.current for plan in plans):
        current = ""
    groups = [
        [sidebar_entry(place, scope, numbers, current=current) for place in group]
        for group in PLACES
    ]
    name = request.user.get_username()
    return Shell(groups, plans, scope, here_of(request), name, monogram(name).upper())


def read_counts(project: Project | None) -> dict[str, Any]:
    """The numbers beside the places by their names, and the plans under way: one statement."""
    wanted: dict[str, Any] = {
        place.name: shared_queries.CountOf(
            place.tally.of(project).order_by().values("pk")[:COUNT_CAP]
        )
        for group in PLACES
        for place in group
        if place.tally
    }
    wanted["under_way"] = ArraySubquery(shared_queries.plans_under_way(project))
    return Project.objects.order_by().annotate(**wanted).values(*wanted).first() or {}


def sidebar_plan(row: dict[str, Any], scope: Scope, *, path: str) -> SidebarPlan:
    url = reverse("dashboard:plan", args=[row["id"]])
    css = "ring--red" if row["needs_you"] else "ring--amber" if row["paused"] else ""
    name = f"{row['ref']} {row['title']}".strip()
    return SidebarPlan(url + scope.query, url == path, name, row["met"], row["total"], css)


def sidebar_entry(
    place: Place, scope: Scope, numbers: dict[str, Any], *, current: str
) -> SidebarEntry:
    return SidebarEntry(
        place=place,
        url=reverse(f"dashboard:{place.name}") + scope.query,
        current=place.name == current,
        count=numbers.get(place.name, 0),
    )
