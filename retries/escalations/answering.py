"""Answer an escalation once, in the browser or by token, and undo the answer."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from ledger import instructions, needs, sql
from ledger.errors import Invalid, InvalidTransition, Refusal, VersionMismatch
from ledger.instructions import Expect
from ledger.journal import Actor
from ledger.sql import Row
from ledger.tokens import TrustedCaller
from retries.escalations import choices, lifecycle, task_effects
from retries.escalations.choices import Choice
from retries.models import Escalation, EscalationQuerySet
from retries.plans import aborting
from retries.states import Answer, EscalationState, Reason


class HumanRequired(Refusal):
    """Human answer required"""

    code = "human_required"
    hint = "Answer in the browser as an operator, or send an operator's token."


class UndoTooLate(InvalidTransition):
    """Invalid state transition"""

    hint = "Only a retry or a fix sent from the page can be undone, for a few seconds."


@sql.atomic
def answer(
    escalation_id: UUID,
    choice: Choice,
    *,
    among: EscalationQuerySet,
    actor: Actor,
    channel: str,
    version: int | None = None,
    undo_for: timedelta = timedelta(),
    now: datetime | None = None,
    request_id: str = "",
) -> Escalation:
    """Answer an escalation from the page, the API or the admin.

    `among` are the escalations that the actor may see. A retry or fix of a task waits `undo_for`
    before it is queued; until then it can be undone. Raises NotFound, AlreadyResolved with the
    first answer, EscalationExpired, VersionMismatch if the actor has read another version, and
    Invalid.
    """
    now, choice = now or timezone.now(), choices.check(choice)
    if choice.action == Answer.ABORT:
        lifecycle.lock_plan(escalation_id, among)
    escalation = lifecycle.lock(escalation_id, among)
    lifecycle.require_open(escalation)
    if version is not None and version != escalation.version:
        raise VersionMismatch(
            f"You have read version {version}; it is at {escalation.version} now.",
            current=escalation.version,
        )
    if choice.action == Answer.ANSWER and escalation.reason != Reason.AGENT_QUESTION:
        raise Invalid(
            "/action", "This escalation asks no question: answer 'retry', 'fix', 'skip' or 'abort'."
        )
    if choice.action == Answer.ANSWER:
        choice = choices.complete(choice, escalation.response_schema)
    effects = act(
        escalation, choice, undo_for=undo_for, actor=actor, now=now, request_id=request_id
    )
    text = choice.fix.strip()
    lifecycle.close(
        escalation,
        EscalationState.RESOLVED,
        actor=actor,
        now=now,
        request_id=request_id,
        data={"action": choice.action, "channel": channel}
        | ({"words": text} if text else {})
        | ({"dependents": choice.dependents} if choice.action == Answer.SKIP else {})
        | {name: str(value) for name, value in effects.items()},
        action=choice.action,
        fix=text,
        response=choice.response,
        note=choice.note.strip(),
        answered_by_type=actor.type,
        answered_by_id=actor.id,
        answered_by_name=actor.name,
        channel=channel,
        **effects,
    )
    escalation.refresh_from_db()
    return escalation


def act(
    escalation: Escalation,
    choice: Choice,
    *,
    undo_for: timedelta,
    actor: Actor,
    now: datetime,
    request_id: str,
) -> dict[str, Any]:
    """Carry out the answer; return the columns that record its effects."""
    if escalation.task:
        due_at = now + undo_for if undo_for and choice.action in task_effects.UNDOABLE else None
        act_on_task(escalation, choice, due_at=due_at, actor=actor, now=now, request_id=request_id)
        aborting.follow_answer(
            escalation.task, choice.action, actor=actor, now=now, request_id=request_id
        )
        return {"undo_until": due_at} if due_at else {}
    match choice.action:
        case Answer.RETRY | Answer.FIX:
            row = resend(escalation, choice, actor=actor, now=now, request_id=request_id)
            return {"resent_as_id": row["id"]}
        case Answer.ABORT:
            caller = TrustedCaller(actor, agent=escalation.agent, request_id=request_id)
            return {"cancelled": len(instructions.cancel_all(caller, now=now))}
    return {}


def act_on_task(
    escalation: Escalation,
    choice: Choice,
    *,
    due_at: datetime | None,
    actor: Actor,
    now: datetime,
    request_id: str,
) -> None:
    """Move the task as the answer says.

    A retry grants a new round of attempts; a fix keeps the count and grants one guided attempt.
    """
    assert escalation.task_id is not None
    needs.hold([escalation.task_id])
    if choice.action in task_effects.GRANTS:
        task_effects.requeue(
            escalation, choice.action, due_at=due_at, actor=actor, now=now, request_id=request_id
        )
        return
    gone = task_effects.end(
        escalation,
        choice.action,
        choice=choice.dependents,
        actor=actor,
        now=now,
        request_id=request_id,
    )
    lifecycle.withdraw(gone, actor=actor, now=now)


@transaction.atomic
def undo(
    escalation_id: UUID,
    *,
    among: EscalationQuerySet,
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> Escalation:
    """Undo an answer: reopen the escalation and return its task to its earlier state.

    Raises NotFound, and UndoTooLate if the time is over or the task has moved on. The journal
    keeps both the answer and the undo.
    """
    now = now or timezone.now()
    escalation = lifecycle.lock(escalation_id, among)
    can_undo = escalation.state == EscalationState.RESOLVED and escalation.undo_until is not None
    if not can_undo or not task_effects.undo(
        escalation, actor=actor, now=now, request_id=request_id
    ):
        state = escalation.state
        if escalation.task:
            escalation.task.refresh_from_db(fields=["state"])
            state = escalation.task.state
        raise UndoTooLate(
            f"The answer can no longer be undone: the task is {state}.",
            current=state,
            allowed=[],
        )
    lifecycle.reopen(escalation, actor=actor, now=now, request_id=request_id)
    escalation.refresh_from_db()
    return escalation


def resend(
    escalation: Escalation, choice: Choice, *, actor: Actor, now: datetime, request_id: str
) -> Row:
    """Send the instruction again, first in the queue; a fix replaces its content."""
    old = escalation.instruction
    if old is None:
        raise TypeError("this escalation is not about an instruction")
    return instructions.send(
        escalation.agent,
        choice.fix.strip() or old.content,
        max_retries=old.max_retries,
        expect=Expect(old.expect_type, old.expect_match) if old.expect_type else None,
        priority=True,
        on_failed=old.on_failed,
        resend_of=old.id,
        actor=actor,
        now=now,
        request_id=request_id,
    )
