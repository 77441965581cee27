"""Scan hand-written task tags line by line, where a text is not well-formed XML (pure).

A tag counts only at the beginning of a line, and only outside fenced code.
"""

import html
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ledger.errors import Invalid
from ledger.planfile.model import MOST_TASKS

FENCE = re.compile(r"\s*(```|~~~)")
TASK = re.compile(r"\s*<task(\s[^<>]*)?>\s*$")
TASK_END = re.compile(r"\s*</task>\s*$")
# Every repeat here is bounded or ends at the end of its line, so hostile text costs no extra time.
ATTRIBUTE = re.compile(r"""(?<![\w:.-])([\w:.-]{1,64})\s{0,8}=\s{0,8}(?:"([^"]*)"|'([^']*)')""")
FORBIDDEN = re.compile(r"<!\s*(DOCTYPE|ENTITY)", re.I)
PARTS = (
    *("name", "title", "files", "action", "verify", "done", "needs", "context", "read_first"),
    *("acceptance_criteria", "decision", "what-built", "how-to-verify", "instructions"),
    *("options", "resume-signal", "behavior", "implementation", "question", "agent"),
)
CHILD = re.compile(rf"\s*<({'|'.join(PARTS)})((?:\s[^<>]*)?)>")
MOST_PARTS = 200
NO_DOCTYPE = "A plan file must not contain a DOCTYPE or its own entities"


@dataclass(frozen=True, slots=True)
class Node:
    """A tag with its attributes and the text between its start and end tags."""

    tag: str
    attributes: Mapping[str, str]
    inner: str

    @property
    def text(self) -> str:
        return textwrap.dedent(self.inner.strip("\n")).strip()


@dataclass(slots=True)
class TaskMarkup:
    """The task nodes of a text, each with its parts, and warnings about how they were read."""

    tasks: list[tuple[Node, list[Node]]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def refuse_doctype(lines: Sequence[str], *, skipped: int = 0) -> None:
    """Raise Invalid if a line outside fenced code declares a DOCTYPE or an entity."""
    fenced = mask_fences(lines)
    for n, line in enumerate(lines):
        if not fenced[n] and FORBIDDEN.search(line):
            raise Invalid("", f"{NO_DOCTYPE}: line {skipped + n + 1}.")


def mask_fences(lines: Sequence[str]) -> list[bool]:
    """Return, for each line, whether it belongs to fenced code, including the fences."""
    inside, mask = "", []
    for line in lines:
        fence = FENCE.match(line)
        mask.append(bool(inside or fence))
        if fence and (not inside or fence[1] == inside):
            inside = "" if inside else fence[1]
    return mask


def find_task_section(lines: Sequence[str]) -> tuple[int, int]:
    """Return the range of lines between `<tasks>` and `</tasks>`, or around the task tags."""
    fenced = mask_fences(lines)
    plain = [(n, line.strip()) for n, line in enumerate(lines) if not fenced[n]]
    first = next((n + 1 for n, line in plain if line == "<tasks>"), 0)
    last = next((n for n, line in reversed(plain) if line == "</tasks>"), len(lines))
    if not first:
        first = next((n for n, line in plain if TASK.match(line)), 0)
        ends = [n + 1 for n, line in plain if TASK_END.match(line)]
        last = ends[-1] if ends else len(lines)
    return first, max(first, last)


def scan_tasks(lines: Sequence[str]) -> TaskMarkup:
    """Return the tasks whose tags stand alone on their lines, with their parts."""
    fenced, markup = mask_fences(lines), TaskMarkup()
    starts = [n for n, line in enumerate(lines) if not fenced[n] and TASK.match(line)]
    if len(starts) > MOST_TASKS:
        raise Invalid(
            "/tasks", f"A plan must have 1 to {MOST_TASKS} tasks; this one has {len(starts)}."
        )
    for start, following in pairwise([*starts, len(lines)]):
        ends = [n for n in range(start, following) if not fenced[n] and TASK_END.match(lines[n])]
        opening = TASK.match(lines[start])
        attributes = parse_attributes(opening[1] or "") if opening else {}
        end = ends[-1] if ends else following
        parts = scan_parts(lines[start + 1 : end], fenced[start + 1 : end])
        markup.tasks.append((Node("task", attributes, ""), parts))
    return markup


def scan_parts(lines: Sequence[str], fenced: Sequence[bool]) -> list[Node]:
    """Return a task's known parts; each ends at its last end tag before the next part."""
    openings = {
        n: match for n, line in enumerate(lines) if not fenced[n] and (match := CHILD.match(line))
    }
    if len(openings) > MOST_PARTS:
        raise Invalid("/tasks", f"A task must have at most {MOST_PARTS} parts.")
    nodes, at = [], 0
    while (start := next((n for n in openings if n >= at), None)) is not None:
        opening = openings[start]
        end, closing = find_part_end(lines, fenced, start, f"</{opening[1]}>", openings)
        text = "\n".join(lines[start : end + 1])[opening.end() :].rstrip()
        text = text[: -len(closing)] if text.endswith(closing) and closing else text
        nodes.append(Node(opening[1], parse_attributes(opening[2]), unescape(text)))
        at = end + 1
    return nodes


def find_part_end(
    lines: Sequence[str], fenced: Sequence[bool], start: int, closing: str, openings: Iterable[int]
) -> tuple[int, str]:
    """Return a part's last line and its end tag, or "" if only the next part ends it."""
    known = set(openings)
    ends = [
        n for n in range(start, len(lines)) if not fenced[n] and lines[n].rstrip().endswith(closing)
    ]
    for n in ends:
        after = next((m for m in range(n + 1, len(lines)) if lines[m].strip()), len(lines))
        if after == len(lines) or after in known:
            return n, closing
    if ends:
        return ends[-1], closing
    following = next((n for n in sorted(known) if n > start), len(lines))
    return following - 1, ""


def unescape(text: str) -> str:
    """Resolve entities as an XML parser does, leaving CDATA sections unchanged."""
    plain, opening, rest = text.partition("<![CDATA[")
    parts = [html.unescape(plain)]
    while opening:
        quoted, _, rest = rest.partition("]]>")
        plain, opening, rest = rest.partition("<![CDATA[")
        parts += [quoted, html.unescape(plain)]
    return "".join(parts)


def text_between(text: str, opening: str, closing: str) -> str | None:
    """Return the text between the first `opening` and the next `closing`, or None."""
    _, opened, rest = text.partition(opening)
    inside, closed, _ = rest.partition(closing)
    return inside if opened and closed else None


def parse_attributes(text: str) -> dict[str, str]:
    """Return the attributes written in a start tag."""
    return {
        name: html.unescape(double or single) for name, double, single in ATTRIBUTE.findall(text)
    }
