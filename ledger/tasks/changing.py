"""Change a task that is not over."""

import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from django.db import transaction
from psycopg.types.json import Jsonb

from ledger import journal, moves
from ledger.agents import hold_pools
from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import InvalidTransition
from ledger.journal import Kind, Stamp
from ledger.models import Agent, Task
from ledger.secrets.notes import noted
from ledger.states import BlockedReason, RetryOn, TaskState
from ledger.tasks.lineage import fetch_at_version
from ledger.tasks.payload_changes import journaled, list_changes
from ledger.tasks.spec import BACKOFF, Backoff, check_not_before, check_retry_on, clean_payload
from ledger.tokens import TrustedCaller

# the agents before and after, in the event's data, if these differ
REASSIGNED = """coalesce((select jsonb_build_object('from_agent', f.name, 'to_agent', g.name)
            from ledger_agent f, ledger_agent g
            where f.id = m.from_agent_id and g.id = m.agent_id and f.id <> g.id), '{}')"""

# the other values before and after that differ
VALUED = ("priority", "max_attempts", "not_before")
VALUES = f"""coalesce((select jsonb_build_object('values', jsonb_object_agg(v.name,
                jsonb_build_object('old', v.was, 'new', v.now)))
            from (values {
    ", ".join(f"('{name}', to_jsonb(m.from_{name}), to_jsonb(m.{name}))" for name in VALUED)
}) v(name, was, now) where v.was is distinct from v.now having count(*) > 0), '{{}}')"""

# The least attempt limit: one more attempt is granted already unless the task runs or a person is
# asked, whose answer grants it.
LEAST_LIMIT = f"""t.attempts + case when t.state in ('{TaskState.RUNNING}', '{TaskState.ESCALATED}')
            or t.blocked_reason = '{BlockedReason.REPORTED}' then 0 else 1 end"""

# A retry that waited for its earlier `not_before` waits for the new one alone.
DUE_AT = f"""case when t.state <> '{TaskState.RETRY}' or %(not_before)s::timestamptz is null
                then t.due_at
            when t.due_at = t.not_before then greatest(%(not_before)s, %(now)s)
            else greatest(t.due_at, %(not_before)s) end"""
IS_EARLY = "coalesce(%(not_before)s > %(now)s, false)"

# the member of the task's pool that had it last
LAST_MEMBER = """(select p.agent_id from ledger_attempt p
                join ledger_poolmember s on s.agent_id = p.agent_id and s.pool_id = t.pool_id
                where p.task_id = t.id and p.number = t.attempts)"""

CHANGE = f"""with {TrustedCaller.cte}, changed as (
    update ledger_task t set priority = coalesce(%(priority)s, t.priority),
        agent_id = case when %(to_agent)s::uuid is not null then %(to_agent)s
            when %(retry_on)s::text is null or t.pool_id is null
                or t.state = '{TaskState.RUNNING}' then t.agent_id
            when %(retry_on)s = '{RetryOn.SAME}' then coalesce({LAST_MEMBER}, t.agent_id)
            else t.pool_id end,
        pool_id = case when %(to_agent)s::uuid is null then t.pool_id else %(to_pool)s end,
        retry_on = coalesce(%(retry_on)s, case when t.pool_id <> %(to_pool)s::uuid then null
            else t.retry_on end, %(pool_retry_on)s),
        payload = coalesce(%(payload)s, t.payload),
        redactions = coalesce(%(redactions)s, t.redactions),
        max_attempts = coalesce(%(max_attempts)s, t.max_attempts),
        attempt_limit = greatest({LEAST_LIMIT},
            t.attempt_limit + coalesce(%(max_attempts)s, t.max_attempts) - t.max_attempts),
        base_delay_ms = coalesce(%(base_delay_ms)s, t.base_delay_ms),
        max_delay_ms = coalesce(%(max_delay_ms)s, t.max_delay_ms),
        exponential_base = coalesce(%(exponential_base)s, t.exponential_base),
        jitter = coalesce(%(jitter)s, t.jitter), evidence = coalesce(%(evidence)s, t.evidence),
        not_before = coalesce(%(not_before)s, t.not_before),
        due_at = {DUE_AT}, due_noted_at = case when {DUE_AT} > %(now)s then null
            else t.due_noted_at end,
        state = case when {IS_EARLY} and t.state = '{TaskState.QUEUED}'
            then '{TaskState.BLOCKED}' else t.state end,
        blocked_reason = case when {IS_EARLY} and (t.state = '{TaskState.QUEUED}'
                or t.blocked_reason = '{BlockedReason.BREAKER_OPEN}')
            then '{BlockedReason.NOT_BEFORE}' else t.blocked_reason end,
        version = t.version + 1, updated_at = %(now)s
    where t.id = %(id)s and t.version = %(version)s and t.state not in ({moves.FINAL_STATES})
        and (t.state <> '{TaskState.RUNNING}' or not %(unless_running)s)
        and (%(not_before)s::timestamptz is null
            or t.state in ('{TaskState.QUEUED}', '{TaskState.RETRY}')
            or t.blocked_reason <> '{BlockedReason.REPORTED}')
    returning {moves.task_columns("t")}, old.agent_id as from_agent_id, old.state as from_state,
        {", ".join(f"old.{name} as from_{name}" for name in VALUED)}
), journaled as ({
    journal.insert(
        "changed",
        kind=f"'{Kind.TASK_CHANGED}'",
        subject="task",
        from_state="case when m.state <> m.from_state then m.from_state end",
        to_state="case when m.state <> m.from_state then m.state end",
        data=f"%(data)s || {REASSIGNED} || {VALUES} || {moves.START_REASON}",
    )
}) select m.*, g.name as agent_name, p.name as pool_name
from changed m join ledger_agent g on g.id = m.agent_id
    left join ledger_agent p on p.id = m.pool_id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The fields to change; None leaves a field as it is."""

    priority: int | None = None
    agent: Agent | None = None
    payload: Any = None
    max_attempts: int | None = None
    backoff: Backoff | None = None
    evidence: str | None = None
    retry_on: str | None = None
    not_before: datetime | None = None

    @property
    def names(self) -> list[str]:
        return [name for name in self.__slots__ if getattr(self, name) is not None]

    @property
    def columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.names if name != "agent"}


def describe_changes(before: Task, asked: Change) -> dict[str, Any]:
    valued = {name: asked.columns[name] for name in VALUED if name in asked.columns}
    values = {name: {"old": getattr(before, name), "new": new} for name, new in valued.items()}
    data: dict[str, Any] = {"changed": asked.names} | ({"values": values} if values else {})
    if asked.agent:
        data |= {"from_agent": before.sent_to.name, "to_agent": asked.agent.name}
    return cast(dict[str, Any], json.loads(json.dumps(data, default=datetime.isoformat)))


def change(task_id: UUID, asked: Change, *, version: int, note: str = "", stamp: Stamp) -> Row:
    """Change a task that is not over and still at `version`; return its new row.

    A new `max_attempts` moves the attempt limit by the difference, but never below the last
    attempt, nor below the next one of a task that waits for it. Payload and agent change only while
    no attempt is running, and `not_before` only while the task waits: a retry that is due earlier
    moves to that time. A task that moves to another pool takes that pool's `retry_on`.
    Raises VersionMismatch and InvalidTransition.
    """
    if not asked.names:
        return fetch_at_version(task_id, version=version)
    check_retry_on(asked.retry_on, "/retry_on")
    check_not_before(asked.not_before, "/not_before")
    payload, redactions = None, Counter[str]()
    changes: dict[str, Any] = {}
    if asked.payload is not None:
        payload, redactions = clean_payload(asked.payload, pointer="/payload")
        before = fetch_at_version(task_id, version=version)
        changes = journaled(list_changes(before["payload"], payload))
        changes["attempt"] = before["attempts"] + 1
    pool = asked.agent if asked.agent and asked.agent.is_pool else None
    with transaction.atomic() if pool else nullcontext():
        hold_pools([pool] if pool else [])
        rows = sql.run(
            CHANGE,
            id=task_id,
            version=version,
            priority=asked.priority,
            to_agent=asked.agent.pk if asked.agent else None,
            to_pool=pool.pk if pool else None,
            retry_on=asked.retry_on,
            pool_retry_on=pool.retry_on if pool else None,
            payload=None if payload is None else Jsonb(payload),
            redactions=None if payload is None else Jsonb(redactions),
            max_attempts=asked.max_attempts,
            evidence=asked.evidence,
            not_before=asked.not_before,
            **(asdict(asked.backoff) if asked.backoff else dict.fromkeys(BACKOFF)),
            unless_running=asked.payload is not None or asked.agent is not None,
            data=Jsonb({"changed": asked.names} | changes | noted(note)),
            now=stamp.at,
            **TrustedCaller(stamp.actor, request_id=stamp.request_id).params,
        )
    if rows:
        return rows[0]
    row = fetch_at_version(task_id, version=version)
    raise InvalidTransition(
        f"The task is {row['state']}, so this can't be changed now.",
        current=row["state"],
        allowed=[],
    )
