"""Bad input: a sentence with a line, in bounded time, in every format."""

import random
from collections.abc import Callable
from time import process_time

import pytest

from ledger import planfile
from ledger.errors import Refusal
from ledger.planfile.model import BYTES

ITEMS = 20_000
Say = Callable[[int], str]


def list_of(line: str, *, first: str = "") -> Callable[[int], str]:
    """Return a function that writes a file of a size with many lines of a kind."""

    def write(size: int) -> str:
        lines, length = [first], len(first)
        for n in range(1, size):
            lines.append(line.format(n=n))
            length += len(lines[-1].encode()) + 1
            if length > size - 200:
                break
        return "\n".join(lines) + "\n"

    return write


def write_levels(size: int) -> str:
    lines = [f"{'  ' * (n % 40)}- [ ] level {n}" for n in range(size // 50)]
    return "\n".join(lines)[: size - 200]


def write_fences(size: int) -> str:
    return "- [ ] one\n" + "```\n- [ ] x\n" * ((size - 200) // 13) + "~~~\n"


def write_json(size: int) -> str:
    each = '{"id": %d, "title": "x", "status": "done"}'
    return '{"tasks": [' + ", ".join(each % n for n in range(1, size // 50)) + "]}"


# Each writes a file of about a size; a format that looks at it must read or refuse it in time.
SHAPES: dict[str, tuple[str, Callable[[int], str]]] = {
    "ticked items": ("text/markdown", list_of("- [x] done item abc def", first="- [ ] a")),
    "open items": ("text/markdown", list_of("- [ ] an item that is open")),
    "numbered": ("text/markdown", list_of("- [x] {n}. T{n} x (depends on {n})", first="- [ ] a")),
    "steps": ("text/markdown", list_of("  - [ ] a step", first="- [ ] a")),
    "deep": ("text/markdown", write_levels),
    "headings": ("text/markdown", list_of("### Task {n}: x ✅", first="### Task 0: open")),
    "sections": ("text/markdown", list_of("## {n}\n- [x] y", first="- [ ] a")),
    "criteria": ("text/markdown", list_of("- [ ] x", first="- [ ] a\n\n## Acceptance criteria")),
    "prose": ("text/markdown", list_of("words | [ ] | in a table", first="- [ ] a")),
    "comments": ("text/markdown", list_of("<!-- - [ ] x", first="- [ ] a")),
    "fences": ("text/markdown", write_fences),
    "code": ("text/markdown", list_of("`" * 3 + "\n- [ ] {n}\n" + "`" * 3, first="- [ ] a")),
    "needs": ("text/markdown", list_of("  - Depends on: {n}, 2, 3", first="- [ ] a")),
    "emphasis": ("text/markdown", list_of("**`[x]`** **a** **b** {n}", first="- [ ] a")),
    "one line": ("text/markdown", lambda size: "- [ ] " + "[x] (" * ((size - 200) // 5)),
    "elements": ("text/markdown", list_of("<task><name>{n}</name></task>")),
    "elements unclosed": ("text/markdown", list_of("<task><name>{n}")),
    "rules": ("text/markdown", list_of("---\nkey: x", first="- [ ] a")),
    "labels": ("text/markdown", list_of("- [x] AB-{n}: x", first="- [ ] a\n  Depends on: AB-9")),
    "YAML": ("application/yaml", list_of("- title: t{n}", first="ref: 1-1\ntasks:")),
    "JSON": ("application/json", write_json),
    "XML": ("application/xml", list_of("<task><name>{n}</name></task>", first="<plan ref='1-1'>")),
}


def read(text: str | bytes, media: str = "text/markdown") -> planfile.ParsedPlan | Refusal:
    data = text.encode() if isinstance(text, str) else text
    try:
        return planfile.parse(data, media=media, agent="coder", ref="01-01")
    except Refusal as refusal:
        return refusal


def spend(shape: str, size: int) -> float:
    media, write = SHAPES[shape]
    data = write(size).encode()
    assert len(data) <= BYTES
    start = process_time()
    read(data, media)
    return process_time() - start


@pytest.mark.parametrize("shape", SHAPES)
def test_the_time_grows_with_the_size(shape: str) -> None:
    """Four times the text takes far less than sixteen times as long; `bench plans` has seconds."""
    for _ in range(3):
        short, long = spend(shape, BYTES // 32), spend(shape, BYTES // 8)
        if long < 0.05 or long <= 8 * short:
            return
    pytest.fail(f"{short:.3f} s for {BYTES // 32} bytes, {long:.3f} s for {BYTES // 8}")


def test_a_binary_is_refused_with_its_line() -> None:
    picture = b"- [ ] a\n- [ ] b\n" + bytes(random.Random(1).randbytes(4_000))
    for media in ("", "text/markdown", "application/yaml", "application/json", "application/xml"):
        refusal = read(picture, media)
        assert isinstance(refusal, Refusal) and "(line 3)" in refusal.detail
    refusal = read(b"- [ ] a\n- [ ] b\x00\n")
    assert isinstance(refusal, Refusal) and "Line 2 contains the character U+0000" in refusal.detail


@pytest.mark.parametrize(
    ("media", "text", "line"),
    [
        ("application/yaml", "ref: 1-1\ntasks:\n- title: a\n---\nref: 1-2\ntasks: []\n", "line 4"),
        ("application/json", '{"tasks": []}\n{"tasks": []}\n', "line 2"),
        ("application/xml", "<plan ref='1-1'><task><name>a</name></task></plan>\n<plan ref='1-2'>"
         "<task><name>b</name></task></plan>\n", "Line 2"),
        ("text/markdown", "---\nref: 1-1\n---\n- [ ] a\n\n---\nagent: x\nref: 1-2\n---\n- [ ] b\n",
         "Line 6"),
        ("text/markdown", "- [ ] a\n\n---\nphase: 2\nplan: 01\n---\n<task><name>b</name></task>\n",
         "Line 3"),
    ],
)  # fmt: skip
def test_two_plans_in_one_file_are_refused_with_a_line(media: str, text: str, line: str) -> None:
    refusal = read(text, media)
    assert isinstance(refusal, Refusal), refusal
    assert line in refusal.detail


LISTS = {
    "checklist": "- [ ] 1. أضف الجدول\n  - [ ] step\n- [x] 2. Done\n- [ ] 3. Third\n",
    "headings": "### Task 1: أضف الجدول\n\ntext\n\n### Task 2: Done ✅\n\n### Task 3: Third\n",
    "elements": "<task>\n<name>أضف الجدول</name>\n</task>\n<task>\n<name>Third</name>\n</task>\n",
    "YAML": "tasks:\n  - title: أضف الجدول\n  - title: Third\n",
}


@pytest.mark.parametrize("breaks", ["\n", "\r\n", "\r", "mixed"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("kind", LISTS)
def test_line_ends_marks_and_directions_change_nothing(kind: str, mark: str, breaks: str) -> None:
    lines = LISTS[kind].split("\n")
    text = "".join(
        line + (("\n", "\r\n")[n % 2] if breaks == "mixed" else breaks)
        for n, line in enumerate(lines[:-1])
    )
    media = "application/yaml" if kind == "YAML" else "text/markdown"
    found = read(mark + text, media)
    assert isinstance(found, planfile.ParsedPlan), found
    assert [task.title for task in found.plan.tasks] == ["أضف الجدول", "Third"]
    plain = read(LISTS[kind], media)
    assert isinstance(plain, planfile.ParsedPlan)
    assert found.plan.content_hash == plain.plan.content_hash
    assert [t.origin.line for t in found.plan.tasks] == [t.origin.line for t in plain.plan.tasks]


def test_tabs_indent_like_spaces() -> None:
    found = read("- [x] A\n\t- [ ] B\n\t\t- [ ] step\n- [ ] C\n")
    assert isinstance(found, planfile.ParsedPlan)
    assert [task.title for task in found.plan.tasks] == ["B", "C"]


@pytest.mark.parametrize(
    "text",
    [
        "- [ ] A\n```\n- [ ] B\n",
        "- [ ] A\n<!--\n- [ ] B\n",
        "- [ ] A\n~~~~\n```\n<!--\n- [ ] B\n",
        "- [ ] A\n`x\n**y\n[z](\n- [ ] B\n",
    ],
)
def test_what_is_never_closed_hides_nothing(text: str) -> None:
    found = read(text)
    assert isinstance(found, planfile.ParsedPlan)
    assert [task.title for task in found.plan.tasks] == ["A", "B"]
    assert "`x" in text or any("never closed" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("media", "text", "line"),
    [
        ("text/markdown", "<task>\n<name>a</name>\n<task>\n<name>b</name>\n</task>\n", "Line 1"),
        ("application/xml", "<plan ref='1-1'>\n<task>\n<name>a</name>\n", "Line 2"),
        ("application/yaml", "ref: 1-1\ntasks:\n  - title: [a\n", "line"),
        ("application/json", '{"tasks": [\n{"title": "a"', "line 2"),
    ],
)
def test_what_is_never_closed_in_other_formats_is_refused_with_a_line(
    media: str, text: str, line: str
) -> None:
    refusal = read(text, media)
    assert isinstance(refusal, Refusal) and line in refusal.detail


@pytest.mark.parametrize("media", ["text/markdown", "application/yaml", "application/xml"])
def test_too_many_tasks_are_refused_with_the_limit(media: str) -> None:
    line = {
        "text/markdown": "- [ ] a{n}",
        "application/yaml": "- title: a{n}",
        "application/xml": "<task><name>a{n}</name></task>",
    }[media]
    first = {"application/yaml": "ref: 1-1\ntasks:", "application/xml": "<plan ref='1-1'>"}
    rows = [line.format(n=n) for n in range(ITEMS)]
    end = "</plan>" if media.endswith("xml") else ""
    refusal = read("\n".join([first.get(media, ""), *rows, end]), media)
    assert isinstance(refusal, Refusal) and "500" in refusal.detail
