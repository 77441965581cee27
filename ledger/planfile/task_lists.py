"""Turn other tools' task lists into plans: their numbers, their finished tasks, a ref (pure)."""

import itertools
import re
from collections.abc import Sequence

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


def plain_number(number: str) -> str:
    # `003` and `3` are the same task.
    return ".".join(part.lstrip("0") or "0" for part in number.split(".")) if number else ""


def give_refs(numbers: Sequence[str], lines: Sequence[int], warnings: list[str]) -> list[str]:
    """Return a ref for each task: from its number, or the next free one, with a warning."""
    # In a list without numbers each task has its place.
    refs = [""] * len(numbers)
    first: dict[str, int] = {}
    repeated, unnumbered = [], []
    for n, number in enumerate(numbers):
        plain = plain_number(number)
        if not number:
            unnumbered.append(n)
        elif plain in first:
            repeated.append((n, first[plain]))
        else:
            first[plain] = n
            ref = number_ref(plain)
            refs[n] = ref
    used = {*refs}
    majors = [int(plain.partition(".")[0]) for plain in first if len(plain) < 7]
    free = itertools.count(max(majors, default=0) + 1)
    for n, ref in enumerate(refs):
        if not ref:
            refs[n] = next(new for new in map("task-{}".format, free) if new not in used)
    if first:
        warn_of_places(unnumbered, lines, refs, warnings)
    for n, other in repeated[:MOST_NAMED]:
        warnings.append(
            f"Line {lines[n]}: line {lines[other]} has the number {numbers[n]}, too; this task is "
            f"{refs[n]}."
        )
    return refs


def warn_of_places(
    places: Sequence[int], lines: Sequence[int], refs: Sequence[str], warnings: list[str]
) -> None:
    if places:
        named = ", ".join(f"{lines[n]} ({refs[n]})" for n in places[:MOST_NAMED])
        more = "…" if len(places) > MOST_NAMED else ""
        warnings.append(f"Tasks without a number got the next free ones: line {named}{more}.")


def describe_lines(lines: Sequence[int]) -> str:
    """Return all lines in few words; where there are too many, the last range covers the rest.

    >>> describe_lines([7]), describe_lines([3, 4, 5, 9])
    ('line 7', 'lines 3 to 5, 9')
    """
    ranges: list[list[int]] = []
    for line in lines:
        if ranges and (line == ranges[-1][1] + 1 or len(ranges) == MOST_NAMED):
            ranges[-1][1] = line
        else:
            ranges.append([line, line])
    texts = [f"{one} to {last}" if one != last else str(one) for one, last in ranges]
    return ("line " if len(lines) == 1 else "lines ") + ", ".join(texts)


def warn_of_done(refs: Sequence[str], warnings: list[str], status: str = "done") -> None:
    # Tasks that the file marks as done are not imported.
    if refs:
        names = ", ".join(refs[:MOST_NAMED]) + ("…" if len(refs) > MOST_NAMED else "")
        count = "1 task" if len(refs) == 1 else f"{len(refs)} tasks"
        warnings.append(f"Left out {count} that the file marks as {status}: {names}.")
