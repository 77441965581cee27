"""Seed what a large project has beside tasks: sessions, a standing instruction, and an operation.

Each has a page of its own. They hold more rows the more tasks there are: the rule has sent every
tenth instruction, and the operation retried every hundredth task.
"""

from collections.abc import Callable
from typing import Any

MESSAGES = 40  # of a session
TASKS_PER_SESSION = 200
STATEMENTS = (
    f"""
insert into ledger_session (id, project_id, agent_id, external_id, title, tracker, message_count,
    pending_count, last_message_at, created_at, updated_at)
select uuidv7(at - now()), a.project_id, a.id, 'session-' || g, 'Look at thing ' || g, 'todo',
    {MESSAGES}, {MESSAGES}, at + interval '1 min', at, at + interval '1 min'
from (
    select g, now() - interval '30 days' * (1 - g::float / count) - interval '10 min' as at
    from (select count(*) / {TASKS_PER_SESSION} as count from ledger_task) t
    cross join lateral generate_series(1, count) g
) x
join (select *, row_number() over (order by name) - 1 as n, count(*) over () as of
      from ledger_agent) a on a.n = x.g %% a.of
""",
    f"""
insert into ledger_message (id, session_id, "order", role, content, state, sent_at, created_at)
select uuidv7(at - now()), id, n, case n %% 2 when 1 then 'user' else 'assistant' end,
    jsonb_build_array(jsonb_build_object('type', 'text', 'text', 'Line ' || n)), 'pending', at, at
from (
    select id, n, created_at + interval '1 s' * n as at
    from ledger_session, generate_series(1, {MESSAGES}) n
) m order by id, n
""",
    """
insert into ledger_standinginstruction (project_id, event, signal_type, content, max_retries,
    on_failed, once_per, hold_stop, paused, activated_at, created_by_type, created_by_name,
    created_at, updated_at)
select id, 'signal', 'fs_write', 'Run the tests of the changed files.', 3, 'record', 'trigger',
    false, false, now() - interval '30 days', 'user', 'mara', now() - interval '30 days', now()
from ledger_project
""",
    """
update ledger_instruction i set rule_id = r.id, trigger = '{"event": "signal", "type": "fs_write"}'
from (select id, row_number() over (order by id) as n from ledger_instruction) numbered,
    ledger_standinginstruction r
where numbered.id = i.id and numbered.n %% 10 = 0
""",
    """
insert into retries_operation (verb, noun, query, project_ids, state, matching, total, changed,
    refused, counted_at, starts_at, started_at, ended_at, actor_type, actor_id, actor_name,
    request_id)
select 'task.retry', 'task', 'state:failed', array[p.id], 'done', count, count, count - count / 10,
    count / 10, now(), now(), now(), now(), 'user', '1', 'mara', 'bench'
from ledger_project p, (select count(*) / 100 as count from ledger_task) t
""",
    """
insert into retries_operationitem (operation_id, subject_id, state, refusal, at)
select o.id, t.id, case when n %% 1000 = 1 then 'refused' else 'changed' end,
    case when n %% 1000 = 1 then 'it is done' else '' end, now()
from retries_operation o, (
    select id, row_number() over (order by id) as n from ledger_task
) t
where n %% 100 = 1
""",
)


def seed_details(execute: Callable[..., Any]) -> None:
    for statement in STATEMENTS:
        execute(statement)
