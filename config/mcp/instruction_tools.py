"""Tools for instructions: agents pull and acknowledge them, producers send them."""

from dataclasses import replace
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt

from config.mcp.tools import Reply, Tool, identify, join, perform, select
from ledger.api import instructions
from ledger.errors import Invalid
from ledger.instructions import CONTENT_BYTES, NOTE_LENGTH, list_last_delivered
from ledger.schemas.instructions import AckIn, InstructionIn, PullIn
from ledger.schemas.shared import AGENT_NAME, MOST_ROWS, In


class PullArguments(In):
    limit: StrictInt = Field(10, ge=1, le=MOST_ROWS)


def get_instructions(request: Any, given: PullArguments) -> Reply:
    """Get the instructions that people and programs have sent you.

    Call this when a session starts; claim_task and heartbeat bring later ones with their replies.
    """
    found = perform(instructions.instructions_pull, request, PullIn(limit=given.limit, via="mcp"))
    rows = found["data"]
    if not rows:
        return Reply("There are no new instructions.", {"instructions": []})
    more = " More wait: call get_instructions again." if len(rows) == given.limit else ""
    return Reply(
        "Follow each instruction and then call ack_instruction with its id; otherwise you get it "
        f"again. One that is not tracked needs no acknowledgment.{more}",
        {"instructions": [outline_instruction(row) for row in rows]},
        shown="\n\n".join(f"{row['text']}\n(id {row['id']}{plain_mark(row)})" for row in rows),
    )


def plain_mark(row: dict[str, Any]) -> str:
    return "" if row["tracked"] else ", not tracked"


def outline_instruction(row: dict[str, Any]) -> dict[str, Any]:
    names = ("id", "text", "state", "urgency", "agent", "task", "tracked", "expect", "outcome")
    return select(row, *names, "note", "late", "deduplicated")


class AckArguments(In):
    id: UUID | None = Field(
        None, description="the instruction's id; by default the one that you got last"
    )
    outcome: Literal["done", "accepted", "declined"] = Field(
        "done", description="'declined' if you won't follow it; then say why in the note"
    )
    note: str = Field("", max_length=NOTE_LENGTH, description="what you did or found")


def ack_instruction(request: Any, given: AckArguments) -> Reply:
    """Acknowledge an instruction, so that it is not sent again.

    Call this after you have followed it, or to say that you won't.
    """
    id = given.id or find_last_delivered(request)
    body = AckIn(outcome=given.outcome, note=given.note)
    row = perform(instructions.instructions_ack, request, id, body)
    if row["late"]:
        text = f"Too late: the instruction is {row['state']}. Your acknowledgment is on record."
    else:
        text = f"Acknowledged: {row['content']}"
    return Reply(text, outline_instruction(row))


def find_last_delivered(request: Any) -> UUID:
    """Return the id of the instruction that the agent got last; raise Invalid if it's unclear."""
    ids = list_last_delivered(request.auth)
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise Invalid(
            "/id",
            "No instruction of yours waits for an acknowledgment.",
            hint="Call get_instructions to get the ones that are queued.",
        )
    raise Invalid(
        "/id",
        f"You got {len(ids)} instructions at once: {', '.join(map(str, ids))}.",
        hint="Call ack_instruction with the id of each one.",
    )


class SendArguments(In):
    agent: str = Field(description=AGENT_NAME)
    content: str = Field(
        description=f"what to do, at most {CONTENT_BYTES} bytes; following it twice must be safe"
    )
    task: UUID | None = Field(None, description="the task that it belongs to")
    max_retries: StrictInt | None = Field(None, ge=0, description="how often it is sent again")
    priority: StrictBool = Field(False, description="true to put it first in the queue")


def send_instruction(request: Any, given: SendArguments) -> Reply:
    """Send an instruction to another agent, which gets reminders until it acknowledges.

    Call this to make an agent do something now that is not a task with attempts.
    """
    body = InstructionIn.model_validate(given.model_dump())
    row = perform(instructions.instructions_create, request, body)
    same = "The same instruction was waiting already" if row["deduplicated"] else "Sent"
    return Reply(f"{same}: instruction {row['id']} to {row['agent']}.", outline_instruction(row))


PULL = Tool(get_instructions, instructions.instructions_pull, "Get instructions")
ACK = Tool(
    ack_instruction, instructions.instructions_ack, "Acknowledge an instruction", is_idempotent=True
)


def add_instructions(reply: Reply, request: Any, *, waiting: int) -> Reply:
    """Return a tool's reply with the instructions that wait for the agent; this delivers them."""
    if not waiting:
        return reply
    if not PULL.is_usable_by(identify(request)):
        return replace(reply, data=reply.data | {"pending_instructions": waiting})
    request.auth = PULL.auth(request)
    found = get_instructions(request, PullArguments.model_validate({}))
    return replace(
        reply,
        message=f"{reply.message} {found.message}",
        data=reply.data | found.data,
        shown=join(reply.shown, found.shown),
    )


SEND = Tool(
    send_instruction, instructions.instructions_create, "Send an instruction", is_idempotent=True
)
