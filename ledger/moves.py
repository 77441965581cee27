"""The one writer of states: every `set state =`, with the guard that makes the move legal."""

from collections.abc import Sequence

from ledger.states import (
    FINAL,
    INSTRUCTION_MOVES,
    TASK_MOVES,
    BlockedReason,
    InstructionState,
    TaskState,
)

STAMPS = {
    InstructionState.DELIVERED: "delivered_at",
    InstructionState.ACKNOWLEDGED: "acknowledged_at",
    InstructionState.FAILED: "failed_at",
    InstructionState.CANCELLED: "cancelled_at",
}

# what a statement gives back of an instruction
INSTRUCTION_COLUMNS = (
    "id",
    "project_id",
    "agent_id",
    "content",
    "tracked",
    "state",
    "retry_count",
    "max_retries",
    "deliveries",
    "expect_type",
    "expect_match",
    "on_failed",
    "resend_of_id",
    "sent_by_type",
    "sent_by_name",
    "acknowledged_by",
    "outcome",
    "note",
    "queued_at",
    "delivered_at",
    "acknowledged_at",
    "failed_at",
    "cancelled_at",
    "late_ack_at",
    "updated_at",
)


def columns(table: str) -> str:
    """The instruction's columns, as selected from `table`."""
    return ", ".join(f"{table}.{column}" for column in INSTRUCTION_COLUMNS)


def sources(to: InstructionState) -> str:
    """The states that may become `to`, as an SQL list."""
    return ", ".join(f"'{state}'" for state, targets in INSTRUCTION_MOVES.items() if to in targets)


def instruction_to(to: InstructionState, *, where: str, sets: str = "") -> str:
    """The UPDATE that moves instructions `i` to a state; rows that may not go there stay out.

    `where` and `sets` are SQL and may read the CTE `caller` as `c`. Returns the new row with its
    former state as `from_state`.
    """
    stamp = f"{STAMPS[to]} = %(now)s, " if to in STAMPS else ""
    return f"""update ledger_instruction i
    set state = '{to}', {stamp}{sets + ", " if sets else ""}updated_at = %(now)s
    from caller c where {where} and i.state in ({sources(to)})
    returning {columns("i")}, i.position, old.state as from_state"""


# ---- tasks

TASK_COLUMNS = (
    "id",
    "project_id",
    "agent_id",
    "plan_id",
    "ref",
    "run",
    "title",
    "type",
    "state",
    "blocked_reason",
    "priority",
    "payload",
    "result",
    "error",
    "retry_count",
    "max_attempts",
    "attempt_limit",
    "attempts",
    "releases",
    "unmet",
    "on_exhausted",
    "base_delay_ms",
    "max_delay_ms",
    "exponential_base",
    "jitter",
    "lease_s",
    "timeout_s",
    "idempotent",
    "non_retryable",
    "redactions",
    "due_at",
    "current_attempt",
    "abort_requested_at",
    "replay_of_id",
    "replaced_by_id",
    "version",
    "created_at",
    "updated_at",
    "started_at",
    "completed_at",
)

# what the journal tells of a move
TOLD_COLUMNS = ("id", "project_id", "agent_id", "state", "attempts", "version")


def task_columns(table: str) -> str:
    """The task's columns, as selected from `table`."""
    return listed(table, TASK_COLUMNS)


def listed(table: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


def task_sources(to: TaskState) -> str:
    """The states that may become `to`, as an SQL list."""
    return ", ".join(f"'{state}'" for state, targets in TASK_MOVES.items() if to in targets)


def task_to(
    to: TaskState,
    *,
    where: str,
    sets: str = "",
    reason: str = "null",
    source: str = "caller c",
    columns: Sequence[str] = TASK_COLUMNS,
) -> str:
    """The UPDATE that moves tasks `t` to a state; rows that may not go there stay out.

    `where`, `sets` and `reason` (of a block) are SQL and may read `source`. Returns those columns
    of the new row, its former state as `from_state` and the attempt that was live as
    `former_attempt`. Every column costs time: a hot move asks for what it needs.
    """
    more = {
        TaskState.RUNNING: "started_at = coalesce(t.started_at, %(now)s), due_at = null, "
        "due_noted_at = null, attempts = t.attempts + 1, ",
        TaskState.DONE: "error = null, ",
    }.get(to, "")
    if to != TaskState.RUNNING:
        more += "current_attempt = null, "
    if to in FINAL:
        more += "completed_at = %(now)s, "
    return f"""update ledger_task t
    set state = '{to}', blocked_reason = {reason}, {more}{sets + ", " if sets else ""}
        version = t.version + 1, updated_at = %(now)s
    from {source} where {where} and t.state in ({task_sources(to)})
    returning {listed("t", columns)}, old.state as from_state,
        old.current_attempt as former_attempt"""


# where a task goes whose needs are met: a plan's checkpoint asks a person
CHECKPOINT = "checkpoint:"
IS_CHECKPOINT = f"{{0}}.plan_id is not null and {{0}}.type like '{CHECKPOINT}%%'"
READY = f"case when {IS_CHECKPOINT} then '{TaskState.ESCALATED}' else '{TaskState.QUEUED}' end"


# how many needs of a task are not met, those included that no plan has brought yet
UNMET = f"""((select count(*) from ledger_need d join ledger_task m on m.id = d.need_id
        where d.task_id = {{0}} and m.state not in ('{TaskState.DONE}', '{TaskState.SKIPPED}')
            and not exists (select from ledger_deadletter l
                where l.task_id = m.id and l.closed_as = 'dismissed'))
    + (select count(*) from ledger_missingneed x where x.task_id = {{0}}))::int"""


def needs_met(source: str) -> str:
    """The UPDATE that counts down the needs of what depends on the tasks `m` of a CTE.

    Queues those that waited for nothing else; a checkpoint asks a person instead. Two needs that
    end together can't miss it: the second waits for the row and counts from what the first has
    left. `need` is the one that was met, where it was one. The statement sees what depended on
    them when it began: see `ledger.needs` for what came later.
    """
    return f"""update ledger_task t
    set state = case when t.state = '{TaskState.BLOCKED}' and t.blocked_reason = 'dependency'
            and t.unmet <= n.met then {READY.format("t")} else t.state end,
        blocked_reason = case when t.blocked_reason = 'dependency' and t.unmet <= n.met
            then null else t.blocked_reason end,
        unmet = t.unmet - n.met, version = t.version + 1, updated_at = %(now)s
    from (select d.task_id, count(*) as met,
            case count(*) when 1 then (array_agg(d.need_id))[1] end as need
        from ledger_need d join {source} m on m.id = d.need_id
        group by d.task_id order by d.task_id) n
    where t.id = n.task_id
    returning {task_columns("t")}, old.state as from_state, n.need"""


def needs_counted() -> str:
    """The UPDATE that counts anew what tasks `t` of %(ids)s need, after that was changed.

    For those that nobody has begun: they begin to wait, or wait no more. What they need is locked,
    so that none of it ends meanwhile. Returns the new rows with `from_state`.
    """
    waits = f"t.state = '{TaskState.BLOCKED}' and t.blocked_reason = 'dependency'"
    return f"""update ledger_task t
    set state = case when t.state = '{TaskState.QUEUED}' and n.unmet > 0
                then '{TaskState.BLOCKED}'
            when {waits} and n.unmet = 0 then {READY.format("t")} else t.state end,
        blocked_reason = case when t.state = '{TaskState.QUEUED}' and n.unmet > 0
                then 'dependency'
            when {waits} and n.unmet = 0 then null else t.blocked_reason end,
        unmet = n.unmet, version = t.version + 1, updated_at = %(now)s
    from (select w.id, {UNMET.format("w.id")} as unmet from unnest(%(ids)s::uuid[]) as w(id)) n
    where t.id = n.id and t.state in ('{TaskState.QUEUED}', '{TaskState.BLOCKED}')
    returning {task_columns("t")}, old.state as from_state"""


def let_go() -> str:
    """The UPDATE by which tasks `t` of %(ids)s wait no more for a person, only for what they need.

    For those held since what they needed was skipped; what they need is locked. One that waits for
    nothing else is queued, a checkpoint asks. Returns the new rows with `from_state`.
    """
    return f"""update ledger_task t
    set state = case when n.unmet = 0 then {READY.format("t")} else t.state end,
        blocked_reason = case when n.unmet > 0 then '{BlockedReason.DEPENDENCY}' end,
        unmet = n.unmet, version = t.version + 1, updated_at = %(now)s
    from (select w.id, {UNMET.format("w.id")} as unmet from unnest(%(ids)s::uuid[]) as w(id)) n
    where t.id = n.id and t.state = '{TaskState.BLOCKED}'
        and t.blocked_reason = '{BlockedReason.DEPENDENCY_SKIPPED}'
    returning {task_columns("t")}, old.state as from_state"""
