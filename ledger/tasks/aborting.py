"""Abort tasks; ask the agents of running ones to stop."""

from collections.abc import Iterable
from uuid import UUID

from psycopg.types.json import Jsonb

from ledger import journal
from ledger.database import sql
from ledger.journal import Kind, Stamp
from ledger.moves import task_to
from ledger.secrets.notes import noted
from ledger.states import TaskState
from ledger.tokens import TrustedCaller

ABORT = f"""with {TrustedCaller.cte}, moved as ({
    task_to(TaskState.ABORTED, where="t.id = any(%(ids)s) and t.state <> 'running'")
}), flagged as (
    update ledger_task t set abort_requested_at = %(now)s, version = t.version + 1,
        updated_at = %(now)s
    where t.id = any(%(ids)s) and t.state = 'running' and t.abort_requested_at is null
    returning t.id, t.project_id, t.agent_id, t.state, t.state as from_state
), journaled_aborts as ({
    journal.insert("moved", kind=f"'{Kind.TASK_ABORTED}'", subject="task", data="%(data)s")
}), journaled_requests as ({
    journal.insert_without_states(
        "flagged", kind=f"'{Kind.TASK_ABORT_REQUESTED}'", subject="task", data="%(data)s"
    )
}) select id, true as aborted from moved union all select id, false from flagged"""


def abort(ids: Iterable[UUID], *, reason: str = "", stamp: Stamp) -> dict[UUID, bool]:
    """Abort these tasks: True for an aborted task, False for a running one that is asked to stop.

    Final tasks are left out. A running task ends when its agent reports or its lease expires.
    """
    rows = sql.run(
        ABORT,
        ids=list(ids),
        data=Jsonb(noted(reason)),
        now=stamp.at,
        **TrustedCaller(stamp.actor, request_id=stamp.request_id).params,
    )
    return {row["id"]: row["aborted"] for row in rows}
