"""The tracker `todo` turns the agents' own to-do calls into calls of the ledger tools."""

from dataclasses import replace
from typing import Any

import pytest

from ledger.sessions.message_parts import Call, Part, Result, Text
from ledger.sessions.tool_calls import ToolCall
from ledger.sessions.transcripts.reading import read_transcript
from retries.trackers.todo import list_calls
from retries.trackers.tracker import Batch, BatchMessage, KnownTask
from tests.ledger.sessions.transcript_files import (
    as_lines,
    claude_line,
    old_codex_call,
    recorded,
    todo_write,
)


def batch_of(data: bytes, *, start: int = 0, stop: int | None = None, **more: Any) -> Batch:
    """Return some of a transcript's messages as a batch, with the three before as context."""
    found = [
        BatchMessage(order, message.role, message.parts)
        for order, message in enumerate(read_transcript(data).messages, 1)
    ]
    stop = len(found) if stop is None else stop
    return Batch(
        tuple(found[start:stop]),
        earlier=tuple(found[max(0, start - 3) : start]),
        later=tuple(found[stop : stop + 3]),
        **more,
    )


def planned() -> bytes:
    """Return the session of an older Codex, which still had the tool `update_plan`."""
    return recorded("codex").replace(b"unsupported call: update_plan", b"Plan updated")


TRANSCRIPTS = (recorded("claude"), recorded("codex"), planned())


def write_raw(number: int, given: Any) -> dict[str, Any]:
    """Return a line that calls `TodoWrite` with any arguments."""
    call = {"type": "tool_use", "id": f"t{number}", "name": "TodoWrite", "input": given}
    return claude_line(number, "assistant", [call])


class Ledger:
    """The tasks that calls leave behind: what the ledger tools do, in a list."""

    def __init__(self) -> None:
        self.tasks: list[dict[str, Any]] = []
        self.planning: list[int] = []

    def run(self, calls: list[ToolCall], batch: Batch) -> None:
        for call in calls:
            given = dict(call.arguments)
            orders = [m.order for m in batch.messages]
            if call.name == "finish":
                continue
            if call.name == "insert_task":
                fresh = {"text": given["task_description"], "state": "pending"}
                self.tasks.insert(
                    given["after_task_order"], {**fresh, "progress": [], "messages": []}
                )
                continue
            if call.name == "append_messages_to_planning_section":
                self.planning += [orders[index] for index in given["message_ids"]]
                continue
            task = self.tasks[given["task_order"] - 1]
            if call.name == "update_task":
                task["state"] = given.get("task_status", task["state"])
                task["text"] = given.get("task_description", task["text"])
                continue
            assert task["state"] in {"pending", "running"}, "a finished task takes nothing"
            if call.name == "append_task_progress":
                task["progress"].append(given["progress"])
            else:
                assert call.name == "append_messages_to_task"
                first, last = given["message_id_range"]
                task["messages"] += orders[first : last + 1]
                task["state"] = "running"

    def known(self) -> tuple[KnownTask, ...]:
        return tuple(
            KnownTask(n, t["text"], t["state"], tuple(t["progress"]), tuple(t["messages"]))
            for n, t in enumerate(self.tasks, 1)
        )

    def read(self, batch: Batch) -> list[ToolCall]:
        """Run what a batch asks for, on top of what the ledger has."""
        batch = replace(batch, tasks=self.known())
        calls = list_calls(batch)
        self.run(calls, batch)
        return calls

    @property
    def states(self) -> list[tuple[str, str]]:
        return [(task["text"], task["state"]) for task in self.tasks]


def test_claude_tasks_in_one_batch() -> None:
    ledger = Ledger()
    calls = ledger.read(batch_of(recorded("claude")))
    assert ledger.states == [("Write the parser", "success"), ("Run the tests", "pending")]
    assert ledger.tasks[0]["progress"] == ["To-do #1: Parse ids from a file"]
    assert ledger.tasks[1]["progress"] == ["To-do #2: make test"]
    # From the call that started the task to the answer to the call that completed it.
    assert ledger.tasks[0]["messages"] == [*range(6, 14)]
    assert ledger.planning == [1, 2, 3, 4, 5, 14]
    # A stored task changes once, however often the agent moved it.
    assert [call.name for call in calls].count("update_task") == 1


def test_any_cut_into_batches_gives_the_same_tasks() -> None:
    for data in TRANSCRIPTS:
        whole = Ledger()
        whole.read(batch_of(data))
        count = len(read_transcript(data).messages)
        for size in (1, 2, 3, 5):
            parts = Ledger()
            for start in range(0, count, size):
                parts.read(batch_of(data, start=start, stop=start + size))
            assert parts.states == whole.states, size
            assert [t["messages"] for t in parts.tasks] == [t["messages"] for t in whole.tasks]


def test_reading_a_batch_again_changes_nothing() -> None:
    for data in TRANSCRIPTS:
        ledger = Ledger()
        ledger.read(batch_of(data))
        before = [dict(task) for task in ledger.tasks]
        calls = ledger.read(batch_of(data))
        assert ledger.tasks == before
        names = {call.name for call in calls}
        assert names <= {"append_messages_to_planning_section", "finish"}


def test_plan_of_codex() -> None:
    ledger = Ledger()
    ledger.read(batch_of(planned()))
    assert ledger.states == [("Write the parser", "success"), ("Run the tests", "success")]
    assert ledger.tasks[0]["progress"] == ["Plan step", "start"]


def test_goal_of_codex() -> None:
    def said(order: int, *parts: Part) -> BatchMessage:
        return BatchMessage(order, "assistant", parts)

    ledger = Ledger()
    ledger.read(
        Batch(
            (
                said(1, Call("c1", "create_goal", {"objective": "Ship  the\nparser"})),
                # Codex refuses a second goal, and so does the ledger.
                said(2, Call("c2", "create_goal", {"objective": "Another one"})),
                said(3, Text("On it.")),
            )
        )
    )
    assert ledger.states == [("Ship the parser", "running")]
    assert ledger.tasks[0]["messages"] == [1, 2, 3]
    ledger.read(Batch((said(4, Call("c3", "update_goal", {"status": "complete"})),)))
    assert ledger.states == [("Ship the parser", "success")]
    assert ledger.tasks[0]["messages"] == [1, 2, 3, 4]
    ledger.read(
        Batch(
            (
                said(5, Call("c4", "create_goal", {"objective": "Another one"})),
                said(6, Call("c5", "update_goal", {"status": "blocked"})),
            )
        )
    )
    assert ledger.states[1] == ("Another one", "failed")
    assert ledger.tasks[1]["progress"] == ["Goal", "The agent says that it is blocked."]


def test_list_that_is_written_again() -> None:
    ledger = Ledger()
    # A task that a person made stays as it is.
    ledger.tasks = [{"text": "Mine", "state": "pending", "progress": [], "messages": []}]
    steps = [
        todo_write(1, ("Write it", "in_progress"), ("Test it", "pending"), ("Ship it", "pending")),
        # put in front, reworded, and completed
        todo_write(
            2,
            ("Look first", "completed"),
            ("Write it", "completed"),
            ("Test it", "in_progress"),
            ("Ship it", "pending"),
        ),
        # one is gone, one comes back
        todo_write(
            3, ("Look first", "completed"), ("Write it", "in_progress"), ("Test it", "done")
        ),
    ]
    for step in steps:
        ledger.read(batch_of(as_lines(step)))
    assert ledger.states == [
        ("Mine", "pending"),
        ("Look first", "success"),
        ("Write it", "running"),
        ("Test it", "success"),
        ("Ship it", "dropped"),
    ]
    assert ledger.tasks[4]["progress"] == ["To-do list", "Removed from the agent's list."]
    reworded = todo_write(4, ("Look first", "completed"), ("Write it well", "in_progress"))
    ledger.read(batch_of(as_lines(reworded)))
    assert ledger.states[2] == ("Write it well", "running")


def test_calls_that_the_program_refused() -> None:
    def call(order: int, name: str, arguments: dict[str, Any]) -> BatchMessage:
        return BatchMessage(order, "assistant", (Call(f"c{order}", name, arguments),))

    def refused(order: int, id: str) -> BatchMessage:
        return BatchMessage(order, "tool", (Result(id, "InputValidationError", True),))

    ledger = Ledger()
    ledger.read(
        Batch(
            (
                call(1, "TaskCreate", {"subject": "Never made"}),
                refused(2, "c1"),
                call(3, "TaskCreate", {"subject": "Made"}),
                BatchMessage(4, "tool", (Result("c3", "Task #7 created successfully: Made"),)),
                call(5, "TaskUpdate", {"taskId": "7", "status": "completed"}),
                refused(6, "c5"),
                call(7, "TaskUpdate", {"taskId": 7, "subject": "Made well", "status": "odd"}),
                call(8, "TaskUpdate", {"taskId": "99", "status": "completed"}),
                # arguments of any shape
                call(9, "TodoWrite", {"todos": {"content": "x"}}),
                call(10, "TodoWrite", {"todos": [None, {"content": 3}, {"status": "pending"}]}),
                call(11, "update_plan", {"input": "not JSON"}),
                call(12, "create_goal", {"objective": ["x"]}),
                call(13, "TaskUpdate", {"taskId": {"a": 1}, "status": ["x"]}),
                call(14, "TaskUpdate", {"taskId": "7", "status": "deleted"}),
            )
        )
    )
    assert ledger.states == [("Made well", "dropped")]
    assert ledger.tasks[0]["progress"] == ["To-do #7", "Removed from the agent's list."]


LIST = (("Write it", "in_progress"), ("Test it", "pending"))
ANSWER = {"type": "tool_result", "tool_use_id": "t2", "is_error": True, "content": "Refused"}
STEPS = [{"step": text, "status": state} for text, state in LIST]


@pytest.mark.parametrize(
    "call",
    [
        # the agent's own tool refuses the list that drops everything, or can't read it
        (todo_write(2, ("Other", "pending")), claude_line(3, "user", [ANSWER])),
        (
            todo_write(2, ("Other", "pending")),
            claude_line(
                3, "user", [ANSWER | {"is_error": False, "content": "<tool_use_error>Input"}]
            ),
        ),
        # cut: no list, a torn one, and one with items that are no to-dos
        (write_raw(2, {}),),
        (write_raw(2, {"todos": '[{"content": "Wri'}),),
        (write_raw(2, {"todos": [{"content": "Write it", "status": "completed"}, "Test"]}),),
        (write_raw(2, {"todos": [{"status": "completed"}]}),),
        (write_raw(2, None),),
    ],
)
@pytest.mark.parametrize("size", [1, 9])
def test_a_list_that_failed_or_was_cut_changes_nothing(
    call: tuple[dict[str, Any], ...], size: int
) -> None:
    """AGT-18: in one batch, and with the answer behind the batch of the call."""
    ledger = Ledger()
    data = as_lines(todo_write(1, *LIST), *call)
    for start in range(0, 3, size):
        ledger.read(batch_of(data, start=start, stop=start + size))
    assert ledger.states == [("Write it", "running"), ("Test it", "pending")]


@pytest.mark.parametrize(
    "answer",
    [
        "unsupported call: update_plan",
        "failed to parse function arguments: missing field `plan` at line 1 column 2",
        "update_plan is a TODO/checklist tool and is not allowed in Plan mode",
        "aborted",
        "Command blocked by PreToolUse hook: no plans",
    ],
)
def test_a_plan_that_codex_refused_changes_nothing(answer: str) -> None:
    """AGT-18."""
    ledger = Ledger()
    output = {"type": "function_call_output", "call_id": "call_2", "output": answer}
    other = {"plan": [{"step": "Other", "status": "pending"}]}
    data = as_lines(
        old_codex_call(1, "update_plan", {"plan": STEPS}),
        output | {"call_id": "call_1", "output": "Plan updated"},
        old_codex_call(2, "update_plan", other),
        output,
    )
    ledger.read(batch_of(data))
    assert ledger.states == [("Write it", "running"), ("Test it", "pending")]


def test_a_plan_leaves_what_it_no_longer_has() -> None:
    """AGT-24: dropped, which is not failed; a to-do that comes back is as the plan says."""
    ledger = Ledger()
    plans = [
        STEPS,
        [{"step": "Look first", "status": "completed"}],
        [{"step": "Look first", "status": "completed"}, *STEPS],
        [],
    ]
    seen = []
    for number, plan in enumerate(plans):
        ledger.read(batch_of(as_lines(old_codex_call(number, "update_plan", {"plan": plan}))))
        seen.append(sorted(ledger.states))
    assert seen[0] == [("Test it", "pending"), ("Write it", "running")]
    # The running one is reworded in its place; the other is left behind.
    assert seen[1] == [("Look first", "success"), ("Test it", "dropped")]
    assert ("Test it", "pending") in seen[2] and ("Write it", "running") in seen[2]
    assert {state for _, state in seen[3]} == {"success", "dropped"}


def test_conversation_without_a_list_asks_for_nothing_but_the_planning_section() -> None:
    talk = (BatchMessage(1, "user", (Text("Hi"),)), BatchMessage(2, "assistant", (Text("Hi"),)))
    only, end = list_calls(Batch(talk))
    assert only == ToolCall("append_messages_to_planning_section", {"message_ids": [0, 1]})
    assert end.name == "finish"
