"""Scan task tags in a text that need not be well-formed XML (pure).

A tag counts where it begins its line or follows another tag. Tags in fenced code, inline code,
CDATA sections, and comments don't count. A tag that can't be placed refuses the whole file, because
a task that is left out would shift the numbers of those after it.
"""

import html
import re
import textwrap
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ledger.errors import Invalid
from ledger.planfile.fences import find_fences, mask_fences
from ledger.planfile.model import MOST_TASKS, LineErrors

# Every repeat here is bounded or ends at the next "<", so hostile text costs no extra time.
INSIDE = r"""((?:[^<>"']|"[^"<>]*(?:>[^"<>]*){0,20}"|'[^'<>]*(?:>[^'<>]*){0,20}')*)"""
TASK_START = re.compile(r"<(/?)(tasks?)(?=[\s/>])", re.I)
TASK_TAG = re.compile(rf"<(/?)(tasks?)(?=[\s/>]){INSIDE}>", re.I)
PART_TAG = re.compile(rf"<([A-Za-z][\w.-]{{0,60}})(?=[\s/>]){INSIDE}>")
PART_END = re.compile(r"</([A-Za-z][\w.-]{0,60})\s{0,20}>")
ATTRIBUTE = re.compile(r"""(?<![\w:.-])([\w:.-]{1,64})\s{0,99}=\s{0,99}(?:"([^"]*)"|'([^']*)')""")
FORBIDDEN = re.compile(r"<!\s*(DOCTYPE|ENTITY)", re.I)
QUOTING = re.compile(r"<!\[CDATA\[|<!--")
INLINE_CODE = re.compile(r"`[^`\n]+`")
ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
PARTS = frozenset(
    (
        *("name", "title", "files", "action", "verify", "done", "needs", "context", "read_first"),
        *("acceptance_criteria", "decision", "what-built", "how-to-verify", "instructions"),
        *("options", "resume-signal", "behavior", "implementation", "question", "agent"),
        *("depends_on", "depends-on", "dependencies", "type"),
    )
)
NOT_SPACE = re.compile(r"\S")
MOST_PARTS = 200
# How far to look beside a tag on its line; looking further would cost quadratic time.
NEAR = 500
MOST_TAGS = 8 * MOST_TASKS
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


@dataclass(frozen=True, slots=True)
class TaskElement:
    """A task's attributes and parts; `line` is 0 if the parser does not know it."""

    attributes: Mapping[str, str]
    parts: list[Node]
    line: int = 0
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class TaskMarkup:
    """The tasks of a text, and warnings about how they were read."""

    tasks: list[TaskElement] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def refuse_doctype(lines: Sequence[str], *, skipped: int = 0) -> None:
    if not any("<!" in line for line in lines):
        return
    fenced = mask_fences(lines)
    for n, line in enumerate(lines):
        if not fenced[n] and FORBIDDEN.search(line):
            raise Invalid("", f"{NO_DOCTYPE}: line {skipped + n + 1}.")


# ---- tasks


def scan_tasks(text: str, *, skipped: int = 0) -> TaskMarkup:
    """Return the tasks in a text; `skipped` lines of the file precede it.

    Raises UnreadableLines if a task tag can't be placed, and names the line of each one.
    """
    masked, lines = mask_code(text), LineNumbers(text, skipped)
    errors, markup = LineErrors(), TaskMarkup()
    check_fences(text, errors, skipped)
    opened: re.Match[str] | None = None
    nested = 0
    for tag in find_task_tags(masked, lines, errors):
        line = lines.at(tag.start())
        if tag[1] and nested:
            nested -= 1
        elif tag[1] and opened is None:
            errors.add(line, "this </task> ends no task.")
        elif tag[1] and opened is not None:
            span = slice(opened.end(), tag.start())
            where = lines.at(opened.start())
            parts, problems = scan_parts(text[span], masked[span])
            markup.warnings += [f"Line {where}: {problem}" for problem in problems]
            attributes = parse_attributes(opened[3])
            markup.tasks.append(TaskElement(attributes, parts, where, opened.start(), tag.end()))
            opened = None
        elif opened is not None:
            nested += not tag[3].endswith("/")
            errors.add(
                line,
                f"this task begins inside the task of line {lines.at(opened.start())}. End that "
                "one first: tasks can't be nested.",
            )
        elif tag[3].endswith("/"):
            attributes = parse_attributes(tag[3])
            markup.tasks.append(TaskElement(attributes, [], line, tag.start(), tag.end()))
        else:
            opened = tag
    if opened is not None:
        errors.add(lines.at(opened.start()), "this task has no </task>.")
    errors.check()
    if len(markup.tasks) > MOST_TASKS:
        raise Invalid(
            "/tasks", f"A plan must have 1 to {MOST_TASKS} tasks; this one has {len(markup.tasks)}."
        )
    return markup


def find_task_tags(masked: str, lines: "LineNumbers", errors: LineErrors) -> list[re.Match[str]]:
    tags = []
    for count, start in enumerate(TASK_START.finditer(masked)):
        if count > MOST_TAGS:
            raise Invalid("/tasks", f"A plan must have 1 to {MOST_TASKS} tasks; this one has more.")
        tag = TASK_TAG.match(masked, start.start())
        name = f"<{start[1]}{start[2]}>"
        if tag is None:
            errors.add(
                lines.at(start.start()),
                f"this {name} tag has no '>', or a '<' or a quote inside it.",
            )
        elif not (ends_line(masked, tag.end()) if tag[1] else begins_line(masked, tag.start())):
            place = "end" if tag[1] else "begin"
            errors.add(
                lines.at(start.start()),
                f"{name} must {place} its line. In prose, write it in backticks.",
            )
        elif tag[2].lower() == "task":
            tags.append(tag)
    return tags


def begins_line(masked: str, at: int) -> bool:
    before = masked[max(0, at - NEAR) : at].rpartition("\n")[2].rstrip()
    return not before or (before.endswith(">") and "<" in before)


def ends_line(masked: str, at: int) -> bool:
    after = masked[at : at + NEAR].partition("\n")[0].lstrip()
    return not after or after.startswith("<")


def check_fences(text: str, errors: LineErrors, skipped: int) -> None:
    # A part of a task in fenced code shows that the end fence is missing.
    lines = text.split("\n")
    for fence in find_fences(lines):
        depth = 0
        for tag in TASK_START.finditer("\n".join(lines[fence.start : fence.end])):
            depth += -1 if tag[1] else 1
            if depth < 0 or not fence.closed:
                errors.add(
                    skipped + fence.start + 1,
                    "the code fence that begins here contains the tags of a task. Close it, or put "
                    "code that contains a fence into a longer fence.",
                )
                break


def mask_code(text: str) -> str:
    """Return the text with all code, CDATA sections, and comments blanked, at the same length."""
    lines = text.split("\n")
    for fence in find_fences(lines):
        for n in range(fence.start, fence.end):
            lines[n] = " " * len(lines[n])
    text = INLINE_CODE.sub(lambda code: "." * len(code[0]), "\n".join(lines))
    pieces, at = [], 0
    missing = set()
    for opening in QUOTING.finditer(text):
        closing, blank = ("-->", " ") if opening[0] == "<!--" else ("]]>", ".")
        if opening.start() < at or closing in missing:
            continue
        end = text.find(closing, opening.end())
        if end < 0:
            missing.add(closing)
            continue
        end += len(closing)
        quoted = text[opening.start() : end].split("\n")
        pieces += [text[at : opening.start()], "\n".join(blank * len(line) for line in quoted)]
        at = end
    return "".join([*pieces, text[at:]])


class LineNumbers:
    """Convert places in a text to line numbers of its file."""

    def __init__(self, text: str, skipped: int) -> None:
        self.breaks = [match.start() for match in re.finditer("\n", text)]
        self.skipped = skipped

    def at(self, place: int) -> int:
        return self.skipped + bisect_right(self.breaks, place - 1) + 1


# ---- parts


def scan_parts(text: str, masked: str) -> tuple[list[Node], list[str]]:
    # Text outside all parts is an action.
    ends: dict[str, list[re.Match[str]]] = {}
    for tag in PART_END.finditer(masked):
        ends.setdefault(tag[1].lower(), []).append(tag)
    openings = find_part_tags(masked, ends)
    starts = {opening.start() for opening in openings}
    nodes: list[Node] = []
    problems: list[str] = []
    at = 0
    for n, opening in enumerate(openings):
        if opening.start() < at:
            continue
        if len(nodes) >= MOST_PARTS:
            raise Invalid("/tasks", f"A task must have at most {MOST_PARTS} parts.")
        add_loose_text(nodes, text[at : opening.start()])
        name = opening[1].lower()
        if opening[2].endswith("/"):
            nodes.append(Node(name, parse_attributes(opening[2]), ""))
            at = opening.end()
            continue
        closing = find_part_end(ends.get(name, []), opening.end(), masked, starts)
        if closing is None:
            end = openings[n + 1].start() if n + 1 < len(openings) else len(text)
            problems.append(f"<{name}> has no </{name}>; it was read up to the next part.")
        else:
            end = closing.start()
        inner = unescape(text[opening.end() : end])
        nodes.append(Node(name, parse_attributes(opening[2]), inner))
        at = closing.end() if closing else end
    add_loose_text(nodes, text[at:])
    return nodes, problems


def find_part_tags(masked: str, ends: Mapping[str, list[re.Match[str]]]) -> list[re.Match[str]]:
    """Return the start tags of known parts, and of unknown ones that also have an end tag."""
    found = []
    for tag in PART_TAG.finditer(masked):
        name = tag[1].lower()
        ended = name in ends and ends[name][-1].start() > tag.start()
        if (name in PARTS) + ended + begins_line(masked, tag.start()) >= 2:
            found.append(tag)
    return found


def find_part_end(
    ends: Sequence[re.Match[str]], start: int, masked: str, starts: set[int]
) -> re.Match[str] | None:
    """Return a part's end tag: the first that another part or the task's end follows."""
    after = [end for end in ends if end.start() >= start]
    for end in after[:MOST_PARTS]:
        following = NOT_SPACE.search(masked, end.end())
        if following is None or following.start() in starts:
            return end
    return after[-1] if after else None


def add_loose_text(nodes: list[Node], text: str) -> None:
    text = strip_comments(text)
    if text.strip():
        nodes.append(Node("action", {}, unescape(text)))


def strip_comments(text: str) -> str:
    return "".join(piece for quoted, piece in split_quoted(text, "<!--", "-->") if not quoted)


# ---- text


def unescape(text: str) -> str:
    """Resolve entities as an XML parser does, leaving CDATA sections unchanged."""
    return "".join(
        piece if quoted else unescape_entities(piece)
        for quoted, piece in split_quoted(text, "<![CDATA[", "]]>")
    )


def split_quoted(text: str, opening: str, closing: str) -> Iterator[tuple[bool, str]]:
    at = 0
    while (start := text.find(opening, at)) >= 0:
        end = text.find(closing, start + len(opening))
        if end < 0:
            break
        yield False, text[at:start]
        yield True, text[start + len(opening) : end]
        at = end + len(closing)
    yield False, text[at:]


def unescape_entities(text: str) -> str:
    # html.unescape alone would change `?a=1&copy=2`, and can't read numbers with 5,000 digits.
    return ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def text_between(text: str, opening: str, closing: str) -> str | None:
    _, opened, rest = text.partition(opening)
    inside, closed, _ = rest.partition(closing)
    return inside if opened and closed else None


def parse_attributes(text: str) -> dict[str, str]:
    return {
        name.lower(): unescape_entities(double or single)
        for name, double, single in ATTRIBUTE.findall(text)
    }
