"""Read plans in Markdown whose tasks are headings (`### Task 1: …`) or checklists (`- [ ] …`).

Headings come first: where a file has them, its checklists are the steps of their tasks. All of a
task's text becomes its action. Pure.
"""

import itertools
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ledger.errors import Invalid
from ledger.planfile.canonical import SEQUENTIAL
from ledger.planfile.fences import mask_fences
from ledger.planfile.model import MOST_TASKS, LineErrors, shorten_title
from ledger.planfile.task_lists import leave_out_done, number_ref, suggest_ref
from ledger.planfile.values import RawPlan
from ledger.planfile.verification import describe_verification

NO_TASKS = (
    "The plan has no tasks. Start each one with <task …> on a line of its own, with a heading such "
    "as '### Task 1: …', or with '- [ ] …'."
)
HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
DOTTED = r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}"
TASK_HEADING = re.compile(
    rf"(?:\[([ xX])\] *)?[*_]{{0,3}}task +#?({DOTTED})(?![0-9A-Za-z])[*_]{{0,3}} *[-:.)–—]* *(.*)",
    re.I,
)
ITEM = re.compile(r"([ \t]*)(?:[-*+]|[0-9]{1,4}[.)])[ \t]+\[([ xX~/-])\]\*?(?:[ \t]+(.*)|$)")
# The number at the start of an item: T001, Task 1:, 1., or 1.2
NUMBER = re.compile(
    rf"[*_]{{0,3}}(?:T([0-9]{{1,6}})|Task +({DOTTED})[.:)]?|({DOTTED})[.:)]|"
    rf"([0-9]{{1,9}}\.{DOTTED}))[*_]{{0,3}}(?:[ \t]+|$)(.*)"
)
FIELD = re.compile(
    r"[ \t]*(?:[-*+][ \t]+)?[*_]{0,3}(files|depends on|dependencies|needs|blocked by|verify|"
    r"verification|done when|acceptance criteria|agent)[*_]{0,3}:[*_]{0,3}[ \t]*(.*)",
    re.I,
)
FIELDS = {
    "files": "files",
    "depends on": "needs",
    "dependencies": "needs",
    "needs": "needs",
    "blocked by": "needs",
    "verify": "verify",
    "verification": "verify",
    "done when": "done",
    "acceptance criteria": "done",
    "agent": "agent",
}
BULLET = re.compile(r"[ \t]*[-*+][ \t]+(?:\[[ xX]\][ \t]+)?(.*)")
PATH = re.compile(
    r"(?:(?:create|modify|test|delete|rename|update|add|edit)[^:`]{0,20}:)? *(.*)", re.I
)
NEEDED = re.compile(r"(?:tasks? *)?[#T]?([0-9]+(?:\.[0-9]+)?)", re.I)
NOTHING = ("", "none", "n/a", "-", "—", "nothing")
GOAL = re.compile(r"[*_]{2}(?:goal|objective)[*_]{0,2}:[*_]{0,2}[ \t]*(.+)", re.I)


@dataclass(slots=True)
class Entry:
    """A task's heading or item, and the lines that belong to it."""

    line: int
    level: int
    number: str
    title: str
    done: bool
    parent: str = ""
    body: list[str] = field(default_factory=list)


def read_outline(
    lines: Sequence[str], *, header: dict[str, Any], warnings: list[str], skipped: int
) -> RawPlan:
    """Return the plan in an outline; `skipped` lines of the file precede it.

    Raises UnreadableLines for each line that could be a task, but is none.
    """
    errors = LineErrors()
    fenced = mask_fences(lines)
    headings = any(task_heading(line) for n, line in enumerate(lines) if not fenced[n])
    scan = scan_headings if headings else scan_items
    entries = scan(lines, fenced, errors, skipped)
    if not entries:
        raise Invalid("/tasks", NO_TASKS)
    if len(entries) > MOST_TASKS:
        raise Invalid(
            "/tasks", f"A plan must have 1 to {MOST_TASKS} tasks; this one has {len(entries)}."
        )
    refs = number_entries(entries, errors)
    errors.check()
    tasks = [build_task(entry, refs, n, warnings) for n, entry in enumerate(entries)]
    for line in lines:
        if "objective" not in header and (goal := GOAL.match(line)):
            header["objective"] = goal[1].strip()
    done = [entry.done for entry in entries]
    tasks = leave_out_done(tasks, done, warnings)
    return RawPlan(
        header | {"tasks": tasks},
        SEQUENTIAL,
        tuple(dict.fromkeys(warnings)),
        suggested_ref=suggest_ref("plan", str(header.get("title", ""))),
    )


def task_heading(line: str) -> re.Match[str] | None:
    heading = HEADING.match(line)
    return TASK_HEADING.match(heading[2]) if heading else None


def scan_headings(
    lines: Sequence[str], fenced: Sequence[bool], errors: LineErrors, skipped: int
) -> list[Entry]:
    """Return the tasks that headings begin; each ends at the next heading of its level.

    A section with a checklist that belongs to no task is a task, too, with the next free number.
    """
    entries: list[Entry] = []
    opened: list[Entry] = []
    section = None  # the last heading that begins no task, and is in none
    for n, line in enumerate(lines):
        heading = None if fenced[n] else HEADING.match(line)
        level = len(heading[1]) if heading else 0
        if heading:
            while opened and opened[-1].level >= level:
                opened.pop()
        if heading and not opened:
            section = Entry(skipped + n + 1, level, "", heading[2].strip("#*_ "), done=False)
        if heading and (match := TASK_HEADING.match(heading[2])):
            entry = read_task_heading(match, level, skipped + n + 1)
            entry.parent = opened[-1].number if opened else ""
            entries.append(entry)
            opened.append(entry)
        elif opened:
            opened[-1].body.append(line)
        elif section is not None and not fenced[n] and ITEM.match(line):
            # A checklist beside the tasks, such as "Before the release", is work to do as well.
            section.body.append(line)
            entries.append(section)
            opened.append(section)
        elif not fenced[n] and ITEM.match(line):
            errors.add(
                skipped + n + 1,
                "this item belongs to no task. Move it below a task's heading, or remove its box.",
            )
        elif section is not None and not heading:
            section.body.append(line)
    number_sections(entries)
    for entry in entries:
        boxes = [box[2] for box in map(ITEM.match, entry.body) if box]
        entry.done |= bool(boxes) and all(box in "xX" for box in boxes)
    return entries


def read_task_heading(match: re.Match[str], level: int, line: int) -> Entry:
    """Return the task of a heading, which is done if the heading has a checked box or a ✅."""
    title = match[3].rstrip("# ").strip("*_ ")
    done = (match[1] or "").lower() == "x" or "✅" in match[0]
    return Entry(line, level, match[2], title.replace("✅", "").strip(), done)


def number_sections(entries: list[Entry]) -> None:
    """Give the next free numbers to the tasks without one."""
    numbers = [int(entry.number.partition(".")[0]) for entry in entries if entry.number]
    free = itertools.count(max(numbers, default=0) + 1)
    for entry in entries:
        entry.number = entry.number or str(next(free))


def scan_items(
    lines: Sequence[str], fenced: Sequence[bool], errors: LineErrors, skipped: int
) -> list[Entry]:
    """Return the tasks that the outermost items of checklists begin, with the lines below them."""
    entries: list[Entry] = []
    opened = blank = False
    for n, line in enumerate(lines):
        item = None if fenced[n] else ITEM.match(line)
        indent = len(line[: len(line) - len(line.lstrip())].expandtabs(4))
        inside = opened and (indent > entries[-1].level or fenced[n])
        if item and not inside:
            number = NUMBER.match(item[3] or "")
            title = number[5] if number else item[3] or ""
            found = next(filter(None, number.groups()[:4]), "") if number else ""
            done = item[2] in "xX"
            entries.append(Entry(skipped + n + 1, indent, found, title.strip("*_ "), done))
            opened = True
        elif opened and (inside or not line.strip() or not (blank or HEADING.match(line))):
            entries[-1].body.append(line)
        else:
            opened = False
        blank = not line.strip()
    return entries


def number_entries(entries: Sequence[Entry], errors: LineErrors) -> list[str]:
    """Return the entries' refs: their own numbers, or their places if none has a number."""
    numbered = any(entry.number for entry in entries)
    lines: dict[str, int] = {}
    refs = []
    for n, entry in enumerate(entries):
        ref = number_ref(entry.number or str(n + 1))
        if numbered and not entry.number:
            errors.add(entry.line, "this task has no number, but others have one. Number it.")
        elif not ref:
            errors.add(entry.line, f"'{entry.number[:40]}' can't be a task's number.")
        elif ref in lines:
            errors.add(
                entry.line, f"line {lines[ref]} has this number, too. Number all tasks once."
            )
        if not entry.title:
            errors.add(entry.line, "this task needs a title.")
        lines.setdefault(ref, entry.line)
        refs.append(ref)
    return refs


def build_task(entry: Entry, refs: list[str], n: int, warnings: list[str]) -> dict[str, Any]:
    """Return the nth entry as a task in the canonical form."""
    body = textwrap.dedent("\n".join(entry.body)).strip("\n").rstrip()
    task: dict[str, Any] = {"ref": refs[n], "title": shorten_title(entry.title)}
    if task["title"] != entry.title:
        body = f"{entry.title}\n\n{body}".rstrip()
    payload = {"id": entry.number} if "." in entry.number else {}
    parent = number_ref(entry.parent or entry.number.rpartition(".")[0])
    if parent in refs:
        payload["parent"] = parent
    for name, values in read_fields(body.split("\n")).items():
        text = "\n".join(values)
        if name == "needs":
            task["needs"] = read_needs(values, entry.line, warnings)
        elif name == "verify":
            task["verify"] = describe_verification(text)
        elif name == "agent":
            task["agent"] = text.strip("`*_ ")
        elif name == "files":
            task["files"] = [read_path(value) for value in values]
        else:
            task["done"] = values
    return task | ({"action": body} if body else {}) | ({"payload": payload} if payload else {})


def read_fields(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return lines such as `**Files:**` with their text, or with the list that follows them."""
    fenced = mask_fences(lines)
    found: dict[str, list[str]] = {}
    values: list[str] = []
    name = ""
    for n, line in enumerate(lines):
        match = None if fenced[n] else FIELD.match(line)
        bullet = BULLET.match(line)
        if match:
            name = FIELDS[match[1].lower()]
            values = found.setdefault(name, [])
            if match[2].strip():
                values.append(match[2].strip())
        elif name and bullet and not fenced[n] and (name == "done" or not ITEM.match(line)):
            values.append(bullet[1].strip())
        elif line.strip():
            name = ""
    return {name: values for name, values in found.items() if values}


def read_path(text: str) -> str:
    """Return the path in an item such as ``Create: `src/a.py` (new)``."""
    _, ticked, rest = text.partition("`")
    path = PATH.match(text)
    return rest.partition("`")[0] if ticked else (path[1] if path else text).strip()


def read_needs(values: Sequence[str], line: int, warnings: list[str]) -> list[str]:
    """Return the needed tasks; a text that names none is left to the order of the tasks."""
    needs = []
    for value in re.split(r",|;|\band\b|\n", "\n".join(values)):
        text = value.strip("`*_. ()")
        if text.lower() in NOTHING:
            continue
        match = NEEDED.match(text)
        if match and (ref := number_ref(match[1])):
            needs.append(ref)
        else:
            warnings.append(f"Line {line}: ignored the dependency '{text[:80]}': it is not a task.")
    return needs
