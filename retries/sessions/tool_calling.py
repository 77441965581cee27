"""Run one response of a tracker outside: its calls come over the API."""

from collections.abc import Sequence
from uuid import UUID

from ledger.database import sql
from ledger.errors import Invalid
from ledger.journal import Stamp
from ledger.models import Message
from ledger.sessions import batches
from ledger.sessions.batches import SessionLocked
from ledger.sessions.tool_calls import ToolAnswer, ToolCall
from ledger.sessions.tools import run_calls

WINDOW = 32


@sql.atomic
def call_tools(
    session_id: UUID, calls: Sequence[ToolCall], *, first_message: int | None = None, stamp: Stamp
) -> list[ToolAnswer]:
    """Run the calls in one transaction, under the session's lock; return their answers.

    Index 0 is the message with the order `first_message`, or the first of the last 32. Raises
    ToolRefused, and SessionLocked while a worker processes the session; then nothing is changed.
    """
    lock = batches.take_lock(session_id)
    if lock is None:
        raise SessionLocked("A worker is processing the session.", retry_after_s=1)
    first = first_message or max(1, lock.last_order - WINDOW + 1)
    if first_message and first_message > lock.last_order:
        raise Invalid(
            "/first_message",
            f"The session has {lock.last_order} messages; none has the order {first_message}.",
        )
    ids = list(
        Message.objects.filter(session_id=session_id, order__gte=first, order__lt=first + WINDOW)
        .order_by("order")
        .values_list("id", flat=True)
    )
    sheet = batches.load_worksheet(session_id, messages=len(ids), preferences=lock.preferences)
    work, answers = run_calls(sheet, calls)
    batches.write_response(
        lock, work, message_ids=ids, calls=len(calls), batch_id=None, stamp=stamp
    )
    batches.release_lock(lock)
    return answers
