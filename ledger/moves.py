"""The one writer of states: every `set state =`, with the guard that makes the move legal."""

from ledger.states import INSTRUCTION_MOVES, InstructionState

State = InstructionState

STAMPS = {
    State.DELIVERED: "delivered_at",
    State.ACKNOWLEDGED: "acknowledged_at",
    State.FAILED: "failed_at",
    State.CANCELLED: "cancelled_at",
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


def sources(to: State) -> str:
    """The states that may become `to`, as an SQL list."""
    return ", ".join(f"'{state}'" for state, targets in INSTRUCTION_MOVES.items() if to in targets)


def instruction_to(to: State, *, where: str, sets: str = "") -> str:
    """The UPDATE that moves instructions `i` to a state; rows that may not go there stay out.

    `where` and `sets` are SQL and may read the CTE `caller` as `c`. Returns the new row with its
    former state as `from_state`.
    """
    stamp = f"{STAMPS[to]} = %(now)s, " if to in STAMPS else ""
    return f"""update ledger_instruction i
    set state = '{to}', {stamp}{sets + ", " if sets else ""}updated_at = %(now)s
    from caller c where {where} and i.state in ({sources(to)})
    returning {columns("i")}, i.position, old.state as from_state"""
