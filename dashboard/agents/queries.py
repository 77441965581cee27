"""Query agents with their check-ins, waiting instructions, tasks and breakers."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, Exists, F, Min, OuterRef, QuerySet, Subquery, When
from django.db.models.functions import JSONObject
from django.urls import reverse

from dashboard.agents.account_limits import WINDOW_COLUMNS, AccountLimit
from dashboard.agents.fleet import MOST_COUNTED, Run
from dashboard.agents.presence import COUNTED, SilentAgents, TrippedAgents
from dashboard.charts.targets import TargetRow, read_figures
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.query_box import quote_words
from dashboard.lists.shared_queries import (
    CountOf,
    figure_of,
    of_project,
    ref_and_title_of,
    tripped_agents,
)
from ledger.agents import find_silent
from ledger.database import sql
from ledger.models import AccountWindow, Agent, Attempt, Instruction, Project, Task, Token
from ledger.states import BlockedReason, BreakerState, InstructionState, TaskState

SAME_NAME = 20  # agents of one name in several projects
TOKENS_SHOWN = 20
MOST_PROOFS = 500  # of the newest done tasks

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
    """Return all agents with their breakers and waiting rows, as the table needs them."""
    rows: QuerySet[Any] = of_project(Agent.objects.workers(), project)
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


def list_silent_agents(
    project: Project | None, *, now: datetime, with_instructions: bool = False
) -> SilentAgents:
    """Return the agents that have been silent longest, or those that instructions wait for."""
    agents = fetch_silent_agents(project, now)
    return SilentAgents([agent for agent in agents if agent.instructions or not with_instructions])


@compiled
def fetch_silent_agents(project: Project | None, now: datetime) -> QuerySet[Any]:
    rows: QuerySet[Any] = of_project(find_silent(now), project).annotate(
        instructions=CountOf(QUEUE.values("pk")[:COUNTED]),
        tasks_queued=CountOf(TASKS.filter(state=TaskState.QUEUED).values("pk")[:COUNTED]),
        tasks_retry=CountOf(TASKS.filter(state=TaskState.RETRY).values("pk")[:COUNTED]),
    )
    return rows.defer("system_text").order_by(F("last_seen_at").asc(nulls_first=True), "name")


def list_tripped_agents(project: Project | None) -> TrippedAgents:
    """Return the agents tripped last, those whose breaker is open first."""
    return TrippedAgents(list(fetch_tripped_agents(project)))


@compiled
def fetch_tripped_agents(project: Project | None) -> QuerySet[Any]:
    rows: QuerySet[Any] = tripped_agents(project).select_related("breaker")
    rows = rows.annotate(
        tasks_held=CountOf(HELD.values("pk")[:COUNTED]), probe_ended=PROBE_FIELDS["probe_ended"]
    )
    open_first = Case(When(breaker__state=BreakerState.OPEN, then=0), default=1)
    return rows.defer("system_text").order_by(open_first, "-breaker__opened_at", "name")


# ---- one agent


def find_agent(agent_id: UUID, *, now: datetime) -> Any:
    return next(iter(fetch_agents(agent_id, now)), None)


@compiled
def fetch_agents(id: UUID, now: datetime) -> QuerySet[Any]:
    tokens = Token.objects.filter(agent=OuterRef("pk")).order_by("-revoked_at", "-id")
    done = TASKS.filter(state=TaskState.DONE).order_by("-id")
    windows = AccountWindow.objects.filter(
        project=OuterRef("project"), account=OuterRef("account_key")
    ).order_by("window")
    sharing = Agent.objects.of_account(OuterRef("account_key")).filter(project=OuterRef("project"))
    agents = annotate_agents(Agent.objects.filter(pk=id).with_account_key(), now=now)
    found: QuerySet[Any] = agents.annotate(
        token_lines=ArraySubquery(
            tokens.values(line=JSONObject(**{name: name for name in TOKEN_COLUMNS}))[:TOKENS_SHOWN]
        ),
        target_figure=figure_of("targets", "$.rows[*]"),
        task_target_figure=figure_of("task_targets", "$.rows[*]"),
        time_figure=figure_of("times", "$.agent.rows[*]"),
        window_lines=ArraySubquery(
            windows.values(line=JSONObject(**{name: name for name in WINDOW_COLUMNS}))
        ),
        account_agents=CountOf(sharing.order_by().values("pk")),
        newest_proofs=ArraySubquery(done.values("proof")[:MOST_PROOFS]),
    )
    return found


@dataclass(frozen=True, slots=True)
class AgentToken:
    """A token of the agent, without its digest."""

    prefix: str
    name: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


TOKEN_COLUMNS = tuple(each.name for each in fields(AgentToken))


def list_tokens(agent: Any) -> list[AgentToken]:
    """Return the tokens of an agent that `find_agent` has read, valid ones first."""
    return [
        AgentToken(
            line["prefix"],
            line["name"],
            expires_at=parse_time(line["expires_at"]),
            revoked_at=parse_time(line["revoked_at"]),
            last_used_at=parse_time(line["last_used_at"]),
        )
        for line in agent.token_lines
    ]


def list_limits(agent: Any, *, now: datetime) -> list[AccountLimit]:
    """Return the windows of the account of an agent that `find_agent` has read."""
    return [
        AccountLimit(
            line["window"],
            line["used"],
            parse_time(line["resets_at"]),
            line["source"],
            datetime.fromisoformat(line["seen_at"]),
            line["facts"],
            now,
        )
        for line in agent.window_lines
    ]


def parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def list_targets(agent: Any) -> list[TargetRow]:
    """Return the targets of an agent that `find_agent` has read, with their error budgets."""
    return read_figures(agent.target_figure, agent.task_target_figure)


def find_url(name: str, project: Project | None) -> str:
    """Return the URL of the agent with this name, or an empty string.

    Case matters only if two names differ in nothing else. If several projects have such an agent,
    the URL is that of their list.
    """
    rows = of_project(Agent.objects.filter(name__iexact=name), project)
    agents = list(rows.order_by("id").values_list("pk", "name")[:SAME_NAME])
    agents = [each for each in agents if each[1] == name] or agents
    if len(agents) > 1:
        return f"{reverse('dashboard:agents')}?{urlencode({'q': quote_words(name)})}"
    return reverse("dashboard:agent", args=[agents[0][0]]) if agents else ""
