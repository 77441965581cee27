"""What became of each line of a plan file, and where its open boxes are."""

import pytest

from ledger import planfile
from ledger.planfile.model import FileLine

TEXT = """\ufeff# P\r
\r
- [ ] Älpha\r
  - [ ] stęp\r
  - [x] done step\r
- [x] Beta\r
<!-- - [ ] hidden -->\r
```\r
- [ ] code\r
```\r
\r
## Quality gates\r
- [ ] lint\r
"""


def read(text: str) -> list[FileLine]:
    data = text.encode()
    media = "text/markdown" if text.startswith("#") else ""
    lines = planfile.parse(data, media=media, agent="coder", ref="03-01").plan.lines
    for line in lines:
        if line.box:
            old = line.box.old.encode()
            assert data[line.box.offset : line.box.offset + len(old)] == old
    return list(lines)


def fates(text: str) -> list[tuple[int, str, str, str]]:
    return [
        (line.line, line.became, line.ref.rpartition(":")[2], line.box.new if line.box else "")
        for line in read(text)
    ]


def test_each_line_that_looks_like_work_is_accounted_for() -> None:
    assert fates(TEXT) == [
        (3, "task", "task-1", "[x]"),
        (4, "step", "task-1", "[x]"),
        (5, "step", "task-1", ""),
        (6, "done", "task-2", ""),
        (7, "left_out", "", ""),
        (9, "text", "task-2", ""),
        (13, "check", "task-1", ""),
    ]
    notes = {line.line: line.note for line in read(TEXT) if line.note}
    assert notes == {7: "1 item in a comment"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("☐ A\n⬜ B\n", [(1, "task", "task-1", "☑"), (2, "task", "task-2", "☑")]),
        ("- [] A\n-[ ] B\n- [>] C\n", [(n, "task", f"task-{n}", "[x]") for n in (1, 2, 3)]),
        (
            "### [ ] Task 1: A\n- [ ] one\n### Task 2: B\n",
            [(1, "task", "task-1", "[x]"), (2, "step", "task-1", "[x]"), (3, "task", "task-2", "")],
        ),
        ("- [ ] A [ ] b\r- [ ] C", [(1, "task", "task-1", "[x]"), (2, "task", "task-2", "[x]")]),
        (
            "---\nagent: x\n---\n- [x] A\n  - [ ] B\n",
            [(4, "done", "task-1", ""), (5, "task", "task-2", "[x]")],
        ),
    ],
)
def test_boxes(text: str, expected: list[tuple[int, str, str, str]]) -> None:
    assert fates(text) == expected


def test_a_box_behind_a_comment_can_not_be_ticked() -> None:
    assert fates("# P\n<!-- [ ] --> - [ ] A\n") == [(2, "task", "task-1", "")]


@pytest.mark.parametrize(
    "text", ["ref: 03-01\ntasks: [{title: A}]\n", "<task><name>A</name></task>"]
)
def test_a_format_without_boxes_has_no_lines(text: str) -> None:
    assert read(text) == []
