"""Reach a running agent: what waits for it is told at its next step, at the latest at Stop."""

from datetime import datetime
from uuid import UUID

from ledger import instructions, optional_cache
from ledger.models import Attempt, Instruction
from ledger.schemas.instructions import instruction_out
from ledger.states import InstructionState, Outcome
from retries.agent_hooks.answers import (
    TEXT_LENGTH,
    Answer,
    add_context,
    end_turn_at_once,
    refuse_call,
)
from retries.agent_hooks.sessions import HookCaller
from retries.attempts.finishing import finish_attempt
from retries.attempts.live_attempt import LeaseLost
from retries.attempts.report_fields import Report

MOST_INSTRUCTIONS = 10
# In front of an instruction's content, where it is urgent.
PREFIX_LENGTH = 20
GAP = "\n\n"
TOLD_SECONDS = 7 * 24 * 3600

ABORTED = (
    "A person has aborted the task that you work on. Stop working on it, change nothing more, and "
    "end your turn."
)
STOPPED = "The agent was stopped, because the task is aborted."
OVER = (
    "Attempt {number} of the task '{title}' is over: {how}. The task is {state}. Stop working on "
    "it: what you do now is not recorded."
)
# By the failure's code, or else by the attempt's outcome.
LOSSES = {
    "lease_expired": "its lease expired, because Tenfour heard nothing from you",
    "deadline_exceeded": "its time limit has passed",
    "released": "it was given back",
    "aborted": "a person has aborted the task",
}


def reach(
    caller: HookCaller, event: str, attempt: Attempt | None, *, is_claude: bool, now: datetime
) -> Answer:
    """Return what waits for the agent whose tool call has ended.

    `attempt` is the session's last one, live or not; None where another side looks after it.
    """
    if attempt and attempt.outcome is None and attempt.task.abort_requested_at:
        return abort(caller, event, attempt, is_claude=is_claude, now=now)
    loss = tell_loss(attempt) if attempt else ""
    texts = [loss, *deliver(caller, room=TEXT_LENGTH - len(loss), now=now)]
    return add_context(event, GAP.join(filter(None, texts)))


def abort(
    caller: HookCaller, event: str, attempt: Attempt, *, is_claude: bool, now: datetime
) -> Answer:
    """Return what stops an agent whose task a person has aborted.

    Claude Code ends the turn without Stop, so the attempt is reported here. Codex can only be told,
    and its further calls are refused: see `refuse`.
    """
    if not is_claude:
        return add_context(event, ABORTED)
    report = Report(status="failure", message=STOPPED)
    try:
        finish_attempt(attempt.id, report, caller=caller.scoped("tasks:work"), now=now)
    except LeaseLost:
        return {}  # it ended meanwhile
    return end_turn_at_once(ABORTED)


def refuse(attempt: Attempt | None) -> Answer:
    """Return what keeps the agent's next tool call from beginning, if its task is aborted."""
    is_aborted = attempt and attempt.outcome is None and attempt.task.abort_requested_at
    # Codex ends the reason with a period of its own.
    return refuse_call(ABORTED.rstrip(".")) if is_aborted else {}


# ---- the end of the attempt


def describe_loss(attempt: Attempt) -> str | None:
    """Return how an attempt ended without its agent; None where the agent ended it."""
    if attempt.report_digest is not None:
        return None
    if attempt.outcome == Outcome.FAILURE:
        failure = getattr(attempt, "failure", None)
        return LOSSES.get(failure.code) if failure else None
    return LOSSES.get(str(attempt.outcome))


def tell_loss(attempt: Attempt) -> str:
    """Return that the attempt is over, once; empty where the agent knows it."""
    how = describe_loss(attempt)
    if how is None or not is_first_time(f"hook-loss:{attempt.id}"):
        return ""
    return OVER.format(
        number=attempt.number,
        title=attempt.task.title or attempt.task.ref or attempt.task_id,
        how=how,
        state=attempt.task.state,
    )


def is_first_time(key: str) -> bool:
    """Return whether this is asked for the first time; always True without Redis."""
    return optional_cache.increment(key, seconds=TOLD_SECONDS) <= 1


# ---- instructions


def deliver(caller: HookCaller, *, room: int, now: datetime) -> list[str]:
    """Deliver the instructions at the head of the queue that fit into `room` characters."""
    if not caller.may("instructions:ack"):
        return []
    limit = count_fitting(caller.agent_id, room=room)
    if not limit:
        return []
    rows = instructions.pull(
        caller.scoped("instructions:ack"),
        limit=limit,
        session=caller.session_name or None,
        now=now,
    )
    return [instruction_out(row)["text"] for row in rows]


def count_fitting(agent_id: UUID, *, room: int) -> int:
    """Return how many instructions at the head of the queue have room in a hook's text."""
    rows = Instruction.objects.filter(agent_id=agent_id, state=InstructionState.QUEUED)
    count = 0
    for content in rows.order_by("position").values_list("content", flat=True)[:MOST_INSTRUCTIONS]:
        room -= len(content) + PREFIX_LENGTH + len(GAP)
        if room < 0:
            break
        count += 1
    return count
