"""Plans as people and models write them: each case of the field, and more of its kind.

A case names what is open, what is done, and what the warnings must say.
"""

import json
from typing import Any

import pytest

from ledger import planfile
from ledger.errors import BadRequest, Invalid
from ledger.planfile.model import UnknownNeed


def read(text: str, **options: Any) -> planfile.ParsedPlan:
    return planfile.parse(text.encode(), agent="coder", ref="03-01", **options)


def titles(text: str, **options: Any) -> list[str]:
    return [task.title for task in read(text, **options).plan.tasks]


def done(text: str, **options: Any) -> list[str]:
    return [task.title for task in read(text, **options).plan.done]


def needs(text: str) -> dict[str, list[str]]:
    """Return the titles of the tasks that each one needs."""
    plan = read(text).plan
    names = {task.ref: task.title for task in plan.tasks}
    return {task.title: [names[ref] for ref in task.needs] for task in plan.tasks}


@pytest.mark.parametrize(
    ("text", "opened", "finished"),
    [
        ("# Plan\n\n- [x] 1. Parent\n  - [ ] 1.1 Open child\n  - [x] 1.2 Done child\n"
         "- [ ] 2. Other\n", ["Open child", "Other"], ["Parent"]),
        ("- [x] A\n    - [x] B\n        - [ ] C\n          text of C\n    - [ ] D\n- [ ] E\n",
         ["C", "D", "E"], ["A"]),
        ("- [X] A\n\t- [?] B\n\n  prose\n\t- [ ] C\n", ["B", "C"], ["A"]),
        ("### Task 1: A ✅\n- [x] one\n- [ ] two\n### Task 2: B\n", ["A", "B"], []),
        ("### Task 1: A\n\n**Status:** Done\n\n- [ ] one\n### Task 2: B\n", ["A", "B"], []),
    ],
)  # fmt: skip
def test_f04_what_is_open_below_something_done_is_open(
    text: str, opened: list[str], finished: list[str]
) -> None:
    """PLN-2."""
    assert (titles(text), done(text)) == (opened, finished)


def test_a_task_that_is_open_because_of_its_steps_is_named() -> None:
    assert read("### Task 1: A ✅\n- [ ] one\n").warnings == (
        "Line 1: this task is marked as done, but 1 item below it is open; it was imported.",
    )


@pytest.mark.parametrize(
    "mark", ["~", "-", "/", ">", "!", "?", "i", "P", "*", "<", "0", "🚧", "⏳", "❌", "☒"]
)
def test_f05_a_mark_that_is_not_known_is_open(mark: str) -> None:
    """PLN-2."""
    assert titles(f"- [{mark}] First\n- [ ] Second\n- [{mark}] Third\n") == [
        "First",
        "Second",
        "Third",
    ]


@pytest.mark.parametrize("mark", ["x", "X", "✓", "✔️", "✅", "☑"])
def test_marks_that_are_done(mark: str) -> None:
    assert done(f"- [{mark}] First\n- [ ] Second\n") == ["First"]


STORY = """# Story 1.1: Export

Status: ready-for-dev

## Acceptance Criteria

1. A file is written
   with a header
2. **Given** no rows **then** it is empty

## Tasks / Subtasks

- [ ] Task 1: Write the exporter (AC: 1)
  - [ ] Subtask 1.1: Write the header
- [ ] Task 2: Document it

## Dev Notes

- Use the csv module.
- See `docs/export.md`.

## Quality Gates

- [ ] `ruff check .` has no findings
- [x] `pytest` passes
"""


def test_f06_a_story_with_quality_gates() -> None:
    """PLN-3: criteria belong to the task that refers to them, else to the last one."""
    plan = read(STORY).plan
    first, second = plan.tasks
    assert (first.title, second.title) == ("Write the exporter (AC: 1)", "Document it")
    assert first.payload["done"] == ["A file is written with a header"]
    assert second.payload["done"] == [
        "**Given** no rows **then** it is empty",
        "`ruff check .` has no findings",
        "`pytest` passes",
    ]
    assert first.payload["context"] == [
        "Dev notes:\n- Use the csv module.\n- See `docs/export.md`."
    ]
    assert first.payload["action"] == "- [ ] Subtask 1.1: Write the header"


@pytest.mark.parametrize(
    "heading",
    [
        "## Quality Gates",
        "### ✅ Exit Criteria",
        "## Definition of Done",
        "**Acceptance Criteria:**",
        "## Success criteria for this phase",
        "## Review & Acceptance Checklist",
        "__Done when__",
    ],
)
def test_lists_of_checks_are_criteria(heading: str) -> None:
    plan = read(f"# P\n\n- [ ] 1. A\n- [ ] 2. B\n\n{heading}\n\n- [ ] Gate\n- [ ] Other\n").plan
    assert [task.title for task in plan.tasks] == ["A", "B"]
    assert plan.tasks[1].payload["done"] == ["Gate", "Other"]


def test_criteria_belong_to_the_section_that_they_stand_in() -> None:
    text = (
        "# P\n## Phase 1\n- [ ] 1.1 A\n- [ ] 1.2 B\n### Exit criteria\n- [ ] One\n"
        "## Phase 2\n### Acceptance\n- [ ] Two\n### Work\n- [ ] 2.1 C\n"
    )
    assert {task.title: task.payload.get("done") for task in read(text).plan.tasks} == {
        "A": None,
        "B": ["One"],
        "C": ["Two"],
    }


def test_a_file_of_checks_alone_is_work() -> None:
    assert titles("# Release\n\n## Acceptance checklist\n\n- [ ] A\n- [ ] B\n") == ["A", "B"]


def test_a_list_beside_numbered_tasks_that_checks_nothing_is_work() -> None:
    text = "## Tasks\n- [ ] 1. A\n## After the release\n- [ ] Watch it\n"
    assert titles(text) == ["A", "Watch it"]
    assert read(text).warnings == (
        "Tasks without a number got the next free ones: line 4 (task-2).",
    )


@pytest.mark.parametrize(
    ("text", "opened", "warning"),
    [
        ("# Plan\n\n- [ ] Real\n\n<!--\n- [ ] In a comment\n-->\n", ["Real"],
         "Lines 5 to 7: 1 item in a comment: not imported."),
        ("<!-- - [ ] A -->\n- [ ] B <!-- soon -->\n", ["B"],
         "Line 1: 1 item in a comment: not imported."),
        ("- [ ] A\n<!--\n- [ ] B\n- [ ] C\n--> \n- [ ] D\n", ["A", "D"],
         "Lines 2 to 5: 2 items in a comment: not imported."),
        ("### Task 1: A\n<!-- ### Task 9: B\n- [ ] C -->\n### Task 2: D\n", ["A", "D"],
         "Lines 2 to 3: 2 items in a comment: not imported."),
        ("- [ ] A\n<!--\n- [ ] B\n", ["A", "B"],
         "Line 2: this comment is never closed; it was read as text."),
        ("- [ ] Explain `<!--` here\n- [ ] B\n", ["Explain `<!--` here", "B"], ""),
    ],
)  # fmt: skip
def test_f13_text_in_comments_is_no_task(text: str, opened: list[str], warning: str) -> None:
    """PLN-6."""
    assert titles(text) == opened
    assert warning in ("", *read(text).warnings)


def subtask(id: Any, status: str = "pending", **more: Any) -> dict[str, Any]:
    return {"id": id, "title": f"T{id}", "status": status, "dependencies": [], "details": ""} | more


def tasks_json(*tasks: dict[str, Any], **tags: Any) -> str:
    return json.dumps({"master": {"tasks": list(tasks)}} | tags)


@pytest.mark.parametrize(
    ("tasks", "opened", "finished"),
    [
        ([subtask(1, "done", subtasks=[subtask(1), subtask(2, "done")]), subtask(2)],
         ["1.1", "2"], ["1.2", "1"]),
        ([subtask(1, "completed", subtasks=[subtask(1, "in-progress")])], ["1.1"], ["1"]),
        ([subtask(1, "done", subtasks=[subtask(1, "review")]), subtask(2, dependencies=[1])],
         ["1.1", "2"], ["1"]),
        ([subtask(1, subtasks=[subtask(1, "done")])], ["1"], ["1.1"]),
    ],
)  # fmt: skip
def test_f14_an_open_subtask_of_a_done_task_is_open(
    tasks: list[dict[str, Any]], opened: list[str], finished: list[str]
) -> None:
    """PLN-2."""
    plan = read(tasks_json(*tasks)).plan
    assert [task.payload["id"] for task in plan.tasks] == opened
    assert [task.payload["id"] for task in plan.done] == finished


@pytest.mark.parametrize(
    "tasks",
    [
        [subtask(1), subtask(2, dependencies=[1, 99])],
        [subtask(1), subtask(60, subtasks=[subtask(6, dependencies=[39])])],
        [subtask(1, dependencies=["7.7"])],
    ],
)
def test_f15_a_need_that_the_file_lacks(tasks: list[dict[str, Any]]) -> None:
    """PLN-4."""
    with pytest.raises(UnknownNeed) as refused:
        read(tasks_json(*tasks))
    assert "allow_missing_needs" in refused.value.hint
    [warning] = read(tasks_json(*tasks), allow_missing_needs=True).warnings
    assert warning.startswith("Ignored the dependency of task ")


def test_f16_several_tags() -> None:
    """PLN-4."""
    text = tasks_json(subtask(1), feature={"tasks": [subtask(2)]}, old={"tasks": [subtask(3)]})
    with pytest.raises(Invalid, match=r"3 tags: master, feature, old\..*name the one"):
        read(text)
    assert titles(text, tag="feature") == ["T2"]
    with pytest.raises(Invalid, match="no tag 'new'"):
        read(text, tag="new")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("- [ ] 1.1.1 Deep one\n- [ ] 1.1.2 Deep two\n", ["1.1.1", "1.1.2"]),
        ("## 0. Prerequisites\n- [ ] 0.1 Prepare\n## 1. Work\n- [ ] 1.1 Do\n", ["0.1", "1.1"]),
        ("- [ ] **2.10.3.4** A\n- [ ] 2.10.3.5. B\n", ["2.10.3.4", "2.10.3.5"]),
        ("### Task 1.2.3: A\n### Task 0.0: B\n", ["1.2.3", "0.0"]),
        ("- [ ] 12.1000 A\n- [ ] 1234567.8 B\n", ["12.1000", "1234567.8"]),
    ],
)
def test_f17_any_dotted_number_is_one(text: str, ids: list[str]) -> None:
    """PLN-3."""
    plan = read(text).plan
    assert [task.payload["id"] for task in plan.tasks] == ids
    assert len({task.ref for task in plan.tasks}) == len(ids)


@pytest.mark.parametrize(
    "number", ["T001", "T1:", "Task 1:", "TASK-1", "Subtask 1:", "`T001`", "1)"]
)
def test_forms_of_numbers(number: str) -> None:
    plan = read(f"- [ ] {number} Do it\n").plan
    assert (plan.tasks[0].title, plan.tasks[0].origin.number) == ("Do it", "1")


SPECKIT = """# Tasks: Export

## Phase 1: Setup

- [ ] T001 Create the folders
- [ ] T002 [P] Add the linter in pyproject.toml
- [ ] T003 [P] Add CI in .github/workflows/ci.yml

## Phase 2: User Story 1

- [ ] T004 [P] [US1] Model in src/models/export.py
- [ ] T005 [US1] Service in src/services/export.py (depends on T004)
"""


def test_f18_parallel_marks() -> None:
    """PLN-5: neighbors with [P] need what the first of them needs, not each other."""
    setup, linter, ci, model, service = (task.title for task in read(SPECKIT).plan.tasks)
    assert (linter, model) == ("Add the linter in pyproject.toml", "Model in src/models/export.py")
    assert needs(SPECKIT) == {
        setup: [],
        linter: [setup],
        ci: [setup],
        model: [linter, ci],
        service: [model],
    }
    payloads = [task.payload for task in read(SPECKIT).plan.tasks]
    assert payloads[3] == {"story": "US1", "parallel": True}
    assert payloads[4] == {"story": "US1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- [ ] [P] A\n- [ ] [P] B\n- [ ] C\n", {"A": [], "B": [], "C": ["A", "B"]}),
        ("- [ ] T1 A\n- [ ] T2 B\n- [ ] T3 [P] C (depends on T1, T2)\n",
         {"A": [], "B": ["A"], "C": ["A", "B"]}),
        ("---\norder: parallel\n---\n- [ ] 1. A\n- [ ] 2. B\n- [ ] 3. C\n  _Depends: 1, 2_\n",
         {"A": [], "B": [], "C": ["A", "B"]}),
        ("---\norder: parallel\n---\n- [ ] 1.1.1 A\n- [ ] 2. B\n  - Blocked by: Task 1.1.1\n",
         {"A": [], "B": ["A"]}),
    ],
)  # fmt: skip
def test_order_and_needs(text: str, expected: dict[str, list[str]]) -> None:
    assert needs(text) == expected


def test_a_need_that_the_list_lacks_is_named() -> None:
    parsed = read("- [ ] T001 A\n- [ ] T002 B (depends on T009)\n")
    assert parsed.warnings == ("Line 2: ignored the dependency '009': the file has no such task.",)
    assert parsed.plan.tasks[1].needs == ("03-01:task-1",)


@pytest.mark.parametrize(
    "line",
    [
        "- []", "- [ ]", "-[ ]", "- [ ]  ", "*[]", "1.[ ]", "[ ]", "- ☐", "☐", "> - [ ]",
        "\u200f- [ ]", "\u2022 [ ]", "+ [\u00a0]", "\t- [ ]", "- [ ]*",
    ],
)  # fmt: skip
def test_f21_boxes_without_spaces(line: str) -> None:
    """PLN-2: whatever a model writes instead of a box."""
    assert titles(f"{line} Do it\n- [ ] Other\n") == ["Do it", "Other"]


@pytest.mark.parametrize("line", ["- []Do it", "- [ ]Do it", "-[]Do it", "-[ ]Do it"])
def test_a_box_without_a_space_after_it(line: str) -> None:
    assert titles(f"- [ ] Other\n{line}\n") == ["Other", "Do it"]


def test_an_odd_box_that_is_done() -> None:
    assert done("- [ x] A\n- [x ] B\n-[x] C\n- [ ] D\n") == ["A", "B", "C"]


def test_links_are_no_boxes() -> None:
    text = "- [ ] A\n\n- [a](https://example.com)\n- [b]: https://example.com\n- [docs] read\n"
    assert titles(text) == ["A"]


@pytest.mark.parametrize(
    ("heading", "is_done"),
    [
        ("### Task 2: Model ✅", True),
        ("### ✅ Task 2: Model", True),
        ("### Task 2: Model [DONE]", True),
        ("### [x] Task 2: Model", True),
        ("### Task 2: Model (COMPLETED)", True),
        ("### Task 2: Model - DONE", True),
        ("### Task 2: Model\n\n**Status:** completed", True),
        ("### Task 2: Model\n- Status: ✅ Done (2026-01-02)", True),
        ("### Task 2: Model\n\nStatus: done, except the docs", False),
        ("### Task 2: Model\n\n**Status:** not done", False),
        ("### Task 2: Model\n\n**Status:** in progress", False),
        ("### 🚧 Task 2: Model", False),
        ("### 🔥 **Task 2** — Model", False),
        ("### [ ] Task 2: Model", False),
    ],
)
def test_f22_a_status_beside_a_heading(heading: str, is_done: bool) -> None:
    """PLN-6."""
    plan = read(f"### Task 1: A\n{heading}\n### Task 3: C\n").plan
    assert [task.title for task in plan.done] == (["Model"] if is_done else [])
    assert [task.title for task in plan.tasks] == (["A", "C"] if is_done else ["A", "Model", "C"])


KIRO = """# Implementation Plan

- [ ] 1. Set up the project
- [ ] 2. Write the model
- [ ] 2.1 Create the table
  - _Requirements: 2.1_
- [ ] 2.2 Seed it
- [ ]* 2.3 Write property tests
  - _Depends: 2.1_
"""


def test_f23_groups_and_optional_tasks() -> None:
    """PLN-5: a group waits for its parts."""
    plan = read(KIRO).plan
    assert needs(KIRO) == {
        "Set up the project": [],
        "Create the table": ["Set up the project"],
        "Seed it": ["Create the table"],
        "Write property tests": ["Create the table", "Seed it"],
        "Write the model": ["Create the table", "Seed it", "Write property tests"],
    }
    assert plan.tasks[3].payload["optional"] is True
    assert (
        plan.tasks[4]
        .payload["action"]
        .endswith("- Create the table\n- Seed it\n- Write property tests")
    )


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("- [ ] 1. A\n- [ ] 1.1 B\n- [ ] 1.1.1 C\n- [ ] 2. D\n", ["C", "B", "A", "D"]),
        ("- [x] 1. A\n- [ ] 1.1 B\n- [ ] 1.2 C\n", ["B", "C"]),
        ("## Task 1: A\ntext\n### Task 1.1: B\n## Task 2: C\n", ["B", "A", "C"]),
    ],
)
def test_groups_come_after_their_parts(text: str, order: list[str]) -> None:
    assert titles(text) == order


def test_optional_tasks() -> None:
    plan = read("- [ ] A (optional)\n- [ ] [Optional] B\n- [ ] C\n").plan
    assert [(task.title, task.payload.get("optional")) for task in plan.tasks] == [
        ("A", True),
        ("B", True),
        ("C", None),
    ]


# ---- bad input


def test_nothing_hides_behind_a_fence_that_is_never_closed() -> None:
    text = "- [ ] A\n```sh\nmake\n- [ ] B\n### Notes\n- [ ] C\n"
    assert titles(text) == ["A", "B", "C"]
    assert read(text).warnings == (
        "Line 2: this code fence is never closed; the rest was read as text.",
    )


def test_what_is_no_item_but_has_a_box_is_named() -> None:
    text = "- [ ] A\n\n| [ ] | B |\n\n```\n- [ ] C\n```\n\nWrite `[ ]` for open ones.\n"
    assert read(text).warnings == (
        "Line 3: the box on this line begins no item: not imported.",
        "Line 6: this item is in a code block: not imported.",
    )


def test_the_limit_counts_what_is_imported() -> None:
    """PLN-8."""
    text = "".join(f"- [x] {n}. A\n" for n in range(1, 601)) + "- [ ] 601. B\n"
    assert titles(text) == ["B"]
    with pytest.raises(Invalid, match=r"this one has 501\. Line 501 begins the first one too many"):
        read("- [ ] A\n" * 501)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\x00", "not valid UTF-8 at byte 0 \\(line 1\\)"),
        ("- [ ] A\n".encode("utf-16"), "looks like UTF-16"),
        (b"- [ ] A\n- [ ] \x00B\n", "Line 2 contains the character U\\+0000"),
        (b"- [ ] A\n- [ ] \xff\n", "byte 14 \\(line 2\\)"),
    ],
)
def test_a_binary_file_is_named_by_its_line(data: bytes, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        planfile.parse(data, media="text/markdown", agent="coder", ref="03-01")


def test_line_ends_marks_and_directions() -> None:
    text = "\ufeff# P\r\n- [ ] A\r- [ ] B\n\t- [ ] step\n- [ ] \u05d0\u05d1\u05d2\r\n"
    assert titles(text) == ["A", "B", "\u05d0\u05d1\u05d2"]


def test_forty_levels() -> None:
    text = "".join(f"{'  ' * n}- [{'x' if n < 39 else ' '}] L{n}\n" for n in range(40))
    assert titles(text) == ["L39"]


def test_a_mebibyte_is_read_in_linear_time() -> None:
    from time import process_time

    line = "{}- [ ] item {} of a plan\n"
    nested = "".join(line.format("  " * (n % 40), n) for n in range(15_000))
    flat = "".join(line.format("", n) for n in range(20_000))
    started = process_time()
    assert len(titles(nested)) == 375
    with pytest.raises(Invalid, match="Line 501 begins"):
        read(flat)
    assert process_time() - started < 10
