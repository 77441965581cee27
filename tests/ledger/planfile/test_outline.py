"""Plans in Markdown whose tasks are headings or checklists."""

from typing import Any

import pytest

from ledger import planfile
from ledger.errors import Invalid
from ledger.planfile.model import BadRef, UnreadableLines

HEADINGS = """# Search that scales

> **For agents:** work through this plan task by task.

**Goal:** Answer every search within 100 ms.

---

### Task 1: Create the index

**Files:**
- Create: `src/index.py`
- Modify: `src/models.py:10-20`
- Test: tests/test_index.py

- [ ] **Step 1: Write the failing test**

```python
# Task 9: not a heading
def test(): ...
```

- [x] **Step 2: Make it pass**

**Verify:** `pytest tests/test_index.py`

### Task 2: Use it

**Depends on:** Task 1 and #1

#### Notes

Keep the old search.

**Done when:**
- [ ] No query is slower
- [ ] The old search is gone

### Task 3: Already there

- [x] Step 1

## After the release

- [ ] Watch the latency
"""

ITEMS = """# Tasks: Photo albums

## Phase 1: Setup

- [ ] T001 Create the project structure
- [x] T002 Initialize the project
- [ ] T003 [P] Configure linting
  in `pyproject.toml`

  - [ ] line length
  - [x] imports

Some prose.

## Phase 2

1. [ ] T004 [P] [US1] Contract test
* [ ] T005 Implement it
  Depends on: T003, T002
"""


def read(text: str, *, media: str = "text/markdown", ref: str = "03-01") -> planfile.ParsedPlan:
    return planfile.parse(text.encode(), media=media, agent="coder", ref=ref)


def titles(text: str) -> list[tuple[str, str]]:
    return [(task.ref.partition(":")[2], task.title) for task in read(text).plan.tasks]


def lines_of(text: str) -> list[str]:
    with pytest.raises(UnreadableLines) as refused:
        read(text)
    return [error["detail"] for error in refused.value.more["errors"]]


def test_headings_are_tasks() -> None:
    parsed = read(HEADINGS)
    plan = parsed.plan
    one, two, four = plan.tasks
    assert (plan.title, plan.objective) == (
        "Search that scales",
        "Answer every search within 100 ms.",
    )
    assert [(task.ref, task.title) for task in plan.tasks] == [
        ("03-01:task-1", "Create the index"),
        ("03-01:task-2", "Use it"),
        ("03-01:task-4", "After the release"),
    ]
    assert [task.needs for task in plan.tasks] == [(), ("03-01:task-1",), ("03-01:task-2",)]
    assert parsed.warnings == (
        "Tasks without a number got the next free ones: line 43 (task-4).",
        "Left out 1 task that the file marks as done: task-3.",
    )
    assert one.payload["files"] == ["src/index.py", "src/models.py:10-20", "tests/test_index.py"]
    assert one.payload["verify"]["proposed_command"] == "pytest tests/test_index.py"
    assert one.payload["action"].startswith("**Files:**\n- Create:")
    assert "# Task 9: not a heading" in one.payload["action"]
    assert "- [x] **Step 2: Make it pass**" in one.payload["action"]
    assert two.payload["done"] == ["No query is slower", "The old search is gone"]
    assert (
        "#### Notes" not in two.payload["action"] or "Keep the old search." in two.payload["action"]
    )
    assert four.payload == {"action": "- [ ] Watch the latency"}


def test_checklist_items_are_tasks() -> None:
    parsed = read(ITEMS)
    tasks = parsed.plan.tasks
    assert titles(ITEMS) == [
        ("task-1", "Create the project structure"),
        ("task-3", "Configure linting"),
        ("task-4", "Contract test"),
        ("task-5", "Implement it"),
    ]
    assert parsed.warnings == ("Left out 1 task that the file marks as done: task-2.",)
    assert tasks[1].payload["action"] == ("in `pyproject.toml`\n\n- [ ] line length\n- [x] imports")
    assert tasks[3].needs == ("03-01:task-3", "03-01:task-4")


def test_the_format_is_recognized() -> None:
    for text in (HEADINGS, ITEMS, "- [ ] One\n- [ ] Two\n", "## Task 1 - One\n"):
        assert read(text, media="").plan == read(text).plan
    fenced = f"# A plan\n\n```yaml\ntasks:\n- title: One\n```\n\n{ITEMS}"
    assert len(read(fenced, media="").plan.tasks) == 4
    texts = "ref: 03-01\ntasks:\n  - title: One\n    action: |\n      - [ ] A\n      <task>\n"
    assert [task.title for task in read(texts, media="").plan.tasks] == ["One"]
    commented = "### Task 1: not a heading\nref: 03-01\ntasks:\n  - title: One\n"
    assert [task.title for task in read(commented, media="").plan.tasks] == ["One"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- [ ] One\n- [ ] Two", [("task-1", "One"), ("task-2", "Two")]),
        ("- [ ] 2. Two\n- [ ] 1. One", [("task-2", "Two"), ("task-1", "One")]),
        ("- [ ] **Task 7: Seven**", [("task-7", "Seven")]),
        ("- [ ] 1. A\n- [ ]* 1.2 B", [("task-1002", "B"), ("task-1", "A")]),
        ("* [ ] 3 times faster", [("task-1", "3 times faster")]),
        ("```\n- [ ] No\n```\n- [ ] Yes", [("task-1", "Yes")]),
        ("## **Task 4** — Four", [("task-4", "Four")]),
        (
            "# Task 1: A\n## Task 1.1: B\n### Note\n# Task 2: C",
            [("task-1001", "B"), ("task-1", "A"), ("task-2", "C")],
        ),
    ],
)
def test_numbers_are_kept(text: str, expected: list[tuple[str, str]]) -> None:
    assert titles(text) == expected


def test_a_subtask_names_its_parent() -> None:
    for text in ("# Task 1: A\n## Task 1.2: B", "- [ ] 1. A\n- [ ] 1.2 B"):
        plan = read(text).plan
        part, whole = plan.tasks
        assert part.payload == {"id": "1.2", "parent": "task-1"}
        assert (part.needs, whole.needs) == ((), ("03-01:task-1002",))
    assert read("- [ ] 1.2 B").plan.tasks[0].payload == {"id": "1.2"}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("# Task 2: A\n# Task 1:\n", ["Line 2: this task needs a title."]),
        ("- [ ] A\n  " + "x" * 70_000,
         ["Line 1: this task's text has more than 65536 bytes. Split the task."]),
    ],
)  # fmt: skip
def test_lines_that_cannot_be_read_are_named(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines
    in_file = f"---\nagent: coder\n---\n{text}"
    expected = [f"Line {int(line[5]) + 3}" for line in lines]
    assert [line.partition(":")[0] for line in lines_of(in_file)] == expected


@pytest.mark.parametrize(
    ("text", "expected", "warning"),
    [
        ("- [ ] 1. A\n- [ ] B", [("task-1", "A"), ("task-2", "B")], "line 2 (task-2)"),
        ("- [ ] 1. A\n- [ ] 1. B", [("task-1", "A"), ("task-2", "B")],
         "Line 2: line 1 has the number 1, too; this task is task-2."),
        ("- [ ] 1.2.3 A\n- [ ] 0.1 B\n- [ ] 2. C",
         [("task-3", "A"), ("task-4", "B"), ("task-2", "C")], ""),
        ("- [ ] Stray\n# Task 1: A", [("task-2", "Stray"), ("task-1", "A")], "line 1 (task-2)"),
        ("- [ ]\n- [ ] B", [("task-1", "B")], "Line 1: this item is empty: not imported."),
    ],
)  # fmt: skip
def test_a_task_without_a_number_of_its_own_gets_a_place(
    text: str, expected: list[tuple[str, str]], warning: str
) -> None:
    """PLN-3, PLN-7: no list is refused for its numbers."""
    assert titles(text) == expected
    assert any(warning in each for each in ("", *read(text).warnings))


def test_an_unknown_dependency_is_named() -> None:
    parsed = read("# Task 1: A\nDepends on: none\n# Task 2: B\nDepends on: the design\n")
    assert parsed.warnings == ("Line 3: ignored the dependency 'the design': it is not a task.",)
    assert parsed.plan.tasks[1].needs == ("03-01:task-1",)


def test_front_matter_counts() -> None:
    text = (
        "---\nphase: 02-search\nplan: 05\nagent: reviewer\norder: parallel\n---\n- [ ] A\n- [ ] B"
    )
    plan = planfile.parse(text.encode(), media="text/markdown").plan
    assert (plan.ref, plan.tasks[0].agent, plan.tasks[1].needs) == ("02-05", "reviewer", ())


def test_a_plan_without_a_ref_is_called_after_its_title() -> None:
    parsed = read(ITEMS, ref="")
    assert parsed.plan.ref == "plan-tasks.photo.albums"
    assert parsed.warnings[-1] == (
        "The file names no ref for its plan; it is plan-tasks.photo.albums."
    )
    with pytest.raises(BadRef):
        read("- [ ] One", ref="")


@pytest.mark.parametrize("text", ["# A plan\n\nProse only.\n- a list\n", "- [ ]", ""])
def test_a_file_without_tasks_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="no tasks"):
        read(text)


def test_tags_win_over_checklists() -> None:
    text: Any = "<task>\n<name>One</name>\n</task>\n\n- [ ] npm test\n"
    assert titles(text) == [("task-1", "One")]
