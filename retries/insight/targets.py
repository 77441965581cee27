"""Set the share of instructions, claims, or attempts that should end in time, and the time.

A target is of an agent, of a type of tasks, or of a plan; only agents acknowledge instructions.
"""

from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from ledger import journal
from ledger.database import sql
from ledger.errors import Invalid
from ledger.journal import Kind, Stamp
from ledger.models import Agent, Plan
from ledger.tasks.spec import Spec, check
from retries.models import AckTarget, TaskTarget
from retries.models.figures import Measure

# in percent, and in seconds: a day at most
PERCENT, WITHIN_S = (1, 99), (1, 86_400)
# of a project's types and plans: each target has series of its own in the metric
MOST_TARGETS = 200
LOCK = "select pg_advisory_xact_lock(hashtextextended('tenfour.targets/' || %(project)s::text, 0))"


@dataclass(frozen=True, slots=True)
class Subject:
    """The agent, the type, or the plan that a target is of."""

    project_id: UUID
    agent: Agent | None = None
    type: str = ""
    plan: Plan | None = None

    @classmethod
    def of_agent(cls, agent: Agent) -> Self:
        return cls(agent.project_id, agent=agent)

    @classmethod
    def of_type(cls, project_id: UUID, type: str) -> Self:
        check(Spec(type=type), pointer="")
        return cls(project_id, type=type)

    @classmethod
    def of_plan(cls, plan: Plan) -> Self:
        return cls(plan.project_id, plan=plan)

    @property
    def name(self) -> str:
        if self.agent:
            return self.agent.name
        return f"the plan {self.plan.ref}" if self.plan else f"the type {self.type}"

    @property
    def key(self) -> dict[str, Any]:
        # An earlier version stores an agent's target without the project.
        if self.agent:
            return {"agent": self.agent}
        return {"project_id": self.project_id, "type": self.type, "plan": self.plan}


def set_target(
    subject: Subject, *, percent: int, within_s: int, stamp: Stamp, measure: str = Measure.ACK
) -> None:
    rows, key = find_rows(subject, measure)
    if not PERCENT[0] <= percent <= PERCENT[1]:
        raise Invalid("/percent", f"Give a share of {PERCENT[0]} to {PERCENT[1]} percent.")
    if not WITHIN_S[0] <= within_s <= WITHIN_S[1]:
        raise Invalid("/within_s", "Give a time of up to 24 hours.")
    values: dict[str, Any] = {"percent": percent, "within_s": within_s}
    values |= {"set_at": stamp.at, "set_by_name": stamp.actor.name}
    if rows.model is TaskTarget:
        values["project_id"] = subject.project_id
    with transaction.atomic():
        if not subject.agent:
            check_room(rows, key)
        rows.update_or_create(**key, defaults=values)
        record(subject, measure, {"percent": percent, "within_s": within_s}, stamp)


def remove_target(subject: Subject, *, stamp: Stamp, measure: str = Measure.ACK) -> bool:
    rows, key = find_rows(subject, measure)
    with transaction.atomic():
        count, _ = rows.filter(**key).delete()
        if count:
            record(subject, measure, {}, stamp)
    return bool(count)


def list_targets(project_id: UUID) -> list[AckTarget | TaskTarget]:
    acks = AckTarget.objects.filter(agent__project=project_id).select_related("agent")
    # an earlier version stores an agent's target without its project
    own = TaskTarget.objects.filter(Q(project=project_id) | Q(agent__project=project_id))
    of_tasks = own.select_related("agent", "plan").order_by("agent__name", "type", "id")
    of_agents: list[AckTarget | TaskTarget] = [*acks, *(each for each in of_tasks if each.agent)]
    of_agents.sort(key=lambda each: each.agent.name if each.agent else "")
    return [*of_agents, *(each for each in of_tasks if not each.agent)]


def find_rows(subject: Subject, measure: str) -> tuple[QuerySet[Any], dict[str, Any]]:
    if measure not in Measure.values:
        raise Invalid("/measure", f"Give one of {', '.join(Measure.values)}.")
    if measure != Measure.ACK:
        return TaskTarget.objects.all(), {**subject.key, "measure": measure}
    if not subject.agent:
        raise Invalid("/measure", "Only agents acknowledge instructions. Give wait or run.")
    return AckTarget.objects.all(), subject.key


def check_room(rows: QuerySet[Any], key: dict[str, Any]) -> None:
    sql.run(LOCK, project=key["project_id"])
    others = rows.filter(project=key["project_id"], agent=None)
    if others.count() >= MOST_TARGETS and not others.filter(**key).exists():
        said = f"At most {MOST_TARGETS} targets of types and plans can be set. Remove another one."
        raise Invalid("/measure", said)


def record(subject: Subject, measure: str, data: dict[str, Any], stamp: Stamp) -> None:
    # Earlier versions recorded targets for acknowledgments alone, without a measure.
    of = {} if measure == Measure.ACK else {"measure": measure}
    if agent := subject.agent:
        kind, noun, id = Kind.AGENT_TARGET_SET, "agent", agent.pk
    else:
        kind, noun, id = Kind.PROJECT_TARGET_SET, "project", subject.project_id
        of |= {"plan": subject.plan.ref} if subject.plan else {"type": subject.type}
    journal.record(
        kind,
        subject_type=noun,
        subject_id=id,
        project_id=subject.project_id,
        agent_id=agent.pk if agent else None,
        stamp=stamp,
        data=of | data,
    )
