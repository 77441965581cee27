"""What the pages about agents ask the database: who asks, who may work, what waits for whom."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import (
    Count,
    Exists,
    F,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Window,
)

from dashboard.agents.presence import SilentAgents
from dashboard.shared_queries import (
    WINDOW,
    CountOf,
    of_project,
    ref_and_title_of,
    silent_agents,
)
from dashboard.sparklines import Bars, bars
from ledger import sql
from ledger.agents import find_silent
from ledger.instruction_stats import SENT, sent_since
from ledger.models import (
    Agent,
    Attempt,
    Instruction,
    Project,
    Task,
    Token,
)
from ledger.optional_cache import figure
from ledger.states import BlockedReason, BreakerState, InstructionState, TaskState

PAGE = 20
COUNTED = 1000  # nobody counts further than that
HOURS = 24
TOKENS_SHOWN = 20

SHOWN = ("all", "silent", "tripped", "paused", "waiting")

QUEUE = Instruction.objects.filter(agent=OuterRef("pk"), state=InstructionState.QUEUED).order_by()
UNHEARD = Instruction.objects.filter(
    agent=OuterRef("pk"), state=InstructionState.DELIVERED, tracked=True
).order_by()
HAS_WAITING = Exists(QUEUE) | Exists(UNHEARD)

TRIPPED = Q(breaker__state__in=[BreakerState.OPEN, BreakerState.HALF_OPEN])
TASKS = Task.objects.filter(agent=OuterRef("pk")).order_by()
HELD = TASKS.filter(state=TaskState.BLOCKED, blocked_reason=BlockedReason.BREAKER_OPEN)
LIVE = Attempt.objects.filter(agent=OuterRef("pk"), outcome=None).order_by()
PROBE = Attempt.objects.filter(pk=OuterRef("breaker__probe_attempt"))


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch of the list, and whether there is more on either side."""

    agents: list[Any]
    before: UUID | None  # the place that the page before this one ends at
    after: UUID | None


def agents(
    project: Project | None, *, now: datetime, show: str = "all", name: str = ""
) -> QuerySet[Any]:
    """Agents with what a line of the list shows of them."""
    rows = silent_agents(project) if show == "silent" else of_project(Agent.objects.all(), project)
    if show == "paused":
        rows = rows.filter(paused=True)
    elif show == "tripped":
        rows = rows.filter(TRIPPED)
    elif show == "waiting":
        rows = rows.filter(HAS_WAITING)
    if name:
        rows = rows.filter(name__icontains=name)
    return with_extras(rows, now=now)


def with_extras(rows: QuerySet[Any], *, now: datetime) -> QuerySet[Any]:
    """What a line shows beside the row's own columns, looked up for the page's rows alone."""
    oldest = QUEUE.values("agent").annotate(at=Min("queued_at")).values("at")
    found: QuerySet[Any] = rows.select_related("project", "breaker").annotate(
        silent=Exists(find_silent(now).filter(pk=OuterRef("pk"))),
        queued=CountOf(QUEUE.values("pk")[:COUNTED]),
        unheard=CountOf(UNHEARD.values("pk")[:COUNTED]),
        waits_since=Subquery(oldest),
        tasks_running=CountOf(LIVE.values("pk")[:COUNTED]),
        tasks_queued=CountOf(TASKS.filter(state=TaskState.QUEUED).values("pk")[:COUNTED]),
        tasks_retry=CountOf(TASKS.filter(state=TaskState.RETRY).values("pk")[:COUNTED]),
        tasks_held=CountOf(HELD.values("pk")[:COUNTED]),
        probe_task=Subquery(PROBE.values("task")),
        probe_title=Subquery(PROBE.values(title=ref_and_title_of("task__"))),
        probe_since=Subquery(PROBE.values("started_at")),
        probe_ended=Exists(PROBE.filter(outcome__isnull=False)),
    )
    return found


def page(rows: QuerySet[Any], *, before: UUID | None, after: UUID | None) -> Page:
    """The agents next to a place: silent ones first, then by name."""
    place = rows.filter(pk=before or after).first() if before or after else None
    backwards = place is not None and before is not None
    found = stretch(rows, place, backwards=backwards)
    if backwards and len(found) <= PAGE:  # less than a whole page is before: that is the first page
        place, backwards, found = None, False, stretch(rows, None, backwards=False)
    more, found = len(found) > PAGE, found[:PAGE]
    if not found:
        return Page([], None, None)
    if backwards:
        found.reverse()
    return Page(
        found,
        before=found[0].pk if (more if backwards else place) else None,
        after=found[-1].pk if backwards or more else None,
    )


def stretch(rows: QuerySet[Any], place: Any, *, backwards: bool) -> list[Any]:
    """One more than a page holds, away from the place."""
    if place is not None:
        rows = rows.filter(beyond(place, backwards=backwards))
    order = ("silent", "-name", "-id") if backwards else ("-silent", "name", "id")
    return list(rows.order_by(*order)[: PAGE + 1])


def beyond(place: Any, *, backwards: bool) -> Q:
    """The rows on one side of an agent, in the order of the list."""
    side = "lt" if backwards else "gt"
    same = Q(silent=place.silent)
    later = same & (
        Q(**{f"name__{side}": place.name}) | Q(**{"name": place.name, f"id__{side}": place.pk})
    )
    if place.silent != backwards:  # the others come on this side of all of its kind
        later |= Q(silent=backwards)
    return later


@dataclass(frozen=True, slots=True)
class Counts:
    """How many agents there are of each sort."""

    all: int
    silent: int
    open: int
    half_open: int
    paused: int
    waiting: int

    @property
    def tripped(self) -> int:
        return self.open + self.half_open


def counts(project: Project | None) -> Counts:
    def count() -> Counts:
        rows = of_project(Agent.objects.all(), project)
        found = rows.aggregate(
            all=Count("pk"),
            open=Count("pk", filter=Q(breaker__state=BreakerState.OPEN)),
            half_open=Count("pk", filter=Q(breaker__state=BreakerState.HALF_OPEN)),
            paused=Count("pk", filter=Q(paused=True)),
            waiting=Count("pk", filter=Q(HAS_WAITING)),
        )
        return Counts(silent=silent_agents(project).count(), **found)

    return figure(f"agents:{project.id if project else 'all'}", count)


# ---- how busy they were


@dataclass(frozen=True, slots=True)
class Hours:
    """What was sent to an agent in each of the last 24 hours, red where it was given up."""

    sent: int
    bars: Bars


BARS_TALL = 22
NO_HOURS = Hours(0, bars((), (), tall=BARS_TALL))
RHYTHM = f"""select i.agent_id, least({HOURS - 1},
        floor(extract(epoch from i.queued_at - %(since)s) / 3600))::int as hour,
    count(*) as sent, count(*) filter (where i.state = '{InstructionState.FAILED}') as failed
{SENT} group by 1, 2"""


def rhythm(project: Project | None, *, now: datetime) -> dict[UUID, Hours]:
    """Each agent's last 24 hours, oldest first."""

    def read() -> dict[UUID, Hours]:
        since = now - WINDOW
        found: dict[UUID, tuple[list[int], list[int]]] = {}
        rows = sql.planned(RHYTHM, project=id_of(project), **sent_since(since))
        for row in rows:
            sent, failed = found.setdefault(row["agent_id"], ([0] * HOURS, [0] * HOURS))
            sent[row["hour"]], failed[row["hour"]] = row["sent"], row["failed"]
        return {
            id: Hours(sum(sent), bars(sent, failed, tall=BARS_TALL))
            for id, (sent, failed) in found.items()
        }

    return figure(f"rhythm:{project.id if project else 'all'}", read)


def id_of(project: Project | None) -> UUID | None:
    return project.id if project else None


# ---- one


def one(agent_id: UUID, *, now: datetime) -> Any:
    """One agent with its extras, or None."""
    return with_extras(Agent.objects.filter(pk=agent_id), now=now).first()


def tokens(agent: Agent) -> list[Token]:
    """Its tokens, those that still work first; never a digest."""
    rows = Token.objects.filter(agent=agent).defer("digest")
    return list(rows.order_by("-revoked_at", "-id")[:TOKENS_SHOWN])


def exists(agent_id: UUID) -> bool:
    return Agent.objects.filter(pk=agent_id).exists()


SILENT_SHOWN = 3


def list_silent_agents(project: Project | None, *, now: datetime) -> SilentAgents:
    queue = Instruction.objects.filter(agent=OuterRef("pk"), state=InstructionState.QUEUED).values(
        "pk"
    )
    found = list(
        of_project(find_silent(now), project)
        .annotate(waiting=CountOf(queue), of=Window(Count("*")))
        .order_by(F("last_seen_at").asc(nulls_first=True), "name")[:SILENT_SHOWN]
    )
    return SilentAgents(found, found[0].of - len(found) if found else 0)
