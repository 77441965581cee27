"""The clock's entry for questions to people: those whose time is over, and reminders."""

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from ledger import journal, sql
from ledger.journal import Kind, clock
from ledger.models import Project
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries import deadletters
from retries.attempts.report_fields import MESSAGE_LENGTH
from retries.escalations import lifecycle, task_effects
from retries.models import Escalation
from retries.plans import aborting
from retries.states import Answer, Dependents, EscalationState, OnExpiry

logger = logging.getLogger(__name__)

AT_ONCE = 500
ENTRY = clock("escalations")

# again after it has waited as long once more, and at least once a day
REMIND = f"""with {TrustedCaller.cte}, ripe as materialized (
    select id from retries_escalation
    where state = '{EscalationState.OPEN}' and notify_again_at <= %(now)s
        and (%(of)s::uuid is null or project_id = %(of)s)
    order by id limit {AT_ONCE} for update skip locked
), reminded as (
    update retries_escalation e set notify_again_at = %(now)s + least(interval '1 day',
        greatest(%(wait)s * interval '1 second', %(now)s - e.opened_at))
    where e.id = any(array(select id from ripe))
    returning e.id, e.project_id, e.agent_id, e.reason
), told as ({
    journal.insert(
        "reminded",
        kind=f"'{Kind.ESCALATION_REMINDED}'",
        subject="escalation",
        from_state="null",
        to_state="null",
        data="jsonb_build_object('reason', m.reason)",
    )
}) select id from reminded"""

# An offer is over once somebody has begun its task, or nobody will: claims pass over it.
OVER = f"""update retries_escalation e set offered_to = null
    where e.offered_to is not null and (%(of)s::uuid is null or e.project_id = %(of)s)
        and not exists (select from ledger_task t where t.id = e.task_id
            and t.attempts = e.attempts
            and t.state in ('{TaskState.QUEUED}', '{TaskState.RETRY}', '{TaskState.BLOCKED}'))
    returning e.id"""


def due(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Close what has expired, remind of what still waits, and forget offers that are over."""
    of = project.id if project else None
    expired = expire(now=now, of=of)
    wait = max(1, settings.TENFOUR["ESCALATION_REMIND_SECONDS"])
    reminded = sql.run(REMIND, now=now, of=of, wait=wait, **TrustedCaller(ENTRY).params)
    over = sql.run(OVER, of=of)
    return {"expired": expired, "reminded": len(reminded), "offers_over": len(over)}


def expire(*, now: datetime, of: UUID | None) -> int:
    """Close every question whose time is over, as its asker wanted; returns how many."""
    rows = Escalation.objects.open().filter(expires_at__lte=now)
    rows = rows.filter(project=of) if of else rows
    return sum(expire_one(id, now=now) for id in rows.values_list("pk", flat=True)[:AT_ONCE])


def expire_one(escalation_id: UUID, *, now: datetime) -> bool:
    """Whether it was this call that closed it; what goes wrong here holds nobody else up."""
    try:
        with transaction.atomic():
            rows = Escalation.objects.open().filter(pk=escalation_id, expires_at__lte=now)
            escalation = rows.select_for_update(skip_locked=True).first()
            if escalation is None:
                return False
            act(escalation, OnExpiry(escalation.on_expiry or ""), now=now)
            lifecycle.close(
                escalation,
                EscalationState.EXPIRED,
                actor=ENTRY,
                now=now,
                data={"on_expiry": escalation.on_expiry},
            )
            return True
    except Exception:
        logger.exception("escalation %s could not be expired", escalation_id)
        return False


def act(escalation: Escalation, then: OnExpiry, *, now: datetime) -> None:
    match then:
        case OnExpiry.RETRY:
            task_effects.go_on(escalation, Answer.ANSWER, actor=ENTRY, now=now)
        case OnExpiry.FAIL:
            row = task_effects.fail(escalation, actor=ENTRY, now=now)
            asked = f"Nobody answered in time: {escalation.question}"
            deadletters.bury(row["id"], "expired", error=asked[:MESSAGE_LENGTH], now=now)
        case OnExpiry.SKIP | OnExpiry.ABORT:
            answer = Answer(then.value)
            task_effects.end(escalation, answer, choice=Dependents.CONTINUE, actor=ENTRY, now=now)
            # an agent ends its own task so, and no plan: that takes a person
            if answer == Answer.SKIP and escalation.task:
                aborting.follow_answer(escalation.task, answer, actor=ENTRY, now=now)
