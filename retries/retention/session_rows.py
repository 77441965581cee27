"""Sessions that are over, with their messages, to-dos and batches.

The tasks that were made of their to-dos stay. A session with many messages loses the oldest first,
some thousand at a time, and goes with the last of them.
"""

from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db import transaction

from ledger.database import sql
from ledger.sessions.statements import DELETE_MESSAGES, DELETE_SESSIONS
from retries.retention.archives import Record
from retries.retention.row_kind import (
    RowKind,
    Scope,
    build_records,
    hold,
    list_json,
    run_all,
    select_records,
)

MESSAGES_READ = 200
MESSAGES_DELETED = 1000

# A session of a live attempt stays.
DELETABLE = """select s.id from ledger_session s
where s.id = any(%(ids)s) and s.last_message_at < %(before)s and s.lock_token is null
    and s.pending_count = 0 and s.running_count = 0
    and not exists (select from ledger_message m join ledger_attempt a on a.id = m.attempt_id
        where m.session_id = s.id and m.attempt_id is not null and a.outcome is null)
order by 1"""
CONTENT = f"""jsonb_build_object('session', to_jsonb(s), 'agent', a.name, 'project', p.name,
    'tasks', {list_json("ledger_sessiontask", "x.session_id = s.id", 'x."order"')},
    'batches', {list_json("ledger_sessionbatch", "x.session_id = s.id", "x.id")})"""
SOURCE = """(select * from ledger_session where id = any(%(ids)s) order by id) s
    join ledger_agent a on a.id = s.agent_id join ledger_project p on p.id = s.project_id"""
MESSAGES = select_records(
    "message",
    "jsonb_build_object('message', to_jsonb(m))",
    "array[m.session_id::text, m.id::text]",
    """(select * from ledger_message where session_id = %(session)s and "order" > %(after)s
        order by "order" limit %(most)s::int) m""",
    project="(select s.project_id from ledger_session s where s.id = m.session_id)",
    also='m."order" as place, ',
)
COUNT = "select count(*) as n from ledger_message where session_id = any(%(ids)s)"


def read_messages(ids: Sequence[UUID]) -> Iterator[list[Record]]:
    for session in ids:
        after = 0
        while rows := sql.run(MESSAGES, session=session, after=after, most=MESSAGES_READ):
            yield build_records(rows)
            after = rows[-1]["place"]


def shrink_sessions(ids: Sequence[UUID], scope: Scope) -> None:
    """Delete the oldest messages while there are too many for one transaction."""
    while sql.run(COUNT, ids=list(ids))[0]["n"] > MESSAGES_DELETED:
        with transaction.atomic():
            free = KIND.list_deletable(hold(KIND.table, ids), scope)
            if len(free) < len(ids):
                return
            sql.run(DELETE_MESSAGES, ids=free, most=MESSAGES_DELETED)


def delete_sessions(ids: Sequence[UUID]) -> None:
    run_all(DELETE_SESSIONS, ids=list(ids))


KIND = RowKind(
    name="sessions",
    setting="SESSION_DAYS",
    table="ledger_session",
    searched=10,
    deletable=DELETABLE,
    records=[
        select_records(
            "session", CONTENT, "array_remove(array[s.id::text, s.external_id], null)", SOURCE
        )
    ],
    delete_rows=delete_sessions,
    more_records=read_messages,
    shrink=shrink_sessions,
)
