"""Build tasks in the canonical form from the entries of an outline (pure)."""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ledger.errors import Invalid
from ledger.planfile.model import ACTION_BYTES, MOST_TASKS, LineErrors, Origin, shorten_title
from ledger.planfile.outline.body import Body, read_body, read_needs, read_path
from ledger.planfile.outline.lines import Title
from ledger.planfile.task_lists import describe_lines, give_refs, plain_number, warn_of_done
from ledger.planfile.verification import describe_verification
from ledger.values.text import truncate

MOST_NAMED = 20
NOTED_BYTES = 1_048_576
ACCEPTANCE = re.compile(r"[(\[]ACs?:? ?#?([0-9][0-9, #AC-]{0,60})[)\]]", re.I)
# What a title begins with in files that name their tasks by words: CORE-3, AUTH-2.1
LABEL = re.compile(r"[\[(`*_]{0,6}([A-Z][A-Z0-9]{0,30}(?:-[A-Z0-9.]{0,30}[A-Z0-9]){1,3})(?![\w-])")
NEW, OPEN, ORDERED = range(3)  # the states of a task while the tasks are ordered
LISTED = re.compile(
    r"\s*(?:[-*+]\s+|[*_]{0,2}(?:AC[ -]?)?#?([0-9]{1,3})[*_]{0,2}[.:)][*_]{0,2}\s+)(.*)", re.I
)


@dataclass(slots=True)
class Entry:
    """A task's heading or item, and the lines that belong to it; `path` are the headings above."""

    line: int
    level: int
    title: Title
    done: bool
    parent: str = ""
    is_heading: bool = False
    group: str = ""  # the title of a task that is done and has this one below it
    section: int = 0
    path: tuple[int, ...] = ()
    body: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # of the body's lines in the file
    criteria: list[str] = field(default_factory=list)
    checks: list[int] = field(default_factory=list)  # the lines of the criteria outside the body

    @property
    def number(self) -> str:
        return self.title.number

    @property
    def above(self) -> str:
        return self.parent or self.number.rpartition(".")[0]


@dataclass(slots=True)
class Criteria:
    """A list of checks below the headings in `path`, with the numbers that tasks refer to."""

    path: tuple[int, ...]
    texts: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def add(self, text: str, line: int, number: str = "") -> None:
        if text:
            self.texts.append(text)
            self.numbers.append(number)
            self.lines.append(line)

    def add_line(self, line: str, at: int) -> bool:
        """Add a line of prose, if it is an item without a box or continues one."""
        listed = LISTED.match(line)
        if listed and (not line[0].isspace() or not self.texts):
            self.add(listed[2].strip(), at, listed[1] or "")
        elif self.texts and line.strip() and line[0].isspace():
            self.texts[-1] += f" {line.strip()}"
        else:
            return not line.strip()
        return True


def build_tasks(
    entries: Sequence[Entry],
    criteria: Sequence[Criteria],
    errors: LineErrors,
    warnings: list[str],
    *,
    notes: str,
) -> tuple[list[dict[str, Any]], list[Origin]]:
    bodies = [read_body(entry.body) for entry in entries]
    for entry, body in zip(entries, bodies, strict=True):
        settle_done(entry, body, warnings)
    open_ = [entry for entry in entries if not entry.done]
    if len(open_) > MOST_TASKS:
        raise Invalid(
            "/tasks",
            f"A plan must have 1 to {MOST_TASKS} tasks; this one has {len(open_)}. Line "
            f"{open_[MOST_TASKS].line} begins the first one too many: split the file there.",
        )
    if open_:
        give_criteria(open_, criteria)
    elif lines := [line for each in criteria for line in each.lines]:
        warnings.append(f"All tasks are done, so no task gets the checks: {describe_lines(lines)}.")
    numbers = [entry.number for entry in entries]
    refs = give_refs(numbers, [entry.line for entry in entries], warnings)
    by_number: dict[str, str] = {}
    for number, ref in zip(numbers, refs, strict=True):
        by_number.setdefault(plain_number(number), ref)
    for entry, ref in zip(entries, refs, strict=True):
        if label := LABEL.match(entry.title.text):
            by_number.setdefault(label[1], ref)
    if notes and len(notes) * len(open_) > NOTED_BYTES:
        notes = truncate(notes, NOTED_BYTES // len(open_))
    tasks = []
    for entry, body, ref in zip(entries, bodies, refs, strict=True):
        task = build_task(entry, body, ref, by_number, errors, warnings)
        if notes:
            task["context"] = [f"Dev notes:\n{notes}"]
        tasks.append(task)
    add_parts(tasks)
    places = order_by_needs(tasks, entries, warnings)
    tasks = [tasks[n] for n in places]
    origins = [
        Origin(
            place=n,
            line=entries[n].line,
            number=plain_number(numbers[n]),
            is_done=entries[n].done,
            runs_beside=entries[n].title.is_parallel,
            section=entries[n].section,
            body=tuple(entries[n].numbers),
            steps=tuple(entries[n].numbers[at] for at in bodies[n].steps),
            checks=(*(entries[n].numbers[at] for at in bodies[n].checks), *entries[n].checks),
        )
        for n in places
    ]
    warn_of_done(
        [task["ref"] for task, o in zip(tasks, origins, strict=True) if o.is_done], warnings
    )
    return tasks, origins


def settle_done(entry: Entry, body: Body, warnings: list[str]) -> None:
    """Decide whether an entry is done: by its steps, or else by its box or status."""
    entry.done |= body.is_done
    if body.open_steps and entry.done:
        entry.done = False
        steps = (
            "1 item below it is"
            if body.open_steps == 1
            else f"{body.open_steps} items below it are"
        )
        warnings.append(
            f"Line {entry.line}: this task is marked as done, but {steps} open; it was imported."
        )
    elif body.done_steps and not body.open_steps and entry.is_heading:
        entry.done = True


def give_criteria(entries: Sequence[Entry], criteria: Sequence[Criteria]) -> None:
    """Give each check to the tasks that refer to it, else to the last task of its section."""
    wanted: dict[str, list[Entry]] = {}
    for entry in entries:
        for text in (entry.title.text, *entry.body):
            if "AC" in text and (match := ACCEPTANCE.search(text)):
                for number in re.findall("[0-9]+", match[1]):
                    wanted.setdefault(number, []).append(entry)
    last: dict[tuple[int, ...], Entry] = {}
    for entry in entries:
        for length in range(len(entry.path) + 1):
            last[entry.path[:length]] = entry
    for each in criteria:
        path = each.path
        while path not in last:
            path = path[:-1]
        for text, number, line in zip(each.texts, each.numbers, each.lines, strict=True):
            for entry in wanted.get(number) or [last[path]]:
                entry.checks.append(line)
                if text not in entry.criteria:
                    entry.criteria.append(text)


def order_by_needs(
    tasks: Sequence[dict[str, Any]], entries: Sequence[Entry], warnings: list[str]
) -> list[int]:
    """Return the places of the tasks in the file's order, but each after the tasks it needs."""
    # A need that would close a cycle is dropped: what a text says is no reason to refuse the file.
    places = {task["ref"]: n for n, task in enumerate(tasks) if not entries[n].done}
    order: list[int] = []
    state = dict.fromkeys(range(len(tasks)), NEW)
    for start in state:
        if entries[start].done:
            order.append(start)
        if entries[start].done or state[start]:
            continue
        path = [(start, iter(list(tasks[start].get("needs", ()))))]
        state[start] = OPEN
        while path:
            n, needs = path[-1]
            need = next(
                (
                    places[each]
                    for each in needs
                    if state.get(places.get(each, -1), ORDERED) < ORDERED
                ),
                None,
            )
            if need is None:
                order.append(path.pop()[0])
                state[n] = ORDERED
            elif state[need] == OPEN:
                tasks[n]["needs"].remove(tasks[need]["ref"])
                warnings.append(
                    f"Line {entries[n].line}: ignored the dependency on line {entries[need].line}, "
                    "which waits for this task."
                )
            else:
                state[need] = OPEN
                path.append((need, iter(list(tasks[need].get("needs", ())))))
    return order


def build_task(
    entry: Entry,
    body: Body,
    ref: str,
    by_number: dict[str, str],
    errors: LineErrors,
    warnings: list[str],
) -> dict[str, Any]:
    text = textwrap.dedent("\n".join(entry.body)).strip("\n").rstrip() if entry.body else ""
    title = entry.title.text or next((line.strip() for line in text.split("\n")), "").strip("-*# ")
    if not title:
        errors.add(entry.line, "this task needs a title.")
    # The title of a task that is done is only compared, and there may be many of them.
    task: dict[str, Any] = {"ref": ref, "title": title if entry.done else shorten_title(title)}
    if task["title"] != title:
        text = f"{title}\n\n{text}".rstrip()
    if len(text.encode()) > ACTION_BYTES:
        errors.add(
            entry.line, f"this task's text has more than {ACTION_BYTES} bytes. Split the task."
        )
    payload: dict[str, Any] = {"id": entry.number} if "." in entry.number else {}
    parent = by_number.get(plain_number(entry.above)) if entry.above else None
    if parent and parent != ref:
        payload["parent"] = parent
    if entry.done:
        return task | ({"action": text} if text else {}) | ({"payload": payload} if payload else {})
    marks = {
        "group": entry.group,
        "story": entry.title.story,
        "optional": entry.title.is_optional,
        "parallel": entry.title.is_parallel,
    }
    payload |= {name: value for name, value in marks.items() if value}
    fields = {name: list(values) for name, values in body.fields.items()}
    if entry.title.needs:
        fields.setdefault("needs", []).append(entry.title.needs)
    if entry.criteria:
        fields["done"] = [*fields.get("done", []), *entry.criteria]
    add_fields(task, fields, entry, by_number, warnings)
    return task | ({"action": text} if text else {}) | ({"payload": payload} if payload else {})


def add_fields(
    task: dict[str, Any],
    fields: dict[str, list[str]],
    entry: Entry,
    by_number: dict[str, str],
    warnings: list[str],
) -> None:
    for name, values in fields.items():
        if name == "needs":
            task["needs"] = []
            for need in read_needs(values, entry.line, warnings, labels=by_number):
                ref = by_number.get(need) or by_number.get(plain_number(need), "")
                ref = ref or (need if "-" in need else "")
                if ref and ref != task["ref"]:
                    task["needs"].append(ref)
                elif not ref:
                    warnings.append(
                        f"Line {entry.line}: ignored the dependency '{need}': "
                        "the file has no such task."
                    )
        elif name == "verify":
            task["verify"] = describe_verification("\n".join(values))
        elif name == "agent":
            task["agent"] = "\n".join(values).strip("`*_ ")
        elif name == "files":
            task["files"] = [read_path(value) for value in values]
        else:
            task["done"] = values


def add_parts(tasks: Sequence[dict[str, Any]]) -> None:
    """Let each task that has parts among the tasks need them, and say so where it says nothing."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        if parent := task.get("payload", {}).get("parent"):
            parts.setdefault(parent, []).append(task)
    for task in tasks:
        if own := parts.get(task["ref"]):
            needs = [*task.get("needs", []), *(part["ref"] for part in own)]
            task["needs"] = list(dict.fromkeys(needs))
            if not task.get("action"):
                names = "\n".join(f"- {part['title']}" for part in own)
                task["action"] = f"Its parts are tasks of their own. Check the whole:\n{names}"
