"""A plan as it is asked for: refs, limits, and what is refused (pure)."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from ledger.errors import Refusal

BYTES = 1_048_576
MOST_TASKS = 500
MOST_EDGES = 2000
ACTION_BYTES = 65_536
PART_LENGTH = 64
TITLE_LENGTH = 200

R = TypeVar("R", bound=Refusal)

PART = f"[A-Za-z0-9.]{{1,{PART_LENGTH}}}"
PLAN_REF = re.compile(rf"({PART})-({PART})")
TASK_REF = re.compile(r"task-([1-9][0-9]{0,5})")


class BadRef(Refusal):
    """A ref has another form"""

    code = "bad_ref"
    hint = "A plan's ref is {phase}-{plan}, such as 03-01; a task's is task-1, task-2, …"


class DuplicateRef(Refusal):
    """Two tasks have the same ref"""

    code = "duplicate_ref"
    hint = "Give every task of the plan a ref of its own, or leave them all out."


class UnknownNeed(Refusal):
    """A task that is needed does not exist"""

    code = "unknown_dependency"
    hint = "Name a task of this plan (task-1), a plan (02-05) or a task of one (02-05:task-2)."


class DependencyCycle(Refusal):
    """Tasks wait for each other in a circle"""

    code = "dependency_cycle"
    hint = "Take one of the needs away that 'cycle' names."


def pointed(kind: type[R], detail: str, *pointers: str, **more: Any) -> R:
    """The refusal, pointing to places in the file."""
    errors = [{"pointer": pointer, "detail": detail} for pointer in pointers]
    return kind(detail, errors=errors, **more)


def check_plan_ref(ref: str, pointer: str = "/ref") -> str:
    """The ref itself; raises BadRef.

    >>> check_plan_ref("03-01")
    '03-01'
    """
    if not PLAN_REF.fullmatch(ref):
        raise pointed(
            BadRef,
            f"'{ref[:80]}' is no ref of a plan: {{phase}}-{{plan}} in letters, digits and dots.",
            pointer,
        )
    return ref


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTask:
    """One task: `ref` is its full one, `needs` are full refs of tasks or plans.

    What is None takes the server's setting; defaults of the plan are worked in.
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
    backoff: dict[str, Any] = field(default_factory=dict)
    lease_s: int | None = None
    timeout_s: int | None = None
    idempotent: bool = True
    non_retryable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A whole plan; `needs` are what all its tasks wait for, full refs of tasks or plans."""

    ref: str
    tasks: tuple[PlanTask, ...]
    title: str = ""
    objective: str = ""
    wave: int | None = None
    needs: tuple[str, ...] = ()

    @property
    def source(self) -> dict[str, Any]:
        """The plan as JSON."""
        return asdict(self)

    @property
    def content_hash(self) -> str:
        """The same for the same plan, however it was written."""
        text = json.dumps(self.source, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def firsts(self) -> list[PlanTask]:
        """The tasks that need no other one of the plan."""
        own = {task.ref for task in self.tasks}
        return [task for task in self.tasks if own.isdisjoint(task.needs)]


def cycle_in(edges: Iterable[tuple[str, str]]) -> list[str]:
    """A circle of (task, need) pairs, its first task again at the end; empty where there is none.

    >>> cycle_in([("a", "b"), ("b", "c"), ("c", "b")])
    ['b', 'c', 'b']
    """
    needs: dict[str, list[str]] = {}
    for task, need in edges:
        needs.setdefault(task, []).append(need)
    finished: set[str] = set()
    for start in needs:
        if start in finished:
            continue
        path = [start]  # from the start down to the task that is looked at
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


def told(cycle: Sequence[str]) -> str:
    return " needs ".join(cycle)
