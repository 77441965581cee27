"""Read the text below a task of an outline: its fields, its steps, and its status (pure)."""

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from ledger.planfile.fences import mask_fences
from ledger.planfile.outline.lines import (
    is_criteria,
    is_done_status,
    read_heading,
    read_item,
    width,
)

FIELD = re.compile(
    r"([ \t]*)([-*+][ \t]+|#{1,6}[ \t]+)?[*_]{0,3}(files|depends(?: on)?|dependencies|needs|"
    r"blocked by|verify|verification|done when|acceptance criteria|definition of done|agent)"
    r"[*_]{0,3}:[*_]{0,3}[ \t]*(.*)",
    re.I,
)
FIELDS = {
    "files": "files",
    "depends": "needs",
    "depends on": "needs",
    "dependencies": "needs",
    "needs": "needs",
    "blocked by": "needs",
    "verify": "verify",
    "verification": "verify",
    "done when": "done",
    "acceptance criteria": "done",
    "definition of done": "done",
    "agent": "agent",
}
BULLET = re.compile(r"([ \t]*)(?:[-*+]|[0-9]{1,3}[.)])[ \t]+(.*)")
LABEL = re.compile(r"[ \t]*[*_]{2,3}([^*_]{3,60})[*_]{2,3}:?[ \t]*$")
PATH = re.compile(
    r"(?:(?:create|modify|test|delete|rename|update|add|edit)[^:`]{0,20}:)? *(.*)", re.I
)
NEEDED = re.compile(
    r"(?:(?:sub)?tasks?[ #_-]*)?[#T]?-?([0-9]{1,9}(?:\.[0-9]{1,9}){0,9})(?![\w-])", re.I
)
PLAN_NEEDED = re.compile(r"[0-9]+(?:\.[0-9]+)*-[0-9]+(?:\.[0-9]+)*(?::task-[0-9]+)?")
NOTHING = ("", "none", "n/a", "-", "—", "nothing")


@dataclass(slots=True)
class Body:
    """The lines below a task; steps are items that are not criteria.

    `steps` and `checks` are the places of their lines.
    """

    fields: dict[str, list[str]] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    checks: list[int] = field(default_factory=list)
    open_steps: int = 0
    done_steps: int = 0
    is_done: bool = False


def read_body(lines: Sequence[str]) -> Body:
    """Return fields such as `**Files:**` with their text, or with the list that follows them.

    The list of a field that is an item itself is deeper than this item.
    """
    body = Body()
    if not lines:
        return body
    fenced = mask_fences(lines)
    name, above = "", -1
    status = None
    for n, line in enumerate(lines):
        if fenced[n]:
            continue
        match = FIELD.match(line)
        item = read_item(line)
        bullet = BULLET.match(line)
        if status is None and (status := is_done_status(line)):
            body.is_done = True
        if bullet and width(bullet[1]) <= above:
            name = ""
        if match:
            name = FIELDS[match[3].lower()]
            above = width(match[1]) if (match[2] or "#")[0] != "#" else -1
            if text := match[4].strip():
                body.fields.setdefault(name, []).append(text)
                name = "" if name == "needs" else name
        elif names_criteria(line):
            name, above = "done", -1
        elif name == "done" and (item or bullet):
            text = item.text if item else bullet[2] if bullet else ""
            body.fields.setdefault(name, []).append(text.strip())
            body.checks.append(n)
        elif item:
            name = ""
            body.steps.append(n)
            body.done_steps += item.is_done
            body.open_steps += not item.is_done
        elif name and bullet:
            body.fields.setdefault(name, []).append(bullet[2].strip())
        elif line.strip():
            name = ""
    return body


def names_criteria(line: str) -> bool:
    match = read_heading(line)
    label = match[2] if match else (found[1] if (found := LABEL.match(line)) else "")
    return bool(label) and is_criteria(label)


def read_path(text: str) -> str:
    """Return the path in an item such as ``Create: `src/a.py` (new)``."""
    _, ticked, rest = text.partition("`")
    path = PATH.match(text)
    return rest.partition("`")[0] if ticked else (path[1] if path else text).strip()


def read_needs(
    values: Sequence[str], line: int, warnings: list[str], *, labels: Container[str] = ()
) -> list[str]:
    """Return the numbers or labels of the needed tasks, or the refs of other plans."""
    # A text that names no task is left to the order of the tasks.
    needs = []
    for value in re.split(r",|;|\band\b|&|\n", "\n".join(values)):
        text = value.strip("`*_. ()[]\t")
        if text.lower() in NOTHING:
            continue
        if text in labels or PLAN_NEEDED.fullmatch(text):
            needs.append(text)
        elif match := NEEDED.match(text):
            needs.append(match[1])
        else:
            warnings.append(f"Line {line}: ignored the dependency '{text[:80]}': it is not a task.")
    return needs
