"""Tasks: enqueued, read, stopped. What happens after an attempt is decided in `retries`."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from psycopg.types.json import Jsonb

from ledger import journal, moves, sql
from ledger.journal import SYSTEM, Actor, Kind
from ledger.models import Agent
from ledger.models.task import OnExhausted
from ledger.moves import task_to
from ledger.needs import hold_current
from ledger.redaction import redact, titled
from ledger.refusals import (
    Invalid,
    InvalidTransition,
    NotFound,
    PayloadTooLarge,
    VersionMismatch,
)
from ledger.sql import Row
from ledger.states import FINAL, TaskState, Who, allowed_moves
from ledger.tokens import Known

State = TaskState

TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
TITLE_LENGTH = 200
PAYLOAD_BYTES = 262_144
PRIORITIES = (-(2**31), 2**31 - 1)
MAX_ATTEMPTS = 100
LEASE_S = (5, 86_400)
TIMEOUT_S = (1, 604_800)
MOST_NEEDS = 100
OVER = ", ".join(f"'{state}'" for state in FINAL)
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before the next attempt: min(base * factor^n, max), then jitter."""

    base_delay_ms: int = 100
    max_delay_ms: int = 30_000
    exponential_base: float = 2.0
    jitter: bool = True


BACKOFF = tuple(field.name for field in fields(Backoff))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A task as it is asked for; what is None takes the setting."""

    type: str
    payload: Any = None
    title: str = ""
    priority: int = 0
    needs: Sequence[UUID] = ()
    max_attempts: int | None = None
    on_exhausted: str | None = None
    backoff: Backoff = Backoff()
    lease_s: int | None = None
    timeout_s: int | None = None
    idempotent: bool = True
    non_retryable: bool = False


def check(spec: Spec, *, at: str = "") -> Spec:
    """The spec itself; raises Invalid or PayloadTooLarge where a value does not fit."""
    if not TYPE.fullmatch(spec.type):
        raise Invalid(
            f"{at}/type", "A type has 1 to 64 letters, digits, dots, dashes, colons, underscores."
        )
    if len(spec.title) > TITLE_LENGTH:
        raise Invalid(f"{at}/title", f"A title has at most {TITLE_LENGTH} characters.")
    between(spec.priority, PRIORITIES, f"{at}/priority")
    between(spec.max_attempts, (1, MAX_ATTEMPTS), f"{at}/max_attempts")
    between(spec.lease_s, LEASE_S, f"{at}/lease_s")
    between(spec.timeout_s, TIMEOUT_S, f"{at}/timeout_s")
    between(spec.backoff.base_delay_ms, (0, 86_400_000), f"{at}/backoff/base_delay_ms")
    between(spec.backoff.max_delay_ms, (0, 86_400_000), f"{at}/backoff/max_delay_ms")
    between(spec.backoff.exponential_base, (1, 100), f"{at}/backoff/exponential_base")
    if spec.on_exhausted is not None and spec.on_exhausted not in OnExhausted.values:
        raise Invalid(f"{at}/on_exhausted", "on_exhausted is 'escalate' or 'dead_letter'.")
    if len(spec.needs) > MOST_NEEDS:
        raise Invalid(f"{at}/needs", f"A task needs at most {MOST_NEEDS} others.")
    check_payload(spec.payload, at=f"{at}/payload")
    return spec


def between(value: float | None, limits: tuple[float, float], pointer: str) -> None:
    if value is not None and not limits[0] <= value <= limits[1]:
        name = pointer.rpartition("/")[2]
        raise Invalid(pointer, f"{name} is a number from {limits[0]} to {limits[1]}.")


VERIFY = {"command": str, "cwd": str, "timeout_s": int, "expect_exit": int, "text": str}


def check_payload(payload: Any, *, at: str) -> None:
    """Raise where the payload is too large, or one of the keys that Heed knows does not fit."""
    size = len(json.dumps(payload).encode())
    if size > PAYLOAD_BYTES:
        raise PayloadTooLarge(
            f"The payload has {size} of at most {PAYLOAD_BYTES} bytes.", limit_bytes=PAYLOAD_BYTES
        )
    if not isinstance(payload, dict):
        return
    if not isinstance(payload.get("action", ""), str):
        raise Invalid(f"{at}/action", "action is a text.")
    for name in ("files", "context", "done"):
        value = payload.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise Invalid(f"{at}/{name}", f"{name} is a list of texts.")
    verify = payload.get("verify", {})
    if not isinstance(verify, dict):
        raise Invalid(f"{at}/verify", "verify is an object, such as {'command': 'make test'}.")
    for name, kind in VERIFY.items():
        value = verify.get(name, kind())
        if not isinstance(value, kind) or isinstance(value, bool):
            word = "a text" if kind is str else "a whole number"
            raise Invalid(f"{at}/verify/{name}", f"{name} is {word}.")


ENQUEUE = f"""with {Known.cte}, asked as materialized (
    -- in the order in which they were asked for: their ids are the order of the queue
    select uuidv7() as id, * from jsonb_to_recordset(%(tasks)s::jsonb) as a(agent_id uuid,
        title text, type text, priority int, payload jsonb, max_attempts int, on_exhausted text,
        base_delay_ms int, max_delay_ms int, exponential_base float8, jitter bool, lease_s int,
        timeout_s int, idempotent bool, non_retryable bool, redactions jsonb, needs uuid[],
        replay_of uuid)
), needed as materialized (
    -- what the caller holds, so that none of them ends before it knows that it is waited for
    select a.id as task_id, n.id as need_id, n.state in ('{State.DONE}', '{State.SKIPPED}')
        or exists (select from ledger_deadletter l
            where l.task_id = n.id and l.closed_as = 'dismissed') as met
    from asked a cross join unnest(a.needs) as w(id) join ledger_task n on n.id = w.id
), counted as (
    update ledger_task n set needed_by = n.needed_by + w.more
    from (select need_id, count(*) as more from needed group by need_id) w where n.id = w.need_id
), made as (
    insert into ledger_task as t (id, project_id, agent_id, title, type, state, blocked_reason,
        priority, payload, max_attempts, attempt_limit, unmet, on_exhausted, base_delay_ms,
        max_delay_ms, exponential_base, jitter, lease_s, timeout_s, idempotent, non_retryable,
        redactions, replay_of_id, created_by_type, created_by_name, created_at, updated_at)
    select a.id, c.project_id, a.agent_id, a.title, a.type,
        case when u.unmet > 0 then '{State.BLOCKED}' else '{State.QUEUED}' end,
        case when u.unmet > 0 then 'dependency' end, a.priority,
        coalesce(a.payload, '{{}}'), a.max_attempts,
        a.max_attempts, u.unmet, a.on_exhausted, a.base_delay_ms, a.max_delay_ms,
        a.exponential_base, a.jitter, a.lease_s, a.timeout_s, a.idempotent, a.non_retryable,
        a.redactions, a.replay_of, c.actor_type, c.actor_name, %(now)s, %(now)s
    from asked a, caller c, lateral (
        select count(*) filter (where not n.met)::int as unmet from needed n
        where n.task_id = a.id) u
    order by a.id
    returning {moves.task_columns("t")}, null as from_state
), waiting as (insert into ledger_need (task_id, need_id) select task_id, need_id from needed
), journalled as ({
    journal.insert("made", kind=f"'{Kind.TASK_CREATED}'", subject="task")
}) select m.*, g.name as agent_name from made m join ledger_agent g on g.id = m.agent_id
    order by m.id"""


def enqueue(
    agent: Agent,
    type: str,
    payload: Any = None,
    priority: int = 0,
    max_attempts: int | None = None,
    *,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
    request_id: str = "",
    **more: Any,
) -> UUID:
    """Put a task into the agent's queue and return its id; `more` are further fields of Spec."""
    spec = Spec(type=type, payload=payload, priority=priority, max_attempts=max_attempts, **more)
    rows = enqueue_many([(agent, spec)], actor=actor, now=now, request_id=request_id)
    id: UUID = rows[0]["id"]
    return id


def enqueue_many(
    asked: Sequence[tuple[Agent, Spec]],
    *,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
    request_id: str = "",
    replay_of: UUID | None = None,
) -> list[Row]:
    """Put tasks of one project into their agents' queues, all or none; the rows, in this order.

    Secrets in texts and payloads are masked. One that needs others waits for them, blocked; for
    what was replaced it waits in its replacement.
    """
    if not asked:
        return []
    tasks = [
        {
            "replay_of": str(replay_of) if replay_of else None,
            **written(agent, check(spec, at=f"/tasks/{n}" if len(asked) > 1 else "")),
        }
        for n, (agent, spec) in enumerate(asked)
    ]
    known = Known(actor, project_id=asked[0][0].project_id, request_id=request_id)
    params = {"now": now or timezone.now(), **known.params}
    needs = {need for _, spec in asked for need in spec.needs}
    if not needs:
        return sql.run(ENQUEUE, tasks=Jsonb(tasks), **params)
    with transaction.atomic():
        current = hold_current(needs, project_id=asked[0][0].project_id)
        for task, (_, spec) in zip(tasks, asked, strict=True):
            task["needs"] = [str(id) for id in dict.fromkeys(current[need] for need in spec.needs)]
        return sql.run(ENQUEUE, tasks=Jsonb(tasks), **params)


def written(agent: Agent, spec: Spec) -> dict[str, Any]:
    """The values of a task's row: defaults are resolved now and kept."""
    heed = settings.HEED
    (title, payload), hidden = redact((titled(spec.title), spec.payload))
    attempts = heed["TASK_MAX_ATTEMPTS"] if spec.max_attempts is None else spec.max_attempts
    return {
        "agent_id": str(agent.pk),
        "title": title,
        "type": spec.type,
        "priority": spec.priority,
        "payload": payload,
        "redactions": hidden,
        "max_attempts": attempts,
        "on_exhausted": spec.on_exhausted or OnExhausted.DEAD_LETTER.value,
        "lease_s": heed["TASK_LEASE_SECONDS"] if spec.lease_s is None else spec.lease_s,
        "timeout_s": heed["TASK_TIMEOUT_SECONDS"] if spec.timeout_s is None else spec.timeout_s,
        "idempotent": spec.idempotent,
        "non_retryable": spec.non_retryable,
        "needs": [],
        **asdict(spec.backoff),
    }


# ---- read


def row_of(task_id: UUID) -> Row:
    """A task's row as a move returns it; raises NotFound."""
    rows = sql.run(
        f"""select {moves.task_columns("t")}, g.name as agent_name
        from ledger_task t join ledger_agent g on g.id = t.agent_id where t.id = %(id)s""",
        id=task_id,
    )
    if not rows:
        raise NotFound(f"There is no task {task_id}.")
    return rows[0]


def refused(row: Row, to: TaskState, who: Who) -> InvalidTransition:
    """Why a task may not go there, with where it stands and where it may go."""
    allowed = allowed_moves(row["state"], who)
    return InvalidTransition(
        f"The task is {row['state']}; it can't become {to}.", current=row["state"], allowed=allowed
    )


# ---- changed

CHANGE = f"""with {Known.cte}, changed as (
    update ledger_task t set priority = coalesce(%(priority)s, t.priority),
        agent_id = coalesce(%(to_agent)s, t.agent_id),
        payload = coalesce(%(payload)s, t.payload),
        redactions = coalesce(%(redactions)s, t.redactions),
        max_attempts = coalesce(%(max_attempts)s, t.max_attempts),
        attempt_limit = greatest(t.attempts,
            t.attempt_limit + coalesce(%(max_attempts)s, t.max_attempts) - t.max_attempts),
        base_delay_ms = coalesce(%(base_delay_ms)s, t.base_delay_ms),
        max_delay_ms = coalesce(%(max_delay_ms)s, t.max_delay_ms),
        exponential_base = coalesce(%(exponential_base)s, t.exponential_base),
        jitter = coalesce(%(jitter)s, t.jitter), version = t.version + 1, updated_at = %(now)s
    where t.id = %(id)s and t.version = %(version)s and t.state not in ({OVER})
        and (t.state <> '{State.RUNNING}' or not %(while_still)s)
    returning {moves.task_columns("t")}
), told as ({
    journal.insert(
        "changed",
        kind=f"'{Kind.TASK_CHANGED}'",
        subject="task",
        from_state="null",
        to_state="null",
        data="%(data)s",
    )
}) select m.*, g.name as agent_name from changed m join ledger_agent g on g.id = m.agent_id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be different; None leaves it as it is."""

    priority: int | None = None
    agent: Agent | None = None
    payload: Any = None
    max_attempts: int | None = None
    backoff: Backoff | None = None

    @property
    def names(self) -> list[str]:
        return [name for name in self.__slots__ if getattr(self, name) is not None]


def change(
    task_id: UUID,
    asked: Change,
    *,
    version: int,
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> Row:
    """Change a task that is not over, as it was read at `version`; its new row.

    A new `max_attempts` moves the budget by the difference, never below the last attempt. Payload
    and agent change only while no attempt is under way. Raises VersionMismatch and
    InvalidTransition.
    """
    check_payload(asked.payload, at="/payload")
    payload, hidden = redact(asked.payload)
    rows = sql.run(
        CHANGE,
        id=task_id,
        version=version,
        priority=asked.priority,
        to_agent=asked.agent.pk if asked.agent else None,
        payload=None if payload is None else Jsonb(payload),
        redactions=None if payload is None else Jsonb(hidden),
        max_attempts=asked.max_attempts,
        **(asdict(asked.backoff) if asked.backoff else dict.fromkeys(BACKOFF)),
        while_still=asked.payload is not None or asked.agent is not None,
        data=Jsonb({"changed": asked.names}),
        now=now or timezone.now(),
        **Known(actor, request_id=request_id).params,
    )
    if rows:
        return rows[0]
    row = row_of(task_id)
    if row["version"] != version:
        raise VersionMismatch(
            f"You have read version {version}; it is at {row['version']} now.",
            current=row["version"],
        )
    raise InvalidTransition(
        f"The task is {row['state']}: that can't be changed now.", current=row["state"], allowed=[]
    )


# ---- stopped

ABORT = f"""with {Known.cte}, moved as ({
    task_to(State.ABORTED, where="t.id = any(%(ids)s) and t.state <> 'running'")
}), flagged as (
    update ledger_task t set abort_requested_at = %(now)s, version = t.version + 1,
        updated_at = %(now)s
    where t.id = any(%(ids)s) and t.state = 'running' and t.abort_requested_at is null
    returning t.id, t.project_id, t.agent_id, t.state, t.state as from_state
), told as ({journal.insert("moved", kind=f"'{Kind.TASK_ABORTED}'", subject="task")}),
asked as ({
    journal.insert(
        "flagged",
        kind=f"'{Kind.TASK_ABORT_REQUESTED}'",
        subject="task",
        from_state="null",
        to_state="null",
    )
}) select id, true as stopped from moved union all select id, false from flagged"""


def abort(
    ids: Iterable[UUID], *, actor: Actor, now: datetime | None = None, request_id: str = ""
) -> dict[UUID, bool]:
    """Stop these tasks: True for one that is aborted, False for one that runs and was told to.

    Final ones are left out. A running one ends when its agent reports or its lease runs out.
    """
    known = Known(actor, request_id=request_id)
    rows = sql.run(ABORT, ids=list(ids), now=now or timezone.now(), **known.params)
    return {row["id"]: row["stopped"] for row in rows}
