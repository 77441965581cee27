"""Define the floor's tables and statements: a token, an update, and a history row."""

SCHEMA = """
create table api_token (
    id         bigint generated always as identity primary key,
    name       text not null,
    digest     text not null unique,
    revoked_at timestamptz
);
create table task (
    id          bigint generated always as identity primary key,
    key         text not null unique,
    queue       text not null default 'default',
    kind        text not null default 'noop',
    payload     jsonb not null default '{}',
    priority    smallint not null default 0,
    state       smallint not null default 0,
    attempt     smallint not null default 0,
    worker      text,
    lease_until timestamptz,
    run_at      timestamptz not null default now(),
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    error       text
);
create index task_claim on task (queue, priority desc, id) where state = 0;
create table history (
    id         bigint generated always as identity primary key,
    task_id    bigint not null,
    from_state smallint,
    to_state   smallint not null,
    actor      text not null,
    at         timestamptz not null default now()
);
create index history_task on history (task_id, id);
"""

TOKENS = """
insert into api_token (name, digest)
select s, encode(sha256(s::bytea), 'hex') from unnest(%s::text[]) s
"""

FILL = """
insert into task (key, state, worker, attempt, lease_until)
select 'k' || g, 1, 'w', 1, now() + interval '1 hour' from generate_series(1, %s) g
"""

FILL_HISTORY = (
    "insert into history (task_id, from_state, to_state, actor) select id, 0, 1, 'w' from task"
)

# One statement, one commit; an empty result means an invalid token or an unclaimed task.
ACK = """
with a as (
    select id, name from api_token where digest = %s and revoked_at is null
), u as (
    update task set state = 2, lease_until = null, updated_at = now()
    from a where task.id = %s and state = 1 returning task.id, attempt, a.name
), h as (
    insert into history (task_id, from_state, to_state, actor) select id, 1, 2, name from u
)
select id, attempt from u
"""

# The minimum for a queue with history: a row, a history row, one commit. The caller supplies the
# key and payload, and an existing key inserts nothing.
ENQUEUE = """
with t as (
    insert into task (key, payload) values (%s, %s) on conflict (key) do nothing returning id
)
insert into history (task_id, from_state, to_state, actor)
select id, null, 0, 'bench' from t returning task_id
"""
ENQUEUE_MANY = """
with t as (
    insert into task (key, payload)
    select k, p::jsonb from unnest(%s::text[], %s::text[]) as x(k, p)
    on conflict (key) do nothing returning id
)
insert into history (task_id, from_state, to_state, actor)
select id, null, 0, 'bench' from t returning task_id
"""
CLAIM = """
with u as (
    update task set state = 1, worker = %(worker)s, attempt = attempt + 1,
        lease_until = now() + interval '60 seconds', updated_at = now()
    where id = (select id from task
        where state = 0 and queue = %(queue)s and run_at <= now()
        order by priority desc, id limit 1 for update skip locked)
    returning id, payload, attempt
), h as (
    insert into history (task_id, from_state, to_state, actor)
    select id, 0, 1, %(worker)s from u
)
select id, payload, attempt from u
"""
DONE = """
with u as (
    update task set state = 2, lease_until = null, updated_at = now()
    where id = %(id)s and state = 1 and worker = %(worker)s
    returning id
)
insert into history (task_id, from_state, to_state, actor)
select id, 1, 2, %(worker)s from u returning task_id
"""

# Write the same rows as Tenfour's claim, on Tenfour's tables.
SAME_ROWS = """
with t as (
    update ledger_task set state = 'running', current_attempt = uuidv7(), attempts = attempts + 1,
        started_at = now(), version = version + 1, updated_at = now()
    where id = (select id from ledger_task where agent_id = %s and state = 'queued'
        order by priority desc, id limit 1 for update skip locked)
    returning id, project_id, agent_id, current_attempt, attempts, lease_s, timeout_s
), a as (
    insert into ledger_attempt (id, task_id, agent_id, number, started_at, lease_s,
        lease_expires_at, deadline_at)
    select current_attempt, id, agent_id, attempts, now(), lease_s,
        now() + lease_s * interval '1 second', now() + timeout_s * interval '1 second' from t
), e as (
    insert into ledger_event (at, project_id, kind, subject_type, subject_id, agent_id, from_state,
        to_state, actor_type, data)
    select now(), project_id, 'task.claimed', 'task', id, agent_id, 'queued', 'running', 'system',
        jsonb_build_object('attempt', attempts) from t
)
select id, current_attempt from t
"""

# The acknowledgment in the usual three statements, with asyncpg's placeholders.
AUTH = "select id, name from api_token where digest = $1 and revoked_at is null"
UPDATE = (
    "update task set state = 2, lease_until = null, updated_at = now()"
    " where id = $1 and state = 1 returning id, attempt"
)
HISTORY = "insert into history (task_id, from_state, to_state, actor) values ($1, 1, 2, $2)"
