"""Build the frame of every page: the sidebar with its counters, the project, the user."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, cast
from urllib.parse import urlencode

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, QueryDict
from django.urls import reverse

from dashboard.frame.access import may_open
from dashboard.lists import shared_queries
from dashboard.lists.compiled_queries import compiled
from dashboard.wording.formatting import capped, initials
from ledger.database import server_time
from ledger.models import Project


@dataclass(frozen=True, slots=True)
class Counter:
    """The number beside a place in the sidebar."""

    of: Callable[[Project | None, datetime], QuerySet[Any]]
    label: str  # for screen readers
    title: str
    css: str = "warn"
    icon: str = ""
    has_word: bool = False  # the label is shown beside the number


@dataclass(frozen=True, slots=True)
class Place:
    """A page that the sidebar, the tab bar and the keys G … open."""

    name: str  # the name of its URL pattern
    label: str
    icon: str
    key: str
    counter: Counter | None = None
    in_tabs: bool = True


OPEN = Counter(shared_queries.open_escalations, "open", "need an answer", "alert")
WAITING = Counter(
    lambda project, _: shared_queries.waiting_instructions(project),
    "waiting",
    "waiting for an acknowledgment",
)
TRIPPED = Counter(
    lambda project, _: shared_queries.tripped_agents(project),
    "breakers not closed",
    "with a breaker that is open or half open",
    "open",
    "c-open",
)
RUNNING = Counter(
    lambda project, _: shared_queries.running_tasks(project),
    "running",
    "running",
    "plain",
    has_word=True,
)
AT_LIMIT = Counter(
    lambda project, now: shared_queries.accounts_at_limit(project, now),
    "used up",
    "at the limit of their account",
    has_word=True,
)
DEAD = Counter(lambda project, _: shared_queries.open_deadletters(project), "open", "open", "plain")

# Each page counts for the sidebar; 10,000 rows take as long as everything else that it reads.
MOST_COUNTED = 1_000

# the sidebar's groups
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
        Place("agents", "Agents", "n-agents", "a", TRIPPED, in_tabs=False),
        Place("sessions", "Sessions", "n-sessions", "c", in_tabs=False),
        Place("activity", "Activity", "n-activity", "l", in_tabs=False),
        Place("limits", "Limits", "clock", "m", AT_LIMIT, in_tabs=False),
        Place("insight", "Insight", "n-insight", "n", in_tabs=False),
        Place("settings", "Settings", "n-settings", "s", in_tabs=False),
    ),
)


def querystring(context: Mapping[str, Any], params: QueryDict | None = None, **changes: Any) -> str:
    # Django's tag of this name copies the parameters deeply. A list of agents has hundreds of such
    # links.
    given: QueryDict = context["request"].GET if params is None else params
    changed = dict(given.lists()) | changes
    kept = {name: value for name, value in changed.items() if value is not None}
    return f"?{urlencode(kept, doseq=True)}" if kept or given else ""


@dataclass(frozen=True)
class Scope:
    """The project that a page shows, or all projects.

    `projects` are those to choose from, the shown one always among them; a person who is not
    limited may have more. `find_named` finds any of them.
    """

    project: Project | None
    projects: list[Project]
    is_limited: bool = False  # one project at a time, because the person has no access to others

    @property
    def label(self) -> str:
        if self.project:
            return self.project.name
        return self.projects[0].name if len(self.projects) == 1 else "all projects"

    @property
    def is_choice(self) -> bool:
        return len(self.projects) > 1

    @property
    def only(self) -> Project | None:
        """The project that is shown, or the only one; None if the person has to choose."""
        return self.project or (self.projects[0] if len(self.projects) == 1 else None)

    @property
    def first(self) -> Project:
        """The project that is shown, or else the first one; raises Http404 without any."""
        found = self.project or next(iter(self.projects), None)
        if found is None:
            raise Http404("No project exists. Add one in the admin, under Projects.")
        return found

    def find_named(self, name: str) -> Project | None:
        """Return the person's project with this name, also one that no list offers."""
        offered = next((each for each in self.projects if each.name == name), None)
        if offered or self.is_limited or not name:
            return offered
        # The lists offer only the first projects.
        return shared_queries.find_project(name)

    @cached_property
    def query(self) -> str:
        return f"?{self.params.urlencode()}" if self.params else ""

    @cached_property
    def params(self) -> QueryDict:
        return self.params_of(self.project.name if self.project else "")

    def params_of(self, project: str) -> QueryDict:
        return QueryDict(urlencode({"project": project}) if project and self.is_choice else "")


@dataclass(frozen=True, slots=True)
class SidebarEntry:
    """A place in the sidebar."""

    place: Place
    url: str
    current: bool
    count: int

    @property
    def number(self) -> str:
        return capped(self.count, MOST_COUNTED)


@dataclass(frozen=True, slots=True)
class SidebarPlan:
    """An active plan in the sidebar; its ring shows the progress, in red if it needs an answer."""

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
    """The frame around every page: the sidebar, the project and the user."""

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
    def needs_you_number(self) -> str:
        return capped(self.needs_you, MOST_COUNTED)

    @property
    def needs_you(self) -> int:
        counts = (entry.count for entry in self.entries if entry.place.counter is OPEN)
        return next(counts, 0)


def read_scope(request: HttpRequest) -> Scope:
    """Return the request's scope; raise Http404 for an unknown project."""
    person: Any = request.user
    if person.page_projects is not None:
        return Scope(person.page_project, person.page_projects, is_limited=True)
    known = getattr(person, "first_projects", None) or shared_queries.list_projects()
    name = request.GET.get("project", "")
    named = next((each for each in known if each.name == name), None) or requested_project(request)
    if named is None and len(known) == 1:
        return Scope(known[0], known)
    # only the first projects are known
    return Scope(named, known if named is None or named in known else [*known, named])


def requested_project(request: HttpRequest) -> Project | None:
    """Return the project in the address, or None for all projects; raise Http404 if unknown."""
    person: Any = request.user
    # A person who may not see every project always looks at one of theirs.
    if person.page_projects is not None:
        return cast(Project, person.page_project)
    name = request.GET.get("project", "")
    if not name:
        return None
    project = shared_queries.find_project(name)
    if project is None:
        raise Http404(f"There is no project “{name[:64]}”.")
    return project


def here_of(request: HttpRequest) -> QueryDict:
    # A poll adds its own parameters.
    here = request.GET.copy()
    for name in ("since", "held"):
        here.pop(name, None)
    return here


def build_shell(request: HttpRequest, scope: Scope, *, current: str) -> Shell:
    numbers = next(iter(read_counts(scope.project, server_time.now())), {})
    rows = numbers.get("under_way", []) if may_open(request.user, "plan") else []
    plans = [sidebar_plan(row, scope, path=request.path) for row in rows]
    if any(plan.current for plan in plans):
        current = ""
    groups = [
        [
            sidebar_entry(place, scope, numbers, current=current)
            for place in group
            if may_open(request.user, place.name)
        ]
        for group in PLACES
    ]
    name = request.user.get_username()
    return Shell(groups, plans, scope, here_of(request), name, initials(name))


@compiled
def read_counts(project: Project | None, now: datetime) -> QuerySet[Any, dict[str, Any]]:
    # One statement reads all counters and the active plans.
    wanted: dict[str, Any] = {
        place.name: shared_queries.CountOf(
            place.counter.of(project, now).order_by().values("pk")[:MOST_COUNTED]
        )
        for group in PLACES
        for place in group
        if place.counter
    }
    wanted["under_way"] = ArraySubquery(shared_queries.plans_under_way(project))
    rows: QuerySet[Any, dict[str, Any]] = (
        Project.objects.order_by().annotate(**wanted).values(*wanted)
    )
    return rows[:1]


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
