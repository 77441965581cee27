"""Read the `tasks.json` of Task Master (task-master-ai) as a plan (pure).

A task that has subtasks comes after them, and each of its subtasks needs what it needs.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.errors import Invalid, PayloadTooLarge
from ledger.planfile.canonical import PARALLEL, TASK_KEYS
from ledger.planfile.model import (
    BYTES,
    PRIORITIES,
    TITLE_LENGTH,
    BadRef,
    DuplicateRef,
    Origin,
    UnknownNeed,
    refusal_at,
    shorten_title,
)
from ledger.planfile.task_lists import give_refs, plain_number, suggest_ref, warn_of_done
from ledger.planfile.values import RawPlan
from ledger.planfile.verification import describe_verification

# Keys of its tasks that a plan in Tenfour's own format does not have.
OWN_KEYS = ("testStrategy", "details", "dependencies", "subtasks", "status", "description")
DONE = ("done", "completed")
CANCELLED = ("cancelled", "canceled")
STATUSES = ("pending", "in-progress", "review", "deferred", "blocked", *DONE, *CANCELLED)
# Keys that only its own commands use.
IGNORED = ("updatedAt", "previousStatus", "parentTaskId", "parentId", "parentTask", "isSubtask")
TEXTS = ("description", "details")
IS_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}")


def is_task_master(value: Any) -> bool:
    """Return whether a JSON value is a `tasks.json`: tasks, or tags with tasks, with own keys."""
    if not isinstance(value, dict | list) or "ref" in value:
        return False
    return any(
        isinstance(task, dict)
        and not task.keys() <= {*TASK_KEYS}
        and not task.keys().isdisjoint(OWN_KEYS)
        for tasks in list_tags(value).values()
        for task in tasks
    )


def list_tags(value: Mapping[str, Any] | list[Any]) -> dict[str, list[Any]]:
    # A list, or a file in the old format, has no tag.
    if isinstance(value, list):
        return {"": value}
    if isinstance(value.get("tasks"), list):
        return {"": value["tasks"]}
    lists = {
        name: tag.get("tasks") if isinstance(tag, dict) else tag for name, tag in value.items()
    }
    return {
        name: tasks
        for name, tasks in lists.items()
        if isinstance(tasks, list)
        and (isinstance(value[name], dict) or all(isinstance(each, dict) for each in tasks))
    }


def read_task_master(
    value: Mapping[str, Any] | list[Any], *, tag: str = "", allow_missing_needs: bool = False
) -> RawPlan:
    """Return the plan of a tag, or of the only one that has unfinished tasks.

    `allow_missing_needs` drops needs that the file lacks and gives repeated ids a free number, with
    a warning each.
    """
    tags = list_tags(value)
    open_tags = [name for name, tasks in tags.items() if any(is_open(task) for task in tasks)]
    if tag and tag not in tags:
        raise Invalid("/tag", f"The file has no tag '{tag[:80]}'. Its tags: {name_tags(tags)}.")
    if not tag and len(open_tags) > 1:
        raise Invalid(
            "/tag",
            f"The file has unfinished tasks in {len(open_tags)} tags: {name_tags(open_tags)}. "
            "Each tag is a plan of its own: name the one to import with 'tag'.",
        )
    tag = tag or (open_tags[0] if open_tags else next(iter(tags)))
    size = len(json.dumps(tags[tag], ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > BYTES:
        raise PayloadTooLarge(
            f"The tag '{tag}' has {size} bytes; at most {BYTES} are allowed.", limit_bytes=BYTES
        )
    at = f"/{tag}/tasks" if tag else "/tasks"
    return TagReader(at, is_lenient=allow_missing_needs).read(tags[tag], tag)


def name_tags(tags: Iterable[str]) -> str:
    return ", ".join(tags)[:500]


def is_open(task: Any) -> bool:
    if not isinstance(task, dict):
        return True
    subtasks = task.get("subtasks")
    own = task.get("status") not in (*DONE, *CANCELLED)
    return own or (isinstance(subtasks, list) and any(is_open(each) for each in subtasks))


@dataclass(slots=True)
class Item:
    """A task or subtask, with what it needs and what its file says of it."""

    number: str
    at: str
    status: str
    task: dict[str, Any]
    needs: list[str]
    parent: "Item | None" = None

    @property
    def is_cancelled(self) -> bool:
        return self.status in CANCELLED or (self.parent is not None and self.parent.is_cancelled)


class TagReader:
    """Read one tag's tasks; `at` is the pointer to them."""

    def __init__(self, at: str, *, is_lenient: bool) -> None:
        self.at = at
        self.is_lenient = is_lenient
        self.warnings: list[str] = []
        self.items: list[Item] = []
        self.places: dict[str, str] = {}

    def read(self, values: list[Any], tag: str) -> RawPlan:
        for n, value in enumerate(values):
            at = f"{self.at}/{n}"
            parent = self.read_item(value, at, None)
            subtasks = value.get("subtasks") or []
            if not isinstance(subtasks, list):
                raise Invalid(f"{at}/subtasks", "subtasks must be a list.")
            own = [
                self.read_item(each, f"{at}/subtasks/{k}", parent)
                for k, each in enumerate(subtasks)
            ]
            self.items += [*own, parent]
        numbers = [item.number for item in self.items]
        refs = give_refs(numbers, [0] * len(numbers), [])
        by_number: dict[str, str] = {}
        for number, ref in zip(numbers, refs, strict=True):
            by_number.setdefault(number, ref)
        ref_of = {id(item): ref for item, ref in zip(self.items, refs, strict=True)}
        parts: dict[int, list[str]] = {}
        for item, ref in zip(self.items, refs, strict=True):
            needs = self.resolve_needs(item, by_number)
            if item.parent:
                item.task["payload"]["parent"] = ref_of[id(item.parent)]
                parts.setdefault(id(item.parent), []).append(ref)
                needs = [*self.resolve_needs(item.parent, by_number, quiet=True), *needs]
            item.task |= {"ref": ref, "needs": [*needs, *parts.get(id(item), [])]}
        return self.assemble(tag)

    def assemble(self, tag: str) -> RawPlan:
        """Return the plan without cancelled tasks; an import leaves out the ones that are done."""
        cancelled = {item.task["ref"] for item in self.items if item.is_cancelled}
        rest = [item for item in self.items if not item.is_cancelled]
        open_parts = [
            item.number
            for item in self.items
            if item.is_cancelled and item.status not in (*DONE, *CANCELLED)
        ]
        if not rest:
            raise Invalid("/tasks", f"The file marks all its {len(cancelled)} tasks as cancelled.")
        warn_of_done(
            [item.task["ref"] for item in self.items if item.is_cancelled],
            self.warnings,
            "cancelled",
        )
        if open_parts:
            names = ", ".join(open_parts[:20])
            self.warnings.append(f"Left out open subtasks of cancelled tasks: {names}.")
        is_done = [item.status in DONE for item in rest]
        warn_of_done(
            [item.task["ref"] for item, done in zip(rest, is_done, strict=True) if done],
            self.warnings,
        )
        for item in rest:
            item.task["needs"] = [need for need in item.task["needs"] if need not in cancelled]
        return RawPlan(
            {"tasks": [item.task for item in rest]} | ({"title": tag} if tag else {}),
            PARALLEL,
            tuple(self.warnings),
            suggested_ref=suggest_ref("taskmaster", tag or "tasks"),
            origins=tuple(
                Origin(place=n, number=item.number, is_id=bool(item.number), is_done=done)
                for n, (item, done) in enumerate(zip(rest, is_done, strict=True))
            ),
        )

    def read_item(self, item: Any, at: str, parent: Item | None) -> Item:
        if not isinstance(item, dict):
            raise Invalid(at, "A task must be an object.")
        number = self.read_number(item, at, parent)
        status = item.get("status") or "pending"
        if not isinstance(status, str):
            raise Invalid(f"{at}/status", "status must be a string.")
        if status not in STATUSES:
            self.warnings.append(
                f"Task {number} has the unknown status '{status[:40]}': it is open."
            )
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
            "title": shorten_title(title.strip()),
            "payload": payload | {"id": number},
        }
        if priority := item.get("priority"):
            if not isinstance(priority, str):
                raise Invalid(f"{at}/priority", f"priority must be: {', '.join(PRIORITIES)}.")
            if priority not in PRIORITIES:
                self.warnings.append(f"Task {number} has the unknown priority '{priority[:40]}'.")
            task["priority"] = PRIORITIES.get(priority, 0)
        if action := "\n\n".join(text.strip() for text in texts if text.strip()):
            task["action"] = action
        if verify := self.text_of(item, "testStrategy", at):
            task["verify"] = describe_verification(verify)
        if criteria := item.get("acceptanceCriteria"):
            task["done"] = criteria
        return Item(number, at, status, task, self.read_needs(item, at, parent), parent)

    def read_number(self, item: dict[str, Any], at: str, parent: Item | None) -> str:
        id = self.id_of(item, at)
        prefix = parent.number if parent else ""
        number = plain_number(id if not prefix or id.startswith(f"{prefix}.") else f"{prefix}.{id}")
        if not IS_NUMBER.fullmatch(number):
            raise refusal_at(
                BadRef, f"'{number[:80]}' can't be a task's number. Use 1 or 1.2.", f"{at}/id"
            )
        if number not in self.places:
            self.places[number] = f"{at}/id"
            return number
        if not self.is_lenient:
            raise refusal_at(
                DuplicateRef,
                f"Two tasks have the id {number}.",
                self.places[number],
                f"{at}/id",
                hint="Fix the file, or set allow_missing_needs to give the second one a free id.",
            )
        self.warnings.append(f"Two tasks have the id {number}; the second one got a free number.")
        return ""

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

    def read_needs(self, item: Mapping[str, Any], at: str, parent: Item | None) -> list[str]:
        # In a subtask, `1` is its parent's first subtask.
        needs = []
        dependencies = item.get("dependencies") or []
        if not isinstance(dependencies, list):
            raise Invalid(f"{at}/dependencies", "dependencies must be a list.")
        for n, each in enumerate(dependencies):
            number = str(each)
            if parent and "." not in number:
                number = f"{parent.number}.{number}"
            if isinstance(each, bool | float) or not IS_NUMBER.fullmatch(number):
                raise refusal_at(
                    UnknownNeed, f"'{number[:80]}' is not a task.", f"{at}/dependencies/{n}"
                )
            needs.append(plain_number(number))
        return needs

    def resolve_needs(
        self, item: Item, by_number: Mapping[str, str], *, quiet: bool = False
    ) -> list[str]:
        refs = []
        for need in item.needs:
            if need in by_number:
                refs.append(by_number[need])
            elif not self.is_lenient:
                raise refusal_at(
                    UnknownNeed,
                    f"Task {item.number} depends on {need}, which the file does not have.",
                    f"{item.at}/dependencies",
                    hint="Fix the file, for example with: task-master fix-dependencies. Or set "
                    "allow_missing_needs to import it without this need.",
                )
            elif not quiet:
                self.warnings.append(
                    f"Ignored the dependency of task {item.number} on {need}: the file has no "
                    "such task."
                )
        return refs
