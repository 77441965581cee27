"""Which buttons a task gets: only those whose move is allowed (pure)."""

from datetime import datetime

from dashboard.actions import Action
from ledger.models import Task
from ledger.states import BlockedReason, TaskState, Who, allowed_moves

RETRY_NOW = Action("retry-now", "Retry now", key="r", icon="play")
SKIP = Action(
    "skip",
    "Skip",
    key="s",
    icon="s-skipped",
    question="Skip this task?",
    confirm="Skip task",
    consequence="Tasks that need it treat it as done. This can’t be undone.",
)
ABORT = Action(
    "abort",
    "Abort",
    key="a",
    icon="s-aborted",
    question="Abort this task?",
    confirm="Abort task",
    consequence="Tasks that need it stay blocked. A running task stops when its agent reports or "
    "its lease expires. This can’t be undone.",
)
UNBLOCK = Action("unblock", "Unblock", key="u", icon="play")
# the verbs of operations that the list offers for many tasks
BULK_VERBS = (
    *("task.retry", "task.fix", "task.reassign", "task.skip", "task.abort", "task.unblock"),
    "task.prioritize",
)
ACTIONS = {action.verb: action for action in (RETRY_NOW, UNBLOCK, SKIP, ABORT)}


def allowed_actions(row: Task, now: datetime) -> list[Action]:
    """Return the buttons for a task."""
    moves = allowed_moves(row.state, Who.PERSON, blocked_reason=row.blocked_reason)
    allowed = []
    if row.state == TaskState.RETRY and row.due_at and row.due_at > now:
        allowed.append(RETRY_NOW)
    if row.blocked_reason == BlockedReason.DEPENDENCY_SKIPPED:
        allowed.append(UNBLOCK)
    if TaskState.SKIPPED in moves:
        allowed.append(SKIP)
    # a running task has no move of its own: its agent has to stop it
    can_ask_to_stop = row.state == TaskState.RUNNING and row.abort_requested_at is None
    if TaskState.ABORTED in moves or can_ask_to_stop:
        allowed.append(ABORT)
    return allowed
