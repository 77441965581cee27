"""Open, lock, close and reopen escalations: the only writer of their state."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import F, Q

from ledger import journal
from ledger.database import rows, sql
from ledger.database.sql import Row
from ledger.errors import InvalidTransition, NotFound, Refusal
from ledger.journal import Kind, Stamp
from ledger.models import Agent
from retries.models import Escalation, EscalationQuerySet, PermissionRequest
from retries.states import EscalationState, Reason

# the columns of an answer, as they are without one
UNANSWERED: dict[str, Any] = {
    "action": None,
    "fix": "",
    "response": None,
    "sealed": "",
    "note": "",
    "answered_by_type": "",
    "answered_by_id": "",
    "answered_by_name": "",
    "channel": "",
    "offered_to": None,
}
CLOSED_EVENTS = {
    EscalationState.WITHDRAWN: Kind.ESCALATION_WITHDRAWN,
    EscalationState.EXPIRED: Kind.ESCALATION_EXPIRED,
    EscalationState.RESOLVED: Kind.ESCALATION_RESOLVED,
}


class AlreadyResolved(Refusal):
    """Already answered"""

    code = "already_resolved"
    hint = "An answer is final; read it in 'resolution'."


class EscalationExpired(Refusal):
    """Escalation expired"""

    code = "escalation_expired"
    hint = "The action set for its expiry was taken; see the task's history."


class UndoTooLate(InvalidTransition):
    """Invalid state transition"""

    hint = "Only an answer sent from the page can be undone, before it takes effect."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that an agent or a plan asks a person."""

    text: str
    choices: list[dict[str, str]]
    response_schema: dict[str, Any] | None = None
    severity: str = "normal"
    client_state: Any = None
    expires_at: datetime | None = None
    on_expiry: str | None = None

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "question": self.text,
            "choices": self.choices,
            "response_schema": self.response_schema,
            "severity": self.severity,
            "client_state": self.client_state,
            "expires_at": self.expires_at,
            "on_expiry": self.on_expiry,
        }


def insert_for_instructions(source: str, *, where: str = "m.on_failed = 'escalate'") -> str:
    """Return the SQL that opens an escalation for each failed instruction of the CTE `source`."""
    # By default it covers only those sent with on_failed 'escalate'; the caller is the CTE
    # `caller`.
    return insert_open(
        {"instruction_id": "m.id", "reason": f"'{Reason.INSTRUCTION_IGNORED}'"},
        source=f"{source} m, caller c where {where}",
    )


def insert_for_tasks(source: str, *, reason: str) -> str:
    """Return the SQL that opens an escalation for each task of the CTE `source`."""
    # The tasks were just escalated or reported blocked. `reason` is SQL too.
    stand = {name: f"m.{name}" for name in ("attempts", "attempt_limit", "retry_count")}
    return insert_open(
        {"task_id": "m.id", "reason": reason, **stand}, source=f"{source} m, caller c"
    )


def insert_open(columns: dict[str, str], *, source: str) -> str:
    wait = settings.TENFOUR["ESCALATION_REMIND_SECONDS"]
    columns = columns | {
        "project_id": "m.project_id",
        "agent_id": "m.agent_id",
        "state": f"'{EscalationState.OPEN}'",
        "raised_by_type": "c.actor_type",
        "raised_by_name": "c.actor_name",
        "opened_at": "%(now)s",
        "updated_at": "%(now)s",
        "notify_again_at": f"%(now)s + interval '{wait} seconds'" if wait else "null",
    }
    return f"""insert into retries_escalation ({", ".join(columns)})
    select {", ".join(columns.values())} from {source}
    returning id, project_id, agent_id, instruction_id, task_id, reason, state"""


def insert_opened_events(source: str) -> str:
    return journal.insert(
        source,
        kind=f"'{Kind.ESCALATION_OPENED}'",
        subject="escalation",
        from_state="null",
        data="jsonb_strip_nulls(jsonb_build_object("
        "'reason', m.reason, 'instruction', m.instruction_id, 'task', m.task_id))",
    )


def first_reminder_at(now: datetime) -> datetime | None:
    # A wait of 0 turns reminders off.
    wait: int = settings.TENFOUR["ESCALATION_REMIND_SECONDS"]
    return now + timedelta(seconds=wait) if wait else None


def open_for_task(
    task: Row,
    reason: str,
    *,
    question: Question | None = None,
    asked_in: UUID | None = None,
    stamp: Stamp,
) -> Escalation:
    """Open an escalation for a task; `asked_in` is the attempt in which the agent asks it."""
    # The task was just escalated or reported blocked.
    return create_open(
        reason,
        project_id=task["project_id"],
        agent_id=task["agent_id"],
        task_id=task["id"],
        asked_in_id=asked_in,
        attempts=task["attempts"],
        attempt_limit=task["attempt_limit"],
        retry_count=task["retry_count"],
        notify_again_at=first_reminder_at(stamp.at),
        stamp=stamp,
        **(question.columns if question else {}),
    )


def open_for_permission(
    request: PermissionRequest, question: Question, *, stamp: Stamp
) -> Escalation:
    # A permission request ends before a reminder is due.
    return create_open(
        Reason.PERMISSION_REQUEST,
        project_id=request.project_id,
        agent_id=request.agent_id,
        permission=request,
        stamp=stamp,
        **question.columns,
    )


def create_open(reason: str, *, stamp: Stamp, **columns: Any) -> Escalation:
    opened = rows.create(
        Escalation,
        state=EscalationState.OPEN,
        reason=reason,
        raised_by_type=stamp.actor.type,
        raised_by_name=stamp.actor.name,
        opened_at=stamp.at,
        updated_at=stamp.at,
        **columns,
    )
    record_event(
        opened,
        Kind.ESCALATION_OPENED,
        to_state=EscalationState.OPEN,
        stamp=stamp,
        data={"reason": reason},
    )
    return opened


def withdraw(task_ids: Iterable[UUID], *, stamp: Stamp) -> None:
    found = Escalation.objects.open().filter(task_id__in=list(task_ids)).select_for_update()
    for escalation in found.order_by("id"):
        close(escalation, EscalationState.WITHDRAWN, stamp=stamp)


def close(
    escalation: Escalation,
    to: EscalationState,
    *,
    stamp: Stamp,
    data: dict[str, Any] | None = None,
    **columns: Any,
) -> None:
    # The caller has locked the escalation.
    Escalation.objects.filter(pk=escalation.pk).update(
        state=to,
        closed_at=stamp.at,
        updated_at=stamp.at,
        version=escalation.version + 1,
        snoozed_until=None,
        snoozed_by_name="",
        **columns,
    )
    record_event(
        escalation,
        CLOSED_EVENTS[to],
        from_state=EscalationState.OPEN,
        to_state=to,
        stamp=stamp,
        data=data,
    )


def reopen(escalation: Escalation, *, stamp: Stamp) -> None:
    # The caller has locked the escalation.
    Escalation.objects.filter(pk=escalation.pk).update(
        state=EscalationState.OPEN,
        closed_at=None,
        updated_at=stamp.at,
        version=escalation.version + 1,
        undo_until=None,
        **UNANSWERED,
    )
    record_event(
        escalation,
        Kind.ESCALATION_REOPENED,
        from_state=EscalationState.RESOLVED,
        to_state=EscalationState.OPEN,
        stamp=stamp,
        data={"action": escalation.action},
    )


def hand_over(task_id: UUID, *, to: Agent, stamp: Stamp) -> None:
    # A question whose answer can be undone may open again, so it changes hands too.
    asked = Escalation.objects.filter(
        Q(state=EscalationState.OPEN) | Q(undo_until__gt=stamp.at), task_id=task_id
    )
    asked.exclude(agent=to).update(agent=to, updated_at=stamp.at, version=F("version") + 1)


def record_event(
    escalation: Escalation,
    kind: Kind,
    *,
    from_state: str | None = None,
    to_state: str | None = None,
    stamp: Stamp,
    data: dict[str, Any] | None = None,
) -> None:
    about = {
        name: str(id)
        for name in ("task", "permission")
        if (id := getattr(escalation, f"{name}_id"))
    }
    journal.record_about(
        "escalation",
        escalation,
        kind,
        from_state=from_state,
        to_state=to_state,
        stamp=stamp,
        data=about | (data or {}),
    )


def lock(escalation_id: UUID, among: EscalationQuerySet) -> Escalation:
    found = among.select_for_update(of=("self",)).select_related(
        "agent", "instruction", "permission", "project", "task"
    )
    escalation = found.filter(pk=escalation_id).first()
    if escalation is None:
        raise NotFound(f"There is no escalation {escalation_id} here.")
    return escalation


def lock_plan(escalation_id: UUID, among: EscalationQuerySet) -> None:
    # Lock all open escalations of the plan, in id order: otherwise two aborts of one plan would
    # each hold their own escalation and wait for the other's.
    plan = among.filter(pk=escalation_id).values("task__plan")[:1]
    rows = Escalation.objects.open().filter(task__plan=plan).order_by("id")
    list(rows.select_for_update(of=("self",)).values_list("pk"))


def require_open(escalation: Escalation) -> None:
    """Raise EscalationExpired or AlreadyResolved unless the escalation is open."""
    if escalation.state == EscalationState.EXPIRED:
        raise EscalationExpired(describe_closing(escalation))
    if not escalation.is_open:
        raise AlreadyResolved(describe_closing(escalation), resolution=resolution(escalation))


def describe_closing(escalation: Escalation) -> str:
    if escalation.state != EscalationState.RESOLVED:
        return f"The escalation has been {escalation.state} since {escalation.closed_at:%F %T}Z."
    return (
        f"{escalation.answered_by_name} answered '{escalation.action}' "
        f"at {escalation.closed_at:%F %T}Z."
    )


def resolution(escalation: Escalation) -> dict[str, Any] | None:
    """Return the answer (what, who, when, from where, with what result), or None without one."""
    if escalation.state != EscalationState.RESOLVED:
        return None
    return {
        "action": escalation.action,
        "instruction": escalation.fix or None,
        "response": escalation.response,
        "note": escalation.note or None,
        "by": {"type": escalation.answered_by_type, "name": escalation.answered_by_name},
        "at": escalation.closed_at,
        "channel": escalation.channel,
        "undo_until": escalation.undo_until,
        "resent_as": escalation.resent_as_id,
        "cancelled": escalation.cancelled,
    }


# Its version stays: the possible answers have not changed.
SEE = """update retries_escalation set seen_at = %(now)s
where id = %(id)s and seen_at is null and state = 'open'"""


def note_view(escalation_id: UUID, *, now: datetime) -> None:
    # Only the first view counts.
    sql.run(SEE, id=escalation_id, now=now)
