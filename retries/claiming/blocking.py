"""The SQL that blocks tasks, for an open breaker or a later time, and queues them again."""

from ledger import journal
from ledger.journal import Kind
from ledger.moves import task_to
from ledger.states import BlockedReason, TaskState
from ledger.tokens import Caller, Statements, TrustedCaller
from retries.claiming.statements import CALLERS


def block_statement(caller: type[Caller]) -> str:
    return f"""with {caller.cte}, moved as ({
        task_to(
            TaskState.BLOCKED,
            where="t.id = any(%(ids)s) and t.agent_id = %(for_agent)s "
            "and t.state in ('queued', 'retry')",
            reason=f"'{BlockedReason.BREAKER_OPEN}'",
        )
    }), journaled as ({
        journal.insert(
            "moved",
            kind=f"'{Kind.TASK_BLOCKED}'",
            subject="task",
            data="jsonb_build_object('reason', m.blocked_reason)",
        )
    }) select id from moved"""


BLOCK: Statements = {caller: block_statement(caller) for caller in CALLERS}


def unblock_statement(reason: BlockedReason, condition: str) -> str:
    return f"""with {TrustedCaller.cte}, ripe as materialized (
    select t.id from ledger_task t
    where t.state = 'blocked' and t.blocked_reason = '{reason}' and {condition}
    order by t.id limit 1000 for update of t skip locked
), moved as ({
        task_to(TaskState.QUEUED, where="t.id = any(array(select id from ripe)) and t.unmet = 0")
    }), journaled as ({
        journal.insert(
            "moved",
            kind=f"'{Kind.TASK_UNBLOCKED}'",
            subject="task",
            data=f"jsonb_build_object('reason', '{reason}')",
        )
    }) select id from moved"""


UNBLOCK = (
    unblock_statement(
        BlockedReason.BREAKER_OPEN,
        """not exists (select from ledger_breaker b
            where b.agent_id = t.agent_id and b.state = 'open')""",
    ),
    unblock_statement(BlockedReason.NOT_BEFORE, "t.not_before <= %(now)s"),
)
