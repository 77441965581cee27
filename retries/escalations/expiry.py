"""Expire, remind of, and clean up open escalations; runs on the clock."""

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from ledger import journal
from ledger.database import sql
from ledger.journal import Kind, Stamp, clock
from ledger.models import Project
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries import deadletters
from retries.attempts.report_fields import MESSAGE_LENGTH
from retries.escalations import lifecycle, permission_effects, snoozing, task_effects
from retries.models import Escalation
from retries.plans import aborting
from retries.states import Answer, Dependents, EscalationState, OnExpiry, PermissionState

logger = logging.getLogger(__name__)

BATCH_SIZE = 500
CLOCK = clock("escalations")

# The next reminder comes when the waiting time has doubled, or after a day.
REMIND = f"""with {TrustedCaller.cte}, due as materialized (
    select id from retries_escalation
    where state = '{EscalationState.OPEN}' and notify_again_at <= %(now)s
        and (%(of)s::uuid is null or project_id = %(of)s)
    order by id limit {BATCH_SIZE} for update skip locked
), reminded as (
    update retries_escalation e set notify_again_at = %(now)s + least(interval '1 day',
        greatest(%(wait)s * interval '1 second', %(now)s - e.opened_at))
    where e.id = any(array(select id from due))
    returning e.id, e.project_id, e.agent_id, e.reason
), events as ({
    journal.insert_without_states(
        "reminded",
        kind=f"'{Kind.ESCALATION_REMINDED}'",
        subject="escalation",
        data="jsonb_build_object('reason', m.reason)",
    )
}) select id from reminded"""

# Claims ignore the offer of a task that has started or can no longer start.
WITHDRAW_OFFERS = f"""update retries_escalation e set offered_to = null
    where e.offered_to is not null and (%(of)s::uuid is null or e.project_id = %(of)s)
        and not exists (select from ledger_task t where t.id = e.task_id
            and t.attempts = e.attempts
            and t.state in ('{TaskState.QUEUED}', '{TaskState.RETRY}', '{TaskState.BLOCKED}'))
    returning e.id"""


def process_due(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    of = project.id if project else None
    expired = expire_due(now=now, of=of)
    returned = snoozing.return_due(now=now, of=of)
    wait = max(1, settings.TENFOUR["ESCALATION_REMIND_SECONDS"])
    reminded = sql.run(REMIND, now=now, of=of, wait=wait, **TrustedCaller(CLOCK).params)
    withdrawn = sql.run(WITHDRAW_OFFERS, of=of)
    return {
        "expired": expired,
        "returned": returned,
        "reminded": len(reminded),
        "offers_over": len(withdrawn),
    }


def expire_due(*, now: datetime, of: UUID | None) -> int:
    rows = Escalation.objects.open().filter(expires_at__lte=now)
    rows = rows.filter(project=of) if of else rows
    return sum(expire_one(id, now=now) for id in rows.values_list("pk", flat=True)[:BATCH_SIZE])


def expire_one(escalation_id: UUID, *, now: datetime) -> bool:
    """Close one escalation; return whether this call did it."""
    # An error goes to the log, so that the other escalations still expire.
    try:
        with transaction.atomic():
            rows = Escalation.objects.open().filter(pk=escalation_id, expires_at__lte=now)
            escalation = rows.select_for_update(skip_locked=True).first()
            if escalation is None:
                return False
            apply_expiry(escalation, OnExpiry(escalation.on_expiry or ""), now=now)
            lifecycle.close(
                escalation,
                EscalationState.EXPIRED,
                stamp=Stamp(CLOCK, now),
                data={"on_expiry": escalation.on_expiry},
            )
            return True
    except Exception:
        logger.exception("escalation %s could not be expired", escalation_id)
        return False


def apply_expiry(escalation: Escalation, then: OnExpiry, *, now: datetime) -> None:
    match then:
        case OnExpiry.TERMINAL:
            permission_effects.end(escalation, PermissionState.EXPIRED, stamp=Stamp(CLOCK, now))
        case OnExpiry.RETRY:
            task_effects.requeue(escalation, Answer.ANSWER, stamp=Stamp(CLOCK, now))
        case OnExpiry.FAIL:
            row = task_effects.fail(escalation, stamp=Stamp(CLOCK, now))
            error = f"The question expired without an answer: {escalation.question}"
            deadletters.insert_dead_letter(
                row["id"], "expired", error=error[:MESSAGE_LENGTH], now=now
            )
        case OnExpiry.SKIP | OnExpiry.ABORT:
            answer = Answer(then.value)
            task_effects.end(
                escalation, answer, choice=Dependents.CONTINUE, stamp=Stamp(CLOCK, now)
            )
            # An expired question of an agent ends its own task only; a person aborts a plan.
            if answer == Answer.SKIP and escalation.task:
                aborting.follow_answer(escalation.task, answer, stamp=Stamp(CLOCK, now))
