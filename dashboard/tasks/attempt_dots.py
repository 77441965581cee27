"""A task's attempts as a row of small marks (pure): failed, done, running, put back, still left."""

from typing import Any

from ledger.states import Outcome

MOST = 6
MARKS = {Outcome.FAILURE: "f", Outcome.SUCCESS: "d", None: "r"}
PUT_BACK = "w"


def attempt_dots(task: Any) -> list[str]:
    """A class for each mark; `task` has the `outcomes` of its last attempts, oldest first.

    Where there are too many attempts for a row, the oldest are left out.
    """
    made = [MARKS.get(outcome, PUT_BACK) for outcome in task.outcomes]
    left = max(task.attempt_limit - task.attempts, 0)
    made = made[-max(MOST - left, 1) :]
    return made + [""] * min(left, MOST - len(made))
