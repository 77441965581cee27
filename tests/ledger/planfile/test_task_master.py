"""The tasks.json of Task Master."""

import json
from typing import Any

import pytest

from ledger import planfile
from ledger.errors import Invalid, Refusal
from ledger.planfile.model import BadRef, DuplicateRef, UnknownNeed


def task(id: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "title": f"Task {id}",
        "description": "",
        "status": "pending",
        "dependencies": [],
        "priority": "medium",
        "details": "",
        "testStrategy": "",
        "subtasks": [],
    } | more


TASKS = [
    task(1, status="done", subtasks=[task(1, status="pending")]),
    task(
        2,
        description="Search answers fast.",
        details="Use an index.",
        testStrategy="pytest -q",
        priority="high",
        dependencies=[1],
        complexity=7,
        subtasks=[
            task(1, title="Create the index"),
            task(2, title="Use it", dependencies=[1], acceptanceCriteria="It is fast"),
            task(3, title="Measure it", dependencies=["2.1", "1.1"], parentTaskId=2),
        ],
    ),
    task("3", dependencies=["2"], status="deferred"),
    task(4, status="cancelled"),
]


def read(value: Any, ref: str = "03-01") -> planfile.ParsedPlan:
    return planfile.parse(json.dumps(value).encode(), agent="coder", ref=ref)


@pytest.mark.parametrize(
    "value",
    [
        {"tasks": TASKS},
        {"tasks": TASKS, "metadata": {"projectName": "x"}},
        {"master": {"tasks": TASKS, "metadata": {}}},
        {"old": {"tasks": [task(1, status="done")]}, "master": {"tasks": TASKS}},
    ],
)
def test_tasks_and_subtasks(value: Any) -> None:
    parsed = read(value)
    short = [task.ref.partition(":")[2] for task in parsed.plan.tasks]
    assert short == ["task-2001", "task-2002", "task-2003", "task-2", "task-3"]
    first, second, third, parent, last = parsed.plan.tasks
    assert [first.needs, second.needs, third.needs] == [
        (),
        ("03-01:task-2001",),
        ("03-01:task-2001",),
    ]
    assert parent.needs == ("03-01:task-2001", "03-01:task-2002", "03-01:task-2003")
    assert last.needs == ("03-01:task-2",)
    assert parent.payload == {
        "id": "2",
        "action": "Search answers fast.\n\nUse an index.",
        "complexity": 7,
        "verify": {
            "text": "pytest -q",
            "proposed_command": "pytest -q",
            "source": "proposed",
        },
    }
    assert second.payload == {"id": "2.2", "parent": "task-2", "done": ["It is fast"]}
    assert (parent.priority, first.priority) == (10, 0)
    assert parsed.warnings == (
        "Left out 1 task that the file marks as cancelled: task-4.",
        "Left out 2 tasks that the file marks as done: task-1001, task-1.",
    )


def test_a_subtask_needs_what_its_task_needs() -> None:
    parsed = read({"tasks": [task(1), task(2, dependencies=[1], subtasks=[task(1)])]})
    assert parsed.plan.tasks[1].needs == ("03-01:task-1",)


def test_a_new_subtask_moves_no_other_task() -> None:
    before = {
        task.ref for task in read({"tasks": [task(1, subtasks=[task(1)]), task(2)]}).plan.tasks
    }
    more = read({"tasks": [task(1, subtasks=[task(1), task(2)]), task(2)]}).plan.tasks
    assert {task.ref for task in more} - before == {"03-01:task-1002"}


def test_the_plan_is_called_after_its_tag() -> None:
    parsed = read({"feature/search": {"tasks": [task(1)]}}, ref="")
    assert (parsed.plan.ref, parsed.plan.title) == ("taskmaster-feature.search", "feature/search")
    assert read({"tasks": [task(1)]}, ref="").plan.ref == "taskmaster-tasks"


def test_several_tags_are_several_plans() -> None:
    with pytest.raises(Invalid, match="unfinished tasks in 2 tags: a, b"):
        read({"a": {"tasks": [task(1)]}, "b": {"tasks": [task(1)]}})


@pytest.mark.parametrize(
    ("tasks", "error", "pointer"),
    [
        ([task("search")], BadRef, "/tasks/0/id"),
        ([task(0)], BadRef, "/tasks/0/id"),
        ([task(1, subtasks=[task(1000)])], BadRef, "/tasks/0/subtasks/0/id"),
        ([task("1.2.3")], BadRef, "/tasks/0/id"),
        ([task(1), task("1")], DuplicateRef, "/tasks/0/id"),
        ([task(1, subtasks=[task(1), task(1)])], DuplicateRef, "/tasks/0/subtasks/0/id"),
        ([task(1, dependencies=[9])], UnknownNeed, "/tasks/0/dependencies"),
        ([task(1, dependencies=["x"])], UnknownNeed, "/tasks/0/dependencies/0"),
        ([task(1, dependencies="2")], Invalid, "/tasks/0/dependencies"),
        ([task(1, priority="urgent")], Invalid, "/tasks/0/priority"),
        ([task(1, status="maybe")], Invalid, "/tasks/0/status"),
        ([task(1, title=5)], Invalid, "/tasks/0/title"),
        ([task(1), "2"], Invalid, "/tasks/1"),
        ([task(1), {"title": "x", "status": "pending"}], Invalid, "/tasks/1/id"),
        ([task(1, subtasks={"id": 1})], Invalid, "/tasks/0/subtasks"),
        ([task(1, priority=["high"])], Invalid, "/tasks/0/priority"),
        ([task(1, status=["done"])], Invalid, "/tasks/0/status"),
        ([task(1, status="done")], Invalid, "/tasks"),
    ],
)
def test_a_task_that_cannot_be_read_is_named(
    tasks: list[Any], error: type[Refusal], pointer: str
) -> None:
    with pytest.raises(error) as refused:
        read({"tasks": tasks})
    assert refused.value.more["errors"][0]["pointer"] == pointer


def test_a_plan_of_our_own_is_none() -> None:
    own = {"ref": "03-01", "agent": "coder", "tasks": [{"title": "One", "id": 1, "verify": "x"}]}
    assert read(own).plan.tasks[0].title == "One"
    with pytest.raises(Invalid, match="Unknown key 'status'"):
        read(own | {"tasks": [{"title": "One", "status": "done"}]})
