"""Build the statements that change sessions, their messages, tasks and batches.

No other module writes these four tables. Each statement is one change as a whole: it begins at the
session's row, whose lock token it compares, so a worker that has lost its lock changes nothing.
"""

from ledger import journal
from ledger.access.daily_limits import COUNTED, IS_OVER
from ledger.journal import Kind
from ledger.models.session import TrackerName
from ledger.states import MESSAGE_MOVES, BatchOutcome, MessageState, SessionTaskState
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller, select_unseen

# the database's clock, because workers on several machines compare with it
HOLDS_LOCK = "s.lock_token = %(token)s and s.lock_until > clock_timestamp()"


def message_sources(to: MessageState) -> str:
    return ", ".join(f"'{state}'" for state, targets in MESSAGE_MOVES.items() if to in targets)


CREATE = f"""with {TrustedCaller.cte}, made as (
    insert into ledger_session as s (project_id, agent_id, external_id, tracker,
        disable_task_tracking, metadata, title, last_message_at, created_at, updated_at)
    select c.project_id, c.agent_id, %(external_id)s, %(tracker)s, %(disabled)s, %(metadata)s,
        %(title)s, %(now)s, %(now)s, %(now)s
    from caller c
    on conflict (agent_id, external_id) where external_id is not null do nothing
    returning s.id, s.project_id, s.agent_id
), journaled as ({
    journal.insert_without_states(
        "made",
        kind=f"'{Kind.SESSION_CREATED}'",
        subject="session",
        data="jsonb_build_object('tracker', %(tracker)s::text)",
    )
})
select id from made"""


def store_statement(caller: type[Caller], stored: str, ids: str) -> str:
    """Return the statement that appends messages to a session that the caller may write to.

    `stored` are its CTEs that insert the messages, and `ids` is the array of their ids.
    """
    # The UPDATE reads the number of messages after it has the row's lock, so that no two messages
    # get the same order. Messages that arrive in a buffer with others need no timer: the timer of
    # the first one is running, unless a worker has just taken them.
    is_token = caller is Bearer
    return f"""with {caller.cte}, {COUNTED if is_token else ""} bumped as (
        update ledger_session s
        set message_count = s.message_count + %(count)s,
            pending_count = s.pending_count + case when s.disable_task_tracking
                or s.tracker = '{TrackerName.NONE}' then 0 else %(count)s end,
            title = case when s.title = '' then %(title)s else s.title end,
            last_message_at = case
                when s.last_message_at < %(newest)s::timestamptz - %(slack)s::interval
                    or s.message_count = 0 and s.last_message_at > %(newest)s
                then %(newest)s::timestamptz else s.last_message_at end,
            version = s.version + 1, updated_at = %(now)s
        from caller c {"left join counted k on true" if is_token else ""}
        where s.id = %(session)s and s.project_id = c.project_id
            and (c.agent_id is null or s.agent_id = {"k" if is_token else "c"}.agent_id)
        returning s.id, s.project_id, s.message_count - %(count)s as before, s.tracker,
            s.disable_task_tracking, s.pending_count,
            s.pending_count = %(count)s or s.lock_token is not null as needs_timer
    ), {stored}
    select b.id, b.project_id, b.pending_count, b.before, b.needs_timer, {select_unseen("b.id")},
        {IS_OVER if is_token else "false"} as is_over, {ids} as message_ids
    from caller c left join bumped b on true"""


STORED_AS = (
    f"case when b.disable_task_tracking or b.tracker = '{TrackerName.NONE}' "
    f"then '{MessageState.DISABLED}' else '{MessageState.PENDING}' end"
)
COLUMNS = """(session_id, "order", role, content, state, digest, redactions, attempt_id, sent_at,
            created_at)"""
# Most requests store one message, which needs no JSON to be taken apart.
STORE_ONE = f"""stored as (
        insert into ledger_message {COLUMNS}
        select b.id, b.before + 1, %(role)s, %(content)s, {STORED_AS}, %(imported)s, %(redactions)s,
            %(attempt)s::uuid, coalesce(%(sent_at)s::timestamptz, %(now)s), %(now)s
        from bumped b
        returning id
    )"""
ONE_ID = "array(select id from stored)"
STORE_MANY = f"""given as (
        select number, m
        from jsonb_array_elements(%(messages)s::jsonb) with ordinality as g(m, number)
    ), stored as (
        insert into ledger_message {COLUMNS}
        select b.id, b.before + g.number, g.m->>'role', g.m->'content', {STORED_AS},
            decode(g.m->>'digest', 'hex'), coalesce(g.m->'redactions', '{{}}'), %(attempt)s::uuid,
            coalesce((g.m->>'sent_at')::timestamptz, %(now)s), %(now)s
        from bumped b, given g
        returning id, "order"
    )"""
MANY_IDS = 'array(select id from stored order by "order")'

CALLERS: tuple[type[Caller], ...] = (Bearer, TrustedCaller)
STORE: Statements = {each: store_statement(each, STORE_MANY, MANY_IDS) for each in CALLERS}
STORE_SINGLE: Statements = {each: store_statement(each, STORE_ONE, ONE_ID) for each in CALLERS}

# A lock and the start of a batch need not survive a crash of the database, which would end the lock
# and return the messages: only what a response did waits for the disk, and for these before it.
NOT_AWAITED = """set_config('synchronous_commit', case when %(in_transaction)s
        then current_setting('synchronous_commit') else 'off' end, true)"""

TAKE_LOCK = f"""update ledger_session s
    set lock_token = gen_random_uuid(),
        lock_until = clock_timestamp() + %(ttl_s)s::int * interval '1 second'
    where s.id = %(session)s and (s.lock_until is null or s.lock_until <= clock_timestamp())
    returning s.id, s.lock_token, s.project_id, s.agent_id, s.tracker, s.disable_task_tracking,
        s.message_count, s.pending_count, s.running_count, s.preferences, {NOT_AWAITED}"""
RENEW_LOCK = f"""update ledger_session s
    set lock_until = clock_timestamp() + %(ttl_s)s::int * interval '1 second'
    where s.id = %(session)s and {HOLDS_LOCK} returning s.id"""
RELEASE_LOCK = f"""update ledger_session s set lock_token = null, lock_until = null
    where s.id = %(session)s and s.lock_token = %(token)s returning {NOT_AWAITED}"""

TASKS = """select id, "order", description, state, progress from ledger_sessiontask
    where session_id = %(session)s order by "order" asc"""

BEGIN_BATCH = f"""with picked as materialized (
        select m.id, m."order" from ledger_message m
        where m.session_id = %(session)s and m.state in ({message_sources(MessageState.RUNNING)})
            and m."order" <= %(last)s
        order by m."order" limit %(most)s::int
    ), bumped as (
        update ledger_session s
        set pending_count = s.pending_count - p.n, running_count = s.running_count + p.n,
            version = s.version + 1, updated_at = %(now)s
        from (select count(*) as n, min("order") as first, max("order") as last from picked) p
        where s.id = %(session)s and {HOLDS_LOCK} and p.n > 0
        returning s.id, s.tracker, p.n, p.first, p.last
    ), batch as (
        insert into ledger_sessionbatch (session_id, tracker, first_order, last_order,
            message_count, started_at)
        select b.id, b.tracker, b.first, b.last, b.n, %(now)s from bumped b
        returning id, session_id
    )
    update ledger_message m set state = '{MessageState.RUNNING}', batch_id = b.id
    from picked p, batch b where m.id = p.id
    returning m.id, m."order", m.role, m.content, m.batch_id, {NOT_AWAITED}"""

# One model response. `given` are all tasks of the session, the new ones without an id; `links` are
# the messages that it gives to a task, or to the planning section where the order is null.
RESPOND = f"""with {TrustedCaller.cte}, given as materialized (
        select g.id, g."order", g.description, g.progress, g.state, g.changed
        from jsonb_to_recordset(%(tasks)s::jsonb)
            as g(id uuid, "order" int, description text, progress jsonb, state text, changed bool)
    ), links as (
        select l.id, l."order"
        from jsonb_to_recordset(%(links)s::jsonb) as l(id uuid, "order" int)
    ), counts as (
        select count(*) as n, count(*) filter (where state = '{
    SessionTaskState.RUNNING
}') as running,
            count(*) filter (where state = '{SessionTaskState.SUCCESS}') as success,
            count(*) filter (where state = '{SessionTaskState.FAILED}') as failed,
            count(*) filter (where state = '{SessionTaskState.DROPPED}') as dropped
        from given
    ), bumped as (
        update ledger_session s
        set task_count = k.n, task_running_count = k.running, task_success_count = k.success,
            task_failed_count = k.failed, task_dropped_count = k.dropped,
            preferences = %(preferences)s::jsonb,
            running_count = s.running_count - case when %(finish)s then %(running)s else 0 end,
            success_count = s.success_count + case when %(finish)s then %(running)s else 0 end,
            last_outcome = case when %(finish)s then '{
    BatchOutcome.SUCCESS
}' else s.last_outcome end,
            version = s.version + 1, updated_at = %(now)s
        from counts k
        where s.id = %(session)s and {HOLDS_LOCK}
        returning s.id, s.project_id, s.agent_id
    ), inserted as (
        insert into ledger_sessiontask (session_id, "order", description, progress, state,
            created_at, updated_at)
        select b.id, g."order", g.description, g.progress, g.state, %(now)s, %(now)s
        from bumped b, given g where g.id is null
        returning id, "order", description, state
    ), updated as (
        update ledger_sessiontask t
        set "order" = g."order", description = g.description, progress = g.progress,
            state = g.state, version = t.version + 1, updated_at = %(now)s
        from bumped b, given g where t.session_id = b.id and t.id = g.id and g.changed
        returning t.id, t."order", t.description, t.state, old.state as from_state,
            old.description <> t.description as worded
    ), placed as (
        select id, "order" from inserted union all
        select id, "order" from given where id is not null
    ), linked as (
        update ledger_message m
        set session_task_id = case when l.id is null then m.session_task_id else p.id end,
            planning = case when l.id is null then m.planning else l."order" is null end,
            state = case when %(finish)s and m.batch_id = %(batch)s::uuid
                and m.state = '{MessageState.RUNNING}' then '{
    MessageState.SUCCESS
}' else m.state end
        from bumped b, ledger_message x left join links l on l.id = x.id
            left join placed p on p."order" = l."order"
        where x.session_id = b.id and m.id = x.id
            and (x.id in (select id from links) or %(finish)s and x.batch_id = %(batch)s::uuid)
        returning m.id
    ), batched as (
        update ledger_sessionbatch h
        set responses = h.responses + 1, calls = h.calls + %(calls)s::int,
            outcome = case when %(finish)s then '{BatchOutcome.SUCCESS}' end,
            ended_at = case when %(finish)s then %(now)s::timestamptz end
        from bumped b where h.id = %(batch)s::uuid and h.outcome is null
        returning h.id, h.message_count, h.calls
    ), moved as (
        select b.id, b.project_id, b.agent_id, null::text as from_state, i.state,
            '{Kind.SESSION_TASK_CREATED}' as kind, i."order" as place, i.description
        from inserted i, bumped b
        union all
        select b.id, b.project_id, b.agent_id, u.from_state, u.state,
            '{Kind.SESSION_TASK_UPDATED}', u."order", u.description
        from updated u, bumped b where u.worded or u.from_state <> u.state
    ), ended as (
        select b.id, b.project_id, b.agent_id, h.message_count, h.calls from batched h, bumped b
        where %(finish)s
    ), journaled as ({
    journal.insert(
        "moved",
        kind="m.kind",
        subject="session",
        data="jsonb_build_object('order', m.place, 'description', left(m.description, 200),"
        " 'state', m.state)",
    )
}), journaled_end as ({
    journal.insert_without_states(
        "ended",
        kind=f"'{Kind.SESSION_PROCESSED}'",
        subject="session",
        data="jsonb_build_object('messages', m.message_count, 'calls', m.calls)",
    )
})
    select b.id, (select jsonb_object_agg(i."order", i.id) from inserted i) as inserted
    from bumped b"""

# The end of a batch without `finish`, or its failure.
END_BATCH = f"""with {TrustedCaller.cte}, bumped as (
        update ledger_session s
        set running_count = s.running_count - r.n,
            success_count = s.success_count + case when %(failed)s then 0 else r.n end,
            failed_count = s.failed_count + case when %(failed)s then r.n else 0 end,
            last_outcome = %(outcome)s, version = s.version + 1, updated_at = %(now)s
        from (select count(*) as n from ledger_message where batch_id = %(batch)s
            and state = '{MessageState.RUNNING}') r
        where s.id = %(session)s and {HOLDS_LOCK}
        returning s.id, s.project_id, s.agent_id
    ), moved as (
        update ledger_message m set state = case when %(failed)s
            then '{MessageState.FAILED}' else '{MessageState.SUCCESS}' end
        from bumped b where m.batch_id = %(batch)s and m.state = '{MessageState.RUNNING}'
    ), batched as (
        update ledger_sessionbatch h
        set outcome = %(outcome)s, ended_at = %(now)s, reason = %(reason)s
        from bumped b where h.id = %(batch)s and h.outcome is null
        returning b.id, b.project_id, b.agent_id, h.message_count, h.calls
    ), journaled as ({
    journal.insert_without_states(
        "batched",
        kind=f"case when %(failed)s then '{Kind.SESSION_FAILED}' "
        f"else '{Kind.SESSION_PROCESSED}' end",
        subject="session",
        data="jsonb_strip_nulls(jsonb_build_object('messages', m.message_count, "
        "'calls', m.calls, 'reason', left(nullif(%(reason)s, ''), 300)))",
    )
})
    select id from bumped"""

# What a lost worker left. A message that a response has given to a task is done; the others return
# to the buffer once, and fail the second time. No lock of another worker may be live.
RECOVER = f"""with {TrustedCaller.cte}, left_over as materialized (
        select m.id, case
            when m.session_task_id is not null or m.planning then '{MessageState.SUCCESS}'
            when m.recoveries = 0 then '{MessageState.PENDING}'
            else '{MessageState.FAILED}' end as state
        from ledger_message m
        where m.session_id = %(session)s and m.state = '{MessageState.RUNNING}'
    ), bumped as (
        update ledger_session s
        set running_count = s.running_count - n.total, pending_count = s.pending_count + n.pending,
            success_count = s.success_count + n.success, failed_count = s.failed_count + n.failed,
            last_outcome = '{BatchOutcome.LOST}', version = s.version + 1, updated_at = %(now)s
        from (select count(*) as total,
            count(*) filter (where state = '{MessageState.PENDING}') as pending,
            count(*) filter (where state = '{MessageState.SUCCESS}') as success,
            count(*) filter (where state = '{MessageState.FAILED}') as failed from left_over) n
        where s.id = %(session)s and {HOLDS_LOCK} and n.total > 0
        returning s.id, s.project_id, s.agent_id, n.pending, n.failed
    ), moved as (
        update ledger_message m
        set state = o.state, recoveries = m.recoveries + 1,
            batch_id = case when o.state = '{MessageState.PENDING}' then null else m.batch_id end
        from left_over o, bumped b where m.id = o.id
    ), batched as (
        update ledger_sessionbatch h
        set outcome = '{BatchOutcome.LOST}', ended_at = %(now)s, reason = %(reason)s
        from bumped b where h.session_id = b.id and h.outcome is null
        returning b.id, b.project_id, b.agent_id, b.pending, h.message_count
    ), journaled as ({
    journal.insert_without_states(
        "batched",
        kind=f"'{Kind.SESSION_FAILED}'",
        subject="session",
        data="jsonb_build_object('messages', m.message_count, 'returned', m.pending, "
        "'reason', %(reason)s::text)",
    )
})
    select pending, failed from bumped"""

# A failed message returns to the buffer, with both of its recoveries; one that a response has given
# to a task before its batch failed is done.
RETRY_FAILED = f"""with {TrustedCaller.cte}, held as materialized (
        select s.id from ledger_session s where s.id = %(session)s for update
    ), picked as materialized (
        select m.id, case when m.session_task_id is not null or m.planning
            then '{MessageState.SUCCESS}' else '{MessageState.PENDING}' end as state
        from held h, ledger_message m
        where m.session_id = h.id and m.state = '{MessageState.FAILED}' for update of m
    ), bumped as (
        update ledger_session s
        set failed_count = s.failed_count - n.total, pending_count = s.pending_count + n.pending,
            success_count = s.success_count + n.total - n.pending, last_outcome = null,
            tracker = coalesce(%(tracker)s, s.tracker), version = s.version + 1,
            updated_at = %(now)s
        from (select count(*) as total,
            count(*) filter (where state = '{MessageState.PENDING}') as pending from picked) n
        where s.id = %(session)s and n.total > 0
        returning s.id, s.project_id, s.agent_id, s.tracker, n.pending
    ), moved as (
        update ledger_message m set state = p.state, recoveries = 0,
            batch_id = case when p.state = '{MessageState.PENDING}' then null else m.batch_id end
        from picked p, bumped b where m.id = p.id
    ), journaled as ({
    journal.insert_without_states(
        "bumped",
        kind=f"'{Kind.SESSION_RETRIED}'",
        subject="session",
        data="jsonb_build_object('messages', m.pending, 'tracker', m.tracker)",
    )
})
    select pending from bumped"""

# No lock may be live, and no message waiting: what is stored for processing is processed first.
# sessions that are archived, and sessions of a deleted project
DELETE_MESSAGES = """delete from ledger_message where id in (
    select id from ledger_message where session_id = any(%(ids)s)
    order by session_id, "order" limit %(most)s::int)"""
DELETE_SESSIONS = (
    "delete from ledger_message where session_id = any(%(ids)s)",
    "delete from ledger_sessiontask where session_id = any(%(ids)s)",
    "delete from ledger_sessionbatch where session_id = any(%(ids)s)",
    "delete from ledger_session where id = any(%(ids)s)",
)
FORGET_TASKS = "update ledger_sessiontask set task_id = null where task_id = any(%(ids)s)"
FORGET_ATTEMPTS = """update ledger_message set attempt_id = null where attempt_id in (
    select id from ledger_attempt where task_id = any(%(ids)s))"""

LINK_DATA = """jsonb_build_object('order', m."order", 'description', m.description,
    'state', m.todo_state, 'task', %(task_name)s::text)"""
# A to-do is linked once: the later course of a task must not be told of another to-do.
LINK_TASK = f"""with {TrustedCaller.cte}, linked as (
    update ledger_sessiontask t set task_id = %(task)s, version = t.version + 1,
        updated_at = %(now)s
    from ledger_session s
    where t.id = %(id)s and s.id = t.session_id and t.task_id is null
    returning s.id, s.agent_id, s.project_id, t."order", t.description, t.state as todo_state
), touched as (
    update ledger_session s set version = s.version + 1, updated_at = %(now)s
    from linked l where s.id = l.id
), journaled as ({
    journal.insert_without_states(
        "linked", kind=f"'{Kind.SESSION_TASK_UPDATED}'", subject="session", data=LINK_DATA
    )
}) select id from linked"""
