"""Describe who has an open escalation, until when, and what its policy does then."""

from dataclasses import dataclass
from datetime import datetime

from retries.models import Escalation, Rota
from retries.on_call.directories import read_schedule
from retries.on_call.rotas import find_on_call
from retries.on_call.steps import Step, StepAction, parse_step

REMINDER = "a reminder"


@dataclass(frozen=True, slots=True)
class Holder:
    """The person who has an escalation, and the policy's next step."""

    name: str  # empty: no one has it
    policy: str
    until: datetime | None  # when the next step is due
    then: str  # what the next step does; empty without one
    due_at: datetime | None
    is_overdue: bool


def describe_holder(escalation: Escalation, *, now: datetime) -> Holder | None:
    """Return who has an open escalation with a policy; None for others."""
    policy = escalation.policy
    if policy is None or not escalation.is_open:
        return None
    steps = [parse_step(line) for line in policy.steps[escalation.policy_step :]]
    until, due_at = escalation.next_step_at, escalation.answer_due_at
    is_taken = escalation.assignee_id is not None and not escalation.is_routed
    then = ""
    if steps and until:
        is_reminder = is_taken and steps[0].action == StepAction.TELL
        then = REMINDER if is_reminder else describe_step(escalation, steps[0], until)
    return Holder(
        escalation.assignee.username if escalation.assignee else "",
        policy.name,
        until if then else None,
        then,
        due_at,
        is_overdue=bool(due_at and due_at <= now),
    )


def describe_step(escalation: Escalation, step: Step, at: datetime) -> str:
    match step.action:
        case StepAction.REMIND:
            return REMINDER
        case StepAction.ANSWER:
            return f"the default answer: {step.answer}"
    names = name_targets(escalation, step, at)
    return f"on call: {', '.join(names)}" if names else REMINDER


def name_targets(escalation: Escalation, step: Step, at: datetime) -> list[str]:
    names = [each.partition(":")[2] for each in step.to if each.startswith("rota:")]
    rows = Rota.objects.filter(project=escalation.project_id, name__in=names)
    rotas = list(rows) if names else []
    found = {f"rota:{each.name}": find_on_call(read_schedule(each), at) for each in rotas}
    people = [name for each in step.to for name in found.get(each, (each,))]
    return [name for name in dict.fromkeys(people) if name not in escalation.told]
