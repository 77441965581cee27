"""Snooze an escalation: it leaves the inbox until a time, and the clock brings it back."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from ledger import journal
from ledger.database import sql
from ledger.errors import Invalid
from ledger.journal import Kind, Stamp, clock
from ledger.tokens import TrustedCaller
from ledger.values.timestamps import format_timestamp
from retries.escalations import lifecycle
from retries.models import Escalation, EscalationQuerySet
from retries.states import EscalationState

LONGEST_DAYS = 90
BATCH_SIZE = 500
CLOCK = clock("escalations")

RETURN = f"""with {TrustedCaller.cte}, due as materialized (
    select id from retries_escalation
    where state = '{EscalationState.OPEN}' and snoozed_until <= %(now)s
        and (%(of)s::uuid is null or project_id = %(of)s)
    order by snoozed_until, id limit {BATCH_SIZE} for update skip locked
), returned as (
    update retries_escalation e set snoozed_until = null, snoozed_by_name = '',
        updated_at = %(now)s, version = e.version + 1
    where e.id = any(array(select id from due))
    returning e.id, e.project_id, e.agent_id, e.reason
), events as ({
    journal.insert_without_states(
        "returned",
        kind=f"'{Kind.ESCALATION_RETURNED}'",
        subject="escalation",
        data="jsonb_build_object('reason', m.reason)",
    )
}) select id from returned"""


@transaction.atomic
def snooze(
    escalation_id: UUID, until: datetime | None, *, among: EscalationQuerySet, stamp: Stamp
) -> Escalation:
    """Snooze an open escalation until a time; None ends its snooze."""
    # Its task keeps waiting, and no reminder is sent before it is back.
    if until and not stamp.at < until <= stamp.at + timedelta(days=LONGEST_DAYS):
        raise Invalid(
            "/until", f"Choose a time in the future, at most {LONGEST_DAYS} days from now."
        )
    escalation = lifecycle.lock(escalation_id, among)
    lifecycle.require_open(escalation)
    if until is None and escalation.snoozed_until is None:
        return escalation
    Escalation.objects.filter(pk=escalation.pk).update(
        snoozed_until=until,
        snoozed_by_name=stamp.actor.name if until else "",
        updated_at=stamp.at,
        version=escalation.version + 1,
        **change_reminder(escalation, until, stamp.at),
        **postpone_step(escalation, until, stamp.at),
    )
    lifecycle.record_event(
        escalation,
        Kind.ESCALATION_SNOOZED if until else Kind.ESCALATION_RETURNED,
        stamp=stamp,
        data={"until": format_timestamp(until)} if until else None,
    )
    escalation.refresh_from_db()
    return escalation


def change_reminder(
    escalation: Escalation, until: datetime | None, now: datetime
) -> dict[str, Any]:
    # The next reminder waits for the end of the snooze.
    at = escalation.notify_again_at
    if until is None:
        return {"notify_again_at": lifecycle.first_reminder_at(now)}
    return {"notify_again_at": max(at, until)} if at else {}


def postpone_step(escalation: Escalation, until: datetime | None, now: datetime) -> dict[str, Any]:
    # After the snooze, people have the rest of their time until the policy's next step.
    at, snoozed = escalation.next_step_at, escalation.snoozed_until
    if escalation.policy_id is None or at is None:
        return {}
    left = at - max(now, snoozed or now)
    return {"next_step_at": (until or now) + max(left, timedelta())}


def return_due(*, now: datetime, of: UUID | None) -> int:
    return len(sql.run(RETURN, now=now, of=of, **TrustedCaller(CLOCK).params))
