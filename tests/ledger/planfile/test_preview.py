"""The preview of a plan file: its tree, its lines, and what hangs on them."""

import pytest

from ledger.planfile.preview import PreviewRow, build_preview, list_general
from tests.ledger.planfile.test_field_cases import read


def preview(text: str, **options: str) -> list[PreviewRow]:
    found = read(text, **options)
    return build_preview(found.plan, text=found.text, warnings=found.warnings)


def test_parts_stand_below_their_task_in_the_files_order() -> None:
    rows = preview(
        "# Plan\r\n\r\n- [x] 1. Setup\r\n- [ ] 2. Model (depends on 1)\r\n- [ ] 2.1 Table\r\n"
        "- [ ] 2.2 Index (depends on 2.1)\r\n- [ ] 3. View\r\n"
    )
    assert [(row.name, row.level, row.line, row.title) for row in rows] == [
        ("1", 0, 3, "Setup"),
        ("2", 0, 4, "Model"),
        ("2.1", 1, 5, "Table"),
        ("2.2", 1, 6, "Index"),
        ("3", 0, 7, "View"),
    ]
    assert rows[0].change == "done" and rows[1].source == "- [ ] 2. Model (depends on 1)"
    assert rows[3].after == ("2.1",) and rows[1].after == ("2.1", "2.2")


def test_warnings_stand_at_their_lines() -> None:
    text = "```\n- [ ] code\n```\n- [ ] 1. Model\n- [ ] 1. View\n- [ ] 2. Url (depends on 9)\n"
    rows = preview(text)
    assert [(row.ref[-6:], row.line, len(row.warnings)) for row in rows] == [
        ("", 2, 1),
        ("task-1", 4, 0),
        ("task-3", 5, 1),
        ("task-2", 6, 1),
    ]
    assert rows[0].title == "- [ ] code"
    assert list_general(["Line 3: x", "Lines 3 to 4: x", "Left out 1 task"]) == ["Left out 1 task"]


def test_criteria_and_commands_are_shown() -> None:
    (row,) = preview("### Task 1: Model\n\n**Verify:** `make test`\n\n**Done when:**\n- it runs\n")
    assert (row.command, row.is_proposed, row.criteria) == ("make test", True, ("it runs",))


@pytest.mark.parametrize(
    ("text", "media", "line"),
    [
        ("tasks:\n  - title: A\n    action: b\n  - {title: B}\n", "application/yaml", [2, 4]),
        ("# P\n\n<task>\n<name>A</name>\n</task>\n<task><name>B</name></task>\n", "text/markdown",
         [3, 6]),
        ('{"tasks": [{"title": "A"}, {"title": "B"}]}', "application/json", [0, 0]),
    ],
)  # fmt: skip
def test_other_formats_have_lines_where_their_readers_know_them(
    text: str, media: str, line: list[int]
) -> None:
    rows = preview(text, media=media)
    assert [row.line for row in rows] == line and [row.title for row in rows] == ["A", "B"]


def test_a_preview_is_bounded_and_holds_every_open_task() -> None:
    ticked = "".join(f"- [x] {n}. done\n" for n in range(1, 3000))
    opened = "".join(f"- [ ] {n}. open\n" for n in range(4000, 4500))
    rows = preview(ticked + opened)
    assert len(rows) == 1000 and sum(row.change != "done" for row in rows) == 500
