"""Assign an escalation to a person, and comment on it."""

from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from ledger.authorization.permissions import may
from ledger.errors import Invalid
from ledger.journal import Kind, Stamp
from ledger.secrets.notes import clean_note
from retries.escalations import choices, lifecycle
from retries.escalations.choices import NOTE_LENGTH
from retries.models import Escalation, EscalationQuerySet

ANSWER = "retries.change_escalation"


@transaction.atomic
def assign(
    escalation_id: UUID, user: str | None, *, among: EscalationQuerySet, stamp: Stamp
) -> Escalation:
    """Assign the escalation to the operator with this username; None assigns it to no one."""
    escalation = lifecycle.lock(escalation_id, among)
    lifecycle.require_open(escalation)
    found = User.objects.filter(username=user).first() if user else None
    if user and not (found and may(found, ANSWER, escalation.project_id)):
        raise Invalid(
            "/user", f"There is no active user '{user}' who has the permission to answer it."
        )
    Escalation.objects.filter(pk=escalation.pk).update(
        assignee=found, is_routed=False, updated_at=stamp.at, version=escalation.version + 1
    )
    lifecycle.record_event(
        escalation,
        Kind.ESCALATION_ASSIGNED,
        stamp=stamp,
        data={"user": user},
    )
    escalation.refresh_from_db()
    return escalation


@transaction.atomic
def comment(
    escalation_id: UUID, text: str, *, among: EscalationQuerySet, stamp: Stamp
) -> Escalation:
    # Only the text without its secrets is stored, and the escalation's state does not change.
    text = text.strip()
    if not 1 <= len(text) <= NOTE_LENGTH:
        raise Invalid("/text", f"A comment has 1 to {NOTE_LENGTH} characters.")
    choices.check_text(text, "/text")
    escalation = lifecycle.lock(escalation_id, among)
    Escalation.objects.filter(pk=escalation.pk).update(updated_at=stamp.at)
    lifecycle.record_event(
        escalation,
        Kind.ESCALATION_COMMENTED,
        stamp=stamp,
        data={"text": clean_note(text)},
    )
    return escalation
