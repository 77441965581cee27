"""Reach a running agent: what waits for it is told at its next step, at the latest at Stop."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from ledger import instructions
from ledger.database import optional_cache
from ledger.instruction_records.receipts import read_waiting
from ledger.models import Attempt
from ledger.schemas.instructions import InstructionOut
from ledger.states import Outcome, Way
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
# A prompt is no step of the agent, so it's no receipt.
NO_STEP = datetime(1970, 1, 1, tzinfo=UTC)
TOLD_SECONDS = 7 * 24 * 3600

ABORTED = (
    "A person has aborted the task that you work on. Stop working on it, change nothing more, and "
    "end your turn."
)
STOPPED = "The agent was stopped, because the task is aborted."
SPENT = (
    "The budget of the task that you work on is used up. Stop working on it, change nothing more, "
    "and end your turn. The task waits until there is more."
)
SPENT_MESSAGE = "The agent was stopped, because a budget is used up."
OVER = (
    "Attempt {number} of the task '{title}' is over: {how}. The task is {state}. Stop working on "
    "it: what you report now is recorded as late and does not count."
)
# By the failure's code, or else by the attempt's outcome.
LOSSES = {
    "lease_expired": "its lease expired, because Tenfour heard nothing from you",
    "deadline_exceeded": "its time limit has passed",
    "released": "it was given back",
    "aborted": "a person has aborted the task",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an agent, with which it can be told something."""

    via: Way
    now: datetime
    # What was delivered before this was read before the step.
    began: datetime
    # The number of the session's tool call; at a stop, of its last one.
    call: int | None = None


def reach(
    caller: HookCaller, event: str, attempt: Attempt | None, *, is_claude: bool, step: Step
) -> Answer:
    """Return the messages that wait for the agent after its tool call.

    `attempt` is the session's last one, live or not; None if another side handles it.
    """
    if attempt and attempt.outcome is None and attempt.task.abort_requested_at:
        return abort(caller, event, attempt, is_claude=is_claude, now=step.now)
    if attempt and attempt.outcome is None and getattr(attempt, "is_spent", False):
        return stop_for_budget(caller, event, attempt, is_claude=is_claude, now=step.now)
    loss = tell_loss(attempt) if attempt else ""
    texts = [loss, *deliver(caller, step, room=TEXT_LENGTH - len(loss))]
    return add_context(event, GAP.join(filter(None, texts)))


def abort(
    caller: HookCaller, event: str, attempt: Attempt, *, is_claude: bool, now: datetime
) -> Answer:
    """Return the answer that stops an agent whose task a person has aborted."""
    # Claude Code ends the turn without Stop, so the attempt is reported here. Codex can only be
    # told, and its further calls are refused: see `refuse`.
    if not is_claude:
        return add_context(event, ABORTED)
    report = Report(status="failure", message=STOPPED)
    try:
        finish_attempt(attempt.id, report, caller=caller.scoped("tasks:work"), now=now)
    except LeaseLost:
        return {}  # it ended meanwhile
    return end_turn_at_once(ABORTED)


def stop_for_budget(
    caller: HookCaller, event: str, attempt: Attempt, *, is_claude: bool, now: datetime
) -> Answer:
    """Return the answer that stops an agent whose budget is used up; its task waits for more."""
    # As after an abort, Claude Code ends the turn without Stop.
    report = Report(status="failure", message=SPENT_MESSAGE)
    try:
        finish_attempt(attempt.id, report, caller=caller.scoped("tasks:work"), now=now)
    except LeaseLost:
        return {}  # it ended meanwhile
    return end_turn_at_once(SPENT) if is_claude else add_context(event, SPENT)


def refuse(attempt: Attempt | None) -> Answer:
    is_aborted = attempt and attempt.outcome is None and attempt.task.abort_requested_at
    # Codex ends the reason with a period of its own.
    return refuse_call(ABORTED.rstrip(".")) if is_aborted else {}


# ---- the end of the attempt


def describe_loss(attempt: Attempt) -> str | None:
    """Return how an attempt ended without its agent; None if the agent ended it."""
    if attempt.report_digest is not None:
        return None
    if attempt.outcome == Outcome.FAILURE:
        failure = getattr(attempt, "failure", None)
        return LOSSES.get(failure.code) if failure else None
    return LOSSES.get(str(attempt.outcome))


def tell_loss(attempt: Attempt) -> str:
    # The agent is told only once.
    is_news = describe_loss(attempt) is not None and is_first_time(f"hook-loss:{attempt.id}")
    return say_loss(attempt) if is_news else ""


def say_loss(attempt: Attempt) -> str:
    how = describe_loss(attempt)
    if how is None:
        return ""
    return OVER.format(
        number=attempt.number,
        title=attempt.task.title or attempt.task.ref or attempt.task_id,
        how=how,
        state=attempt.task.state,
    )


def is_first_time(key: str) -> bool:
    """Return whether the key is new; always True without Redis."""
    return optional_cache.increment(key, seconds=TOLD_SECONDS) <= 1


# ---- instructions


def deliver(caller: HookCaller, step: Step, *, room: int) -> list[str]:
    """Deliver the instructions at the head of the queue that fit into `room` characters."""
    # An instruction that was delivered at an earlier step gets its receipt here.
    if not caller.may("instructions:ack"):
        return []
    lengths, has_unread = read_waiting(
        caller.agent_id, limit=MOST_INSTRUCTIONS, session=caller.session_name, began=step.began
    )
    limit = count_fitting(lengths, room=room)
    if not limit and not has_unread:
        return []
    rows = instructions.pull(
        caller.scoped("instructions:ack"),
        limit=limit,
        via=step.via,
        session=caller.session_name or None,
        call=step.call,
        began=step.began,
        now=step.now,
    )
    return [InstructionOut.write(row)["text"] for row in rows]


def count_fitting(lengths: Iterable[int], *, room: int) -> int:
    count = 0
    for length in lengths:
        room -= length + PREFIX_LENGTH + len(GAP)
        if room < 0:
            break
        count += 1
    return count
