"""Journal conditions that no move begins: an agent that became silent, a plan that is stuck."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from ledger import agents, journal, sql
from ledger.journal import Kind, Stamp, clock
from ledger.models import Agent, Instruction, Plan, Project, Task
from ledger.moves import FINAL_STATES
from ledger.states import BlockedReason, InstructionState, TaskState
from retries.models import OngoingCondition

CLOCK = clock("conditions")
SILENT, STUCK = "agent_silent", "plan_stuck"
MOST = 500
MOST_COUNTED = 10_000  # instructions or tasks that wait for an agent
# An active plan none of whose tasks can start, run again or be answered.
STUCK_PLANS = f"""select p.id, p.project_id from ledger_plan p
    where p.completed_at is null and p.aborted_at is null and p.paused_at is null
        and (%(of)s::uuid is null or p.project_id = %(of)s)
        and exists (select from ledger_task t where t.plan_id = p.id
            and t.replaced_by_id is null and t.state not in ({FINAL_STATES}))
        and not exists (select from ledger_task t where t.plan_id = p.id
            and t.replaced_by_id is null and (t.state in ('{TaskState.QUEUED}',
                '{TaskState.RUNNING}', '{TaskState.RETRY}', '{TaskState.ESCALATED}')
                or t.state = '{TaskState.BLOCKED}'
                    and t.blocked_reason = '{BlockedReason.BREAKER_OPEN}'))
    order by p.id limit {MOST}"""


def watch_conditions(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Journal the agents that became silent or called again, and the plans that got stuck."""
    silent, heard = watch_silence(now, project)
    return {"silent": silent, "heard": heard, "stuck": watch_plans(now, project)}


def watch_silence(now: datetime, project: Project | None) -> tuple[int, int]:
    found = agents.find_silent(now)
    found = found.filter(project=project) if project else found
    silent = {agent.pk: agent for agent in found.order_by("pk")[:MOST]}
    begun, ended = update_ongoing(
        SILENT, {id: agent.project_id for id, agent in silent.items()}, now, project
    )
    for id in begun:
        note_agent(Kind.AGENT_SILENT, silent[id], now, count_waiting(id))
    for agent in Agent.objects.filter(pk__in=ended):
        note_agent(Kind.AGENT_HEARD, agent, now, {})
    return len(begun), len(ended)


def count_waiting(agent_id: UUID) -> dict[str, Any]:
    """Return the number of instructions and of tasks that wait for an agent, up to a limit."""
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


def watch_plans(now: datetime, project: Project | None) -> int:
    rows = sql.run(STUCK_PLANS, of=project.pk if project else None)
    begun, _ = update_ongoing(STUCK, {row["id"]: row["project_id"] for row in rows}, now, project)
    for plan in Plan.objects.filter(pk__in=begun):
        journal.record(
            Kind.PLAN_STUCK,
            subject_type="plan",
            subject_id=plan.pk,
            project_id=plan.project_id,
            stamp=Stamp(CLOCK, now),
            data={"ref": plan.ref, "run": plan.run},
        )
    return len(begun)


@transaction.atomic
def update_ongoing(
    condition: str, found: dict[UUID, UUID], now: datetime, project: Project | None
) -> tuple[set[UUID], set[UUID]]:
    """Store the subjects for which a condition holds; return those that begin and those that end.

    Two clocks may run at once: the database lets only one of them begin a condition.
    """
    stored = OngoingCondition.objects.select_for_update().filter(condition=condition)
    stored = stored.filter(project=project) if project else stored
    known = set(stored.values_list("subject_id", flat=True))
    ended = known - set(found)
    begun = set(found) - known
    OngoingCondition.objects.filter(condition=condition, subject_id__in=ended).delete()
    OngoingCondition.objects.bulk_create(
        OngoingCondition(condition=condition, subject_id=id, project_id=found[id], since=now)
        for id in sorted(begun)
    )
    return begun, ended
