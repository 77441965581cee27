"""Query agents with their check-ins, waiting instructions, tasks and breakers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
    Window,
)
from django.db.models import Value as V
from django.urls import reverse

from dashboard.agents.presence import SilentAgents, TrippedAgents
from dashboard.compiled_queries import compiled
from dashboard.shared_queries import (
    TRIPPED,
    WINDOW,
    CountOf,
    of_project,
    ref_and_title_of,
    silent_agents,
    tripped_agents,
)
from dashboard.sparklines import Bars, bars
from ledger import sql
from ledger.agents import find_silent
from ledger.instruction_stats import SENT, window_params
from ledger.models import Agent, Attempt, Instruction, Project, Task, Token
from ledger.optional_cache import get_or_compute_slow
from ledger.states import BlockedReason, BreakerState, InstructionState, TaskState

PAGE = 20
COUNTED = 1000  # counts stop here
HOURS = 24
TOKENS_SHOWN = 20
PROBLEMS_SHOWN = 3  # agents of one kind

FILTERS = ("all", "silent", "tripped", "paused", "waiting")

QUEUE = Instruction.objects.filter(agent=OuterRef("pk"), state=InstructionState.QUEUED).order_by()
UNANSWERED = Instruction.objects.filter(
    agent=OuterRef("pk"), state=InstructionState.DELIVERED, tracked=True
).order_by()
HAS_WAITING = Exists(QUEUE) | Exists(UNANSWERED)

TASKS = Task.objects.filter(agent=OuterRef("pk")).order_by()
HELD = TASKS.filter(state=TaskState.BLOCKED, blocked_reason=BlockedReason.BREAKER_OPEN)
LIVE = Attempt.objects.filter(agent=OuterRef("pk"), outcome=None).order_by()
PROBE = Attempt.objects.filter(pk=OuterRef("breaker__probe_attempt"))

# the order of the list: tripped agents, silent ones, all others
RANK = Case(When(TRIPPED, then=V(0)), When(silent=True, then=V(1)), default=V(2))


# ---- the list


@dataclass(frozen=True, slots=True)
class AgentPage:
    """A page of the list, and the ids that continue it in either direction."""

    agents: list[Any]
    before: UUID | None
    after: UUID | None


def filter_agents(
    project: Project | None, *, now: datetime, show: str = "all", name: str = ""
) -> QuerySet[Any]:
    """Return the agents that match a filter and have a text in their name."""
    agents = find_silent(now) if show == "silent" else Agent.objects.all()
    rows = of_project(agents, project)
    if show == "paused":
        rows = rows.filter(paused=True)
    elif show == "tripped":
        rows = rows.filter(TRIPPED)
    elif show == "waiting":
        rows = rows.filter(HAS_WAITING)
    if name:
        rows = rows.filter(name__icontains=name)
    return annotate_agents(rows, now=now)


def annotate_agents(rows: QuerySet[Any], *, now: datetime) -> QuerySet[Any]:
    """Add presence, counts and the breaker's probe, each read for the selected rows alone."""
    oldest = QUEUE.values("agent").annotate(at=Min("queued_at")).values("at")
    annotated: QuerySet[Any] = rows.select_related("project", "breaker").annotate(
        silent=Exists(find_silent(now).filter(pk=OuterRef("pk"))),
        rank=RANK,
        queued=CountOf(QUEUE.values("pk")[:COUNTED]),
        unanswered=CountOf(UNANSWERED.values("pk")[:COUNTED]),
        waiting_since=Subquery(oldest),
        tasks_running=CountOf(LIVE.values("pk")[:COUNTED]),
        tasks_queued=CountOf(TASKS.filter(state=TaskState.QUEUED).values("pk")[:COUNTED]),
        tasks_retry=CountOf(TASKS.filter(state=TaskState.RETRY).values("pk")[:COUNTED]),
        tasks_held=CountOf(HELD.values("pk")[:COUNTED]),
        probe_task=Subquery(PROBE.values("task")),
        probe_title=Subquery(PROBE.values(title=ref_and_title_of("task__"))),
        probe_since=Subquery(PROBE.values("started_at")),
        probe_ended=Exists(PROBE.filter(outcome__isnull=False)),
    )
    return annotated


def read_page(
    project: Project | None,
    *,
    now: datetime,
    show: str = "all",
    name: str = "",
    before: UUID | None,
    after: UUID | None,
) -> AgentPage:
    """Return the agents before or after one: tripped, then silent, then others, each by name."""

    def read_rows(cursor: Any, *, backwards: bool) -> list[Any]:
        place = (cursor.rank, cursor.name) if cursor else None
        return fetch_rows(project, now, show, name, cursor, place, backwards)

    cursor = None
    if before or after:
        rows = filter_agents(project, now=now, show=show, name=name)
        cursor = rows.filter(pk=before or after).first()
    backwards = cursor is not None and before is not None
    agents = read_rows(cursor, backwards=backwards)
    # a first page that is not full would move the page boundaries, so start at the top again
    if backwards and len(agents) <= PAGE:
        cursor, backwards, agents = None, False, read_rows(None, backwards=False)
    has_more, agents = len(agents) > PAGE, agents[:PAGE]
    if not agents:
        return AgentPage([], None, None)
    if backwards:
        agents.reverse()
    return AgentPage(
        agents,
        before=agents[0].pk if (has_more if backwards else cursor) else None,
        after=agents[-1].pk if backwards or has_more else None,
    )


@compiled
def fetch_rows(
    project: Project | None,
    now: datetime,
    show: str,
    name: str,
    cursor: Agent | None,
    place: tuple[int, str] | None,
    backwards: bool,
) -> QuerySet[Any]:
    """Return the rows next to the cursor, at its rank and name, one more than a page holds."""
    rows = filter_agents(project, now=now, show=show, name=name)
    if cursor is not None and place is not None:
        rows = rows.filter(past_cursor(cursor.pk, *place, backwards=backwards))
    order = ("-rank", "-name", "-id") if backwards else ("rank", "name", "id")
    return rows.order_by(*order)[: PAGE + 1]


def past_cursor(id: UUID, rank: int, name: str, *, backwards: bool) -> Q:
    """Return the condition for the rows on one side of an agent, in the order of the list."""
    side = "lt" if backwards else "gt"
    by_name = Q(**{f"name__{side}": name})
    by_id = Q(**{"name": name, f"id__{side}": id})
    return Q(**{f"rank__{side}": rank}) | Q(rank=rank) & (by_name | by_id)


@dataclass(frozen=True, slots=True)
class AgentCounts:
    """The number of agents that match each filter."""

    all: int
    silent: int
    open: int
    half_open: int
    paused: int
    waiting: int

    @property
    def tripped(self) -> int:
        return self.open + self.half_open


def count_agents(project: Project | None) -> AgentCounts:
    def count() -> AgentCounts:
        rows = of_project(Agent.objects.all(), project)
        found = rows.aggregate(
            all=Count("pk"),
            open=Count("pk", filter=Q(breaker__state=BreakerState.OPEN)),
            half_open=Count("pk", filter=Q(breaker__state=BreakerState.HALF_OPEN)),
            paused=Count("pk", filter=Q(paused=True)),
            waiting=Count("pk", filter=Q(HAS_WAITING)),
        )
        return AgentCounts(silent=silent_agents(project).count(), **found)

    return get_or_compute_slow(f"agent_counts:{project.id if project else 'all'}", count)


def list_silent_agents(project: Project | None, *, now: datetime) -> SilentAgents:
    """Return the agents that have been silent longest, with `waiting`, and how many more are."""
    agents = fetch_silent_agents(project, now)
    return SilentAgents(agents, agents[0].total - len(agents) if agents else 0)


@compiled
def fetch_silent_agents(project: Project | None, now: datetime) -> QuerySet[Any]:
    rows: QuerySet[Any] = of_project(find_silent(now), project).annotate(
        waiting=CountOf(QUEUE.values("pk")), total=Window(Count("*"))
    )
    return rows.order_by(F("last_seen_at").asc(nulls_first=True), "name")[:PROBLEMS_SHOWN]


def list_tripped_agents(project: Project | None) -> TrippedAgents:
    """Return the agents tripped last, with `tasks_held`, and how many more there are."""
    agents = fetch_tripped_agents(project)
    return TrippedAgents(agents, agents[0].total - len(agents) if agents else 0)


@compiled
def fetch_tripped_agents(project: Project | None) -> QuerySet[Any]:
    rows: QuerySet[Any] = tripped_agents(project).select_related("breaker")
    rows = rows.annotate(tasks_held=CountOf(HELD.values("pk")[:COUNTED]), total=Window(Count("*")))
    return rows.order_by("-breaker__opened_at", "name")[:PROBLEMS_SHOWN]


# ---- instructions per hour


@dataclass(frozen=True, slots=True)
class HourlyActivity:
    """The instructions sent to an agent in each of the last 24 hours; ignored ones are red."""

    sent: int
    bars: Bars


BARS_TALL = 22
NO_ACTIVITY = HourlyActivity(0, bars((), (), tall=BARS_TALL))
HOURLY_ACTIVITY = f"""select i.agent_id, least({HOURS - 1},
        floor(extract(epoch from i.queued_at - %(since)s) / 3600))::int as hour,
    count(*) as sent, count(*) filter (where i.state = '{InstructionState.FAILED}') as failed
{SENT} group by 1, 2"""


def read_hourly_activity(project: Project | None, *, now: datetime) -> dict[UUID, HourlyActivity]:
    """Return the last 24 hours of each agent that got an instruction in them, oldest first."""

    def read() -> dict[UUID, HourlyActivity]:
        counts: dict[UUID, tuple[list[int], list[int]]] = {}
        project_id = project.id if project else None
        rows = sql.run_custom_plan(
            HOURLY_ACTIVITY, project=project_id, **window_params(now - WINDOW)
        )
        for row in rows:
            sent, failed = counts.setdefault(row["agent_id"], ([0] * HOURS, [0] * HOURS))
            sent[row["hour"]], failed[row["hour"]] = row["sent"], row["failed"]
        return {
            id: HourlyActivity(sum(sent), bars(sent, failed, tall=BARS_TALL))
            for id, (sent, failed) in counts.items()
        }

    return get_or_compute_slow(f"hourly:{project.id if project else 'all'}", read)


# ---- one agent


def find_agent(agent_id: UUID, *, now: datetime) -> Any:
    """Return an agent with its annotations, or None."""
    return next(iter(fetch_agents((agent_id,), None, now)), None)


@compiled
def fetch_agents(ids: tuple[UUID, ...], project: Project | None, now: datetime) -> QuerySet[Any]:
    """Return these agents, of a project or all, with their annotations."""
    rows = of_project(Agent.objects.filter(pk__in=ids), project)
    return annotate_agents(rows, now=now)


@compiled
def list_tokens(agent: Agent) -> QuerySet[Token]:
    """Return an agent's tokens without their digests, valid ones first."""
    rows = Token.objects.filter(agent=agent).defer("digest")
    return rows.order_by("-revoked_at", "-id")[:TOKENS_SHOWN]


def find_url(name: str, project: Project | None) -> str:
    """Return the URL of the agent with this name, or an empty string.

    Case counts only if two names differ in nothing else. If several projects have such an agent,
    the URL is that of their list.
    """
    rows = of_project(Agent.objects.filter(name__iexact=name), project)
    agents = list(rows.values_list("pk", "name")[: PAGE + 1])
    agents = [each for each in agents if each[1] == name] or agents
    if len(agents) > 1:
        return f"{reverse('dashboard:agents')}?{urlencode({'name': name})}"
    return reverse("dashboard:agent", args=[agents[0][0]]) if agents else ""
