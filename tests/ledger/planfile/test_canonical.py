"""The canonical plan: how ids, needs, and verifications may be written."""

from typing import Any

import pytest

from ledger import planfile
from ledger.errors import Invalid, Refusal
from ledger.planfile.model import BadRef, DuplicateRef, UnknownNeed


def read(*tasks: dict[str, Any], **more: Any) -> planfile.PlanFile:
    return planfile.canonical({"ref": "03-01", "agent": "coder", "tasks": list(tasks)} | more)


def read_yaml(text: str) -> planfile.PlanFile:
    head = "ref: 03-01\nagent: coder\n"
    return planfile.parse((head + text).encode(), media="application/yaml").plan


@pytest.mark.parametrize(
    "id",
    [
        1,
        "1",
        "01",
        "T1",
        "t001",
        "Task 1",
        "task-1",
        "task_1",
        "#1",
        "03-01:1",
        "03-01-T1",
        "3-1-01",
    ],
)
def test_an_id_keeps_its_number(id: Any) -> None:
    for key in ("id", "ref"):
        plan = read({key: 2}, {key: id, "needs": [2]})
        assert [task.ref for task in plan.tasks] == ["03-01:task-2", "03-01:task-1"]


@pytest.mark.parametrize("id", ["1a", "a", "", "0", "task-0", "1.2", "02-01:task-1", "1234567", 0])
def test_an_id_without_a_number_is_refused(id: Any) -> None:
    for key in ("id", "ref"):
        with pytest.raises(BadRef, match="is not a task's ref") as refused:
            read({}, {key: id})
        assert refused.value.more["errors"][0]["pointer"] == f"/tasks/1/{key}"


@pytest.mark.parametrize("id", [True, 1.5, [1], {}])
def test_an_id_of_another_type_is_refused(id: Any) -> None:
    with pytest.raises(Invalid, match="must be a string or a number"):
        read({"id": id})


def test_a_ref_and_an_id_that_differ_are_refused() -> None:
    assert read({"id": 3, "ref": "task-3"}).tasks[0].ref == "03-01:task-3"
    with pytest.raises(BadRef, match="has the ref task-3 and the id task-4"):
        read({"id": 4, "ref": "task-3"})


def test_two_spellings_of_one_id_are_a_duplicate() -> None:
    with pytest.raises(DuplicateRef):
        read({"id": 1}, {"id": "T1"})


@pytest.mark.parametrize("key", ["needs", "depends_on"])
@pytest.mark.parametrize("needs", [1, "1", [1], ["1"], "task-1", "T1", ["03-01:task-1", 1], "1, 1"])
def test_needs_name_tasks_as_ids_do(key: str, needs: Any) -> None:
    assert read({"id": 1}, {"id": 2, key: needs}).tasks[1].needs == ("03-01:task-1",)


def test_needs_of_several_kinds() -> None:
    plan = read({}, {"needs": "1, 02-05", "depends_on": ["02-06:3"]}, depends_on="02-04")
    assert plan.tasks[1].needs == ("03-01:task-1", "02-05", "02-06:task-3")
    assert plan.needs == ("02-04",)


@pytest.mark.parametrize(
    ("needs", "error"),
    [("1a", BadRef), ("x y", BadRef), (9, UnknownNeed), ("02-05:x", BadRef), (1.5, Invalid)],
)
def test_a_need_that_names_no_task_is_refused(needs: Any, error: type[Refusal]) -> None:
    with pytest.raises(error) as refused:
        read({}, {"depends_on": [needs]})
    assert refused.value.more["errors"][0]["pointer"].startswith("/tasks/1/")


def test_yaml_as_people_write_it() -> None:
    plan = read_yaml(
        "tasks:\n"
        "  - {id: 1, title: One, verify: pytest -q}\n"
        "  - {id: 2, title: Two, depends_on: [1], verify: All tests pass}\n"
    )
    one, two = plan.tasks
    assert one.payload["verify"] == {
        "text": "pytest -q",
        "proposed_command": "pytest -q",
        "source": "proposed",
    }
    assert two.payload["verify"] == {"text": "All tests pass"}
    assert (two.ref, two.needs) == ("03-01:task-2", ("03-01:task-1",))


def test_a_verification_of_another_type_is_refused() -> None:
    with pytest.raises(Invalid, match="verify must be"):
        read({"verify": ["pytest"]})


def test_an_empty_title_is_refused() -> None:
    for title in ("", "  "):
        with pytest.raises(Invalid, match="must not be empty") as refused:
            read({"title": "One"}, {"title": title})
        assert refused.value.more["errors"][0]["pointer"] == "/tasks/1/title"
