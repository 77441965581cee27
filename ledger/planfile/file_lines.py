"""List the lines of a plan file that look like work: what each became, and its box (pure)."""

import re
from collections.abc import Iterator, Sequence

from ledger.planfile.model import Became, Box, FileLine, PlanFile
from ledger.planfile.outline.lines import (
    HEADING,
    LOOK,
    TASK_HEADING,
    has_stray_box,
    is_task_heading,
    read_item,
)

BREAK = re.compile(r"\r\n|\r|\n")
BOM = b"\xef\xbb\xbf"
MARK = re.compile(r"\[[^\[\]]{0,4}\]|[☐☒⬜🔲]")
NAMED = re.compile(r"Lines? ([0-9]{1,9})(?: to ([0-9]{1,9}))?: (.*)", re.S)


def list_lines(data: bytes, plan: PlanFile, warnings: Sequence[str]) -> tuple[FileLine, ...]:
    """Return what became of each line of an outline that looks like work.

    A line that no task owns was left out, and its note is the warning that names it.
    """
    owned = find_owned(plan)
    notes = read_notes(warnings)
    found = []
    for number, offset, text in split_lines(data):
        became, ref = owned.get(number, (Became.LEFT_OUT, ""))
        if became == Became.TEXT and number in notes:
            became, ref = Became.LEFT_OUT, ""
        item = read_item(text)
        is_work = item is not None or is_task_heading(text)
        if became in (Became.TEXT, Became.LEFT_OUT) and not (is_work or has_stray_box(text)):
            continue
        has_box = is_work and became in (Became.TASK, Became.STEP)
        found.append(
            FileLine(
                line=number,
                became=became,
                text=(item.text if item else text).strip("# \t"),
                ref=ref,
                note=notes.get(number, "") if became == Became.LEFT_OUT else "",
                box=find_box(text, offset) if has_box else None,
            )
        )
    return tuple(found)


def find_owned(plan: PlanFile) -> dict[int, tuple[Became, str]]:
    owned: dict[int, tuple[Became, str]] = {}
    tasks = [task for task in (*plan.tasks, *plan.done) if task.origin.line]
    for task in tasks:
        owned |= dict.fromkeys(task.origin.body, (Became.TEXT, task.ref))
    for task in tasks:
        for number in task.origin.checks:
            if owned.get(number, (Became.TEXT, ""))[0] == Became.TEXT:
                owned[number] = (Became.CHECK, task.ref)
        owned |= dict.fromkeys(task.origin.steps, (Became.STEP, task.ref))
        owned[task.origin.line] = (Became.DONE if task.origin.is_done else Became.TASK, task.ref)
    return owned


def split_lines(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield each line's number, the offset of its first byte, and its text."""
    offset = len(BOM) if data.startswith(BOM) else 0
    text = data[offset:].decode()
    start, number = 0, 1
    for match in BREAK.finditer(text):
        line = text[start : match.start()]
        yield number, offset, line
        offset += len(line.encode()) + len(match[0])
        start, number = match.end(), number + 1
    yield number, offset, text[start:]


def read_notes(warnings: Sequence[str]) -> dict[int, str]:
    notes: dict[int, str] = {}
    for warning in warnings:
        if match := NAMED.match(warning):
            first, last = int(match[1]), int(match[2] or match[1])
            why = match[3].removesuffix(": not imported.")
            notes |= dict.fromkeys(range(first, min(last, first + 100_000) + 1), why)
    return notes


# ---- boxes


def find_box(line: str, offset: int) -> Box | None:
    """Return the open box of an item or a heading; `offset` is that of the line's first byte.

    >>> find_box("- [ ] x", 100)
    Box(offset=102, old='[ ]', new='[x]')
    >>> find_box("* ☐ x", 0)
    Box(offset=2, old='☐', new='☑')
    >>> find_box("- [x] done", 0), find_box("### Task 1: No box", 0)
    (None, None)
    """
    mark = MARK.search(line[:LOOK])
    if not mark:
        return None
    new = "[x]" if mark[0].startswith("[") else "☑"
    # What a reader sees in the new line proves that these bytes are the box and nothing else.
    if not is_ticked(line, line[: mark.start()] + new + line[mark.end() :]):
        return None
    return Box(offset + len(line[: mark.start()].encode()), mark[0], new)


def is_ticked(line: str, new: str) -> bool:
    """Return whether the new line is the same item or heading, which was open and is done now."""
    if (before := read_item(line)) and (after := read_item(new)):
        same = (before.indent, before.text) == (after.indent, after.text)
        return same and after.is_done and not before.is_done
    one, other = (HEADING.match(each) for each in (line, new))
    heading, ticked = (each and TASK_HEADING.match(each[2]) for each in (one, other))
    if not heading or not ticked or heading[1] is None or ticked[1] != "x":
        return False
    return heading[1].strip().lower() != "x" and heading[3] == ticked[3]
