"""The canonical plan: its refs, its limits, and the errors it can have (pure)."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from ledger.errors import Refusal
from ledger.secrets.redaction import redacted
from ledger.values.text import truncate
from ledger.values.timestamps import format_timestamp

BYTES = 1_048_576
MOST_BYTES = 4 * BYTES  # a file of Task Master; one tag is read
MOST_TASKS = 500
MOST_EDGES = 2000
ACTION_BYTES = 65_536
PART_LENGTH = 64
TITLE_LENGTH = 200
MOST_LINE_ERRORS = 100
PRIORITIES = {"critical": 20, "high": 10, "medium": 0, "low": -10}

R = TypeVar("R", bound=Refusal)

PART = f"[A-Za-z0-9.]{{1,{PART_LENGTH}}}"
PLAN_REF = re.compile(rf"({PART})-({PART})")
TASK_REF = re.compile(r"task-([1-9][0-9]{0,5})")
NUMBERED_TASK = re.compile(r"([0-9]{1,9}-[0-9]{1,9})[-:](.+)")
# Spellings of task-1 whose number is clear: 1, 01, T1, T001, task-1, Task 1, task_1, #1.
TASK_NUMBER = re.compile(r"(?:#|t|task[-_ ]?)?0{0,9}([1-9][0-9]{0,5})", re.I)


def shorten_title(title: str) -> str:
    # The cut divides no secret.
    return truncate(redacted(title), TITLE_LENGTH)


class BadRef(Refusal):
    """Malformed ref"""

    code = "bad_ref"
    hint = "Use {phase}-{plan} for a plan, such as 03-01, and task-1, task-2, … for its tasks."


class DuplicateRef(Refusal):
    """Duplicate ref"""

    code = "duplicate_ref"
    hint = "Give every task in the plan its own ref, or leave out all refs."


class UnreadableLines(Refusal):
    """Unreadable lines in the plan"""

    code = "malformed_task"
    hint = "Fix the listed lines, then import the plan again. Nothing was imported."


class UnknownNeed(Refusal):
    """Unknown dependency"""

    code = "unknown_dependency"
    hint = (
        "Name a task in this plan (task-1), another plan (02-05), or a task in it (02-05:task-2)."
    )


class DependencyCycle(Refusal):
    """Dependency cycle"""

    code = "dependency_cycle"
    hint = "Remove one of the needs listed in 'cycle'."


def refusal_at(kind: type[R], detail: str, *pointers: str, **more: Any) -> R:
    errors = [{"pointer": pointer, "detail": detail} for pointer in pointers]
    return kind(detail, errors=errors, **more)


@dataclass(slots=True)
class LineErrors:
    """The lines of a file that can't be read; the whole file is refused for any of them."""

    errors: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, problem: str) -> None:
        self.errors.append((line, problem))

    def check(self) -> None:
        if not self.errors:
            return
        texts = [f"Line {line}: {problem}" for line, problem in sorted(self.errors)]
        rest = len(texts) - 1
        lines = "1 more line" if rest == 1 else f"{rest} more lines"
        more = f" {lines} can't be read." if rest else ""
        raise UnreadableLines(
            f"{texts[0]}{more}",
            errors=[{"pointer": "", "detail": text} for text in texts[:MOST_LINE_ERRORS]],
        )


def check_plan_ref(ref: str, pointer: str = "/ref") -> str:
    """Return the ref unchanged; raise BadRef if it is malformed.

    >>> check_plan_ref("03-01")
    '03-01'
    """
    if not PLAN_REF.fullmatch(ref):
        raise refusal_at(
            BadRef,
            f"'{ref[:80]}' is not a plan's ref. Use {{phase}}-{{plan}} with letters, digits, and "
            "dots.",
            pointer,
        )
    return ref


def same_number(ref: str, other: str) -> bool:
    # Two spellings of one ref may differ in leading zeros, such as 03-01 and 3-1.
    parts, others = (each.split("-") for each in (ref, other))
    return [part.lstrip("0") for part in parts] == [part.lstrip("0") for part in others]


def complete_task_ref(text: str, plan: str = "") -> str:
    """Return `task-1` for any spelling of it, or the text unchanged if it is something else.

    >>> [complete_task_ref(text, "03-01") for text in ("1", "T001", "03-01:task-1", "03-01-T1")]
    ['task-1', 'task-1', 'task-1', 'task-1']
    >>> complete_task_ref("1a")
    '1a'
    """
    own = text.strip()
    if plan and own.startswith((f"{plan}:", f"{plan}-")):
        own = own[len(plan) + 1 :]
    elif plan and (match := NUMBERED_TASK.fullmatch(own)) and same_number(match[1], plan):
        own = match[2]
    number = TASK_NUMBER.fullmatch(own)
    return f"task-{number[1]}" if number else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A task's place in a file, apart from its content; a merge recognizes the task by it.

    `number` is how the file names the task, such as `task-3` or `1.2`, or "". It is the task's
    identity if it `is_id`, and only a hint otherwise: people renumber lists. A task that
    `runs_beside` those before it in its `section` does not wait for them in a sequential plan.
    `line` begins it (0 where a format has no lines), and `body`, `steps` and `checks` are the lines
    of its text, and those of its steps and criteria.
    """

    place: int = 0
    line: int = 0
    number: str = ""
    is_id: bool = False
    is_done: bool = False
    runs_beside: bool = False
    section: int = 0
    body: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    checks: tuple[int, ...] = ()


class Became(StrEnum):
    """The result of reading a line of a plan file that looks like work."""

    TASK = "task"
    # the file marks it as done
    DONE = "done"
    # a part of a task's action
    STEP = "step"
    # a `done` criterion of a task
    CHECK = "check"
    # in the text of a task, such as an item in its code
    TEXT = "text"
    # not imported; `note` says why
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class Box:
    """The bytes of an open item's box, and those of a ticked one."""

    offset: int
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    """A line that looks like work, the task that it became or belongs to, and its open box."""

    line: int
    became: Became
    text: str
    ref: str = ""
    note: str = ""
    box: Box | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTask:
    """A task with its full ref; `needs` holds full refs of tasks or plans.

    Fields that are None take the server's setting. The plan's defaults are already applied.
    """

    ref: str
    agent: str
    type: str
    title: str = ""
    priority: int = 0
    needs: tuple[str, ...] = ()
    payload: dict[str, Any] = field(default_factory=dict)
    max_attempts: int | None = None
    on_exhausted: str = "escalate"
    evidence: str | None = None
    retry_on: str | None = None
    backoff: dict[str, Any] = field(default_factory=dict)
    lease_s: int | None = None
    timeout_s: int | None = None
    idempotent: bool = True
    non_retryable: bool = False
    not_before: datetime | None = None
    # as the file has it: an amount with its unit, or an object
    budget: str | dict[str, Any] | None = None
    origin: Origin = field(default=Origin(), compare=False)

    @property
    def source(self) -> dict[str, Any]:
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        # Without them it is as in plans that were stored before they existed.
        for name in ("evidence", "retry_on", "budget"):
            if found[name] is None:
                del found[name]
        del found["not_before"]
        return found | write_time(self.not_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A whole plan; all its tasks wait for `needs`, which holds full refs of tasks or plans.

    `done` are the tasks that the file marks as done; an import adds none of them, and their titles
    are whole. `lines` has each line that looks like work, in a format with lines.
    """

    ref: str
    tasks: tuple[PlanTask, ...]
    title: str = ""
    objective: str = ""
    wave: int | None = None
    not_before: datetime | None = None
    exclusive_files: bool | None = None
    budget: str | dict[str, Any] | None = None
    needs: tuple[str, ...] = ()
    done: tuple[PlanTask, ...] = ()
    lines: tuple[FileLine, ...] = ()

    @property
    def source(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("ref", "title", "objective", "wave", "needs")}
        own |= write_time(self.not_before)
        for name in ("exclusive_files", "budget"):
            if (value := getattr(self, name)) is not None:
                own[name] = value
        return own | {"tasks": tuple(task.source for task in self.tasks)}

    @property
    def content_hash(self) -> str:
        # The hash must not depend on the format in which the plan was written.
        source = self.source
        if self.done:
            source["done"] = [(task.ref, truncate(task.title, TITLE_LENGTH)) for task in self.done]
        text = json.dumps(source, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def first_tasks(self) -> list[PlanTask]:
        own = {task.ref for task in self.tasks}
        return [task for task in self.tasks if own.isdisjoint(task.needs)]


def write_time(not_before: datetime | None) -> dict[str, str]:
    return {"not_before": format_timestamp(not_before)} if not_before else {}


def find_cycle(edges: Iterable[tuple[str, str]]) -> list[str]:
    """Return a cycle among (task, need) pairs, ending where it starts, or an empty list.

    >>> find_cycle([("a", "b"), ("b", "c"), ("c", "b")])
    ['b', 'c', 'b']
    """
    needs: dict[str, list[str]] = {}
    for task, need in edges:
        needs.setdefault(task, []).append(need)
    finished: set[str] = set()
    for start in needs:
        if start in finished:
            continue
        path = [start]  # from `start` down to the current task
        rest = [iter(needs[start])]
        while path:
            need = next((each for each in rest[-1] if each not in finished), "")
            if not need:
                finished.add(path.pop())
                rest.pop()
            elif need in path:
                return [*path[path.index(need) :], need]
            else:
                path.append(need)
                rest.append(iter(needs.get(need, ())))
    return []


def cycle_detail(cycle: Sequence[str]) -> str:
    return f"No task can start: {' needs '.join(cycle)}."
