"""The tasks.json of Task Master."""

import json
from typing import Any

import pytest

from ledger import planfile
from ledger.errors import Invalid, PayloadTooLarge, Refusal
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
    assert short == ["task-1001", "task-2001", "task-2002", "task-2003", "task-2", "task-3"]
    left, first, second, third, parent, last = parsed.plan.tasks
    assert [left.needs, first.needs, second.needs, third.needs] == [
        (),
        (),
        ("03-01:task-2001",),
        ("03-01:task-2001", "03-01:task-1001"),
    ]
    assert parent.needs == ("03-01:task-2001", "03-01:task-2002", "03-01:task-2003")
    assert last.needs == ("03-01:task-2",)
    assert parent.payload == {
        "id": "2",
        "action": "Search answers fast.\n\nUse an index.",
        "complexity": 7,
        "verify": {"text": "pytest -q", "proposed_command": "pytest -q", "source": "proposed"},
    }
    assert second.payload == {"id": "2.2", "parent": "task-2", "done": ["It is fast"]}
    assert (parent.priority, first.priority) == (10, 0)
    assert parsed.warnings == (
        "Left out 1 task that the file marks as cancelled: task-4.",
        "Left out 1 task that the file marks as done: task-1.",
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
        ([task(1), task("1")], DuplicateRef, "/tasks/0/id"),
        ([task(1, subtasks=[task(1), task(1)])], DuplicateRef, "/tasks/0/subtasks/0/id"),
        ([task(1, dependencies=[9])], UnknownNeed, "/tasks/0/dependencies"),
        ([task(1, dependencies=["x"])], UnknownNeed, "/tasks/0/dependencies/0"),
        ([task(1, dependencies="2")], Invalid, "/tasks/0/dependencies"),
        ([task(1, title=5)], Invalid, "/tasks/0/title"),
        ([task(1), "2"], Invalid, "/tasks/1"),
        ([task(1), {"title": "x", "status": "pending"}], Invalid, "/tasks/1/id"),
        ([task(1, subtasks={"id": 1})], Invalid, "/tasks/0/subtasks"),
        ([task(1, priority=["high"])], Invalid, "/tasks/0/priority"),
        ([task(1, status=["done"])], Invalid, "/tasks/0/status"),
        ([task(1, status="cancelled")], Invalid, "/tasks"),
    ],
)
def test_a_task_that_cannot_be_read_is_named(
    tasks: list[Any], error: type[Refusal], pointer: str
) -> None:
    with pytest.raises(error) as refused:
        read({"tasks": tasks})
    assert refused.value.more["errors"][0]["pointer"] == pointer


def test_what_is_not_known_is_imported_with_a_warning() -> None:
    """PLN-4: any number is one, and an unknown status is open."""
    parsed = read(
        {"tasks": [task(0, status="maybe"), task("1.2.3", priority="urgent"), task(5000001)]}
    )
    assert [each.payload["id"] for each in parsed.plan.tasks] == ["0", "1.2.3", "5000001"]
    assert len({each.ref for each in parsed.plan.tasks}) == 3
    assert parsed.warnings == (
        "Task 0 has the unknown status 'maybe': it is open.",
        "Task 1.2.3 has the unknown priority 'urgent'.",
    )


def test_a_repeated_id_is_imported_where_asked() -> None:
    parsed = planfile.parse(
        json.dumps({"tasks": [task(1), task("1"), task(2, dependencies=[1, 99])]}).encode(),
        agent="coder",
        ref="03-01",
        allow_missing_needs=True,
    )
    assert [each.ref.partition(":")[2] for each in parsed.plan.tasks] == [
        "task-1",
        "task-3",
        "task-2",
    ]
    assert parsed.plan.tasks[2].needs == ("03-01:task-1",)
    assert parsed.warnings == (
        "Two tasks have the id 1; the second one got a free number.",
        "Ignored the dependency of task 2 on 99: the file has no such task.",
    )


def test_open_subtasks_of_a_cancelled_task_are_named() -> None:
    parsed = read({"tasks": [task(1), task(2, status="cancelled", subtasks=[task(1)])]})
    assert parsed.warnings == (
        "Left out 2 tasks that the file marks as cancelled: task-2001, task-2.",
        "Left out open subtasks of cancelled tasks: 2.1.",
    )


def test_a_large_file_is_read_for_one_tag() -> None:
    """PLN-4: its own file has 1.5 MB in several tags."""
    filler = [task(n, details="x" * 9000) for n in range(1, 101)]
    data = json.dumps({"a": {"tasks": filler}, "b": {"tasks": filler}}).encode()
    assert len(data) > 1_800_000
    plan = planfile.parse(data, agent="coder", tag="b").plan
    assert (plan.ref, len(plan.tasks)) == ("taskmaster-b", 100)
    with pytest.raises(Invalid, match=r"no tag 'c'\. Its tags: a, b"):
        planfile.parse(data, agent="coder", tag="c")
    with pytest.raises(PayloadTooLarge, match="The tag 'a' has"):
        read({"a": {"tasks": [task(n, details="x" * 9000) for n in range(1, 131)]}})
    with pytest.raises(PayloadTooLarge):
        planfile.parse(b'{"ref": "1-1", "objective": "' + b"x" * 1_100_000 + b'"}')
    with pytest.raises(Invalid, match=r"Only the tasks\.json"):
        planfile.parse(b"- [ ] A", media="text/markdown", agent="coder", ref="1-1", tag="a")


def test_a_plan_of_our_own_is_none() -> None:
    own = {"ref": "03-01", "agent": "coder", "tasks": [{"title": "One", "id": 1, "verify": "x"}]}
    assert read(own).plan.tasks[0].title == "One"
    with pytest.raises(Invalid, match="Unknown key 'status'"):
        read(own | {"tasks": [{"title": "One", "status": "done"}]})
