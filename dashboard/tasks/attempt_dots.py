"""A task's attempts as a row of dots (pure): failed, done, running, released, or left."""

from typing import Any

from ledger.states import Outcome

MOST = 6
MARKS = {Outcome.FAILURE: "f", Outcome.SUCCESS: "d", None: "r"}
PUT_BACK = "w"


def attempt_dots(task: Any) -> list[str]:
    """Return a CSS class for each dot; `task.outcomes` has the attempts, oldest first."""
    dots = [MARKS.get(outcome, PUT_BACK) for outcome in task.outcomes]
    left = max(task.attempt_limit - task.attempts, 0)
    # The oldest attempts are left out if there are too many for a row.
    dots = dots[-max(MOST - left, 1) :]
    return dots + [""] * min(left, MOST - len(dots))
