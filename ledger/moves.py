"""Build the SQL that moves instructions and tasks: every `set state =`, with its legal sources."""

from collections.abc import Sequence

from ledger.database.sql import quoted
from ledger.states import (
    FINAL,
    INSTRUCTION_MOVES,
    BlockedReason,
    InstructionState,
    RetryOn,
    TaskState,
    list_sources,
)

STAMPS = {
    InstructionState.DELIVERED: "delivered_at",
    InstructionState.ACKNOWLEDGED: "acknowledged_at",
    InstructionState.FAILED: "failed_at",
    InstructionState.CANCELLED: "cancelled_at",
}

# the columns that a move of an instruction returns
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
    "task_id",
    "resend_of_id",
    "rule_id",
    "holds",
    "sent_by_type",
    "sent_by_name",
    "acknowledged_by",
    "outcome",
    "note",
    "queued_at",
    "first_delivered_at",
    "delivered_at",
    "delivered_via",
    "delivered_to",
    "delivered_call",
    "read_at",
    "acknowledged_at",
    "failed_at",
    "cancelled_at",
    "late_ack_at",
    "updated_at",
)


def instruction_columns(table: str) -> str:
    return select_list(table, INSTRUCTION_COLUMNS)


def instruction_sources(to: InstructionState) -> str:
    return quoted(state for state, targets in INSTRUCTION_MOVES.items() if to in targets)


def instruction_to(to: InstructionState, *, where: str, sets: str = "") -> str:
    """Return the UPDATE that moves instructions `i`, but not rows that may not go there.

    `where` and `sets` are SQL and can read the CTE `caller` as `c`. The UPDATE returns the new row
    with its previous state as `from_state`.
    """
    stamp = f"{STAMPS[to]} = %(now)s, " if to in STAMPS else ""
    return f"""update ledger_instruction i
    set state = '{to}', {stamp}{sets + ", " if sets else ""}updated_at = %(now)s
    from caller c where {where} and i.state in ({instruction_sources(to)})
    returning {instruction_columns("i")}, i.position, old.state as from_state"""


# ---- tasks

TASK_COLUMNS = (
    "id",
    "project_id",
    "agent_id",
    "pool_id",
    "retry_on",
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
    "proof",
    "retry_count",
    "max_attempts",
    "attempt_limit",
    "attempts",
    "releases",
    "unmet",
    "on_exhausted",
    "evidence",
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
    "not_before",
    "exclusive",
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

# the columns that the journal reads of a move
EVENT_COLUMNS = ("id", "project_id", "agent_id", "state", "attempts", "version", "proof")


FINAL_STATES = quoted(FINAL)


def task_columns(table: str) -> str:
    return select_list(table, TASK_COLUMNS)


def select_list(table: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


def task_sources(to: TaskState) -> str:
    return quoted(list_sources(to))


WAITING = (TaskState.QUEUED, TaskState.RETRY)


def next_queue(task: str) -> str:
    """Return the SQL of the agent or pool whose queue a task waits in from now on."""
    return f"""case when {task}.pool_id is null or {task}.retry_on = '{RetryOn.SAME}'
            and exists (select from ledger_poolmember s
                where s.agent_id = {task}.agent_id and s.pool_id = {task}.pool_id)
        then {task}.agent_id else {task}.pool_id end"""


def task_to(
    to: TaskState,
    *,
    where: str,
    sets: str = "",
    reason: str = "null",
    source: str = "caller c",
    columns: Sequence[str] = TASK_COLUMNS,
) -> str:
    """Return the UPDATE that moves tasks `t`, but not rows that may not go there.

    A task that was sent to a pool waits for the pool again, or for the member that had it last.

    `where`, `sets` and `reason` (why it is blocked) are SQL and can read `source`. The UPDATE
    returns `columns` of the new row, its previous state as `from_state` and the attempt that was
    live as `former_attempt`. Every column costs time: a hot move asks only for what it needs.
    """
    more = {
        TaskState.RUNNING: "started_at = coalesce(t.started_at, %(now)s), due_at = null, "
        "due_noted_at = null, attempts = t.attempts + 1, ",
        TaskState.DONE: "error = null, ",
    }.get(to, "")
    former = ""
    if to in WAITING:
        more += f"agent_id = {next_queue('t')}, "
        former = ", old.agent_id as former_agent_id"
    if to != TaskState.RUNNING:
        more += "current_attempt = null, "
    if to in FINAL:
        more += "completed_at = %(now)s, "
    return f"""update ledger_task t
    set state = '{to}', blocked_reason = {reason}, {more}{sets + ", " if sets else ""}
        version = t.version + 1, updated_at = %(now)s
    from {source} where {where} and t.state in ({task_sources(to)})
    returning {select_list("t", columns)}, old.state as from_state,
        old.current_attempt as former_attempt{former}"""


# ---- needs

CHECKPOINT = "checkpoint:"


def is_checkpoint(task: str) -> str:
    return f"{task}.plan_id is not null and {task}.type like '{CHECKPOINT}%%'"


def state_without_needs(task: str) -> str:
    # A checkpoint asks a person.
    return (
        f"case when {is_checkpoint(task)} then '{TaskState.ESCALATED}' "
        f"when {task}.not_before > %(now)s then '{TaskState.BLOCKED}' "
        f"else '{TaskState.QUEUED}' end"
    )


def reason_without_needs(task: str) -> str:
    return (
        f"case when {task}.not_before > %(now)s and ({is_checkpoint(task)}) is not true "
        f"then '{BlockedReason.NOT_BEFORE}' end"
    )


# the reason of a task `m`, in its event's data, if it waits for its time
START_REASON = f"""case when m.blocked_reason = '{BlockedReason.NOT_BEFORE}'
        then jsonb_build_object('reason', m.blocked_reason) else '{{}}'::jsonb end"""


def need_is_met(need: str) -> str:
    """Return the condition that a task no longer holds back its dependents."""
    # `ledger.needs.unmet_needs` is the same rule as a queryset.
    return f"""({need}.state in ('{TaskState.DONE}', '{TaskState.SKIPPED}')
        or exists (select from ledger_deadletter l
            where l.task_id = {need}.id and l.closed_as = 'dismissed'))"""


def count_unmet(task_id: str) -> str:
    # Needs that no plan has imported yet count, too.
    return f"""((select count(*) from ledger_need d join ledger_task m on m.id = d.need_id
        where d.task_id = {task_id} and not {need_is_met("m")})
    + (select count(*) from ledger_missingneed x where x.task_id = {task_id}))::int"""


def count_down_needs(source: str) -> str:
    """Return the UPDATE that counts down the needs of the dependents of tasks `m` of a CTE.

    It queues tasks that wait for nothing else; a checkpoint asks a person instead. `need` is the id
    of the need that was met if it was only one.
    """
    # Two needs that end together can't miss it: the second waits for the row and counts from what
    # the first left. The statement sees the dependents that existed when it began; `ledger.needs`
    # explains how later ones are found.
    return f"""update ledger_task t
    set state = case when t.state = '{TaskState.BLOCKED}' and t.blocked_reason = 'dependency'
            and t.unmet <= n.met then {state_without_needs("t")} else t.state end,
        blocked_reason = case when t.blocked_reason = 'dependency' and t.unmet <= n.met
            then {reason_without_needs("t")} else t.blocked_reason end,
        unmet = t.unmet - n.met, version = t.version + 1, updated_at = %(now)s
    from (select d.task_id, count(*) as met,
            case count(*) when 1 then (array_agg(d.need_id))[1] end as need
        from ledger_need d join {source} m on m.id = d.need_id
        group by d.task_id order by d.task_id) n
    where t.id = n.task_id
    returning {task_columns("t")}, old.state as from_state, n.need"""


def recount_needs() -> str:
    """Return the UPDATE that recounts the unmet needs of tasks `t` of %(ids)s after a change.

    It blocks or unblocks tasks that have not started, also if their `not_before` changed. The
    caller locks their needs, so that none of them ends meanwhile. The UPDATE returns the new rows
    with `from_state`.
    """
    waits = f"t.state = '{TaskState.BLOCKED}' and t.blocked_reason = 'dependency'"
    is_early = f"t.state = '{TaskState.QUEUED}' and t.not_before > %(now)s"
    may_start = f"""t.blocked_reason = '{BlockedReason.NOT_BEFORE}' and n.unmet = 0
                and (t.not_before > %(now)s) is not true"""
    return f"""update ledger_task t
    set state = case when t.state = '{TaskState.QUEUED}' and n.unmet > 0 or {is_early}
                then '{TaskState.BLOCKED}'
            when {waits} and n.unmet = 0 then {state_without_needs("t")}
            when {may_start} then '{TaskState.QUEUED}' else t.state end,
        blocked_reason = case when n.unmet > 0 and (t.state = '{TaskState.QUEUED}'
                or t.blocked_reason = '{BlockedReason.NOT_BEFORE}') then 'dependency'
            when {is_early} then '{BlockedReason.NOT_BEFORE}'
            when {waits} and n.unmet = 0 then {reason_without_needs("t")}
            when {may_start} then null else t.blocked_reason end,
        unmet = n.unmet, version = t.version + 1, updated_at = %(now)s
    from (select w.id, {count_unmet("w.id")} as unmet from unnest(%(ids)s::uuid[]) as w(id)) n
    where t.id = n.id and t.state in ('{TaskState.QUEUED}', '{TaskState.BLOCKED}')
    returning {task_columns("t")}, old.state as from_state"""


def hold_checkpoints() -> str:
    """Return the UPDATE by which tasks `t` of %(ids)s that became checkpoints wait for their needs.

    No agent may start one before a person has answered, so `recount_needs` runs next: it escalates
    those without unmet needs. The UPDATE returns the new rows with `from_state`.
    """
    return f"""update ledger_task t
    set state = '{TaskState.BLOCKED}', blocked_reason = '{BlockedReason.DEPENDENCY}',
        version = t.version + 1, updated_at = %(now)s
    where t.id = any(%(ids)s) and (t.state = '{TaskState.QUEUED}'
        or t.blocked_reason in (
            '{BlockedReason.BREAKER_OPEN}', '{BlockedReason.NOT_BEFORE}'))
    returning {task_columns("t")}, old.state as from_state"""


def resume_skipped() -> str:
    """Return the UPDATE by which tasks `t` of %(ids)s no longer wait for a person.

    For tasks that a person kept blocked after a need was skipped. They wait for their unmet needs
    again, which the caller locks; without any they are queued, or a checkpoint asks. The UPDATE
    returns the new rows with `from_state`.
    """
    return f"""update ledger_task t
    set state = case when n.unmet = 0 then {state_without_needs("t")} else t.state end,
        blocked_reason = case when n.unmet > 0 then '{BlockedReason.DEPENDENCY}'
            else {reason_without_needs("t")} end,
        unmet = n.unmet, version = t.version + 1, updated_at = %(now)s
    from (select w.id, {count_unmet("w.id")} as unmet from unnest(%(ids)s::uuid[]) as w(id)) n
    where t.id = n.id and t.state = '{TaskState.BLOCKED}'
        and t.blocked_reason = '{BlockedReason.DEPENDENCY_SKIPPED}'
    returning {task_columns("t")}, old.state as from_state"""
