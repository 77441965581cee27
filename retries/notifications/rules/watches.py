"""Journal conditions that no move begins: a silent agent, a stuck plan, an account's limit."""

from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, Model, OuterRef, Q, QuerySet, Subquery

from ledger import accounts, agents, journal
from ledger.database import sql
from ledger.journal import Kind, Stamp, clock
from ledger.models import AccountWindow, Agent, Instruction, Plan, Project, Task
from ledger.moves import FINAL_STATES, need_is_met
from ledger.states import BlockedReason, InstructionState, TaskState
from ledger.values.account_windows import latest_wait
from ledger.values.timestamps import format_timestamp
from retries.models import OngoingCondition
from retries.states import EscalationState

M = TypeVar("M", bound=Model)

CLOCK = clock("conditions")
SILENT, STUCK, LIMIT = "agent_silent", "plan_stuck", "account_limit"
MOST = 500  # events of one run; the next run notes the others
MOST_COUNTED = 10_000  # instructions or tasks that wait for an agent
LIVE_STATES = sql.quoted(
    (TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRY, TaskState.ESCALATED)
)
LOCK = "select pg_advisory_xact_lock(hashtext('tenfour.conditions'))"
OPEN = f"t.replaced_by_id is null and t.state not in ({FINAL_STATES})"


def is_live(task: str) -> str:
    """Return the SQL condition that a task can start, runs, or waits for a person's answer."""
    asked = f"""(select true from retries_escalation e
                    where e.task_id = {task}.id and e.state = '{EscalationState.OPEN}')"""
    return f"""({task}.state in ({LIVE_STATES}) or {task}.state = '{TaskState.BLOCKED}'
            and ({task}.blocked_reason in (
                    '{BlockedReason.BREAKER_OPEN}', '{BlockedReason.NOT_BEFORE}')
                or {task}.blocked_reason = '{BlockedReason.REPORTED}'
                and coalesce({asked}, false)))"""


def is_waiting(task: str) -> str:
    return f"""({task}.state = '{TaskState.BLOCKED}'
            and {task}.blocked_reason = '{BlockedReason.DEPENDENCY}')"""


# The active plans whose open tasks are all halted. A task is halted if it is not live and waits for
# no others, or if a task that it waits for is halted, in its own plan or another one. A task that
# waits for a plan that is not imported yet is not halted, because the import can queue it.
# A subquery per row uses the indexes, however many tasks there are; a join might not.
STUCK_PLANS = f"""with recursive idle as materialized (
    select p.id, p.project_id from ledger_plan p
    where p.completed_at is null and p.aborted_at is null and p.paused_at is null
        and (%(of)s::uuid is null or p.project_id = %(of)s)
        and (select true from ledger_task t
            where t.plan_id = p.id and {OPEN} and {is_live("t")} limit 1) is null
), own as materialized (
    select i.id as plan_id, i.project_id, t.id from idle i cross join lateral (
        select t.id from ledger_task t where t.plan_id = i.id and {OPEN} offset 0) t
), seen (id) as (
    select id from own
    union
    select d.need_id from seen s cross join lateral (
        select d.need_id from ledger_task t join ledger_need d on d.task_id = t.id
        where t.id = s.id and {is_waiting("t")} offset 0) d
), halted (id) as (
    select s.id from seen s cross join lateral (
        select true from ledger_task t where t.id = s.id and not {need_is_met("t")}
            and not {is_live("t")} and not {is_waiting("t")} offset 0) t
    union
    select t.id from halted x cross join lateral (
        select t.id from ledger_need d join ledger_task t on t.id = d.task_id
        where d.need_id = x.id and {is_waiting("t")} offset 0) t
)
select o.plan_id as id, o.project_id from own o left join halted x on x.id = o.id
group by 1, 2 having bool_and(x.id is not null)"""


def watch_conditions(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    silent, heard = watch_silence(now, project)
    limited, freed = watch_limits(now, project)
    stuck = watch_plans(now, project)
    return {"silent": silent, "heard": heard, "stuck": stuck, "limited": limited, "freed": freed}


@transaction.atomic
def watch_silence(now: datetime, project: Project | None) -> tuple[int, int]:
    # An agent stays silent until it calls, even if nothing waits for it any more.
    silent = {
        agent: owner
        for rows in (agents.find_silent(now), find_unheard())
        for agent, owner in in_project(rows, project).values_list("pk", "project_id")
    }
    begun, ended = update_ongoing(SILENT, silent, now, project)
    for agent in Agent.objects.filter(pk__in=begun).order_by("pk"):
        note_agent(Kind.AGENT_SILENT, agent, now, count_waiting(agent.pk))
    for agent in Agent.objects.filter(pk__in=ended).order_by("pk"):
        note_agent(Kind.AGENT_HEARD, agent, now, {})
    return len(begun), len(ended)


def in_project(rows: QuerySet[M], project: Project | None) -> QuerySet[M]:
    return rows.filter(project=project) if project else rows


def find_unheard() -> QuerySet[Agent]:
    ongoing = OngoingCondition.objects.filter(condition=SILENT, subject_id=OuterRef("pk"))
    unheard = Q(last_seen_at=None) | Q(last_seen_at__lt=Subquery(ongoing.values("since")))
    return Agent.objects.filter(Exists(ongoing), unheard)


def count_waiting(agent_id: UUID) -> dict[str, Any]:
    instructions = Instruction.objects.filter(agent=agent_id, state=InstructionState.QUEUED)
    tasks = Task.objects.filter(agent=agent_id)
    found = [tasks.filter(state=state) for state in (TaskState.QUEUED, TaskState.RETRY)]
    return {
        "waiting": instructions[:MOST_COUNTED].count(),
        "tasks": sum(rows[:MOST_COUNTED].count() for rows in found),
    }


def note_agent(kind: Kind, agent: Agent, now: datetime, data: dict[str, Any]) -> None:
    journal.record(
        kind,
        subject_type="agent",
        subject_id=agent.pk,
        agent_id=agent.pk,
        project_id=agent.project_id,
        stamp=Stamp(CLOCK, now),
        data=data,
    )


@transaction.atomic
def watch_limits(now: datetime, project: Project | None) -> tuple[int, int]:
    # An account is known by its oldest window, which stays: another one may be full at first.
    full = in_project(AccountWindow.objects.at_limit(now), project)
    names = {(row.project_id, row.account) for row in full}
    windows = accounts.list_windows(names)
    limited = {min(row.pk for row in windows[name]): name for name in names}
    owners = {id: owner for id, (owner, _) in limited.items()}
    begun, ended = update_ongoing(LIMIT, owners, now, project)
    for id in begun:
        owner, account = limited[id]
        until = latest_wait((row.fact for row in windows[limited[id]]), now=now)
        data = {"name": account, "until": until and format_timestamp(until)}
        note_limit(Kind.LIMIT_REACHED, id, owner, now, data)
    for row in AccountWindow.objects.filter(pk__in=ended).order_by("pk"):
        note_limit(Kind.LIMIT_ENDED, row.pk, row.project_id, now, {"name": row.account})
    return len(begun), len(ended)


def note_limit(kind: Kind, id: UUID, project_id: UUID, now: datetime, data: dict[str, Any]) -> None:
    stamp = Stamp(CLOCK, now)
    journal.record(
        kind, subject_type="limit", subject_id=id, project_id=project_id, stamp=stamp, data=data
    )


@transaction.atomic
def watch_plans(now: datetime, project: Project | None) -> int:
    rows = sql.run(STUCK_PLANS, of=project.pk if project else None)
    begun, _ = update_ongoing(STUCK, {row["id"]: row["project_id"] for row in rows}, now, project)
    for plan in Plan.objects.filter(pk__in=begun).order_by("pk"):
        data, stamp = {"ref": plan.ref, "run": plan.run}, Stamp(CLOCK, now)
        journal.record_about("plan", plan, Kind.PLAN_STUCK, stamp=stamp, data=data)
    return len(begun)


def update_ongoing(
    condition: str, found: dict[UUID, UUID], now: datetime, project: Project | None
) -> tuple[list[UUID], list[UUID]]:
    """Store all subjects for which a condition holds; return some that begin and some that end.

    Call it in the transaction that journals them.
    """
    # Without its event, a stored condition would never be told. Of more than MOST, the next run
    # finds the others.
    sql.run(LOCK)  # two clocks may run at once
    stored = OngoingCondition.objects.filter(condition=condition)
    stored = stored.filter(project=project) if project else stored
    known = set(stored.values_list("subject_id", flat=True))
    begun, ended = sorted(found.keys() - known)[:MOST], sorted(known - found.keys())[:MOST]
    OngoingCondition.objects.filter(condition=condition, subject_id__in=ended).delete()
    OngoingCondition.objects.bulk_create(
        OngoingCondition(condition=condition, subject_id=id, project_id=found[id], since=now)
        for id in begun
    )
    return begun, ended
