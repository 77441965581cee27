"""Show a tool call that an agent asks about: its command, its changes of files, its input (pure).

Everything in a call was written by an agent: pages escape it, and characters that would change how
it reads are written out.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from retries.permissions.calls import PATCH_KEYS, PATH_KEYS, ToolCall
from retries.permissions.command_lines import UnreadableLine, read_line
from retries.permissions.forms import questions_of

DIFFED = 400  # lines compared in a text; a longer text is replaced as a whole
LINES_SHOWN = 80  # lines shown of a file's change; the rest is folded
CHANGES_SHOWN = 30
VALUE_LENGTH = 20_000
PARTS_SHOWN = 20
SAME, GONE, NEW, PLACE = " ", "−", "+", "@"
CLASSES = {SAME: "", GONE: "pdel", NEW: "padd", PLACE: "hunk"}
# the inputs that a change shows
CHANGING = ("old_string", "new_string", "content", "edits", "new_source", *PATH_KEYS)
WAYS = {
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "apply_patch": "edit",
    "Write": "write",
    "Read": "read",
    "NotebookRead": "read",
    "Glob": "look for files in",
    "Grep": "search",
    "LS": "list",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a text; `css` marks what a careful person looks at."""

    text: str
    css: str = ""


@dataclass(frozen=True, slots=True)
class ChangedLine:
    sign: str
    text: list[Segment]

    @property
    def css(self) -> str:
        return CLASSES[self.sign]


@dataclass(frozen=True, slots=True)
class FileChange:
    """The call's change of one file."""

    path: str
    lines: list[ChangedLine]

    @property
    def shown(self) -> list[ChangedLine]:
        return self.lines[:LINES_SHOWN]

    @property
    def folded(self) -> list[ChangedLine]:
        return self.lines[LINES_SHOWN:]

    def count(self, sign: str) -> int:
        return sum(each.sign == sign for each in self.lines)

    @property
    def added(self) -> int:
        return self.count(NEW)

    @property
    def removed(self) -> int:
        return self.count(GONE)


@dataclass(frozen=True, slots=True)
class Value:
    """A part of the tool's input."""

    name: str
    text: list[Segment]


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question of the call, with its options as labels and descriptions."""

    text: str
    options: list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCall:
    """A tool call as its page shows it; `does` and `what` complete "the agent wants to"."""

    does: str
    what: str
    command: list[Segment]
    parts: list[str] = field(default_factory=list)  # the commands of a compound line
    unreadable: str = ""  # why the line was not taken apart
    questions: list[AskedQuestion] = field(default_factory=list)
    changes: list[FileChange] = field(default_factory=list)
    more_changes: int = 0
    values: list[Value] = field(default_factory=list)

    @property
    def added(self) -> int:
        return sum(each.added for each in self.changes)

    @property
    def removed(self) -> int:
        return sum(each.removed for each in self.changes)


def show_call(call: ToolCall, marks: Sequence[Mapping[str, Any]], title: str) -> ShownCall:
    command = call.command
    does, what = name_call(call, title)
    if command is not None:
        parts, unreadable = take_apart(command)
        return ShownCall(
            does=does,
            what=what,
            command=mark_spans(command, marks),
            parts=parts[:PARTS_SHOWN],
            unreadable=unreadable,
            values=list_values(call.input, besides=("command", "cmd")),
        )
    changes, questions = list_changes(call), list_questions(call)
    return ShownCall(
        does=does,
        what=what,
        command=[],
        questions=questions,
        changes=changes[:CHANGES_SHOWN],
        more_changes=len(changes[CHANGES_SHOWN:]),
        values=list_values(
            call.input,
            besides=(*CHANGING, *PATCH_KEYS) if changes else ("questions",) if questions else (),
        ),
    )


def name_call(call: ToolCall, title: str) -> tuple[str, str]:
    """Return what an agent wants to do, as text and as code.

    >>> name_call(ToolCall("Bash", {"command": "npm test"}, "/app"), "npm test")
    ('run', 'npm test')
    >>> name_call(ToolCall("mcp__mail__send", {"to": "a@b.example"}, "/app"), "")
    ('call', 'send of mail')
    """
    if call.command is not None:
        return "run", title
    if call.tool == "AskUserQuestion":
        return "ask you something", ""
    if call.tool == "ExitPlanMode":
        return "start on its plan", ""
    if call.url is not None:
        return "open", call.url
    if call.tool.startswith("mcp__"):
        server, _, name = call.tool.removeprefix("mcp__").partition("__")
        return "call", f"{name} of {server}" if name else server
    if call.tool in WAYS and call.paths:
        return WAYS[call.tool], ", ".join(map(call.shorten_path, call.paths))
    return "use", call.tool


def take_apart(command: str) -> tuple[list[str], str]:
    """Return the commands of a compound line, or why no rule can read the line."""
    try:
        found = read_line(command)
    except UnreadableLine as error:
        return [], str(error)
    return [str(each) for each in found] if len(found) > 1 else [], ""


# ---- texts


def mark_spans(text: str, marks: Iterable[Mapping[str, Any]]) -> list[Segment]:
    """Split a text where a mark begins or ends; a red mark hides others in its place.

    >>> mark_spans("rm -rf x", [{"span": [3, 6], "is_red": True}])[1]
    Segment(text='-rf', css='risk risk--red')
    """
    css = [""] * len(text)
    for mark in sorted(marks, key=lambda each: bool(each.get("is_red"))):
        start, end = mark.get("span") or (0, 0)
        for at in range(max(0, start), min(end, len(text))):
            css[at] = "risk risk--red" if mark.get("is_red") else "risk"
    segments: list[Segment] = []
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or css[at] != css[start]:
            segments += write_out(text[start:at], css[start])
            start = at
    return segments


def write_out(text: str, css: str = "") -> list[Segment]:
    """Return a text as segments in which invisible characters are written out.

    They can make a command look different from the one that runs.

    >>> [each.text for each in write_out("a\\u202eb")]
    ['a', '[U+202E]', 'b']
    """
    segments, start = [], 0
    for at, character in enumerate(text):
        if character.isprintable() or character in "\n\t":
            continue
        segments += [Segment(text[start:at], css), Segment(f"[U+{ord(character):04X}]", "unseen")]
        start = at + 1
    segments.append(Segment(text[start:], css))
    return [each for each in segments if each.text]


def list_values(given: Mapping[str, Any], *, besides: Iterable[str] = ()) -> list[Value]:
    left_out = set(besides)
    return [
        Value(str(name), write_out(as_text(value)[:VALUE_LENGTH]))
        for name, value in given.items()
        if name not in left_out and value not in (None, "", [], {})
    ]


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def list_questions(call: ToolCall) -> list[AskedQuestion]:
    return [
        AskedQuestion(str(each["question"]), list(list_options(each.get("options"))))
        for each in questions_of(call)
    ]


def list_options(options: Any) -> Iterator[tuple[str, str]]:
    for each in options if isinstance(options, list) else []:
        if isinstance(each, Mapping):
            yield str(each.get("label") or ""), str(each.get("description") or "")


# ---- changes of files


def list_changes(call: ToolCall) -> list[FileChange]:
    if call.tool == "apply_patch":
        return list(read_patch(call.patch))
    path = ", ".join(map(call.shorten_path, call.paths))
    pairs = list(list_pairs(call))
    lines = chain.from_iterable(compare(before, after) for before, after in pairs)
    return [FileChange(path, list(lines))] if pairs else []


def list_pairs(call: ToolCall) -> Iterator[tuple[str, str]]:
    """Yield each text that a file tool replaces, with the text in its place."""
    match call.tool:
        case "Write":
            yield "", as_text(call.input.get("content", ""))
        case "NotebookEdit":
            yield "", as_text(call.input.get("new_source", ""))
        case "Edit" | "MultiEdit":
            edits = call.input.get("edits", [call.input])
            for each in edits if isinstance(edits, list) else []:
                if isinstance(each, Mapping) and {"old_string", "new_string"} & each.keys():
                    yield as_text(each.get("old_string", "")), as_text(each.get("new_string", ""))


def compare(before: str, after: str) -> Iterator[ChangedLine]:
    old, new = before.splitlines(), after.splitlines()
    # A long text is not compared: all of it is replaced.
    if max(len(old), len(new)) > DIFFED or not old or not new:
        yield from (ChangedLine(GONE, write_out(line)) for line in old)
        yield from (ChangedLine(NEW, write_out(line)) for line in new)
        return
    # skip the heading and the first change's position
    for line in list(difflib.unified_diff(old, new, lineterm="", n=3))[3:]:
        yield read_diff_line(line)


def read_diff_line(line: str) -> ChangedLine:
    if line.startswith("@@"):
        return ChangedLine(PLACE, [Segment("…")])
    sign = {"-": GONE, "+": NEW}.get(line[:1], SAME)
    return ChangedLine(sign, write_out(line[1:]))


def read_patch(patch: str) -> Iterator[FileChange]:
    """Yield the changes of a patch for Codex's `apply_patch`, file after file."""
    path, lines = "", list[ChangedLine]()
    for line in patch.splitlines():
        if not line.startswith("***"):
            place = ChangedLine(PLACE, write_out(line))
            lines.append(place if line.startswith("@@") else read_diff_line(line))
        elif line.startswith(("*** Add", "*** Update", "*** Delete", "*** Move")):
            if not line.startswith("*** Move") and path:
                yield FileChange(path, lines)
            heading = line.removeprefix("*** ").removesuffix(":")
            is_move = line.startswith("*** Move")
            path, lines = (f"{path}, {heading}", lines) if is_move else (heading, [])
    if path or lines:
        yield FileChange(path, lines)
