"""Define wait and run times of tasks, and the cases that a target counts, as SQL (pure)."""

from ledger.database import sql
from ledger.instruction_records.stats import ACK_SECONDS
from ledger.journal import since_subject
from ledger.states import InstructionState, TaskState

CLAIMABLE = sql.quoted((TaskState.QUEUED, TaskState.RETRY))

# the task of an attempt `a`, its plan, and the move that made it claimable before its first claim:
# a claim's event has the id of its attempt
OF_ATTEMPT = f"""join ledger_task t on t.id = a.task_id left join ledger_plan p on p.id = t.plan_id
    left join lateral (
        select b.at from ledger_event b where a.number = 1 and b.subject_id = a.task_id
            and b.id >= {since_subject("a.task_id")} and b.id < a.id
            and b.to_state in ({CLAIMABLE})
        order by b.id desc limit 1
    ) claimable on true"""
# A task is due when nothing of its own keeps it: its needs are met, and its `not_before` and its
# plan's are over. One that was set after the claim does not count.
DUE_AT = f"""greatest(coalesce(claimable.at, t.created_at), {
    ", ".join(
        f"case when {row}.not_before <= a.started_at then {row}.not_before end"
        for row in ("t", "p")
    )
})"""
# null for later attempts: a retry waits for its backoff
WAIT_SECONDS = f"""case when a.number = 1
    then greatest(0, extract(epoch from a.started_at - {DUE_AT}))::float8 end"""
# null while the attempt runs
RUN_SECONDS = "extract(epoch from a.ended_at - a.started_at)::float8"

# A cancelled instruction `i` is neither acknowledged nor missed.
IS_SETTLED = f"i.state in ('{InstructionState.ACKNOWLEDGED}', '{InstructionState.FAILED}')"
IS_ACKNOWLEDGED_IN_TIME = (
    f"i.state = '{InstructionState.ACKNOWLEDGED}' and {ACK_SECONDS} <= g.within_s"
)
