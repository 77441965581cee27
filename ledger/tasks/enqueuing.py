"""Insert tasks into their agents' queues."""

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from psycopg.types.json import Jsonb

from ledger import journal, moves
from ledger.agents import hold_pools, register
from ledger.database import server_time, sql
from ledger.database.sql import Row
from ledger.journal import SYSTEM, Actor, Kind, Stamp
from ledger.models import Agent, Project
from ledger.models.project import DEFAULT
from ledger.models.task import OnExhausted
from ledger.needs import fetch_skipped_needs, hold_current
from ledger.secrets.redaction import redact, titled
from ledger.states import TaskState
from ledger.tasks.exclusive_files import is_exclusive
from ledger.tasks.spec import Spec, check, clean_payload
from ledger.tokens import TrustedCaller

# the columns that the caller sets, with their types
COLUMNS = {
    "agent_id": "uuid",
    "pool_id": "uuid",
    "retry_on": "text",
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
    "evidence": "text",
    "base_delay_ms": "int",
    "max_delay_ms": "int",
    "exponential_base": "float8",
    "jitter": "bool",
    "lease_s": "int",
    "timeout_s": "int",
    "idempotent": "bool",
    "non_retryable": "bool",
    "not_before": "timestamptz",
    "replay_of_id": "uuid",
}
# the columns in which even tasks that are otherwise alike differ
OWN = ("title", "payload", "redactions")
shared_values = itemgetter(*(name for name in COLUMNS if name not in OWN))
# what a task waits for: existing tasks, and tasks of the same call by their index
NEEDS = {"place": "int", "needs": "uuid[]", "after": "int[]", "missing": "int"}
INSERT_NEEDS = f"""), needed as materialized (
    -- the caller holds these rows, so none of them can end before it counts this dependent
    select a.id as task_id, n.id as need_id, {moves.need_is_met("n")} as met
    from asked a cross join unnest(a.needs) as w(id) join ledger_task n on n.id = w.id
    union all
    select a.id, b.id, false from asked a cross join unnest(a.after) as w(place)
        join asked b on b.place = w.place
), counted as (
    update ledger_task n set needed_by = n.needed_by + w.more
    from (select need_id, count(*) as more from needed group by need_id) w where n.id = w.need_id
), waiting as (insert into ledger_need (task_id, need_id) select task_id, need_id from needed
"""
COUNT_NEEDS = """, lateral (
        select count(*) filter (where n.task_id = a.id and not n.met)::int + a.missing as unmet,
            count(*) filter (where n.need_id = a.id)::int as needed_by
        from needed n where a.id in (n.task_id, n.need_id)) u"""

# Each uuidv7() reads the system's random source. The tasks of one call share the first 30 digits,
# the timestamp among them, and count up from there. The event of a task's creation reuses the
# task's id, which no other event has.
FIRST_ID = "first as materialized (select left(uuidv7()::text, 30) as digits), "
NEXT_ID = "((select digits from first) || lpad(to_hex(o.n), 6, '0'))::uuid"


def record_type(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {type}" for name, type in columns.items())


def enqueue_statement(*, own: dict[str, str] | None, needs: bool = False) -> str:
    """Return the SQL that inserts one task, or many with `own` columns beside `shared` ones."""
    # It returns only what the caller does not know yet. Most tasks need no others; without `needs`
    # the statement takes half the time.
    columns = [f"s.{name}" for name in COLUMNS]
    asked = f"jsonb_to_record(%(shared)s::jsonb) as s({record_type(COLUMNS)})"
    if own:
        both = {name: f"coalesce(o.{name}, s.{name}) as {name}" for name in own if name in COLUMNS}
        columns = [both.get(name, f"s.{name}") for name in COLUMNS]
        columns += [f"o.{name}" for name in own if name not in COLUMNS]
        asked += f""", rows from (jsonb_to_recordset(%(tasks)s::jsonb) as ({record_type(own)}))
        with ordinality as o({", ".join(own)}, n)"""
    unmet, needed_by = ("u.unmet", "u.needed_by") if needs else ("0", "0")
    return f"""with {TrustedCaller.cte}, {FIRST_ID if own else ""}asked as materialized (
    -- in the order of the request: the ids are the order of the queue
    select {NEXT_ID if own else "uuidv7()"} as id, {", ".join(columns)} from {asked}
{INSERT_NEEDS if needs else ""}), created as (
    insert into ledger_task as t (id, project_id, {", ".join(COLUMNS)}, attempt_limit, unmet,
        needed_by, exclusive, state, blocked_reason, created_by_type, created_by_name, created_at,
        updated_at)
    select a.id, c.project_id, {moves.select_list("a", list(COLUMNS))}, a.max_attempts, {unmet},
        {needed_by}, {is_exclusive(plan_id="a.plan_id", project_id="c.project_id")},
        case when {unmet} > 0 then '{TaskState.BLOCKED}' else {moves.state_without_needs("a")} end,
        case when {unmet} > 0 then 'dependency' else {moves.reason_without_needs("a")} end,
        c.actor_type, c.actor_name, %(now)s, %(now)s
    from asked a, caller c{COUNT_NEEDS if needs else ""} order by a.id
    returning t.id, t.project_id, t.agent_id, t.state, t.blocked_reason, t.exclusive, t.unmet,
        null as from_state
), journaled as ({
        journal.insert(
            "created",
            kind=f"'{Kind.TASK_CREATED}'",
            subject="task",
            id="m.id",
            data=moves.START_REASON,
        )
    }) select id, state, blocked_reason, exclusive{", unmet" if needs else ""}
    from created order by id"""


ENQUEUE = enqueue_statement(own=None)
ENQUEUE_ALIKE = enqueue_statement(own={name: COLUMNS[name] for name in OWN})
ENQUEUE_MANY = enqueue_statement(own=COLUMNS)
ENQUEUE_WITH_NEEDS = enqueue_statement(own=COLUMNS | NEEDS, needs=True)
# the columns of a new task that neither the caller nor the statement sets
NEW: Row = dict.fromkeys(moves.TASK_COLUMNS) | {
    "retry_count": 0,
    "attempts": 0,
    "releases": 0,
    "unmet": 0,
    "version": 1,
}


def enqueue(
    agent: Agent | str = "",
    type: str = "",
    payload: Any = None,
    priority: int = 0,
    max_attempts: int | None = None,
    *,
    agent_name: str = "",
    task_type: str = "",
    max_retries: int | None = None,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
    request_id: str = "",
    **more: Any,
) -> UUID:
    """Insert a task into the agent's queue and return its id; `more` are other fields of Spec.

    An agent's name means the agent of the default project, which is registered if it is new.
    `agent_name`, `task_type` and `max_retries` are other names of agent, type and max_attempts.
    """
    stamp = Stamp(actor, now or server_time.now(), request_id)
    attempts = max_retries if max_attempts is None else max_attempts
    spec = Spec(
        type=type or task_type, payload=payload, priority=priority, max_attempts=attempts, **more
    )
    if isinstance(agent, str):
        project = Project.objects.get(name=DEFAULT)
        agent = register(agent or agent_name, project=project, stamp=stamp)
    rows = enqueue_many([(agent, spec)], stamp=stamp)
    id: UUID = rows[0]["id"]
    return id


def enqueue_many(
    requests: Sequence[tuple[Agent, Spec]],
    *,
    stamp: Stamp,
    replay_of: UUID | None = None,
    pointers: Sequence[str] = (),
    visible_to_agent: UUID | None = None,
) -> list[Row]:
    """Insert tasks of one project into their agents' queues, all or none; return rows in order.

    Secrets in titles and payloads are masked. A task with unmet needs starts out blocked; a need
    that was replaced stands for its replacement. `pointers` locate each task in the request body
    for error messages. With `visible_to_agent`, tasks can need only tasks of that agent.
    """
    if not requests:
        return []
    tasks = [
        prepare_columns(agent, spec, pointer=pointer, replay_of=replay_of)
        for pointer, (agent, spec) in zip(
            pointers or task_pointers(requests), requests, strict=True
        )
    ]
    project_id = requests[0][0].project_id
    params = {
        "now": stamp.at,
        **TrustedCaller(stamp.actor, project_id=project_id, request_id=stamp.request_id).params,
    }
    specs = [spec for _, spec in requests]
    waits = any(spec.needs or spec.after or spec.missing for spec in specs)
    pools = [agent for agent, _ in requests if agent.is_pool]

    def insert() -> list[Row]:
        hold_pools(pools)
        if not waits:
            return insert_tasks(tasks, **params)
        needs = lock_needs(specs, project_id=project_id, agent_id=visible_to_agent)
        return insert_with_needs(tasks, needs, **params)

    rows = transaction.atomic(insert)() if waits or pools else insert()
    known = {
        **NEW,
        "project_id": project_id,
        "created_at": stamp.at,
        "updated_at": stamp.at,
        "need_ids": [],
        "skipped_needs": None,
    }
    return [
        {
            **known,
            **task,
            **row,
            "attempt_limit": task["max_attempts"],
            "agent_name": agent.name,
            "pool_name": agent.name if agent.is_pool else None,
        }
        for row, task, (agent, _) in zip(rows, tasks, requests, strict=True)
    ]


def task_pointers(requests: Sequence[Any]) -> list[str]:
    # A single task is the whole body.
    return [f"/tasks/{n}" for n in range(len(requests))] if len(requests) > 1 else [""]


def insert_tasks(
    tasks: list[dict[str, Any]], needs: list[dict[str, Any]] | None = None, **params: Any
) -> list[Row]:
    # PostgreSQL gets the values that all tasks share only once.
    if len(tasks) == 1 and not needs:
        return sql.run(ENQUEUE, shared=Jsonb(tasks[0]), **params)
    first, names = tasks[0], [name for name in COLUMNS if name not in OWN]
    values = shared_values(first)
    if any(shared_values(task) != values for task in tasks):
        names = [name for name in names if all(task[name] == first[name] for task in tasks)]
    shared = {name: first[name] for name in names}
    own = [{name: task[name] for name in COLUMNS if name not in shared} for task in tasks]
    if needs:
        statement = ENQUEUE_WITH_NEEDS
        own = [each | waits for each, waits in zip(own, needs, strict=True)]
    else:
        statement = ENQUEUE_ALIKE if len(own[0]) == len(OWN) else ENQUEUE_MANY
    return sql.run(statement, shared=Jsonb(shared), tasks=Jsonb(own), **params)


def insert_with_needs(
    tasks: list[dict[str, Any]], needs: list[dict[str, Any]], **params: Any
) -> list[Row]:
    rows = insert_tasks(tasks, needs, **params)
    skipped = fetch_skipped_needs(row["id"] for row in rows)
    return [
        {
            **row,
            "need_ids": sorted([*each["needs"], *(rows[place]["id"] for place in each["after"])]),
            "skipped_needs": skipped.get(row["id"]),
        }
        for row, each in zip(rows, needs, strict=True)
    ]


def lock_needs(
    specs: list[Spec], *, project_id: UUID, agent_id: UUID | None
) -> list[dict[str, Any]]:
    """Lock the tasks that these need until the transaction ends; return the values of NEEDS."""
    asked = {need for spec in specs for need in spec.needs}
    current = hold_current(asked, project_id=project_id, agent_id=agent_id)
    return [
        {
            "place": place,
            "needs": list(dict.fromkeys(current[need] for need in spec.needs)),
            "after": list(dict.fromkeys(spec.after)),
            "missing": spec.missing,
        }
        for place, spec in enumerate(specs)
    ]


def prepare_columns(
    agent: Agent, spec: Spec, *, pointer: str = "", replay_of: UUID | None = None
) -> dict[str, Any]:
    """Return the values of COLUMNS: checked, with secrets masked and defaults resolved.

    Raises Invalid and PayloadTooLarge; `pointer` locates the task in the request body.
    """
    check(spec, pointer=pointer)
    payload, redactions = clean_payload(spec.payload, pointer=f"{pointer}/payload")
    title = titled(spec.title)
    if title:
        title, found = redact(title)
        redactions += found
    tenfour, backoff = settings.TENFOUR, spec.backoff
    attempts = tenfour["TASK_MAX_ATTEMPTS"] if spec.max_attempts is None else spec.max_attempts
    return {
        "agent_id": agent.pk,
        "pool_id": agent.pk if agent.is_pool else None,
        "retry_on": spec.retry_on or (agent.retry_on if agent.is_pool else None),
        "plan_id": spec.plan_id,
        "ref": spec.ref,
        "run": spec.run,
        "title": title,
        "type": spec.type,
        "priority": spec.priority,
        "payload": payload,
        "redactions": redactions,
        "max_attempts": attempts,
        "on_exhausted": spec.on_exhausted or OnExhausted.DEAD_LETTER.value,
        "evidence": spec.evidence,
        "base_delay_ms": backoff.base_delay_ms,
        "max_delay_ms": backoff.max_delay_ms,
        "exponential_base": backoff.exponential_base,
        "jitter": backoff.jitter,
        "lease_s": tenfour["TASK_LEASE_SECONDS"] if spec.lease_s is None else spec.lease_s,
        "timeout_s": tenfour["TASK_TIMEOUT_SECONDS"] if spec.timeout_s is None else spec.timeout_s,
        "idempotent": spec.idempotent,
        "non_retryable": spec.non_retryable,
        "not_before": spec.not_before,
        "replay_of_id": replay_of,
    }
