"""Turn the to-do lists of coding agents into calls of the ledger tools, without a model (pure).

Claude Code calls `TaskCreate` and `TaskUpdate`, and called `TodoWrite` with the whole list. Codex
calls `create_goal` and `update_goal`, and called `update_plan` with the whole plan. A task's first
note says which of them it came from, so that a later batch knows its own tasks again and the same
messages, read twice, change nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ledger.sessions.message_parts import Call, Result
from ledger.sessions.tool_calls import ToolCall
from ledger.sessions.tools import MOST_CALLS
from ledger.values.text import truncate
from retries.trackers.tracker import Batch, BatchMessage, KnownTask, ToolBox

PENDING, RUNNING, SUCCESS, FAILED, DROPPED = "pending", "running", "success", "failed", "dropped"
# The programs' names of the states, including earlier ones.
STATES: Mapping[str, str] = {
    "pending": PENDING,
    "todo": PENDING,
    "in_progress": RUNNING,
    "active": RUNNING,
    "completed": SUCCESS,
    "complete": SUCCESS,
    "done": SUCCESS,
    "deleted": DROPPED,
    "cancelled": DROPPED,
    "canceled": DROPPED,
    "blocked": FAILED,
}
TODO, LIST, STEP, GOAL = "To-do", "To-do list", "Plan step", "Goal"
ORIGIN = re.compile(rf"({LIST}|{TODO}|{STEP}|{GOAL})(?: #(\w{{1,20}}))?(?::|$)")
NUMBER = re.compile(r"#(\w{1,20})\b")
REMOVED = "Removed from the agent's list."
MOST_ITEMS = 200
DESCRIPTION_LENGTH = 500
NOTE_LENGTH = 500


class TodoTracker:
    """The tracker `todo`: one response for a batch, unless it has very many calls."""

    def respond(self, batch: Batch, ledger: ToolBox) -> None:
        # The last response ends the batch in its own transaction, so that a worker that is killed
        # leaves nothing to be done twice.
        calls = list_calls(batch)
        for start in range(0, len(calls), MOST_CALLS):
            ledger.call_all(calls[start : start + MOST_CALLS])


def list_calls(batch: Batch) -> list[ToolCall]:
    reader = TodoReader(batch)
    for index, message in enumerate(batch.messages):
        reader.read_message(index, message)
    return reader.list_calls()


@dataclass(eq=False)
class Todo:
    """A task while a batch is read. `origin` is empty for a task that a person or a model made."""

    description: str
    status: str
    origin: str = ""
    number: str = ""
    notes: list[str] = field(default_factory=list)
    # as the ledger has it
    stored_text: str = ""
    stored_state: str = PENDING
    stored_notes: int = 0
    messages: list[int] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self.status in {PENDING, RUNNING}

    def add_note(self, note: str) -> None:
        note = truncate(" ".join(note.split()), NOTE_LENGTH)
        if note and note not in self.notes:
            self.notes.append(note)


class TodoReader:
    """Reads a batch's messages in order, and remembers what becomes of each task."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.inserts: list[ToolCall] = []
        self.planning: list[int] = []
        ordered = sorted(batch.tasks, key=lambda task: task.order)
        self.todos = [todo_of(task) for task in ordered]
        self.linked = {
            order: todo
            for task, todo in zip(ordered, self.todos, strict=True)
            for order in task.messages
        }
        running = [todo for todo in self.todos if todo.status == RUNNING]
        self.current = running[-1] if running else None
        # The answer to a batch's last calls may be behind it.
        everything = (*batch.earlier, *batch.messages, *batch.later)
        self.calls = {
            part.id: part
            for message in everything
            for part in message.parts
            if isinstance(part, Call) and part.name in TOOLS
        }
        self.results = {
            part.id: part
            for message in everything
            for part in message.parts
            if isinstance(part, Result) and part.id in self.calls
        }
        # the task that the message with a call belongs to; None: the planning section
        self.owners: dict[str, Todo | None] = {
            part.id: self.linked.get(message.order)
            for message in batch.earlier
            for part in message.parts
            if isinstance(part, Call)
        }

    # ---- messages

    def read_message(self, index: int, message: BatchMessage) -> None:
        before = self.current
        owner: Todo | None = None
        is_known = False
        for part in message.parts:
            if isinstance(part, Call) and part.name in TOOLS:
                TOOLS[part.name](self, part)
            elif isinstance(part, Result) and part.id in self.calls:
                self.read_result(part)
                owner, is_known = self.owners.get(part.id), part.id in self.owners
        if not is_known:
            owner = self.current or before
        for part in message.parts:
            if isinstance(part, Call) and part.id:
                self.owners[part.id] = owner
        if message.order in self.linked:
            return
        if owner is not None:
            owner.messages.append(index)
        elif not self.todos or any(todo.is_open for todo in self.todos):
            self.planning.append(index)

    def read_result(self, result: Result) -> None:
        # Claude Code tells the number of a new task in the call's result.
        call = self.calls[result.id]
        number = NUMBER.search(result.text)
        if call.name != "TaskCreate" or result.is_error or number is None:
            return
        if self.find_numbered(number[1]) is not None:
            return
        subject = text_in(call.arguments, "subject")
        for todo in self.todos:
            if todo.origin == TODO and not todo.number and todo.description == subject:
                todo.number = number[1]
                todo.add_note(f"{TODO} #{todo.number}")
                return

    # ---- the agents' tools

    def create_todo(self, call: Call) -> None:
        subject = text_in(call.arguments, "subject")
        if not subject or self.has_failed(call):
            return
        result = self.results.get(call.id)
        found = NUMBER.search(result.text) if result else None
        number = found[1] if found else ""
        known = self.find_numbered(number) if number else None
        if known is not None and known.description == subject:
            return
        if any(
            not todo.number and todo.origin == TODO and todo.description == subject
            for todo in self.todos
        ):
            return
        self.insert(TODO, subject, number=number, detail=text_in(call.arguments, "description"))

    def update_todo(self, call: Call) -> None:
        given = call.arguments
        number = str(given.get("taskId", given.get("task_id", ""))).lstrip("#")
        todo = self.find_numbered(number) or self.find_counted(number)
        if todo is None or self.has_failed(call):
            return
        todo.description = text_in(given, "subject") or todo.description
        if given.get("status") == "deleted" and todo.is_open:
            todo.add_note(REMOVED)
        self.move(todo, text_in(given, "status"))

    def write_list(self, call: Call) -> None:
        items = items_in(call.arguments.get("todos"), "content")
        if items is not None and not self.has_failed(call):
            self.replace_list(LIST, items)

    def update_plan(self, call: Call) -> None:
        items = items_in(call.arguments.get("plan"), "step")
        if items is None or self.has_failed(call):
            return
        self.replace_list(STEP, items)
        if self.current is not None and self.current.origin == STEP:
            self.current.add_note(text_in(call.arguments, "explanation"))

    def create_goal(self, call: Call) -> None:
        objective = text_in(call.arguments, "objective")
        # Codex has one goal at a time, and refuses another one until then.
        if objective and not self.has_failed(call) and self.find_goal() is None:
            finished = [t for t in self.todos if t.origin == GOAL and t.description == objective]
            todo = finished[-1] if finished else self.insert(GOAL, objective)
            self.move(todo, "active")

    def update_goal(self, call: Call) -> None:
        todo = self.find_goal()
        if todo is not None and not self.has_failed(call):
            if call.arguments.get("status") == "blocked":
                todo.add_note("The agent says that it is blocked.")
            self.move(todo, text_in(call.arguments, "status"))

    # ---- tasks

    def replace_list(self, origin: str, items: Sequence[tuple[str, str]]) -> None:
        ours = [todo for todo in self.todos if todo.origin == origin]
        free = list(ours)
        found: list[Todo | None] = []
        for text, _ in items:
            same = next((todo for todo in free if todo.description == text), None)
            if same is not None:
                free.remove(same)
            found.append(same)
        at = self.todos.index(ours[0]) if ours else len(self.todos)
        for place, (text, state) in enumerate(items):
            todo = found[place]
            if todo is None and place < len(ours) and ours[place] in free and ours[place].is_open:
                # The same place in the list, in other words.
                todo = ours[place]
                free.remove(todo)
                todo.description = text
            if todo is None:
                todo = self.insert(origin, text, at=at)
            self.move(todo, state)
            at = self.todos.index(todo) + 1
        for todo in free:
            if todo.is_open:
                todo.add_note(REMOVED)
                self.move(todo, "deleted")

    def insert(
        self, origin: str, text: str, *, number: str = "", detail: str = "", at: int | None = None
    ) -> Todo:
        place = len(self.todos) if at is None else at
        todo = Todo(text, PENDING, origin, number, stored_text=text)
        note = f"{origin} #{number}" if number else origin
        todo.add_note(f"{note}: {detail}" if detail and detail != text else note)
        self.todos.insert(place, todo)
        self.inserts.append(
            ToolCall("insert_task", {"after_task_order": place, "task_description": text})
        )
        return todo

    def move(self, todo: Todo, state: str) -> None:
        # An unknown word changes nothing.
        todo.status = STATES.get(state, todo.status)
        if todo.status == RUNNING:
            self.current = todo
        elif self.current is todo:
            self.current = next((t for t in self.todos[::-1] if t.status == RUNNING), None)

    def find_numbered(self, number: str) -> Todo | None:
        same = (t for t in self.todos[::-1] if t.origin == TODO and number and t.number == number)
        return next(same, None)

    def find_counted(self, number: str) -> Todo | None:
        # A to-do that never got its number is found by its place in the list.
        ours = [todo for todo in self.todos if todo.origin == TODO]
        place = int(number) if number.isdecimal() and len(number) < 6 else 0
        if 1 <= place <= len(ours) and not ours[place - 1].number:
            return ours[place - 1]
        return None

    def find_goal(self) -> Todo | None:
        return next((t for t in self.todos[::-1] if t.origin == GOAL and t.is_open), None)

    def has_failed(self, call: Call) -> bool:
        # The agent's program refused the call, or its tool failed.
        result = self.results.get(call.id)
        return result is not None and result.is_error

    # ---- calls

    def list_calls(self) -> list[ToolCall]:
        # New tasks come first, then the planning section, and then each task's changes.
        calls = [*self.inserts]
        if self.planning:
            arguments = {"message_ids": self.planning}
            calls.append(ToolCall("append_messages_to_planning_section", arguments))
        for place, todo in enumerate(self.todos):
            calls.extend(self.list_changes(place + 1, todo))
        return [*calls, ToolCall("finish")]

    def list_changes(self, order: int, todo: Todo) -> Iterator[ToolCall]:
        state, notes = todo.stored_state, todo.notes[todo.stored_notes :]
        if (todo.messages or notes) and state in {SUCCESS, FAILED, DROPPED}:
            # A finished task takes neither messages nor notes.
            yield ToolCall("update_task", {"task_order": order, "task_status": RUNNING})
            state = RUNNING
        if todo.messages:
            state = RUNNING  # the first message starts a task
        for span in ranges_of(todo.messages):
            yield ToolCall(
                "append_messages_to_task", {"task_order": order, "message_id_range": span}
            )
        for note in notes:
            yield ToolCall("append_task_progress", {"task_order": order, "progress": note})
        changes = {}
        if todo.status != state:
            changes["task_status"] = todo.status
        if todo.description != todo.stored_text:
            changes["task_description"] = todo.description
        if changes:
            yield ToolCall("update_task", {"task_order": order, **changes})


TOOLS: Mapping[str, Callable[[TodoReader, Call], None]] = {
    "TaskCreate": TodoReader.create_todo,
    "TaskUpdate": TodoReader.update_todo,
    "TodoWrite": TodoReader.write_list,
    "update_plan": TodoReader.update_plan,
    "create_goal": TodoReader.create_goal,
    "update_goal": TodoReader.update_goal,
}


def todo_of(task: KnownTask) -> Todo:
    # The task's first note names its origin.
    found = ORIGIN.match(task.progress[0]) if task.progress else None
    todo = Todo(
        task.description,
        task.state,
        notes=list(task.progress),
        stored_text=task.description,
        stored_state=task.state,
        stored_notes=len(task.progress),
    )
    if found:
        todo.origin, todo.number = found[1], found[2] or ""
        numbers = (ORIGIN.fullmatch(note) for note in task.progress)
        todo.number = todo.number or next((n[2] for n in numbers if n and n[2]), "")
    return todo


def text_in(given: Mapping[str, Any], name: str) -> str:
    # A value of another type counts as empty.
    value = given.get(name)
    return truncate(" ".join(value.split()), DESCRIPTION_LENGTH) if isinstance(value, str) else ""


def items_in(given: Any, name: str) -> list[tuple[str, str]] | None:
    """Return the text and the state of each item of an agent's list; None for anything else."""
    # A call that was cut has not replaced the list.
    if not isinstance(given, list):
        return None
    rows = [row for row in given[:MOST_ITEMS] if isinstance(row, Mapping) and text_in(row, name)]
    if len(rows) < len(given[:MOST_ITEMS]):
        return None
    return [(text_in(row, name), text_in(row, "status")) for row in rows]


def ranges_of(indexes: Sequence[int]) -> Iterator[list[int]]:
    """Yield the first and the last of each run of indexes.

    >>> list(ranges_of([0, 1, 2, 5]))
    [[0, 2], [5, 5]]
    """
    start: int | None = None
    for place, index in enumerate(indexes):
        start = index if start is None else start
        if place + 1 == len(indexes) or indexes[place + 1] != index + 1:
            yield [start, index]
            start = None
