"""Check that every history in the journal is a legal path and that every row agrees with it.

The rows of a project that is being deleted agree with nothing, and are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledger.database import sql
from ledger.journal import Kind, since_subject
from ledger.journal_storage.deletion import MARKED
from ledger.journal_storage.months import list_partitions
from ledger.moves import FINAL_STATES, need_is_met
from ledger.states import INSTRUCTION_MOVES, TASK_MOVES, TaskState
from ledger.values.ids import FIRST_ID, first_id


@dataclass(frozen=True, slots=True)
class Finding:
    """One inconsistency."""

    what: str
    subject: str
    detail: str

    def __str__(self) -> str:
        return f"{self.what} {self.subject}: {self.detail}"


def audit() -> Iterator[Finding]:
    """Yield every inconsistency, subject by subject."""
    # Where months of the journal were dropped, a history begins with its first remaining event.
    start = list_partitions()[0].start
    kept = first_id(start) if start else FIRST_ID
    yield from check_paths("task", "ledger_task", legal_moves(TASK_MOVES), kept)
    yield from check_paths(
        "instruction", "ledger_instruction", legal_moves(INSTRUCTION_MOVES), kept
    )
    for what, (detail, statement) in CHECKS.items():
        for row in find_rows(statement, kept=kept):
            yield Finding(what, str(row["id"]), detail.format(**row))


def find_rows(statement: str, **params: Any) -> list[sql.Row]:
    """Return what a check finds, except in projects that are being deleted."""
    # A deletion commits its mark before it deletes a row, so one statement sees both or neither.
    return sql.run(
        f"""with deleted as materialized ({MARKED})
        select found.* from ({statement}) found
        where found.project_id is null or found.project_id not in (select id from deleted)""",
        **params,
    )


def legal_moves(table: Any) -> list[str]:
    return [f"{start}>{to}" for start, targets in table.items() for to in targets]


# Early versions gave a late ack a state, though it is no move, and the journal keeps its events.
IS_MOVE = f"to_state is not null and kind <> '{Kind.INSTRUCTION_ACKNOWLEDGED_LATE}'"

# Each move of a subject starts where the previous one ended, and is legal.
PATHS = f"""with moves as (
    select subject_id as id, project_id, from_state, to_state,
        lag(to_state) over (partition by subject_id order by id) as before
    from ledger_event where subject_type = %(subject)s and {IS_MOVE}
)
select id, project_id, coalesce(from_state, 'nothing') || ' → ' || to_state as move,
    case when from_state is not null and from_state || '>' || to_state <> all(%(legal)s)
        then 'is not legal'
    else 'does not follow ' || coalesce(before, 'nothing') end as why
from moves
where from_state is not null and from_state || '>' || to_state <> all(%(legal)s)
    or before is distinct from from_state and (before is not null or id >= %(kept)s)
"""
LAST = """with last as (
    select distinct on (subject_id) subject_id as id, to_state from ledger_event
    where subject_type = %(subject)s and {is_move}
    order by subject_id, ledger_event.id desc
)
select r.id, r.project_id, r.state, coalesce(l.to_state, 'nothing') as journaled
from {table} r left join last l on l.id = r.id
where l.to_state is distinct from r.state and (l.id is not null or r.id >= %(kept)s)
"""


def check_paths(subject: str, table: str, moves: list[str], kept: UUID) -> Iterator[Finding]:
    for row in find_rows(PATHS, subject=subject, legal=moves, kept=kept):
        yield Finding(subject, str(row["id"]), f"{row['move']} {row['why']}")
    for row in find_rows(LAST.format(table=table, is_move=IS_MOVE), subject=subject, kept=kept):
        yield Finding(
            subject, str(row["id"]), f"is {row['state']}, the journal says {row['journaled']}"
        )


IMPORTS = f"'{Kind.PLAN_IMPORTED}', '{Kind.PLAN_UPDATED}'"

# name of the check -> the detail of a finding, and the query that finds its rows with their project
CHECKS: dict[str, tuple[str, str]] = {
    "needs": (
        "unmet is {unmet}, {counted} needs are not met",
        f"""select t.id, t.project_id, t.unmet, n.counted from ledger_task t, lateral (
            select count(*) + (select count(*) from ledger_missingneed m where m.task_id = t.id)
                as counted from ledger_need d join ledger_task n on n.id = d.need_id
            where d.task_id = t.id and not {need_is_met("n")}
        ) n where t.state not in ({FINAL_STATES}) and t.unmet <> n.counted
            and t.blocked_reason is distinct from 'dependency_skipped'""",
    ),
    "needed": (
        "needed_by is {needed_by}, {counted} tasks need it",
        f"""select t.id, t.project_id, t.needed_by, n.counted from ledger_task t, lateral (
            select count(*) as counted from ledger_need d where d.need_id = t.id
        ) n where t.state not in ({FINAL_STATES}) and t.needed_by <> n.counted""",
    ),
    "dead letter": (
        "failed without a dead letter",
        f"""select t.id, t.project_id from ledger_task t where t.state = '{TaskState.FAILED}'
            and not exists (select from ledger_deadletter l where l.task_id = t.id)""",
    ),
    "dead letter of": (
        "has a dead letter and is {state}",
        f"""select t.id, t.project_id, t.state
            from ledger_deadletter l join ledger_task t on t.id = l.task_id
            where t.state <> '{TaskState.FAILED}'""",
    ),
    "attempt": (
        "is live while its task is {state}",
        f"""select a.id, t.project_id, t.state
            from ledger_attempt a join ledger_task t on t.id = a.task_id
            where a.outcome is null and (t.state <> '{TaskState.RUNNING}'
                or t.current_attempt is distinct from a.id)""",
    ),
    "attempt of": (
        "is of task {task_id}, which is not there",
        """select a.id, null::uuid as project_id, a.task_id from ledger_attempt a
            where not exists (select from ledger_task t where t.id = a.task_id)""",
    ),
    "running": (
        "runs without a live attempt",
        f"""select t.id, t.project_id from ledger_task t where t.state = '{TaskState.RUNNING}'
            and not exists (select from ledger_attempt a
                where a.id = t.current_attempt and a.outcome is null)""",
    ),
    "agent": (
        "is of an agent that its project does not have",
        """select t.id, t.project_id from ledger_task t
            where not exists (select from ledger_agent a
                where a.id = t.agent_id and a.project_id = t.project_id)""",
    ),
    "pool": (
        "was sent to a pool that its project does not have",
        """select t.id, t.project_id from ledger_task t where t.pool_id is not null
            and not exists (select from ledger_agent a
                where a.id = t.pool_id and a.project_id = t.project_id and a.is_pool)""",
    ),
    "member": (
        "is a member of {seats} pools, its row says {in_pools}",
        """select a.id, a.project_id, a.in_pools, n.seats from ledger_agent a, lateral (
            select count(*) as seats from ledger_poolmember m where m.agent_id = a.id
        ) n where a.in_pools <> (n.seats > 0)""",
    ),
    "place": (
        "{ref} of run {run} stands in plan {plan}, which is at run {now}",
        """select t.id, t.project_id, t.ref, t.run, p.ref as plan, p.run as now
            from ledger_task t join ledger_plan p on p.id = t.plan_id
            where t.run > p.run or t.project_id <> p.project_id
                or t.ref !~ ('^' || replace(p.ref, '.', '[.]') || ':task-[0-9]+$')""",
    ),
    "ref": (
        "{ref} is current {count} times",
        """select p.id, p.project_id, t.ref, count(*) as count
            from ledger_plan p join ledger_task t on t.plan_id = p.id
            where t.replaced_by_id is null group by p.id, t.ref having count(*) > 1""",
    ),
    "file of": (
        "{place} of its file became {ref}, which is not there",
        f"""select p.id, p.project_id, p.ref || ':task-' || (r ->> 3) as ref,
                case r ->> 0 when '0' then 'a task' else 'line ' || (r ->> 0) end as place
            from ledger_event e join ledger_plan p on p.id = e.subject_id,
                jsonb_array_elements(e.data #> '{{file,lines}}') r
            where e.kind in ({IMPORTS}) and r ->> 3 is not null and not exists (
                select from ledger_task t
                where t.plan_id = p.id and t.ref = p.ref || ':task-' || (r ->> 3))""",
    ),
    # A new version of a file has each open task of the one before, or names it as dropped.
    "task of a file": (
        "{ref} was open in its file, and {actor} dropped it without a trace",
        f"""with versions as (
                select e.subject_id as id, e.project_id, e.data -> 'file' as file,
                    coalesce(nullif(e.actor_name, ''), e.actor_type) as actor,
                    lag(e.data -> 'file') over (partition by e.subject_id order by e.id) as before
                from ledger_event e where e.kind in ({IMPORTS}) and e.data ? 'file'
            )
            select v.id, v.project_id, v.actor, p.ref || ':task-' || (r ->> 3) as ref
            from versions v join ledger_plan p on p.id = v.id,
                jsonb_array_elements(v.before -> 'lines') r
            where r ->> 2 = 'task' and not exists (
                    select from jsonb_array_elements(v.file -> 'lines') n
                    where n ->> 2 in ('task', 'done') and n -> 3 = r -> 3)
                and not coalesce(v.file #> '{{dropped,left}}' @> (r -> 3), false)
                and not coalesce(v.file #> '{{dropped,aborted}}' @> (r -> 3), false)""",
    ),
    "replaced": (
        "is {state} though another took its place",
        f"""select id, project_id, state from ledger_task
            where replaced_by_id is not null and state not in ({FINAL_STATES})""",
    ),
    "needs of a plan": (
        "waits for {ref}, which another took the place of",
        f"""select t.id, t.project_id, coalesce(n.ref, n.id::text) as ref from ledger_task t
            join ledger_need d on d.task_id = t.id join ledger_task n on n.id = d.need_id
            where t.state not in ({FINAL_STATES}) and n.replaced_by_id is not null
                and not {need_is_met("n")}""",
    ),
    "aborted plan": (
        "is {state} in a plan that was aborted",
        f"""select t.id, t.project_id, t.state
            from ledger_task t join ledger_plan p on p.id = t.plan_id
            where p.aborted_at is not null
                and t.state not in ('{TaskState.RUNNING}', {FINAL_STATES})
                and t.created_at <= p.aborted_at""",
    ),
    "rule": (
        "is {state}, the journal says {journaled}",
        f"""with stands as (select r.id, r.project_id,
                case when r.retired_at is not null then 'retired'
                when r.activated_at is null then 'draft' when r.paused then 'paused'
                else 'active' end as state from ledger_standinginstruction r)
            select s.id, s.project_id, s.state, coalesce(l.to_state, 'nothing') as journaled
            from stands s left join lateral (
                select e.to_state from ledger_event e
                where e.subject_id = s.id and e.id >= {since_subject("s.id")}
                    and e.to_state is not null
                order by e.id desc limit 1
            ) l on true where l.to_state is distinct from s.state
                and (l.to_state is not null or s.id >= %(kept)s)""",
    ),
    "instruction of a rule": (
        "was sent by the rule {rule} of another project",
        """select i.id, i.project_id, r.id as rule from ledger_instruction i
            join ledger_standinginstruction r on r.id = i.rule_id
            where r.project_id <> i.project_id""",
    ),
    "scope of a rule": (
        "is for an agent or a plan that its project does not have",
        """select r.id, r.project_id from ledger_standinginstruction r
            left join ledger_agent a on a.id = r.agent_id
            left join ledger_plan p on p.id = r.plan_id
            where a.project_id <> r.project_id or p.project_id <> r.project_id""",
    ),
    "holds": (
        "held the stop {holds} times, the journal says {journaled}",
        f"""select i.id, i.project_id, i.holds, n.journaled from ledger_instruction i, lateral (
            select count(*) as journaled from ledger_event e
            where e.subject_id = i.id and e.id >= {since_subject("i.id")}
                and e.kind = '{Kind.INSTRUCTION_HELD}'
        ) n where i.holds <> n.journaled and (i.holds < n.journaled or i.id >= %(kept)s)""",
    ),
    "breaker of": (
        "has a breaker that is {state}, the journal says {told}",
        f"""select b.agent_id as id, a.project_id, b.state, coalesce(l.to_state, 'closed') as told
            from ledger_breaker b join ledger_agent a on a.id = b.agent_id left join lateral (
                select e.to_state from ledger_event e
                where e.subject_id = b.agent_id and e.id >= {since_subject("b.agent_id")}
                    and e.kind like 'agent.breaker_%%'
                order by e.id desc limit 1
            ) l on true where coalesce(l.to_state, 'closed') <> b.state
                and (l.to_state is not null or b.agent_id >= %(kept)s)""",
    ),
    "breaker": (
        "blocks tasks of an agent whose breaker is {state}",
        """select b.agent_id as id, a.project_id, b.state
            from ledger_breaker b join ledger_agent a on a.id = b.agent_id where b.state = 'closed'
            and exists (select from ledger_task t where t.agent_id = b.agent_id
                and t.blocked_reason = 'breaker_open'
                and t.updated_at < now() - interval '1 hour')""",
    ),
}
