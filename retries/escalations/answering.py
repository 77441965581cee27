"""Answer an escalation once, in the browser or by token, and undo the answer."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from ledger import instructions, needs
from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import Invalid, InvalidTransition, Refusal, VersionMismatch
from ledger.instructions import Expect
from ledger.journal import Stamp
from ledger.models import Instruction
from ledger.secrets.notes import clean_note, noted
from ledger.states import InstructionState
from ledger.tasks import steps
from ledger.tokens import TrustedCaller
from ledger.tracing import genai_attributes as genai
from ledger.tracing.spans import Value, start_span
from retries.escalations import choices, lifecycle, permission_effects, task_effects, typed_answers
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import UndoTooLate
from retries.models import Escalation, EscalationQuerySet
from retries.plans import aborting
from retries.states import PERMISSION_ANSWERS, Answer, EscalationState, Reason


class HumanRequired(Refusal):
    """Human answer required"""

    code = "human_required"
    hint = "Answer in the browser as an operator, or send an operator's token."


def answer(
    escalation_id: UUID,
    choice: Choice,
    *,
    among: EscalationQuerySet,
    stamp: Stamp,
    channel: str,
    version: int | None = None,
    undo_for: timedelta = timedelta(),
) -> Escalation:
    """Answer an escalation from the page, the API or the admin.

    `among` are the escalations that the actor may see. A retry or fix of a task waits `undo_for`
    before it is queued; until then it can be undone. Raises NotFound, AlreadyResolved with the
    first answer, EscalationExpired, VersionMismatch if the actor has read another version, and
    Invalid.
    """
    with start_span("tenfour.resolve") as span:
        answered = answer_untraced(
            escalation_id,
            choices.check(choice),
            among=among,
            stamp=stamp,
            channel=channel,
            version=version,
            undo_for=undo_for,
        )
        span.set(describe_answer(answered))
    return answered


def describe_answer(answered: Escalation) -> dict[str, Value]:
    return {
        "tenfour.escalation.id": str(answered.pk),
        "tenfour.escalation.reason": answered.reason,
        "tenfour.task.id": str(answered.task_id) if answered.task_id else None,
        "tenfour.action": answered.action,
        "tenfour.channel": answered.channel,
        genai.AGENT_ID: str(answered.agent_id),
    }


@sql.atomic
def answer_untraced(
    escalation_id: UUID,
    choice: Choice,
    *,
    among: EscalationQuerySet,
    stamp: Stamp,
    channel: str,
    version: int | None,
    undo_for: timedelta,
) -> Escalation:
    if choice.action == Answer.ABORT:
        lifecycle.lock_plan(escalation_id, among)
    escalation = lifecycle.lock(escalation_id, among)
    lifecycle.require_open(escalation)
    require_version(escalation, version)
    if choice.action == Answer.ANSWER:
        choice = complete_response(escalation, choice)
    if choice.action == Answer.ACCEPT and escalation.reason != Reason.UNPROVEN:
        raise Invalid(
            "/action", "Only a task that is done without proof can be accepted: see its reason."
        )
    if choice.action == Answer.GRANT:
        if escalation.reason != Reason.BUDGET_USED:
            raise Invalid(
                "/action", "Only a task that waits for a budget takes 'grant': see its reason."
            )
        for grant in steps.GRANT:
            grant(escalation, choice.fix.strip(), stamp)
    if (choice.action in PERMISSION_ANSWERS) != (escalation.permission_id is not None):
        raise Invalid(
            "/action",
            "This is a permission request: answer 'allow' or 'deny'."
            if escalation.permission_id
            else f"Only a permission request takes '{choice.action}'.",
        )
    if choice.action == Answer.ALLOW:
        choices.check_response(choice, escalation.response_schema)
    effects = act(escalation, choice, undo_for=undo_for, stamp=stamp)
    answer = typed_answers.build_columns(choice.fix.strip(), choice.response)
    text = answer["fix"]
    waited = stamp.at - escalation.opened_at
    lifecycle.close(
        escalation,
        EscalationState.RESOLVED,
        stamp=stamp,
        data={"action": choice.action, "channel": channel}
        | ({"words": text} if text else {})
        | ({"waited_s": waited.seconds} if escalation.permission_id else {})
        | noted(choice.note)
        | ({"dependents": choice.dependents} if choice.action == Answer.SKIP else {})
        | {name: str(value) for name, value in effects.items()},
        action=choice.action,
        note=clean_note(choice.note),
        answered_by_type=stamp.actor.type,
        answered_by_id=stamp.actor.id,
        answered_by_name=stamp.actor.name,
        channel=channel,
        **answer,
        **effects,
    )
    escalation.refresh_from_db()
    return escalation


def require_version(escalation: Escalation, version: int | None) -> None:
    if version is not None and version != escalation.version:
        raise VersionMismatch(
            f"You have read version {version}; it is at {escalation.version} now.",
            current=escalation.version,
        )


def complete_response(escalation: Escalation, choice: Choice) -> Choice:
    if not escalation.is_question:
        raise Invalid(
            "/action", "This escalation asks no question: answer 'retry', 'fix', 'skip' or 'abort'."
        )
    return choices.complete(choice, escalation.response_schema)


def act(
    escalation: Escalation, choice: Choice, *, undo_for: timedelta, stamp: Stamp
) -> dict[str, Any]:
    """Carry out the answer; return the columns that record its effects."""
    if escalation.task:
        due_at = (
            stamp.at + undo_for if undo_for and choice.action in task_effects.UNDOABLE else None
        )
        act_on_task(escalation, choice, due_at=due_at, stamp=stamp)
        aborting.follow_answer(escalation.task, choice.action, stamp=stamp)
        return {"undo_until": due_at} if due_at else {}
    match choice.action:
        case Answer.ALLOW | Answer.DENY:
            return permission_effects.decide(escalation, choice, undo_for=undo_for, stamp=stamp)
        case Answer.RETRY | Answer.FIX:
            old = escalation.instruction
            assert old is not None  # an escalation is about a task or an instruction
            row = resend(old, choice.fix.strip() or old.content, stamp=stamp)
            return {"resent_as_id": row["id"]}
        case Answer.ABORT:
            caller = TrustedCaller(stamp.actor, agent=escalation.agent, request_id=stamp.request_id)
            return {"cancelled": len(instructions.cancel_all(caller, now=stamp.at))}
    return {}


def act_on_task(
    escalation: Escalation, choice: Choice, *, due_at: datetime | None, stamp: Stamp
) -> None:
    # A retry grants a new round of attempts; a fix keeps the count and grants one guided attempt.
    assert escalation.task_id is not None
    needs.hold([escalation.task_id])
    if choice.action in task_effects.GRANTS:
        task_effects.requeue(escalation, choice.action, due_at=due_at, stamp=stamp)
        return
    gone = task_effects.end(escalation, choice.action, choice=choice.dependents, stamp=stamp)
    lifecycle.withdraw(gone, stamp=stamp)


@transaction.atomic
def undo(escalation_id: UUID, *, among: EscalationQuerySet, stamp: Stamp) -> Escalation:
    """Undo an answer; raises NotFound, and UndoTooLate if time is up or the task has moved on."""
    # The escalation is open again, its task returns to its earlier state, and the journal keeps
    # both the answer and the undo.
    escalation = lifecycle.lock(escalation_id, among)
    can_undo = escalation.state == EscalationState.RESOLVED and escalation.undo_until is not None
    if can_undo and escalation.permission:
        permission_effects.undo(escalation, stamp=stamp)
    elif not can_undo or not task_effects.undo(escalation, stamp=stamp):
        state = escalation.state
        if escalation.task:
            escalation.task.refresh_from_db(fields=["state"])
            state = escalation.task.state
        raise UndoTooLate(
            f"The answer can no longer be undone: the task is {state}.", current=state, allowed=[]
        )
    lifecycle.reopen(escalation, stamp=stamp)
    escalation.refresh_from_db()
    return escalation


def resend(old: Instruction, content: str, *, stamp: Stamp) -> Row:
    return instructions.send(
        old.agent,
        content,
        max_retries=old.max_retries,
        expect=Expect(old.expect_type, old.expect_match) if old.expect_type else None,
        priority=True,
        on_failed=old.on_failed,
        task=old.task_id,
        resend_of=old.id,
        stamp=stamp,
    )


def send_failed_again(
    ids: Iterable[UUID], *, channel: str, note: str = "", stamp: Stamp
) -> dict[UUID, UUID]:
    """Send given-up instructions again; return the new instruction's id by the old one's."""
    # The new instruction answers an open escalation. An instruction is left out if it is not given
    # up, if its text is already pending, or if another person has just answered its escalation.
    rows = Instruction.objects.filter(pk__in=list(ids), state=InstructionState.FAILED)
    asked = dict(
        Escalation.objects.open().filter(instruction__in=rows).values_list("instruction", "id")
    )
    sent = {}
    for old in rows.select_related("agent").order_by("id"):
        with suppress(lifecycle.AlreadyResolved, lifecycle.EscalationExpired):
            if new := send_one_again(
                old, asked.get(old.pk), channel=channel, note=note, stamp=stamp
            ):
                sent[old.pk] = new
    return sent


def send_one_again(
    old: Instruction, escalation_id: UUID | None, *, channel: str, note: str, stamp: Stamp
) -> UUID | None:
    """Send a given-up instruction again; return the new one's id, or None if there is none."""
    if escalation_id is None:
        row = resend(old, old.content, stamp=stamp)
        return None if row["deduplicated"] else row["id"]
    answered = answer(
        escalation_id,
        Choice(Answer.RETRY, note=note),
        among=Escalation.objects.all(),
        channel=channel,
        stamp=stamp,
    )
    return answered.resent_as_id


def send_edited(old: Instruction, content: str, *, channel: str, stamp: Stamp) -> UUID:
    """Send another text in place of a given-up instruction; return the new instruction's id.

    An open escalation is answered with the text as a fix. Raises InvalidTransition if the
    instruction is not given up.
    """
    if old.state != InstructionState.FAILED:
        raise InvalidTransition(
            f"The instruction is {old.state}: only one that was given up is edited and sent.",
            current=old.state,
            allowed=[],
        )
    asked = Escalation.objects.open().filter(instruction=old).order_by("id").first()
    if asked is None:
        id: UUID = resend(old, content, stamp=stamp)["id"]
        return id
    choice = Choice(Answer.FIX, fix=content)
    answered = answer(
        asked.pk, choice, among=Escalation.objects.all(), channel=channel, stamp=stamp
    )
    assert answered.resent_as_id is not None  # a fix of an instruction sends one
    return answered.resent_as_id
