"""Seed a month of a large project: by default 1,000,000 tasks with all that belongs to them.

Of a million tasks, 10,000 wait for an answer, 20,000 are dead letters, 12,000 wait for an agent, and
the others are done, 50,000 of them after a failure or two of the same kind. Each task has four
events. The failures belong to 50 patterns.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from ledger.search_words import INSTRUCTION_TEXT, TASK_TEXT
from retries.failures.failure_counts import add_up_counts
from retries.journal_readers.new_words import READER

TABLES = (
    "ledger_task",
    "ledger_attempt",
    "ledger_failure",
    "ledger_deadletter",
    "ledger_event",
    "retries_escalation",
    "ledger_taskwords",
    "ledger_instructionwords",
    "retries_grouped",
)
# the start of the errors of tasks that are done; their pattern has far more failures than others
COMMON = "error 0: thing"
STATEMENTS = (
    """
insert into ledger_task (id, project_id, agent_id, title, type, state, payload, max_attempts,
    attempt_limit, attempts, retry_count, on_exhausted, base_delay_ms, max_delay_ms,
    exponential_base, jitter, lease_s, timeout_s, idempotent, error, due_at, created_by_type,
    created_by_name, created_at, updated_at, started_at, completed_at)
select uuidv7(at - now()), a.project_id, a.id,
    (array['Fix', 'Review', 'Deploy', 'Test', 'Refactor'])[g %% 5 + 1] || ' the '
        || (array['parser', 'importer', 'login page', 'ledger', 'report', 'index', 'queue'])[g %% 7 + 1]
        || ' of service ' || g %% 911 || ', step ' || g,
    (array['code', 'review', 'deploy'])[g %% 3 + 1], x.state, '{}', 3, 3,
    x.attempts, 0,
    case when x.state = 'escalated' then 'escalate' else 'dead_letter' end,
    100, 30000, 2, true, 300, 3600, true,
    case when x.state in ('failed', 'escalated', 'retry')
        then 'error ' || g / 100 %% 50 || ': thing ' || g || ' is broken' end,
    case when x.state = 'retry' then now() + interval '1 hour' end,
    'token', 'bench', at, at + interval '1 min',
    case when x.state <> 'queued' then at + interval '5 s' end,
    case when x.state in ('done', 'failed') then at + interval '1 min' end
from (
    select g, now() - interval '30 days' * (1 - g::float / %(count)s) - interval '10 min' as at,
        case when g %% 100 = 0 then 'escalated' when g %% 100 in (1, 2) then 'failed'
            when g %% 100 = 3 then 'queued' when g %% 500 = 4 then 'retry' else 'done' end as state,
        case when g %% 100 = 3 then 0 when g %% 100 in (5, 6, 7, 8) then 2 when g %% 100 = 9 then 3
            else 1 end as attempts
    from generate_series(1, %(count)s::int) g
) x
join (select *, row_number() over (order by name) - 1 as n, count(*) over () as of
      from ledger_agent) a on a.n = x.g %% a.of
""",
    """
insert into ledger_attempt (id, task_id, agent_id, number, outcome, started_at, ended_at, lease_s,
    lease_expires_at, deadline_at)
select uuidv7(started - now()), id, agent_id, n,
    case when n = attempts and state = 'done' then 'success' else 'failure' end,
    started, ended, 300, ended, ended
from (
    select *, started_at + interval '10 s' * (n - 1) as started,
        case when n = attempts then updated_at else started_at + interval '10 s' * n end as ended
    from ledger_task, generate_series(1, attempts) n
) a order by id, n
""",
    f"""
insert into ledger_failure (attempt_id, task_id, at, type, message, telling_lines)
select a.id, t.id, a.ended_at, 'execution_error', message, message
from ledger_attempt a join ledger_task t on a.task_id = t.id
    cross join lateral (select coalesce(t.error, '{COMMON} ' || t.id || ' is broken') as message) m
where a.outcome = 'failure' order by a.id
""",
    """
insert into retries_failurepattern (project_id, fingerprint, template, example, first_seen,
    last_seen, state_at, updated_at)
select id, 'error ' || n, 'error ' || n || ': thing <*> is broken', 'error ' || n || ': thing 1 is broken',
    now() - interval '30 days', now(), now(), now()
from ledger_project, generate_series(0, 49) n
""",
    """
insert into retries_grouped (failure_id, pattern_id, agent_id, at)
select f.id, p.id, t.agent_id, f.at
from ledger_failure f join ledger_task t on t.id = f.task_id
join retries_failurepattern p on p.fingerprint = split_part(f.message, ':', 1)
""",
    """
insert into ledger_deadletter (project_id, agent_id, task_id, type, payload, error, reason,
    retry_count, failed_at)
select project_id, agent_id, id, type, payload, error, 'max_retries_exceeded', 0, updated_at
from ledger_task where state = 'failed' order by id
""",
    """
insert into retries_escalation (id, project_id, agent_id, task_id, state, reason, raised_by_type,
    raised_by_name, attempts, attempt_limit, retry_count, opened_at, updated_at, channel)
select uuidv7(updated_at - now()), project_id, agent_id, id, 'open', 'max_retries_exceeded', 'system',
    'tenfour', 1, 3, 0, updated_at, updated_at, ''
from ledger_task where state = 'escalated' order by id
""",
    """
insert into ledger_event (at, project_id, kind, subject_type, subject_id, agent_id, to_state,
    actor_type, actor_name)
select created_at + interval '5 s' * (k - 1), project_id,
    'task.' || (array['created', 'claimed', 'progress', 'completed'])[k], 'task', id, agent_id,
    (array['queued', 'running', 'running', state])[k], 'token', 'bench'
from ledger_task, generate_series(1, 4) k
""",
    f"insert into ledger_taskwords (task_id, words) select t.id, {TASK_TEXT('t')} from ledger_task t",
    f"""
insert into ledger_instructionwords (instruction_id, words)
select i.id, {INSTRUCTION_TEXT("i")} from ledger_instruction i
""",
    # The clock has read everything, as after a month.
    f"""
insert into retries_streamcursor (name, tx, event_id, moved_at)
select '{READER}', tx::text::bigint, id, now() from ledger_event order by tx desc, id desc limit 1
on conflict (name) do update set tx = excluded.tx, event_id = excluded.event_id
""",
)

# failures with headlines of four kinds, each with one of 500 words, in 345 patterns
HEADLINES = (
    """
insert into retries_failurepattern (project_id, fingerprint, template, example, first_seen,
    last_seen, state_at, updated_at)
select id, 'head ' || n, 'No module named <*>, as of build ' || n, 'No module named lib1', now(),
    now(), now(), now()
from ledger_project, generate_series(0, 344) n
""",
    """
insert into ledger_attempt (id, task_id, agent_id, number, outcome, started_at, ended_at, lease_s,
    lease_expires_at, deadline_at)
select uuidv7(created_at - now()), id, agent_id, attempts + k, 'failure', created_at, updated_at, 300,
    updated_at, updated_at
from (select * from ledger_task where state = 'done' order by id desc limit %(count)s / 2) t,
    generate_series(1, 2) k
""",
    """
insert into ledger_failure (attempt_id, task_id, at, type, message, telling_lines)
select id, task_id, ended_at, 'execution_error', told, told || chr(10) || 'at step ' || n
from (
    select *, row_number() over (order by id) as n from ledger_attempt a
    where outcome = 'failure' and not exists (select from ledger_failure where attempt_id = a.id)
) a, lateral (
    select replace((array['ModuleNotFoundError: No module named lib*', 'KeyError: field*',
        'AssertionError: expected total* to be paid',
        'TimeoutError: host* did not answer within 30 s'])[n %% 4 + 1], '*', (n %% 2000)::text) as told
) m order by id
""",
    """
insert into retries_grouped (failure_id, pattern_id, agent_id, at)
select f.id, p.id, a.agent_id, f.at
from (
    select *, row_number() over (order by id) as n from ledger_failure f
    where not exists (select from retries_grouped where failure_id = f.id)
) f
join ledger_attempt a on a.id = f.attempt_id
join retries_failurepattern p on p.fingerprint = 'head ' || f.n %% 345
""",
)

Defer = Callable[[str], AbstractContextManager[None]]


def seed_volume(
    execute: Callable[..., Any], defer_indexes: Defer, *, count: int, headlines: int = 0
) -> None:
    """Insert `count` tasks, and a number of failures with headlines of many words.

    Indexes are built at the end, which is faster than row by row.
    """
    with ExitStack() as stack:
        for table in TABLES:
            stack.enter_context(defer_indexes(table))
        for statement in STATEMENTS:
            execute(statement, count=count)
        for statement in HEADLINES if headlines else ():
            execute(statement, count=headlines)
    add_up_counts()
