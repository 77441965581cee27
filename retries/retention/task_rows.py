"""Final tasks, with everything that belongs to them.

Nothing goes that something else still needs: a task stays while a task that it needs, or that
needs it, is open or too young; while its dead letter or a question is open; while an instruction
about it is open; and as long as any task that it is linked to by a replay or a plan's next run.
Tasks of a plan go with their plan: see `plan_rows`.
"""

from collections.abc import Iterator, Sequence
from uuid import UUID

from ledger.database import sql
from ledger.moves import FINAL_STATES
from ledger.sessions.statements import FORGET_ATTEMPTS, FORGET_TASKS
from ledger.states import InstructionState, TaskState
from retries.failures.past_failures import keep_counts
from retries.retention import trace_rows
from retries.retention.archives import Record
from retries.retention.row_kind import RowKind, list_json, run_all, select_records

# the only key of a payload that was deleted; its value is the time
MARK = "tenfour_deleted_at"


def is_young(task: str) -> str:
    return f"({task}.state not in ({FINAL_STATES}) or {task}.completed_at >= %(before)s)"


def is_kept(task: str) -> str:
    """Return the SQL condition that something needs the task, or that it is too young."""
    may_run = f"""{is_young("o")} or o.plan_id is distinct from {task}.plan_id and exists (
            select from ledger_plan p where p.id = o.plan_id and p.aborted_at is not null)"""
    return f"""({is_young(task)}
        or exists (select from retries_escalation e where e.task_id = {task}.id
            and (e.closed_at is null or e.closed_at >= %(before)s))
        or exists (select from ledger_deadletter d where d.task_id = {task}.id
            and (d.closed_at is null or d.closed_at >= %(before)s))
        or exists (select from ledger_need d join ledger_task o on o.id = d.task_id
            where d.need_id = {task}.id and ({may_run}))
        or exists (select from ledger_need d join ledger_task o on o.id = d.need_id
            where d.task_id = {task}.id and {is_young("o")})
        or exists (select from ledger_instruction i where i.task_id = {task}.id
            and (i.state = '{InstructionState.QUEUED}'
                or i.state = '{InstructionState.DELIVERED}' and i.tracked)))"""


# the tasks that replaced a task `t`, that it replaced or replayed, and whose attempts it counts
LINKS = """select unnest(array[t.replay_of_id, t.replaced_by_id, t.carries_id]) as id
    union all select o.id from ledger_task o where o.replay_of_id = t.id
    union all select o.id from ledger_task o where o.replaced_by_id = t.id
    union all select o.id from ledger_task o where o.carries_id = t.id
    union all select d.replayed_as_id from ledger_deadletter d where d.task_id = t.id
    union all select d.task_id from ledger_deadletter d where d.replayed_as_id = t.id"""
# Linked tasks go together, or none of them.
DELETABLE = f"""with recursive linked(first_id, id) as (
    select id, id from unnest(%(ids)s::uuid[]) asked(id)
    union
    select l.first_id, x.id from linked l join ledger_task t on t.id = l.id
        cross join lateral ({LINKS}) x where x.id is not null
), free as (
    select first_id from linked l join ledger_task t using (id) group by 1
    having bool_and(t.plan_id is null and not {is_kept("t")})
)
select distinct l.id from linked l join free using (first_id) order by 1"""

# Payloads go before their rows. A plan that is restarted runs what is not done with its payload.
WITH_PAYLOAD = f"""select t.id from ledger_task t
where t.id = any(%(ids)s) and (t.plan_id is null or t.state = '{TaskState.DONE}')
    and not t.payload ? '{MARK}' and not {is_kept("t")}
order by 1"""

ATTEMPTS = """(select coalesce(jsonb_agg(to_jsonb(a) || jsonb_build_object('failure', to_jsonb(f),
            'pattern', to_jsonb(g), 'retry_context', to_jsonb(c), 'source', to_jsonb(d))
            order by a.number), '[]')
        from ledger_attempt a left join ledger_failure f on f.attempt_id = a.id
            left join retries_grouped g on g.failure_id = f.id
            left join retries_storedcontext c on c.attempt_id = a.id
            left join retries_attemptdiff d on d.attempt_id = a.id
        where a.task_id = t.id)"""
CONTENT = f"""jsonb_build_object('task', to_jsonb(t), 'agent', a.name, 'project', p.name,
    'attempts', {ATTEMPTS},
    'needs', {list_json("ledger_need", "x.task_id = t.id", "x.need_id")},
    'missing_needs', {list_json("ledger_missingneed", "x.task_id = t.id", "x.ref")},
    'budgets', {list_json("ledger_budget", "x.task_id = t.id", "x.id")},
    'dead_letter', (select to_jsonb(d) from ledger_deadletter d where d.task_id = t.id),
    'escalations', {list_json("retries_escalation", "x.task_id = t.id", "x.id")},
    'instructions', to_jsonb(array(select i.id from ledger_instruction i
        where i.task_id = t.id order by 1)),
    'session_tasks', to_jsonb(array(select s.id from ledger_sessiontask s
        where s.task_id = t.id order by 1)))"""
NAMES = """array_remove(array[t.id::text, t.ref], null)
    || array(select a.id::text from ledger_attempt a where a.task_id = t.id order by 1)
    || array(select e.id::text from retries_escalation e where e.task_id = t.id order by 1)
    || array(select d.id::text from ledger_deadletter d where d.task_id = t.id)"""


def select_task_records(condition: str) -> str:
    source = f"""(select * from ledger_task where {condition} order by id) t
    join ledger_agent a on a.id = t.agent_id join ledger_project p on p.id = t.project_id"""
    return select_records("task", CONTENT, NAMES, source)


ATTEMPT_IDS = "(select id from ledger_attempt where task_id = any(%(ids)s))"
TRACE_IDS = f"select id from retries_attempttrace where attempt_id in {ATTEMPT_IDS} order by id"
DELETE = (
    # what refers to a task and stays forgets it
    FORGET_TASKS,
    FORGET_ATTEMPTS,
    "update ledger_instruction set task_id = null where task_id = any(%(ids)s)",
    "update retries_permissionrequest set task_id = null where task_id = any(%(ids)s)",
    """delete from retries_grouped where failure_id in (
        select id from ledger_failure where task_id = any(%(ids)s))""",
    f"delete from retries_storedcontext where attempt_id in {ATTEMPT_IDS}",
    f"delete from retries_attemptdiff where attempt_id in {ATTEMPT_IDS}",
    f"delete from retries_attemptoutput where attempt_id in {ATTEMPT_IDS}",
    *(f"{each} where attempt_id in {ATTEMPT_IDS}" for each in trace_rows.DELETE),
    "delete from retries_escalation where task_id = any(%(ids)s)",
    "delete from ledger_failure where task_id = any(%(ids)s)",
    "delete from ledger_deadletter where task_id = any(%(ids)s)",
    "delete from ledger_need where task_id = any(%(ids)s) or need_id = any(%(ids)s)",
    "delete from ledger_missingneed where task_id = any(%(ids)s)",
    "delete from ledger_taskwords where task_id = any(%(ids)s)",
    "delete from ledger_taskvalue where task_id = any(%(ids)s)",
    "delete from ledger_budget where task_id = any(%(ids)s)",
    "delete from ledger_attempt where task_id = any(%(ids)s)",
    "delete from ledger_task where id = any(%(ids)s)",
)


# With these, tasks that are linked to each other can go one after another.
UNTIE = (
    """update ledger_task set replay_of_id = null, replaced_by_id = null, carries_id = null,
        plan_id = null, ref = null, run = null
    where id in (select id from ledger_task where project_id = %(project)s
        and num_nonnulls(replay_of_id, replaced_by_id, carries_id, plan_id) > 0 limit %(most)s::int)
    returning id""",
    """update ledger_deadletter set replayed_as_id = null
    where id in (select id from ledger_deadletter where project_id = %(project)s
        and replayed_as_id is not null limit %(most)s::int) returning id""",
)


def read_traces(ids: Sequence[UUID]) -> Iterator[list[Record]]:
    rows = sql.run(TRACE_IDS, ids=list(ids))
    return trace_rows.read_traces([row["id"] for row in rows])


def delete_tasks(ids: Sequence[UUID]) -> None:
    # The counts of their failures and fixes stay.
    keep_counts(ids)
    delete_rows(ids)


def delete_rows(ids: Sequence[UUID]) -> None:
    run_all(DELETE, ids=list(ids))


KIND = RowKind(
    name="tasks",
    setting="TASK_DAYS",
    table="ledger_task",
    searched=100,
    deletable=DELETABLE,
    records=[select_task_records("id = any(%(ids)s)")],
    delete_rows=delete_tasks,
    more_records=read_traces,
)


# ---- payloads

CLEAR = (
    f"""update ledger_task set payload = jsonb_build_object('{MARK}', now()), result = null,
        version = version + 1
    where id = any(%(ids)s)""",
    """update ledger_attempt set last_output = '', progress = null
    where task_id = any(%(ids)s) and (last_output <> '' or progress is not null)""",
    f"delete from retries_attemptoutput where attempt_id in {ATTEMPT_IDS}",
    # the clock finds the telling lines of what is left
    """update ledger_failure set details = '', telling_lines = null
        where task_id = any(%(ids)s) and details <> ''""",
    f"update retries_storedcontext set text = '' where attempt_id in {ATTEMPT_IDS} and text <> ''",
    "update ledger_deadletter set payload = '{}' where task_id = any(%(ids)s)",
    "delete from ledger_taskvalue where task_id = any(%(ids)s)",
)


def clear_payloads(ids: Sequence[UUID]) -> None:
    run_all(CLEAR, ids=list(ids))


PAYLOADS = RowKind(
    name="payloads",
    setting="PAYLOAD_DAYS",
    table="ledger_task",
    searched=100,
    deletable=WITH_PAYLOAD,
    records=[select_task_records("id = any(%(ids)s)")],
    delete_rows=clear_payloads,
)
