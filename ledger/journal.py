"""Write and read the journal: event kinds, the only INSERT of events, and the event stream."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import TextChoices
from django.http import HttpRequest
from psycopg.types.json import Jsonb

from ledger.database import server_time, sql
from ledger.values.ids import LAST_ID, SLACK, first_id


class Kind(TextChoices):
    """The kinds of events: noun, dot, past participle."""

    INSTRUCTION_QUEUED = "instruction.queued"
    INSTRUCTION_DELIVERED = "instruction.delivered"
    INSTRUCTION_READ = "instruction.read"
    INSTRUCTION_ACKNOWLEDGED = "instruction.acknowledged"
    INSTRUCTION_DECLINED = "instruction.declined"
    INSTRUCTION_ACKNOWLEDGED_LATE = "instruction.acknowledged_late"
    INSTRUCTION_REQUEUED = "instruction.requeued"
    INSTRUCTION_FAILED = "instruction.failed"
    INSTRUCTION_CANCELLED = "instruction.cancelled"
    INSTRUCTION_HELD = "instruction.held"
    STANDING_INSTRUCTION_CREATED = "standing_instruction.created"
    STANDING_INSTRUCTION_UPDATED = "standing_instruction.updated"
    STANDING_INSTRUCTION_PAUSED = "standing_instruction.paused"
    STANDING_INSTRUCTION_RESUMED = "standing_instruction.resumed"
    STANDING_INSTRUCTION_RETIRED = "standing_instruction.retired"
    SIGNAL_MATCHED = "signal.matched"
    TASK_CREATED = "task.created"
    TASK_CHANGED = "task.changed"
    TASK_CLAIMED = "task.claimed"
    TASK_COMPLETED = "task.completed"
    TASK_RETRY_SCHEDULED = "task.retry_scheduled"
    TASK_DUE = "task.due"
    TASK_RELEASED = "task.released"
    TASK_BLOCKED = "task.blocked"
    TASK_UNBLOCKED = "task.unblocked"
    TASK_REQUEUED = "task.requeued"
    TASK_ANSWER_UNDONE = "task.answer_undone"
    TASK_ESCALATED = "task.escalated"
    TASK_FAILED = "task.failed"
    TASK_SKIPPED = "task.skipped"
    TASK_ABORTED = "task.aborted"
    TASK_REPORTED_LATE = "task.reported_late"
    TASK_FILES_OUTSIDE = "task.files_outside"
    TASK_ABORT_REQUESTED = "task.abort_requested"
    TASK_REPLAYED = "task.replayed"
    TASK_DISMISSED = "task.dismissed"
    TASK_ASSIGNED = "task.assigned"
    TASK_COMMENTED = "task.commented"
    PLAN_IMPORTED = "plan.imported"
    PLAN_UPDATED = "plan.updated"
    PLAN_PAUSED = "plan.paused"
    PLAN_RESUMED = "plan.resumed"
    PLAN_COMPLETED = "plan.completed"
    PLAN_ABORTED = "plan.aborted"
    PLAN_RESTARTED = "plan.restarted"
    PLAN_STUCK = "plan.stuck"
    ESCALATION_OPENED = "escalation.opened"
    ESCALATION_RESOLVED = "escalation.resolved"
    ESCALATION_REOPENED = "escalation.reopened"
    ESCALATION_WITHDRAWN = "escalation.withdrawn"
    PATTERN_IGNORED = "pattern.ignored"
    PATTERN_RESOLVED = "pattern.resolved"
    PATTERN_REOPENED = "pattern.reopened"
    PATTERN_REGRESSED = "pattern.regressed"
    PATTERN_MERGED = "pattern.merged"
    PATTERN_ASSIGNED = "pattern.assigned"
    PATTERN_COMMENTED = "pattern.commented"
    PATTERN_FIX_PROMOTED = "pattern.fix_promoted"
    PATTERN_FIX_RETIRED = "pattern.fix_retired"
    PATTERN_FIX_RESET = "pattern.fix_reset"
    ESCALATION_EXPIRED = "escalation.expired"
    ESCALATION_REMINDED = "escalation.reminded"
    ESCALATION_ASSIGNED = "escalation.assigned"
    ESCALATION_COMMENTED = "escalation.commented"
    ESCALATION_TOLD = "escalation.told"
    ESCALATION_POLICY_CREATED = "escalation_policy.created"
    ESCALATION_POLICY_UPDATED = "escalation_policy.updated"
    ESCALATION_POLICY_DELETED = "escalation_policy.deleted"
    ROTA_CREATED = "rota.created"
    ROTA_UPDATED = "rota.updated"
    ROTA_DELETED = "rota.deleted"
    ESCALATION_SNOOZED = "escalation.snoozed"
    ESCALATION_RETURNED = "escalation.returned"
    PERMISSION_ALLOWED = "permission.allowed"
    PERMISSION_DENIED = "permission.denied"
    PERMISSION_RULE_CREATED = "permission_rule.created"
    PERMISSION_RULE_REVOKED = "permission_rule.revoked"
    PERMISSION_RULE_EXPIRED = "permission_rule.expired"
    PERMISSION_RULE_DISMISSED = "permission_rule.dismissed"
    AGENT_REGISTERED = "agent.registered"
    AGENT_PAUSED = "agent.paused"
    AGENT_RESUMED = "agent.resumed"
    AGENT_LIMITED = "agent.limited"
    AGENT_WAIT_SET = "agent.wait_set"
    AGENT_BRIEFED = "agent.briefed"
    AGENT_TARGET_SET = "agent.target_set"
    AGENT_RESET = "agent.reset"
    AGENT_BREAKER_OPENED = "agent.breaker_opened"
    AGENT_BREAKER_HALF_OPEN = "agent.breaker_half_open"
    AGENT_BREAKER_KEPT_OPEN = "agent.breaker_kept_open"
    AGENT_BREAKER_CLOSED = "agent.breaker_closed"
    AGENT_NEEDS_ATTENTION = "agent.needs_attention"
    AGENT_SILENT = "agent.silent"
    AGENT_HEARD = "agent.heard"
    POOL_CREATED = "pool.created"
    POOL_CHANGED = "pool.changed"
    POOL_REMOVED = "pool.removed"
    LIMIT_REACHED = "limit.reached"
    LIMIT_ENDED = "limit.ended"
    BUDGET_SET = "budget.set"
    BUDGET_REMOVED = "budget.removed"
    BUDGET_GRANTED = "budget.granted"
    BUDGET_NEAR = "budget.near"
    BUDGET_REACHED = "budget.reached"
    PRICE_SET = "price.set"
    PRICE_REMOVED = "price.removed"
    PROJECT_CREATED = "project.created"
    PROJECT_POLICIES_CHANGED = "project.policies_changed"
    PROJECT_TARGET_SET = "project.target_set"
    PROJECT_TYPE_PAUSED = "project.type_paused"
    PROJECT_TYPE_RESUMED = "project.type_resumed"
    PROJECT_EXPERIMENT_STARTED = "project.experiment_started"
    PROJECT_EXPERIMENT_ENDED = "project.experiment_ended"
    PROJECT_DELETION_STARTED = "project.deletion_started"
    TOKEN_CREATED = "token.created"
    TOKEN_REVOKED = "token.revoked"
    TOKEN_ROTATED = "token.rotated"
    TOKEN_USED_IN_BULK = "token.used_in_bulk"
    MEMBER_ADDED = "member.added"
    MEMBER_CHANGED = "member.changed"
    MEMBER_REMOVED = "member.removed"
    MEMBER_SIGNED_OUT = "member.signed_out"
    MEMBER_PASSWORD_CHANGED = "member.password_changed"
    INVITATION_CREATED = "invitation.created"
    INVITATION_ACCEPTED = "invitation.accepted"
    INVITATION_REVOKED = "invitation.revoked"
    WEBHOOK_DISABLED = "webhook.disabled"
    CHANNEL_CREATED = "channel.created"
    CHANNEL_UPDATED = "channel.updated"
    CHANNEL_ROTATED = "channel.rotated"
    CHANNEL_ENABLED = "channel.enabled"
    CHANNEL_DISABLED = "channel.disabled"
    CHANNEL_DELETED = "channel.deleted"
    NOTIFICATION_RULE_CREATED = "notification_rule.created"
    NOTIFICATION_RULE_UPDATED = "notification_rule.updated"
    NOTIFICATION_RULE_DELETED = "notification_rule.deleted"
    SAVED_VIEW_CREATED = "saved_view.created"
    SAVED_VIEW_DELETED = "saved_view.deleted"
    MARKER_CREATED = "marker.created"
    MARKER_DELETED = "marker.deleted"
    AUDIT_EXPORTED = "audit.exported"
    OPERATION_STARTED = "operation.started"
    OPERATION_RESUMED = "operation.resumed"
    OPERATION_STOPPED = "operation.stopped"
    OPERATION_UNDONE = "operation.undone"
    OPERATION_COMPLETED = "operation.completed"
    SESSION_CREATED = "session.created"
    SESSION_PROCESSED = "session.processed"
    SESSION_FAILED = "session.failed"
    SESSION_RETRIED = "session.retried"
    SESSION_TASK_CREATED = "session.task_created"
    SESSION_TASK_UPDATED = "session.task_updated"


# The acts of tokens that the audit log lists and an index finds: acts on the work of others. It
# leaves out the routine of producers and agents: enqueue, send, claim, report, and meet needs.
TOKEN_ACTS = (
    Kind.INSTRUCTION_REQUEUED,
    Kind.INSTRUCTION_CANCELLED,
    Kind.STANDING_INSTRUCTION_CREATED,
    Kind.STANDING_INSTRUCTION_UPDATED,
    Kind.STANDING_INSTRUCTION_PAUSED,
    Kind.STANDING_INSTRUCTION_RESUMED,
    Kind.STANDING_INSTRUCTION_RETIRED,
    Kind.TASK_CHANGED,
    Kind.TASK_DUE,
    Kind.TASK_REQUEUED,
    Kind.TASK_ANSWER_UNDONE,
    Kind.TASK_SKIPPED,
    Kind.TASK_ABORTED,
    Kind.TASK_ABORT_REQUESTED,
    Kind.TASK_REPLAYED,
    Kind.TASK_DISMISSED,
    Kind.PLAN_IMPORTED,
    Kind.PLAN_UPDATED,
    Kind.PLAN_PAUSED,
    Kind.PLAN_RESUMED,
    Kind.PLAN_ABORTED,
    Kind.PLAN_RESTARTED,
    Kind.ESCALATION_RESOLVED,
    Kind.ESCALATION_REOPENED,
    Kind.ESCALATION_ASSIGNED,
    Kind.ESCALATION_COMMENTED,
    Kind.ESCALATION_SNOOZED,
    Kind.ESCALATION_RETURNED,
    Kind.PATTERN_IGNORED,
    Kind.PATTERN_RESOLVED,
    Kind.PATTERN_REOPENED,
    Kind.PATTERN_MERGED,
    Kind.PATTERN_FIX_PROMOTED,
    Kind.PATTERN_FIX_RETIRED,
    Kind.PATTERN_FIX_RESET,
    Kind.AGENT_PAUSED,
    Kind.AGENT_RESUMED,
    Kind.AGENT_LIMITED,
    Kind.AGENT_BRIEFED,
    Kind.AGENT_TARGET_SET,
    Kind.AGENT_RESET,
    Kind.PROJECT_POLICIES_CHANGED,
    Kind.CHANNEL_CREATED,
    Kind.CHANNEL_UPDATED,
    Kind.CHANNEL_ROTATED,
    Kind.CHANNEL_ENABLED,
    Kind.CHANNEL_DISABLED,
    Kind.CHANNEL_DELETED,
    Kind.NOTIFICATION_RULE_CREATED,
    Kind.NOTIFICATION_RULE_UPDATED,
    Kind.NOTIFICATION_RULE_DELETED,
    Kind.OPERATION_STARTED,
    Kind.OPERATION_STOPPED,
    Kind.OPERATION_UNDONE,
)


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of an event: a token, a user or the system."""

    type: str
    id: str = ""
    name: str = ""


SYSTEM = Actor("system", "", "tenfour")
SHELL = Actor("system", "manage.py", "manage.py")


@dataclass(frozen=True, slots=True)
class Stamp:
    """The author, the time and the request of a change, as its events record them.

    It is made once, where a request or a job begins, and passed on whole.
    """

    actor: Actor
    at: datetime = field(default_factory=server_time.now)
    request_id: str = ""


def clock(entry: str) -> Actor:
    return Actor("system", entry, entry)


def person(user: AbstractBaseUser | AnonymousUser) -> Actor:
    return Actor("user", str(user.pk), user.get_username()[:64])


def stamp_of(request: HttpRequest, now: datetime | None = None) -> Stamp:
    return Stamp(person(request.user), now or server_time.now(), getattr(request, "id", ""))


def insert(
    source: str,
    *,
    kind: str,
    subject: str,
    subject_id: str = "m.id",
    from_state: str = "m.from_state",
    to_state: str = "m.state",
    agent: str = "m.agent_id",
    project: str = "m.project_id",
    data: str = "'{}'::jsonb",
    id: str = "uuidv7()",
) -> str:
    """Return the SQL that inserts an event for each row `m` of the CTE `source`.

    The CTE `caller` is the actor. Every argument except `subject` is an SQL expression, and
    `%(request_id)s` must be a parameter. Hot moves pass an `id` that exists already and that no
    other event has.
    """
    return f"""
    insert into ledger_event (id, at, project_id, kind, subject_type, subject_id, agent_id,
        from_state, to_state, actor_type, actor_id, actor_name, data, request_id)
    select {id}, %(now)s, {project}, {kind}, '{subject}', {subject_id}, {agent}, {from_state},
        {to_state}, c.actor_type, c.actor_id, c.actor_name, {data}, %(request_id)s
    from {source} m, caller c"""


def insert_without_states(source: str, **expressions: str) -> str:
    """Return the SQL of `insert` for events that move nothing."""
    return insert(source, from_state="null", to_state="null", **expressions)


def record(
    kind: Kind,
    *,
    subject_type: str,
    subject_id: UUID,
    project_id: UUID,
    stamp: Stamp,
    agent_id: UUID | None = None,
    from_state: str | None = None,
    to_state: str | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    sql.run(
        f"""
        with caller as (select %(actor_type)s as actor_type, %(actor_id)s as actor_id,
            %(actor_name)s as actor_name),
        m as (select %(subject)s::uuid as id, %(agent)s::uuid as agent_id,
            %(project)s::uuid as project_id)
        {
            insert(
                "m",
                kind="%(kind)s",
                subject=subject_type,
                from_state="%(from_state)s",
                to_state="%(to_state)s",
                data="%(data)s",
            )
        }""",
        project=project_id,
        actor_type=stamp.actor.type,
        actor_id=stamp.actor.id,
        actor_name=stamp.actor.name,
        subject=subject_id,
        agent=agent_id,
        kind=kind.value,
        from_state=from_state,
        to_state=to_state,
        data=Jsonb(data or {}),
        now=stamp.at,
        request_id=stamp.request_id,
    )


def record_about(subject_type: str, row: Any, kind: Kind, *, stamp: Stamp, **more: Any) -> None:
    """Record an event about a project's row, and about its agent if it has one."""
    record(
        kind,
        subject_type=subject_type,
        subject_id=row.pk,
        project_id=row.project_id,
        agent_id=getattr(row, "agent_id", None),
        stamp=stamp,
        **more,
    )


def since_subject(subject: str) -> str:
    """Return the SQL of the lowest id that the events about a subject can have."""
    # The journal has a partition for each month of ids, and PostgreSQL reads only those from here
    # on. The day is for a clock that was set back.
    return f"ledger_event_floor(uuid_extract_timestamp({subject}), interval '1 day')"


# A reader of the stream must not overtake a transaction that is still running: it will commit
# events with a lower (tx, id) than some that are already visible.
SETTLED = "tx < ledger_stream_number(pg_snapshot_xmin(pg_current_snapshot()))"


def since_position(id: str) -> str:
    """Return the SQL of the lowest id that events after a position in the stream can have."""
    # The ids and the stream differ in order by the longest transaction, and by as much as the
    # database's clock was set back or forward: a month is more than enough.
    read = f"coalesce(uuid_extract_timestamp({id}), timestamptz '1970-01-01 00:00+00')"
    return f"ledger_event_floor(least({read}, now()), interval '31 days')"


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A position in the stream: the last event that was read."""

    tx: int = 0
    id: str = "00000000-0000-0000-0000-000000000000"


# All columns by their names: a statement that was prepared with `*` fails on its connection once a
# later version's migration has added a column.
STREAM = f"""select id, e.tx::text as tx, at, project_id, kind, subject_type, subject_id, agent_id,
    from_state, to_state, actor_type, actor_id, actor_name, data, request_id
from ledger_event e
where {SETTLED} and (tx, id) > (%(tx)s::text::xid8, %(id)s::uuid)
    and id >= {since_position("%(id)s::uuid")}
    and (%(project)s::uuid is null or project_id = %(project)s)
order by e.tx, e.id limit %(limit)s"""


def fetch_stream(
    after: Cursor, *, project_id: UUID | None = None, limit: int = 100
) -> list[sql.Row]:
    """Return the settled events after a position, oldest first."""
    return sql.run(STREAM, tx=str(after.tx), id=after.id, project=project_id, limit=limit)


# A transaction that is still running may have a lower number than a settled one.
START = f"""select e.tx::text as tx from ledger_event e
where {SETTLED} and id >= %(floor)s and at >= %(since)s order by e.tx, e.id limit 1"""


def fetch_start(since: datetime) -> Cursor:
    """Return the position in the stream before the first event since a time."""
    rows = sql.run(START, floor=first_id(since - SLACK), since=since)
    return Cursor(int(rows[0]["tx"]) - 1, str(LAST_ID)) if rows else fetch_head()


# Bare column names in ORDER BY would mean the texts of the select list.
NEWEST = """select tx::text, id::text from ledger_event where {}
    order by ledger_event.tx desc, ledger_event.id desc limit 1"""
# It has no row if nothing happened for a month.
HEAD = NEWEST.format(
    f"{SETTLED} and ledger_event.id >= ledger_event_floor(now(), interval '31 days')"
)


def fetch_head() -> Cursor:
    """Return the newest settled position."""
    # While it stays the same, nothing new has happened.
    rows = sql.run(HEAD) or sql.run(NEWEST.format(SETTLED))
    return Cursor(int(rows[0]["tx"]), rows[0]["id"]) if rows else Cursor()
