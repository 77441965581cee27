"""Tasks: enqueued, read, stopped. What happens after an attempt is decided in `retries`."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from psycopg.types.json import Jsonb
from pydantic_core import from_json, to_json

from ledger import journal, moves, sql
from ledger.errors import (
    Invalid,
    InvalidTransition,
    NotFound,
    PayloadTooLarge,
    VersionMismatch,
)
from ledger.journal import SYSTEM, Actor, Kind
from ledger.models import Agent, Task
from ledger.models.task import OnExhausted
from ledger.moves import task_to
from ledger.needs import hold_current
from ledger.redaction import redact, redacted, stripped, titled
from ledger.sql import Row
from ledger.states import FINAL, TaskState, Who, allowed_moves
from ledger.tokens import TrustedCaller

TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
TITLE_LENGTH = 200
PAYLOAD_BYTES = 262_144
PRIORITIES = INT4 = (-(2**31), 2**31 - 1)
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
    after: Sequence[int] = ()  # places in the same call of tasks that are needed, too
    missing: int = 0  # how many needs it has beside these
    max_attempts: int | None = None
    on_exhausted: str | None = None
    backoff: Backoff = Backoff()
    lease_s: int | None = None
    timeout_s: int | None = None
    idempotent: bool = True
    non_retryable: bool = False
    plan_id: UUID | None = None
    ref: str | None = None
    run: int | None = None


def check(spec: Spec, *, at: str) -> None:
    """Raise where a value beside the payload does not fit."""
    if not TYPE.fullmatch(spec.type):
        raise Invalid(
            f"{at}/type", "A type has 1 to 64 letters, digits, dots, dashes, colons, underscores."
        )
    if len(spec.title) > TITLE_LENGTH:
        raise Invalid(f"{at}/title", f"A title has at most {TITLE_LENGTH} characters.")
    backoff = spec.backoff
    between(spec.priority, PRIORITIES, at, "priority")
    between(spec.max_attempts, (1, MAX_ATTEMPTS), at, "max_attempts")
    between(spec.lease_s, LEASE_S, at, "lease_s")
    between(spec.timeout_s, TIMEOUT_S, at, "timeout_s")
    between(backoff.base_delay_ms, (0, 86_400_000), at, "backoff/base_delay_ms")
    between(backoff.max_delay_ms, (0, 86_400_000), at, "backoff/max_delay_ms")
    between(backoff.exponential_base, (1, 100), at, "backoff/exponential_base")
    if spec.on_exhausted is not None and spec.on_exhausted not in OnExhausted.values:
        raise Invalid(f"{at}/on_exhausted", "on_exhausted is 'escalate' or 'dead_letter'.")
    if spec.plan_id is None and len(spec.needs) > MOST_NEEDS:
        raise Invalid(f"{at}/needs", f"A task needs at most {MOST_NEEDS} others.")


def between(value: float | None, limits: tuple[float, float], at: str, name: str) -> None:
    if value is not None and not limits[0] <= value <= limits[1]:
        what = name.rpartition("/")[2]
        raise Invalid(f"{at}/{name}", f"{what} is a number from {limits[0]} to {limits[1]}.")


LISTS = {"files", "context", "done"}
VERIFY = {
    "command": str,
    "cwd": str,
    "timeout_s": int,
    "expect_exit": int,
    "text": str,
    "required": bool,
}
VERIFY_LIMITS = {"timeout_s": TIMEOUT_S, "expect_exit": INT4}
WORDS = {str: "a text", int: "a whole number", bool: "true or false"}


def kept_payload(payload: Any, *, at: str) -> tuple[Any, Counter[str]]:
    """The payload without its secrets, and how many of each kind it had.

    It is kept as JSON says it, whatever a Python caller made it of. Raises where it is too large,
    or one of the keys that Tenfour knows does not fit; TypeError where JSON has no form for it.
    """
    kept, text = in_json(payload)
    if len(text) > PAYLOAD_BYTES:
        raise PayloadTooLarge(
            f"The payload has {len(text)} of at most {PAYLOAD_BYTES} bytes of JSON.",
            limit_bytes=PAYLOAD_BYTES,
        )
    if isinstance(kept, dict):
        check_known_keys(kept, at=at)
    return redact({} if kept is None else kept, as_json=text)


def in_json(value: Any) -> tuple[Any, bytes]:
    """The value as JSON says it, and its JSON without spaces in UTF-8."""
    try:
        text = to_json(value)
        return from_json(text), text
    except ValueError:  # half characters, deep nests: Python's own takes longer, and takes them
        told = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return json.loads(told), told.encode(errors="surrogatepass")


def check_known_keys(payload: dict[str, Any], *, at: str) -> None:
    if not isinstance(payload.get("action", ""), str):
        raise Invalid(f"{at}/action", "action is a text.")
    for name in LISTS & payload.keys():
        value = payload[name]
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise Invalid(f"{at}/{name}", f"{name} is a list of texts.")
    if "verify" not in payload:
        return
    verify = payload["verify"]
    if not isinstance(verify, dict):
        raise Invalid(f"{at}/verify", "verify is an object, such as {'command': 'make test'}.")
    for name in (name for name in VERIFY if name in verify):
        if type(verify[name]) is not VERIFY[name]:
            raise Invalid(f"{at}/verify/{name}", f"{name} is {WORDS[VERIFY[name]]}.")
        if name in VERIFY_LIMITS:
            between(verify[name], VERIFY_LIMITS[name], at, f"verify/{name}")


# what is asked for of a task's row, and its type
ASKED = {
    "agent_id": "uuid",
    "plan_id": "uuid",
    "ref": "text",
    "run": "int",
    "title": "text",
    "type": "text",
    "priority": "int",
    "payload": "jsonb",
    "redactions": "jsonb",
    "max_attempts": "int",
    "on_exhausted": "text",
    "base_delay_ms": "int",
    "max_delay_ms": "int",
    "exponential_base": "float8",
    "jitter": "bool",
    "lease_s": "int",
    "timeout_s": "int",
    "idempotent": "bool",
    "non_retryable": "bool",
    "replay_of_id": "uuid",
}
# what each task of a call has of its own, however alike they are
OWN = ("title", "payload", "redactions")
ALIKE = itemgetter(*(name for name in ASKED if name not in OWN))
# what it waits for: earlier tasks, and others of the same call by their place
WAITING = {"place": "int", "needs": "uuid[]", "after": "int[]", "missing": "int"}
NEEDED = f"""), needed as materialized (
    -- what the caller holds, so that none of them ends before it knows that it is waited for
    select a.id as task_id, n.id as need_id, n.state in ('{TaskState.DONE}', '{TaskState.SKIPPED}')
        or exists (select from ledger_deadletter l
            where l.task_id = n.id and l.closed_as = 'dismissed') as met
    from asked a cross join unnest(a.needs) as w(id) join ledger_task n on n.id = w.id
    union all
    select a.id, b.id, false from asked a cross join unnest(a.after) as w(place)
        join asked b on b.place = w.place
), counted as (
    update ledger_task n set needed_by = n.needed_by + w.more
    from (select need_id, count(*) as more from needed group by need_id) w where n.id = w.need_id
), waiting as (insert into ledger_need (task_id, need_id) select task_id, need_id from needed
"""
UNMET = """, lateral (
        select count(*) filter (where n.task_id = a.id and not n.met)::int + a.missing as unmet,
            count(*) filter (where n.need_id = a.id)::int as needed_by
        from needed n where a.id in (n.task_id, n.need_id)) u"""


# Each id made by itself reads the random source of the system. Where many are made they count up
# from one whose first 26 digits, the time among them, keep the ids of a call apart from all others;
# and the event of a task's making takes the task's id, which no other event has.
FIRST = "first as materialized (select left(uuidv7()::text, 30) as digits), "
NEXT = "((select digits from first) || lpad(to_hex(o.n), 6, '0'))::uuid"


def asked_of(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {type}" for name, type in columns.items())


def enqueue_statement(*, own: dict[str, str] | None, needs: bool = False) -> str:
    """Make one task, or many of which each has values of its `own` beside those of `shared`.

    Gives what is not known beforehand. Most need nothing, and are made in half the time.
    """
    columns = [f"s.{name}" for name in ASKED]
    asked = f"jsonb_to_record(%(shared)s::jsonb) as s({asked_of(ASKED)})"
    if own:
        both = {name: f"coalesce(o.{name}, s.{name}) as {name}" for name in own if name in ASKED}
        columns = [both.get(name, f"s.{name}") for name in ASKED]
        columns += [f"o.{name}" for name in own if name not in ASKED]
        asked += f""", rows from (jsonb_to_recordset(%(tasks)s::jsonb) as ({asked_of(own)}))
        with ordinality as o({", ".join(own)}, n)"""
    unmet, needed_by = ("u.unmet", "u.needed_by") if needs else ("0", "0")
    return f"""with {TrustedCaller.cte}, {FIRST if own else ""}asked as materialized (
    -- in the order in which they were asked for: their ids are the order of the queue
    select {NEXT if own else "uuidv7()"} as id, {", ".join(columns)} from {asked}
{NEEDED if needs else ""}), made as (
    insert into ledger_task as t (id, project_id, {", ".join(ASKED)}, attempt_limit, unmet,
        needed_by, state, blocked_reason, created_by_type, created_by_name, created_at, updated_at)
    select a.id, c.project_id, {moves.listed("a", list(ASKED))}, a.max_attempts, {unmet},
        {needed_by}, case when {unmet} > 0 then '{TaskState.BLOCKED}' else {
        moves.READY.format("a")
    } end,
        case when {unmet} > 0 then 'dependency' end, c.actor_type, c.actor_name, %(now)s, %(now)s
    from asked a, caller c{UNMET if needs else ""} order by a.id
    returning t.id, t.project_id, t.agent_id, t.state, t.blocked_reason, t.unmet,
        null as from_state
), journalled as ({
        journal.insert("made", kind=f"'{Kind.TASK_CREATED}'", subject="task", id="m.id")
    }) select id, state{", blocked_reason, unmet" if needs else ""} from made order by id"""


ENQUEUE = enqueue_statement(own=None)
ENQUEUE_ALIKE = enqueue_statement(own={name: ASKED[name] for name in OWN})
ENQUEUE_MANY = enqueue_statement(own=ASKED)
ENQUEUE_WAITING = enqueue_statement(own=ASKED | WAITING, needs=True)
NEW: Row = dict.fromkeys(moves.TASK_COLUMNS) | {
    "retry_count": 0,
    "attempts": 0,
    "releases": 0,
    "unmet": 0,
    "version": 1,
}


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
    places: Sequence[str] = (),
) -> list[Row]:
    """Put tasks of one project into their agents' queues, all or none; the rows, in this order.

    Secrets in texts and payloads are masked. One that needs others waits for them, blocked; for
    what was replaced it waits in its replacement. `places` say where each of them stands in what
    a caller sent, for a refusal.
    """
    if not asked:
        return []
    now = now or timezone.now()
    tasks = [
        written(agent, spec, at=at, replay_of=replay_of)
        for at, (agent, spec) in zip(places or places_of(asked), asked, strict=True)
    ]
    project_id = asked[0][0].project_id
    params = {
        "now": now,
        **TrustedCaller(actor, project_id=project_id, request_id=request_id).params,
    }
    waiting: list[dict[str, Any]] = []
    if any(spec.needs or spec.after or spec.missing for _, spec in asked):
        with transaction.atomic():
            waiting = waiting_of([spec for _, spec in asked], project_id=project_id)
            rows = made(tasks, waiting, **params)
    else:
        rows = made(tasks, **params)
    need_ids = [
        sorted([*each["needs"], *(rows[place]["id"] for place in each["after"])])
        for each in waiting
    ] or [[]] * len(rows)
    known = {**NEW, "project_id": project_id, "created_at": now, "updated_at": now}
    return [
        {
            **known,
            **task,
            **row,
            "attempt_limit": task["max_attempts"],
            "agent_name": agent.name,
            "need_ids": ids,
        }
        for row, task, (agent, _), ids in zip(rows, tasks, asked, need_ids, strict=True)
    ]


def places_of(asked: Sequence[Any]) -> list[str]:
    """Where each of these tasks stands in what was sent: a single one is all of it."""
    return [f"/tasks/{n}" for n in range(len(asked))] if len(asked) > 1 else [""]


def made(
    tasks: list[dict[str, Any]], waiting: list[dict[str, Any]] | None = None, **params: Any
) -> list[Row]:
    """Run the statement that fits; PostgreSQL is sent once what all these tasks have in common."""
    if len(tasks) == 1 and not waiting:
        return sql.run(ENQUEUE, shared=Jsonb(tasks[0]), **params)
    first, names = tasks[0], [name for name in ASKED if name not in OWN]
    alike = ALIKE(first)
    if any(ALIKE(task) != alike for task in tasks):
        names = [name for name in names if all(task[name] == first[name] for task in tasks)]
    shared = {name: first[name] for name in names}
    own = [{name: task[name] for name in ASKED if name not in shared} for task in tasks]
    if waiting:
        statement = ENQUEUE_WAITING
        own = [one | waits for one, waits in zip(own, waiting, strict=True)]
    else:
        statement = ENQUEUE_ALIKE if len(own[0]) == len(OWN) else ENQUEUE_MANY
    return sql.run(statement, shared=Jsonb(shared), tasks=Jsonb(own), **params)


def waiting_of(specs: list[Spec], *, project_id: UUID) -> list[dict[str, Any]]:
    """What each of them waits for, locked to the end of the transaction."""
    current = hold_current({need for spec in specs for need in spec.needs}, project_id=project_id)
    return [
        {
            "place": place,
            "needs": list(dict.fromkeys(current[need] for need in spec.needs)),
            "after": list(dict.fromkeys(spec.after)),
            "missing": spec.missing,
        }
        for place, spec in enumerate(specs)
    ]


def written(
    agent: Agent, spec: Spec, *, at: str = "", replay_of: UUID | None = None
) -> dict[str, Any]:
    """The values of a task's row: without secrets; defaults are resolved now and kept.

    Raises Invalid or PayloadTooLarge where a value does not fit; `at` is its place in what was
    asked.
    """
    check(spec, at=at)
    payload, hidden = kept_payload(spec.payload, at=f"{at}/payload")
    title = titled(spec.title)
    if title:
        title, found = redact(title)
        hidden += found
    tenfour, backoff = settings.TENFOUR, spec.backoff
    attempts = tenfour["TASK_MAX_ATTEMPTS"] if spec.max_attempts is None else spec.max_attempts
    return {
        "agent_id": agent.pk,
        "plan_id": spec.plan_id,
        "ref": spec.ref,
        "run": spec.run,
        "title": title,
        "type": spec.type,
        "priority": spec.priority,
        "payload": payload,
        "redactions": hidden,
        "max_attempts": attempts,
        "on_exhausted": spec.on_exhausted or OnExhausted.DEAD_LETTER.value,
        "base_delay_ms": backoff.base_delay_ms,
        "max_delay_ms": backoff.max_delay_ms,
        "exponential_base": backoff.exponential_base,
        "jitter": backoff.jitter,
        "lease_s": tenfour["TASK_LEASE_SECONDS"] if spec.lease_s is None else spec.lease_s,
        "timeout_s": tenfour["TASK_TIMEOUT_SECONDS"] if spec.timeout_s is None else spec.timeout_s,
        "idempotent": spec.idempotent,
        "non_retryable": spec.non_retryable,
        "replay_of_id": replay_of,
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


LINEAGES = """with recursive line as (
    select id as task_id, id, carries_id from ledger_task where id = any(%(ids)s)
    union all
    select line.task_id, t.id, t.carries_id from line join ledger_task t on t.id = line.carries_id
) select id, task_id from line"""


def lineages(task_ids: Iterable[UUID]) -> dict[UUID, UUID]:
    """These tasks, and the rows of earlier runs whose attempts and failures go on in them: each
    with the task that it belongs to now."""
    return {row["id"]: row["task_id"] for row in sql.run(LINEAGES, ids=list(task_ids))}


def line_of(task: Task) -> list[UUID]:
    """A task and the rows of earlier runs that go on in it; most have none, and cost no query."""
    return [task.pk] if task.carries_id is None else list(lineages([task.pk]))


def carriers(task_ids: Iterable[UUID]) -> dict[UUID, list[UUID]]:
    """The same of tasks among which are rows of earlier runs: each row with all that it belongs
    to."""
    found: dict[UUID, list[UUID]] = {}
    for row in sql.run(LINEAGES, ids=list(task_ids)):
        found.setdefault(row["id"], []).append(row["task_id"])
    return found


def whole_line(source: str) -> str:
    """The CTE `line` of a recursive statement: for the tasks in the column `task_id` of another
    CTE the rows of all runs that one of them goes on in, or that go on in it, itself among them."""
    return f"""line as (
    select distinct t.id as task_id, t.id, t.carries_id, t.replaced_by_id
    from {source} s join ledger_task t on t.id = s.task_id
    union
    select l.task_id, t.id, t.carries_id, t.replaced_by_id
    from line l join ledger_task t on t.id = any(array[l.carries_id, l.replaced_by_id])
        and (t.id = l.carries_id or t.carries_id = l.id)
)"""


def refused(row: Row, to: TaskState, who: Who) -> InvalidTransition:
    """Why a task may not go there, with where it stands and where it may go."""
    allowed = allowed_moves(row["state"], who)
    return InvalidTransition(
        f"The task is {row['state']}; it can't become {to}.", current=row["state"], allowed=allowed
    )


# ---- changed

CHANGE = f"""with {TrustedCaller.cte}, changed as (
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
        and (t.state <> '{TaskState.RUNNING}' or not %(while_still)s)
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
    if not asked.names:
        return as_read(task_id, version=version)
    payload, hidden = None, Counter[str]()
    if asked.payload is not None:
        payload, hidden = kept_payload(asked.payload, at="/payload")
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
        **TrustedCaller(actor, request_id=request_id).params,
    )
    if rows:
        return rows[0]
    row = as_read(task_id, version=version)
    raise InvalidTransition(
        f"The task is {row['state']}: that can't be changed now.", current=row["state"], allowed=[]
    )


def as_read(task_id: UUID, *, version: int) -> Row:
    """The task's row; raises VersionMismatch where it has changed since it was read."""
    row = row_of(task_id)
    if row["version"] != version:
        raise VersionMismatch(
            f"You have read version {version}; it is at {row['version']} now.",
            current=row["version"],
        )
    return row


# ---- stopped

ABORT = f"""with {TrustedCaller.cte}, moved as ({
    task_to(TaskState.ABORTED, where="t.id = any(%(ids)s) and t.state <> 'running'")
}), flagged as (
    update ledger_task t set abort_requested_at = %(now)s, version = t.version + 1,
        updated_at = %(now)s
    where t.id = any(%(ids)s) and t.state = 'running' and t.abort_requested_at is null
    returning t.id, t.project_id, t.agent_id, t.state, t.state as from_state
), told as ({
    journal.insert("moved", kind=f"'{Kind.TASK_ABORTED}'", subject="task", data="%(data)s")
}), asked as ({
    journal.insert(
        "flagged",
        kind=f"'{Kind.TASK_ABORT_REQUESTED}'",
        subject="task",
        from_state="null",
        to_state="null",
        data="%(data)s",
    )
}) select id, true as stopped from moved union all select id, false from flagged"""


def abort(
    ids: Iterable[UUID],
    *,
    reason: str = "",
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> dict[UUID, bool]:
    """Stop these tasks: True for one that is aborted, False for one that runs and was told to.

    Final ones are left out. A running one ends when its agent reports or its lease runs out.
    """
    known, kept = TrustedCaller(actor, request_id=request_id), stripped(redacted(reason)).strip()
    rows = sql.run(
        ABORT,
        ids=list(ids),
        data=Jsonb({"note": kept} if kept else {}),
        now=now or timezone.now(),
        **known.params,
    )
    return {row["id"]: row["stopped"] for row in rows}
