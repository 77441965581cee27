"""Read plans in Markdown whose tasks are headings (`### Task 1: …`) or checklists (`- [ ] …`).

Headings come first: where a file has them, its checklists are the steps of their tasks. All of a
task's text becomes its action. Every open item becomes a task, a step, or a criterion, or a warning
names its line. Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ledger.errors import Invalid
from ledger.planfile.canonical import SEQUENTIAL
from ledger.planfile.model import LineErrors
from ledger.planfile.outline.body import names_criteria
from ledger.planfile.outline.lines import (
    TASK_HEADING,
    ItemLine,
    Masked,
    Title,
    has_stray_box,
    is_criteria,
    mask_lines,
    read_heading,
    read_item,
    read_title,
    width,
)
from ledger.planfile.outline.tasks import MOST_NAMED, Criteria, Entry, build_tasks
from ledger.planfile.task_lists import suggest_ref
from ledger.planfile.values import RawPlan

NO_TASKS = (
    "The plan has no tasks. Start each one with <task …> on a line of its own, with a heading such "
    "as '### Task 1: …', or with '- [ ] …'."
)
GOAL = re.compile(r"[*_]{2}(?:goal|objective)[*_]{0,2}:[*_]{0,2}[ \t]*(.+)", re.I)
NOTES = re.compile(r"dev(?:eloper)? notes\b", re.I)
NOTES_LENGTH = 16_000


def read_outline(
    lines: Sequence[str], *, header: dict[str, Any], warnings: list[str], skipped: int
) -> RawPlan:
    """Return the plan in an outline; `skipped` lines of the file precede it.

    Raises UnreadableLines for each line that could be a task, but is none.
    """
    masked = mask_lines(lines, skipped)
    scan = Scan(masked, skipped)
    scan.run()
    if not scan.entries and scan.criteria:
        scan = Scan(masked, skipped, has_checks=False)  # the checks are all the work there is
        scan.run()
    warnings += scan.warnings
    if not scan.entries:
        unread = [each for each in scan.warnings if each.startswith("Line")]
        raise Invalid("/tasks", " ".join([NO_TASKS, *unread[:MOST_NAMED]]))
    errors = LineErrors()
    tasks, origins = build_tasks(
        scan.entries, scan.criteria, errors, warnings, notes=scan.read_notes()
    )
    errors.check()
    for line in scan.lines:
        if "objective" not in header and (goal := GOAL.match(line)):
            header["objective"] = goal[1].strip()
    return RawPlan(
        header | {"tasks": tasks},
        SEQUENTIAL,
        tuple(dict.fromkeys(warnings)),
        suggested_ref=suggest_ref("plan", str(header.get("title", ""))),
        origins=tuple(origins),
    )


def task_heading(line: str) -> re.Match[str] | None:
    heading = read_heading(line)
    return TASK_HEADING.match(heading[2]) if heading and "task" in line.lower() else None


@dataclass(slots=True)
class Section:
    """The part of a file below a heading that begins no task."""

    line: int
    level: int
    title: str
    is_notes: bool = False
    entry: Entry | None = None
    body: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


class Scan:
    """Walk over the lines once, and give each to a task, a list of checks, or the prose."""

    def __init__(self, masked: Masked, skipped: int, *, has_checks: bool = True) -> None:
        self.has_checks = has_checks
        self.lines, self.is_code = masked.lines, masked.is_code
        self.skipped = skipped
        self.has_headings = any(
            task_heading(line) for n, line in enumerate(self.lines) if not self.is_code[n]
        )
        self.entries: list[Entry] = []
        self.opened: list[Entry] = []
        self.sections: list[Section] = []
        self.path: tuple[int, ...] = ()  # their lines
        self.checks: Criteria | None = None  # the list of checks that is being read
        self.checks_level = 0
        self.criteria: list[Criteria] = []
        self.notes: list[str] = []
        self.warnings = list(masked.warnings)
        self.count = 0  # of headings
        self.is_blank = False

    def run(self) -> None:
        for n, line in enumerate(self.lines):
            if self.is_code[n]:
                self.add_code(n, line)
            elif heading := read_heading(line):
                self.add_heading(n, line, len(heading[1]), heading[2])
            elif item := read_item(line):
                self.add_item(n, line, item)
            else:
                self.add_text(n, line)
            self.is_blank = not line.strip()

    def read_notes(self) -> str:
        return "\n".join(self.notes).strip()[:NOTES_LENGTH]

    # ---- headings

    def add_heading(self, n: int, line: str, level: int, text: str) -> None:
        match = TASK_HEADING.match(text) if "task" in text.lower() else None
        if self.has_headings:
            while self.opened and self.opened[-1].level >= level:
                self.opened.pop()
            if self.opened and not match:
                self.add_line(self.opened[-1], n, line)
                return
        else:
            self.opened = []
        if self.checks and (match or self.checks_level >= level):
            self.checks = None
        while self.sections and self.sections[-1].level >= level:
            self.sections.pop()
        self.path = tuple(section.line for section in self.sections)
        self.count += 1
        if match:
            title = read_title(match[3], number=match[2] or "")
            before = read_title(text[: match.start(3)].partition("ask")[0])
            title.is_done |= (match[1] or "").strip().lower() == "x" or before.is_done
            parent = self.opened[-1].number if self.opened else ""
            self.add_entry(n, level, title, parent=parent)
        elif self.has_checks and is_criteria(text):
            self.begin_checks(level)
        elif not self.checks:
            title_text = text.strip("#*_ ")
            is_notes = bool(NOTES.match(title_text))
            self.sections.append(Section(self.skipped + n + 1, level, title_text, is_notes))
            self.path = (*self.path, self.skipped + n + 1)

    def begin_checks(self, level: int) -> None:
        self.checks, self.checks_level = Criteria(self.path), level
        self.criteria.append(self.checks)

    def add_entry(self, n: int, level: int, title: Title, *, parent: str = "") -> Entry:
        entry = Entry(self.skipped + n + 1, level, title, title.is_done, parent)
        entry.path, entry.section = self.path, self.count
        entry.is_heading = self.has_headings and level < 7
        self.entries.append(entry)
        self.opened.append(entry)
        return entry

    def add_line(self, owner: Entry | Section, n: int, line: str) -> None:
        owner.body.append(line)
        owner.numbers.append(self.skipped + n + 1)

    # ---- items

    def add_item(self, n: int, line: str, item: ItemLine) -> None:
        if self.has_headings:
            self.add_step(n, line, item)
            return
        while self.opened and item.indent <= self.opened[-1].level:
            self.opened.pop()
        if self.checks and not self.opened:
            self.checks.add(item.text, self.skipped + n + 1)
            return
        if self.opened and not (self.opened[-1].done and not item.is_done):
            self.add_line(self.opened[-1], n, line)
            return
        title = read_title(item.text)
        if title.text or title.number or self.has_text_below(n, item.indent):
            # An open item below one that is done is a task of its own.
            parent = self.opened[-1] if self.opened else None
            title.is_done |= item.is_done
            title.is_optional |= item.is_optional
            entry = self.add_entry(n, item.indent, title)
            entry.group = parent.title.text if parent else ""
        else:
            self.warnings.append(f"Line {self.skipped + n + 1}: this item is empty: not imported.")

    def has_text_below(self, n: int, indent: int) -> bool:
        line = self.lines[n + 1] if n + 1 < len(self.lines) else ""
        return bool(line.strip()) and width(line[: len(line) - len(line.lstrip())]) > indent

    def add_step(self, n: int, line: str, item: ItemLine) -> None:
        if self.opened:
            self.add_line(self.opened[-1], n, line)
        elif self.checks:
            self.checks.add(item.text, self.skipped + n + 1)
        elif self.sections:
            # A checklist beside the tasks, such as "Before the release", is work to do as well.
            section = self.sections[-1]
            if section.entry is None:
                section.entry = self.add_entry(n, section.level, Title(section.title))
                section.entry.line, section.entry.body = section.line, section.body
                section.entry.numbers = section.numbers
            else:
                self.opened.append(section.entry)
            self.add_line(section.entry, n, line)
        else:
            title = read_title(item.text)
            title.is_done |= item.is_done
            self.add_entry(n, 7, title)
            self.opened.pop()

    # ---- prose

    def add_code(self, n: int, line: str) -> None:
        if self.opened:
            self.add_line(self.opened[-1], n, line)
        elif self.sections and self.sections[-1].is_notes:
            self.notes.append(line)
        elif read_item(line):
            self.warnings.append(
                f"Line {self.skipped + n + 1}: this item is in a code block: not imported."
            )

    def add_text(self, n: int, line: str) -> None:
        if self.opened and not self.has_headings and line.strip():
            indent = width(line[: len(line) - len(line.lstrip())])
            if indent <= self.opened[-1].level and (self.is_blank or names_criteria(line)):
                self.opened = []
        if self.opened:
            self.add_line(self.opened[-1], n, line)
            return
        if self.has_checks and names_criteria(line):
            self.begin_checks(7)
        elif self.checks:
            is_listed = self.checks.add_line(line, self.skipped + n + 1)
            # Prose ends the list below a label; a heading's list ends at the next heading.
            self.checks = None if self.checks_level == 7 and not is_listed else self.checks
        if self.sections and self.sections[-1].is_notes:
            self.notes.append(line)
        elif self.sections and self.has_headings:
            self.add_line(self.sections[-1], n, line)
        if has_stray_box(line):
            self.warnings.append(
                f"Line {self.skipped + n + 1}: the box on this line begins no item: not imported."
            )
