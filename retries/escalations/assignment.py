"""Assign an escalation to a person, and comment on it."""

from uuid import UUID

from django.db import transaction

from ledger.journal import Kind, Stamp
from retries.assignment.people import build_comment, find_assignee
from retries.escalations import lifecycle
from retries.models import Escalation, EscalationQuerySet

ANSWER = "retries.change_escalation"
SEE = "retries.view_escalation"


@transaction.atomic
def assign(
    escalation_id: UUID, user: str | None, *, among: EscalationQuerySet, stamp: Stamp
) -> Escalation:
    """Assign the escalation to the operator with this username; None assigns it to no one."""
    escalation = lifecycle.lock(escalation_id, among)
    lifecycle.require_open(escalation)
    found = find_assignee(user, ANSWER, escalation.project_id)
    Escalation.objects.filter(pk=escalation.pk).update(
        assignee=found, is_routed=False, updated_at=stamp.at, version=escalation.version + 1
    )
    lifecycle.record_event(escalation, Kind.ESCALATION_ASSIGNED, stamp=stamp, data={"user": user})
    escalation.refresh_from_db()
    return escalation


@transaction.atomic
def comment(
    escalation_id: UUID, text: str, *, among: EscalationQuerySet, stamp: Stamp
) -> Escalation:
    # Only the text without its secrets is stored, and the escalation's state does not change.
    escalation = lifecycle.lock(escalation_id, among)
    data = build_comment(text, SEE, escalation.project_id)
    Escalation.objects.filter(pk=escalation.pk).update(updated_at=stamp.at)
    lifecycle.record_event(escalation, Kind.ESCALATION_COMMENTED, stamp=stamp, data=data)
    return escalation
