"""Carry out calls of the eight ledger tools on a copy of a session's tasks (pure).

Calls see what the calls before them did. The caller writes the copy in one statement if no call is
refused, so a response takes effect as a whole or not at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from ledger.secrets.redaction import redacted
from ledger.sessions import tool_schemas
from ledger.sessions.tool_calls import ToolAnswer, ToolCall, ToolRefused
from ledger.sessions.tool_schemas import TOOLS, Arguments, describe_error

MOST_CALLS, MOST_TASKS, MOST_NOTES, MOST_PREFERENCES = 200, 500, 200, 100
FINISHED = ("success", "failed", "dropped")


@dataclass(slots=True, eq=False)
class WorkingTask:
    """A task as it will be written; a new one has no id yet."""

    description: str
    state: str = "pending"
    progress: list[str] = field(default_factory=list)
    id: UUID | None = None
    order: int = 0  # as it is stored; its new order is its place in the list
    is_changed: bool = False


@dataclass(slots=True)
class Worksheet:
    """A session's tasks and preferences, and where the messages of the batch belong.

    `places` maps the index of a message to its task, or to None for the planning section.
    """

    tasks: list[WorkingTask]
    message_count: int
    preferences: list[str] = field(default_factory=list)
    places: dict[int, WorkingTask | None] = field(default_factory=dict)
    is_finished: bool = False


def run_calls(sheet: Worksheet, calls: Sequence[ToolCall]) -> tuple[Worksheet, list[ToolAnswer]]:
    """Return the worksheet after these calls, and an answer for each; `sheet` stays as it is.

    Raises ToolRefused for an unknown tool or for arguments that its schema forbids.
    """
    if len(calls) > MOST_CALLS:
        raise ToolRefused(
            MOST_CALLS, calls[MOST_CALLS].name, f"a response can make at most {MOST_CALLS} calls."
        )
    tasks = [replace(task, progress=list(task.progress)) for task in sheet.tasks]
    work = Worksheet(tasks, sheet.message_count, list(sheet.preferences))
    answers = []
    for index, call in enumerate(calls):
        arguments = read_arguments(index, call)
        text = HANDLERS[call.name](work, arguments)
        answers.append(ToolAnswer(call.name, text.text, text.done, call.id))
    return work, answers


def read_arguments(index: int, call: ToolCall) -> Arguments:
    if call.name not in TOOLS:
        known = ", ".join(TOOLS)
        raise ToolRefused(index, call.name[:64], f"there is no such tool. Use one of: {known}.")
    try:
        return TOOLS[call.name].model_validate(redacted(call.arguments))
    except ValidationError as error:
        raise ToolRefused(index, call.name, describe_error(error)) from error


@dataclass(frozen=True, slots=True)
class Said:
    """A tool's reply; `done` is false if it did nothing."""

    text: str
    done: bool = True


def insert_task(work: Worksheet, asked: tool_schemas.InsertTask) -> Said:
    if asked.after_task_order > len(work.tasks):
        return out_of_range(work, asked.after_task_order)
    if len(work.tasks) >= MOST_TASKS:
        return Said(f"The list is full: it has {MOST_TASKS} tasks. Update one of them.", False)
    work.tasks.insert(asked.after_task_order, WorkingTask(asked.task_description.strip()))
    return Said(f"Task {asked.after_task_order + 1} created.")


def update_task(work: Worksheet, asked: tool_schemas.UpdateTask) -> Said:
    task = find_task(work, asked.task_order)
    if task is None:
        return out_of_range(work, asked.task_order)
    task.state = asked.task_status or task.state
    task.description = asked.task_description or task.description
    task.is_changed = True
    return Said(f"Task {asked.task_order} updated.")


def append_messages_to_task(work: Worksheet, asked: tool_schemas.AppendMessagesToTask) -> Said:
    task = find_task(work, asked.task_order)
    if task is None:
        return out_of_range(work, asked.task_order)
    first, last = asked.message_id_range
    if first > last:
        return Said(f"The range {first} to {last} ends before it begins.", False)
    if task.state in FINISHED:
        return finished(task, asked.task_order)
    found = range(first, min(last + 1, work.message_count))
    if not found:
        return no_messages(work)
    work.places |= dict.fromkeys(found, task)
    if task.state != "running":
        task.state, task.is_changed = "running", True
    return Said(f"Messages {found[0]} to {found[-1]} linked to task {asked.task_order}.")


def append_messages_to_planning_section(
    work: Worksheet, asked: tool_schemas.AppendMessagesToPlanningSection
) -> Said:
    found = [index for index in asked.message_ids if index < work.message_count]
    if not found:
        return no_messages(work)
    work.places |= dict.fromkeys(found)
    return Said(f"{len(set(found))} messages moved to the planning section.")


def append_task_progress(work: Worksheet, asked: tool_schemas.AppendTaskProgress) -> Said:
    task = find_task(work, asked.task_order)
    if task is None:
        return out_of_range(work, asked.task_order)
    if task.state in FINISHED:
        return finished(task, asked.task_order)
    if len(task.progress) >= MOST_NOTES:
        return Said(f"Task {asked.task_order} has {MOST_NOTES} notes and takes no more.", False)
    task.progress.append(asked.progress)
    task.is_changed = True
    return Said(f"Progress of task {asked.task_order} noted.")


def submit_user_preference(work: Worksheet, asked: tool_schemas.SubmitUserPreference) -> Said:
    if asked.preference in work.preferences:
        return Said("The preference is known.")
    if len(work.preferences) >= MOST_PREFERENCES:
        return Said(f"The session has {MOST_PREFERENCES} preferences and takes no more.", False)
    work.preferences.append(asked.preference)
    return Said("Preference stored.")


def finish(work: Worksheet, asked: tool_schemas.Finish) -> Said:
    work.is_finished = True
    return Said("Finished.")


def report_thinking(work: Worksheet, asked: tool_schemas.ReportThinking) -> Said:
    return Said("Noted.")


HANDLERS: dict[str, Callable[[Worksheet, Any], Said]] = {
    "insert_task": insert_task,
    "update_task": update_task,
    "append_messages_to_task": append_messages_to_task,
    "append_messages_to_planning_section": append_messages_to_planning_section,
    "append_task_progress": append_task_progress,
    "submit_user_preference": submit_user_preference,
    "finish": finish,
    "report_thinking": report_thinking,
}


def find_task(work: Worksheet, order: int) -> WorkingTask | None:
    return work.tasks[order - 1] if order <= len(work.tasks) else None


def out_of_range(work: Worksheet, order: int) -> Said:
    count = len(work.tasks)
    has = f"it has {count}" if count else "it is empty"
    return Said(f"Task order {order} is out of range: the list ends before it, {has}.", False)


def finished(task: WorkingTask, order: int) -> Said:
    return Said(f"Task {order} is already {task.state}. Update its status to running first.", False)


def no_messages(work: Worksheet) -> Said:
    return Said(f"None of these messages is in the batch, which has {work.message_count}.", False)
