"""Query agents with their check-ins, waiting instructions, tasks and breakers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import (
    Count,
    Exists,
    F,
    Min,
    OuterRef,
    QuerySet,
    Subquery,
    Window,
)
from django.urls import reverse

from dashboard.agents.fleet import MOST_COUNTED, Run
from dashboard.agents.presence import SilentAgents, TrippedAgents
from dashboard.compiled_queries import compiled
from dashboard.shared_queries import (
    CountOf,
    of_project,
    ref_and_title_of,
    tripped_agents,
)
from ledger import sql
from ledger.agents import find_silent
from ledger.models import Agent, Attempt, Instruction, Project, Task, Token
from ledger.states import BlockedReason, InstructionState, TaskState

COUNTED = 1000  # counts of one agent stop here
SAME_NAME = 20  # agents of one name in several projects
TOKENS_SHOWN = 20
PROBLEMS_SHOWN = 3  # agents of one kind

QUEUE = Instruction.objects.filter(agent=OuterRef("pk"), state=InstructionState.QUEUED).order_by()
UNANSWERED = Instruction.objects.filter(
    agent=OuterRef("pk"), state=InstructionState.DELIVERED, tracked=True
).order_by()

TASKS = Task.objects.filter(agent=OuterRef("pk")).order_by()
HELD = TASKS.filter(state=TaskState.BLOCKED, blocked_reason=BlockedReason.BREAKER_OPEN)
LIVE = Attempt.objects.filter(agent=OuterRef("pk"), outcome=None).order_by()
PROBE = Attempt.objects.filter(pk=OuterRef("breaker__probe_attempt"))
PROBE_FIELDS: dict[str, Any] = {
    "probe_task": Subquery(PROBE.values("task")),
    "probe_title": Subquery(PROBE.values(title=ref_and_title_of("task__"))),
    "probe_since": Subquery(PROBE.values("started_at")),
    "probe_ended": Exists(PROBE.filter(outcome__isnull=False)),
}


# ---- the list


@compiled
def list_agents(project: Project | None, now: datetime) -> QuerySet[Any]:
    """Return all agents with their breakers and what waits for each, as the table needs them."""
    rows: QuerySet[Any] = of_project(Agent.objects.all(), project)
    annotated: QuerySet[Any] = rows.select_related("project", "breaker").annotate(
        silent=Exists(find_silent(now).filter(pk=OuterRef("pk"))),
        queued=CountOf(QUEUE.values("pk")[:MOST_COUNTED]),
        tasks_queued=CountOf(TASKS.filter(state=TaskState.QUEUED).values("pk")[:MOST_COUNTED]),
        tasks_retry=CountOf(TASKS.filter(state=TaskState.RETRY).values("pk")[:MOST_COUNTED]),
        tasks_held=CountOf(HELD.values("pk")[:MOST_COUNTED]),
        **PROBE_FIELDS,
    )
    return annotated.defer("system_text").order_by("name", "id")


# one row for each agent that has a running attempt
RUNNING = f"""select agent.id as agent_id, newest.task_id, t.ref, t.title, t.type, counted.n
from unnest(%(ids)s::uuid[]) agent(id)
cross join lateral (
    select a.task_id from ledger_attempt a where a.agent_id = agent.id and a.outcome is null
    order by a.id desc limit 1
) newest
cross join lateral (
    select count(*) as n from (select 1 from ledger_attempt a
        where a.agent_id = agent.id and a.outcome is null limit {MOST_COUNTED}) c
) counted
join ledger_task t on t.id = newest.task_id"""


def read_runs(agents: Sequence[Any]) -> dict[UUID, Run]:
    """Return what each of these agents is running."""
    rows = sql.run(RUNNING, ids=[agent.pk for agent in agents])
    return {
        row["agent_id"]: Run(
            row["task_id"],
            " ".join(part for part in (row["ref"], row["title"] or row["type"]) if part),
            row["n"],
        )
        for row in rows
    }


def annotate_agents(rows: QuerySet[Any], *, now: datetime) -> QuerySet[Any]:
    """Add presence, counts and the breaker's probe, each read for the selected rows alone."""
    oldest = QUEUE.values("agent").annotate(at=Min("queued_at")).values("at")
    annotated: QuerySet[Any] = rows.select_related("project", "breaker").annotate(
        silent=Exists(find_silent(now).filter(pk=OuterRef("pk"))),
        queued=CountOf(QUEUE.values("pk")[:COUNTED]),
        unanswered=CountOf(UNANSWERED.values("pk")[:COUNTED]),
        waiting_since=Subquery(oldest),
        tasks_running=CountOf(LIVE.values("pk")[:COUNTED]),
        tasks_queued=CountOf(TASKS.filter(state=TaskState.QUEUED).values("pk")[:COUNTED]),
        tasks_retry=CountOf(TASKS.filter(state=TaskState.RETRY).values("pk")[:COUNTED]),
        tasks_held=CountOf(HELD.values("pk")[:COUNTED]),
        **PROBE_FIELDS,
    )
    return annotated


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


# ---- one agent


def find_agent(agent_id: UUID, *, now: datetime) -> Any:
    """Return an agent with its annotations, or None."""
    return next(iter(fetch_agents(agent_id, now)), None)


@compiled
def fetch_agents(id: UUID, now: datetime) -> QuerySet[Any]:
    return annotate_agents(Agent.objects.filter(pk=id), now=now)


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
    agents = list(rows.order_by("id").values_list("pk", "name")[:SAME_NAME])
    agents = [each for each in agents if each[1] == name] or agents
    if len(agents) > 1:
        return f"{reverse('dashboard:agents')}?{urlencode({'q': name})}"
    return reverse("dashboard:agent", args=[agents[0][0]]) if agents else ""
