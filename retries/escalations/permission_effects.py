"""Decide a permission request as its escalation's answer says, and undo that decision."""

from datetime import timedelta
from typing import Any

from ledger.journal import Stamp
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import EscalationExpired, UndoTooLate
from retries.models import Escalation, PermissionRequest
from retries.states import Answer, PermissionState

STATES = {Answer.ALLOW: PermissionState.ALLOWED, Answer.DENY: PermissionState.DENIED}
TOO_LATE = "The agent no longer waits for an answer: its own program has decided about the call."


def decide(
    escalation: Escalation, choice: Choice, *, undo_for: timedelta, stamp: Stamp
) -> dict[str, Any]:
    """Allow or deny the call; return the columns that record the effects."""
    # The answer can be undone until the agent takes it. Raises EscalationExpired after the
    # deadline, because nothing may be allowed that the agent no longer asks about.
    request = PermissionRequest.objects.waiting().filter(
        escalation=escalation, expires_at__gt=stamp.at
    )
    if not request.update(state=STATES[choice.action], closed_at=stamp.at):
        raise EscalationExpired(TOO_LATE)
    return {"undo_until": stamp.at + undo_for} if undo_for else {}


def undo(escalation: Escalation, *, stamp: Stamp) -> None:
    """Make the request wait again; raise UndoTooLate if the agent has taken the answer."""
    untaken = PermissionRequest.objects.filter(
        escalation=escalation, taken_at=None, expires_at__gt=stamp.at
    )
    if not untaken.update(state=PermissionState.WAITING, closed_at=None):
        raise UndoTooLate(
            "The answer can no longer be undone: the agent has it.",
            current=escalation.state,
            allowed=[],
        )


def end(escalation: Escalation, to: PermissionState, *, stamp: Stamp) -> None:
    waiting = PermissionRequest.objects.waiting().filter(escalation=escalation)
    waiting.update(state=to, closed_at=stamp.at)
