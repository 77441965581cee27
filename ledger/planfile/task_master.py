"""Read the `tasks.json` of Task Master (task-master-ai) as a plan (pure).

A task that has subtasks comes after them, and each of its subtasks needs what it needs.
"""

from collections.abc import Mapping
from typing import Any

from ledger.errors import Invalid
from ledger.planfile.canonical import PARALLEL, TASK_KEYS
from ledger.planfile.model import (
    TITLE_LENGTH,
    BadRef,
    DuplicateRef,
    UnknownNeed,
    refusal_at,
    shorten_title,
)
from ledger.planfile.task_lists import leave_out_done, number_ref, suggest_ref
from ledger.planfile.values import RawPlan
from ledger.planfile.verification import describe_verification

# Keys of its tasks that a plan in Tenfour's own format does not have.
OWN_KEYS = ("testStrategy", "details", "dependencies", "subtasks", "status", "description")
PRIORITIES = {"critical": 20, "high": 10, "medium": 0, "low": -10}
DONE = ("done", "completed")
CANCELLED = ("cancelled", "canceled")
STATUSES = ("pending", "in-progress", "review", "deferred", "blocked", *DONE, *CANCELLED)
# Keys that only its own commands use.
IGNORED = ("updatedAt", "previousStatus", "parentTaskId", "parentId", "parentTask", "isSubtask")
TEXTS = ("description", "details")


def is_task_master(value: Any) -> bool:
    """Whether a JSON value is a `tasks.json`: tasks, or tags with tasks, with its own keys."""
    if not isinstance(value, dict) or "ref" in value:
        return False
    return any(
        isinstance(task, dict)
        and not task.keys() <= {*TASK_KEYS}
        and not task.keys().isdisjoint(OWN_KEYS)
        for tasks in list_tags(value).values()
        for task in tasks
    )


def list_tags(value: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the tasks of each tag; a file in the old format has one list without a tag."""
    if isinstance(value.get("tasks"), list):
        return {"": value["tasks"]}
    return {
        name: tag["tasks"]
        for name, tag in value.items()
        if isinstance(tag, dict) and isinstance(tag.get("tasks"), list)
    }


def read_task_master(value: Mapping[str, Any]) -> RawPlan:
    """Return the plan of the only tag that has unfinished tasks."""
    tags = list_tags(value)
    open_tags = [name for name, tasks in tags.items() if any(is_open(task) for task in tasks)]
    if len(open_tags) > 1:
        names = ", ".join(open_tags)[:500]
        raise Invalid(
            "",
            f"The file has unfinished tasks in {len(open_tags)} tags: {names}. "
            "Each tag is a plan of its own: import a file that has only one of them.",
        )
    tag = open_tags[0] if open_tags else next(iter(tags))
    at = f"/{tag}/tasks" if tag else "/tasks"
    return TagReader(at).read(tags[tag], tag)


def is_open(task: Any) -> bool:
    return not isinstance(task, dict) or task.get("status") not in (*DONE, *CANCELLED)


class TagReader:
    """Read one tag's tasks; `at` is the pointer to them."""

    def __init__(self, at: str) -> None:
        self.at = at
        self.tasks: list[dict[str, Any]] = []
        self.statuses: list[str] = []
        self.warnings: list[str] = []
        self.places: dict[str, str] = {}
        self.numbers: dict[str, str] = {}  # of the dependencies' refs

    def read(self, items: list[Any], tag: str) -> RawPlan:
        for n, item in enumerate(items):
            at = f"{self.at}/{n}"
            task = self.read_task(item, at, prefix="")
            subtasks = item.get("subtasks") or []
            if not isinstance(subtasks, list):
                raise Invalid(f"{at}/subtasks", "subtasks must be a list.")
            status = self.statuses.pop()
            for k, each in enumerate(subtasks):
                child = self.read_task(each, f"{at}/subtasks/{k}", prefix=self.id_of(item, at))
                child["payload"]["parent"] = task["ref"]
                child["needs"] = [*task["needs"], *child["needs"]]
                self.tasks.append(child)
                # A finished or cancelled task's subtasks are no longer to do either.
                if status in (*DONE, *CANCELLED):
                    self.statuses[-1] = status
            own = [each["ref"] for each in self.tasks[len(self.tasks) - len(subtasks) :]]
            self.tasks.append(task | {"needs": [*task["needs"], *own]})
            self.statuses.append(status)
        self.check_needs()
        cancelled = [status in CANCELLED for status in self.statuses]
        tasks = leave_out_done(self.tasks, cancelled, self.warnings, "cancelled")
        done = [status in DONE for status in self.statuses if status not in CANCELLED]
        tasks = leave_out_done(tasks, done, self.warnings)
        return RawPlan(
            {"tasks": tasks} | ({"title": tag} if tag else {}),
            PARALLEL,
            tuple(self.warnings),
            suggested_ref=suggest_ref("taskmaster", tag or "tasks"),
        )

    def read_task(self, item: Any, at: str, *, prefix: str) -> dict[str, Any]:
        """Return a task in the canonical form, with all its texts."""
        if not isinstance(item, dict):
            raise Invalid(at, "A task must be an object.")
        number, ref = self.read_number(item, at, prefix)
        status = item.get("status", "pending")
        if status not in STATUSES:
            raise Invalid(f"{at}/status", f"status must be one of: {', '.join(STATUSES)}.")
        self.statuses.append(status)
        title = self.text_of(item, "title", at)
        texts = [self.text_of(item, key, at) for key in TEXTS]
        if len(title) > TITLE_LENGTH:
            texts.insert(0, title)
        known = ("id", "title", "status", "priority", "dependencies", "subtasks", "testStrategy")
        payload = {
            name: value
            for name, value in item.items()
            if name not in (*known, *TEXTS, *IGNORED, "acceptanceCriteria") and value is not None
        }
        task: dict[str, Any] = {
            "ref": ref,
            "title": shorten_title(title.strip()),
            "needs": self.read_needs(item, at, prefix),
            "payload": payload | {"id": number},
        }
        if priority := item.get("priority"):
            if not isinstance(priority, str) or priority not in PRIORITIES:
                raise Invalid(f"{at}/priority", f"priority must be: {', '.join(PRIORITIES)}.")
            task["priority"] = PRIORITIES[priority]
        if action := "\n\n".join(text.strip() for text in texts if text.strip()):
            task["action"] = action
        if verify := self.text_of(item, "testStrategy", at):
            task["verify"] = describe_verification(verify)
        if criteria := item.get("acceptanceCriteria"):
            task["done"] = criteria
        return task

    def read_number(self, item: dict[str, Any], at: str, prefix: str) -> tuple[str, str]:
        """Return a task's number and its ref, which no other task has."""
        id = self.id_of(item, at)
        number = id if not prefix or id.startswith(f"{prefix}.") else f"{prefix}.{id}"
        ref = number_ref(number)
        if not ref:
            raise refusal_at(
                BadRef, f"'{number[:80]}' can't be a task's number. Use 1 or 1.2.", f"{at}/id"
            )
        if ref in self.places:
            raise refusal_at(
                DuplicateRef, f"Two tasks have the id {number}.", self.places[ref], f"{at}/id"
            )
        self.places[ref] = f"{at}/id"
        return number, ref

    def id_of(self, item: Mapping[str, Any], at: str) -> str:
        id = item.get("id")
        if isinstance(id, bool) or not isinstance(id, str | int):
            raise Invalid(f"{at}/id", 'A task\'s id must be a number, such as 1 or "1.2".')
        return str(id)

    def text_of(self, item: Mapping[str, Any], name: str, at: str) -> str:
        text = item.get(name) or ""
        if not isinstance(text, str):
            raise Invalid(f"{at}/{name}", f"{name} must be a string.")
        return text

    def read_needs(self, item: Mapping[str, Any], at: str, prefix: str) -> list[str]:
        """Return the needed tasks; in a subtask, `1` is its parent's first subtask."""
        needs = []
        dependencies = item.get("dependencies") or []
        if not isinstance(dependencies, list):
            raise Invalid(f"{at}/dependencies", "dependencies must be a list.")
        for n, each in enumerate(dependencies):
            number = str(each)
            if prefix and "." not in number:
                number = f"{prefix}.{number}"
            ref = number_ref(number)
            if not ref or isinstance(each, bool | float):
                raise refusal_at(
                    UnknownNeed, f"'{number[:80]}' is not a task.", f"{at}/dependencies/{n}"
                )
            self.numbers[ref] = number
            needs.append(ref)
        return needs

    def check_needs(self) -> None:
        for task in self.tasks:
            for need in task["needs"]:
                if need not in self.places:
                    pointer = self.places[task["ref"]].removesuffix("/id")
                    raise refusal_at(
                        UnknownNeed,
                        f"Task {task['payload']['id']} depends on {self.numbers[need]}, "
                        "which the file does not have.",
                        f"{pointer}/dependencies",
                        hint="Fix the file, for example with: task-master fix-dependencies",
                    )
