"""Turn other tools' task lists into plans: their numbers, their finished tasks, a ref (pure)."""

import re
from collections.abc import Sequence
from typing import Any

from ledger.errors import Invalid
from ledger.planfile.model import PART_LENGTH, TASK_REF

SUBTASKS = 1000
NUMBER = re.compile(r"0{0,9}([1-9][0-9]{0,5})")
MOST_NAMED = 20


def number_ref(number: str) -> str:
    """Return the ref for a number, or "" if there is none: `1.2` becomes `task-1002`.

    A subtask's ref depends only on its own number, so that adding one moves no other task.

    >>> number_ref("7"), number_ref("007"), number_ref("12.3"), number_ref("1.2.3")
    ('task-7', 'task-7', 'task-12003', '')
    """
    parts = [NUMBER.fullmatch(part) for part in number.split(".")]
    numbers = [int(part[1]) for part in parts if part]
    if len(numbers) != len(parts) or len(numbers) > 2:
        return ""
    if len(numbers) == 2 and max(numbers) >= SUBTASKS:
        return ""
    ref = f"task-{numbers[0] if len(numbers) == 1 else numbers[0] * SUBTASKS + numbers[1]}"
    return ref if TASK_REF.fullmatch(ref) else ""


def suggest_ref(phase: str, name: str) -> str:
    """Return a ref for a plan whose file has none, or "" if its name has no letters or digits.

    >>> suggest_ref("plan", "Add OAuth 2.0 (draft)")
    'plan-add.oauth.2.0.draft'
    """
    words = re.sub(r"[^A-Za-z0-9]+", ".", name[:500]).lower().strip(".")
    words = words[:PART_LENGTH].rstrip(".")
    return f"{phase}-{words}" if words else ""


def leave_out_done(
    tasks: Sequence[dict[str, Any]],
    done: Sequence[bool],
    warnings: list[str],
    status: str = "done",
) -> list[dict[str, Any]]:
    """Return the tasks that are not done, without needs on those that are; warn of the others."""
    left_out = {task["ref"]: task for task, is_done in zip(tasks, done, strict=True) if is_done}
    if not left_out:
        return list(tasks)
    if len(left_out) == len(tasks):
        raise Invalid("/tasks", f"The file marks all its {len(tasks)} tasks as {status}.")
    names = ", ".join(list(left_out)[:MOST_NAMED]) + ("…" if len(left_out) > MOST_NAMED else "")
    count = "1 task" if len(left_out) == 1 else f"{len(left_out)} tasks"
    warnings.append(f"Left out {count} that the file marks as {status}: {names}.")
    rest = []
    for task in tasks:
        if task["ref"] not in left_out:
            needs = [need for need in task.get("needs", []) if need not in left_out]
            rest.append(task | ({"needs": needs} if "needs" in task else {}))
    return rest
