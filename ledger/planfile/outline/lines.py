"""Read single lines of an outline as people and models write them: boxes, numbers, marks (pure)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ledger.planfile.fences import find_fences

# How far into a line to look for marks; looking further would cost quadratic time.
LOOK = 1000

HEADING = re.compile(r"\s{0,3}(#{1,6})(?:[ \t]+|(?=\[))(.*)")
DOTTED = r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}"
DONE_MARKS = frozenset("xX✓✔✅☑")
BOX = re.compile(
    r"([\s>]*)(?:([-*+•–—]|[0-9]{1,4}[.)])(\s*))?\[([^\[\]]{0,4})\](\*?)(?![(:\[])(\s*)(.*)", re.S
)
# **[ ]** x, **`[x]`** x, and **[ ] x**
EMPHASIZED_BOX = re.compile(
    r"([\s>]*(?:(?:[-*+•–—]|[0-9]{1,4}[.)])\s+)?)(`?[*_][*_`]{0,5})(\[[^\[\]]{0,4}\])[*_`]{0,6}(?=\s)"
)
# ☐ and ⬜ are open, ☑ is done, ☒ is either; reads at most LOOK characters.
DRAWN_BOX = re.compile(r"([\s>]*)(?:[-*+•]|[0-9]{1,4}[.)])?\s*([☐☑☒⬜🔲])\ufe0f?\s*(\S.*)", re.S)
DRAWN = frozenset("☐☑☒⬜🔲")
STRAY_BOX = re.compile(r"\[ ?\](?!\()")
CODE_BOX = re.compile(r"[\s>]*(?:[-*+]\s+)?`\[ ?\]`\s")
CLOSING = re.compile(r"(?<=\S)\*\*(?![\w*])")
INLINE_CODE = re.compile(r"`[^`\n]*`")
UNSEEN = "\ufeff\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

# The number at the start of an item: T001, TASK-3:, Subtask 1.2:, 1., 1.2
NUMBER = re.compile(
    rf"[*_`]{{0,3}}(?:(?:sub)?(?:T|task[ _#-]{{0,3}})({DOTTED})(?![0-9A-Za-z])[.:)]?|"
    rf"({DOTTED})[.:)]|([0-9]{{1,9}}\.{DOTTED}))[*_`]{{0,3}}(?:\s+[-–—]?\s*|$)(.*)",
    re.I | re.S,
)
TASK_HEADING = re.compile(
    rf"(?:\[([^\[\]]{{0,3}})\]\s*+)?[^\w\[]{{0,12}}task\s*+(?:(?:[#-]\s*+)?({DOTTED})(?![0-9A-Za-z])"
    r"[*_]{0,3}\s*+[-:.)–—]*+|[*_]{0,3}\s*+[:–—])[*_]{0,3}\s*+(.*)",
    re.I,
)
TICK = r"[✅☑✔✓]\ufe0f?"
# "(done)" in a title is no mark, and "- DONE" is one only after a space or another mark.
DONE_WORD = re.compile(
    rf"^(?:{TICK}|\[(?:done|completed?|finished)\])[\s:–—-]*|(?<![\s:–—-])(?:"
    rf"[\s:–—-]*+(?:{TICK}|\[(?:done|completed?|finished)\]|\((?-i:DONE|COMPLETED?|{TICK})\))|"
    r"[\s:–—-](?:\s*+[:–—-])++\s*+(?-i:DONE|COMPLETED?))[*_]*$",
    re.I,
)
STATUS = re.compile(r"[\s>*_+-]{0,40}status[*_]{0,3}\s*:[*_]{0,3}\s*(.*)", re.I)
# This reads at most LOOK characters.
DONE_STATUS = re.compile(
    rf"(?:{TICK}\s*)?[*_`]{{0,3}}(?:done|completed?|finished|implemented|merged|shipped|closed)"
    rf"[*_`]{{0,3}}[.!]?(?:\s*{TICK})?(?:\s*(?:[-–—(,]|on\b|at\b)?\s*[0-9][0-9./: T-]*\)?)?",
    re.I,
)
MARKED = re.compile(r"[\[(✅☑✔✓]|DONE|COMPLETE")  # what all the marks below have
PARALLEL = re.compile(r"\[P\]\s*")
STORY = re.compile(r"\[((?:US|Story )[0-9]{1,4})\]\s*", re.I)
# This reads at most LOOK characters.
OPTIONAL = re.compile(r"\s*[(\[]optional[)\]]\s*", re.I)
# This reads at most LOOK characters.
DEPENDS = re.compile(
    r"\s*[(\[](?:depends(?: on)?|requires|needs|after|blocked by)\b:?\s*([^()\[\]]{1,200})[)\]]",
    re.I,
)
CRITERIA = re.compile(
    r"\b(?:quality gates?|(?:acceptance|exit|success|completion|done|validation) criteria|"
    r"acceptance(?: checks?| checklist| tests?)?$|definition of (?:done|ready)|dod|"
    r"(?:quality|review|done|dod|validation|verification|requirements?|completion|exit|"
    r"acceptance) (?:& acceptance )?checklist|done when)\b",
    re.I,
)
# A heading that begins with a verb names work, also if that work is to write a checklist.
WORK = re.compile(
    r"(?:phase|step|stage|sprint|add|build|configure|create|define|design|document|implement|"
    r"run|set ?up|test|update|write)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class ItemLine:
    """A list item with a box."""

    indent: int
    mark: str
    text: str
    is_optional: bool = False

    @property
    def is_done(self) -> bool:
        return self.mark in DONE_MARKS


def read_item(line: str) -> ItemLine | None:
    """Return the item with a box on a line: `- [ ] x`, or a form that models write instead.

    A link, a footnote, and a word in brackets are no boxes; a mark that is not known is open.

    >>> [read_item(line).text for line in ("- [ ] a", "-[ ] a", "- []a", "1. [>] a", "**[x]** a")]
    ['a', 'a', 'a', 'a', 'a']
    >>> [read_item(line) for line in ("- [a](b)", "- [a]: b", "- [abc] d", "[a] b", "- [T]ype")]
    [None, None, None, None, None]
    """
    if "[" not in line:
        if DRAWN.isdisjoint(line[:LOOK]):
            return None
        if drawn := DRAWN_BOX.match(line.lstrip(UNSEEN)[:LOOK]):
            return ItemLine(width(drawn[1]), "x" if drawn[2] == "☑" else " ", drawn[3].strip())
        return None
    line = line.lstrip(UNSEEN)
    match = BOX.match(line)
    if not match and (bold := EMPHASIZED_BOX.match(line)):
        match = BOX.match(bold[1] + bold[3] + line[bold.end() :])
    if not match:
        return None
    indent, bullet, gap, box, star, space, text = match.groups()
    mark = box.strip().rstrip("\ufe0f")
    if len(mark) > 1 or (not box and not bullet):
        return None
    is_plain = mark in ("", "x", "X")
    if not is_plain and not (bullet and gap and (space or not text)):
        return None
    if not bullet and not (space and text):
        return None
    return ItemLine(width(indent), mark or " ", text.strip(), bool(star))


def read_heading(line: str) -> re.Match[str] | None:
    return HEADING.match(line) if "#" in line[:4] else None


def width(indent: str) -> int:
    return len(indent.replace(">", "").expandtabs(4))


@dataclass(slots=True)
class Title:
    """The words of a task's heading or item, and what was written around them."""

    text: str
    number: str = ""
    is_done: bool = False
    is_parallel: bool = False
    is_optional: bool = False
    story: str = ""
    needs: str = ""


def read_title(text: str, *, number: str = "") -> Title:
    """Return the title in a text, without number and marks.

    >>> read_title("T004 [P] [US1] Model in a.py (depends on T003)")
    Title(text='Model in a.py', number='004', is_done=False, is_parallel=True, is_optional=False, \
story='US1', needs='T003')
    """
    text = text.strip()
    title, rest = Title(text[:LOOK], number), text[LOOK:]
    if not number and (match := NUMBER.match(title.text)):
        title.number = next(filter(None, match.groups()[:3]), "")
        title.text = match[4]
    if not MARKED.search(title.text):
        title.text = strip_emphasis(title.text.strip("# ") + rest)
        return title
    if PARALLEL.search(title.text):
        title.is_parallel, title.text = True, PARALLEL.sub("", title.text, count=1)
    if story := STORY.search(title.text):
        title.story, title.text = story[1], STORY.sub("", title.text, count=1)
    if OPTIONAL.search(title.text):
        title.is_optional, title.text = True, OPTIONAL.sub(" ", title.text, count=1)
    if (needs := DEPENDS.search(title.text)) and re.search("[0-9]", needs[1]):
        title.needs, title.text = needs[1], DEPENDS.sub("", title.text, count=1)
    bare = DONE_WORD.sub("", title.text.strip("# "))
    title.is_done = bare != title.text.strip("# ")
    title.text = strip_emphasis(bare + rest)
    return title


def strip_emphasis(text: str) -> str:
    """Return a text without the marks around it; the underscore of `_meta.url` is a part of it.

    >>> [strip_emphasis(text) for text in ("**Add x**: y", "_Add x_", "_meta.url", "____")]
    ['Add x: y', 'Add x', '_meta.url', '']
    """
    text = text.strip("* \t\u00a0" + UNSEEN)
    if text.count("**") == 1:
        text = CLOSING.sub("", text)
    if text[:1] == text[-1:] == "_" or not text.strip("_"):
        text = text.strip("*_ ")
    return text


def is_done_status(line: str) -> bool | None:
    """Return whether a line such as `**Status:** completed` says done; None without a status."""
    match = STATUS.match(line[:LOOK])
    return bool(DONE_STATUS.fullmatch(match[1].strip("*_ "))) if match else None


def is_criteria(text: str) -> bool:
    """Return whether a heading names a list of checks and not of work.

    >>> [is_criteria(text) for text in ("Quality Gates", "Acceptance Criteria:", "Add a DoD")]
    [True, True, False]
    """
    words = text.strip("#*_:. \t").lstrip("✅🎯🔒☑ \ufe0f*_")
    return len(words) < 60 and bool(CRITERIA.search(words)) and not WORK.match(words)


# ---- code and comments


@dataclass(frozen=True, slots=True)
class Masked:
    """The lines of an outline without its comments, and which of them are code."""

    lines: list[str]
    is_code: list[bool]
    warnings: list[str]


def mask_lines(lines: Sequence[str], skipped: int) -> Masked:
    # What is opened and never closed hides nothing.
    warnings: list[str] = []
    lines = list(lines)
    is_code = mask_closed_fences(lines, skipped, warnings)
    if any("<!--" in line for line in lines):
        blank_comments(lines, is_code, skipped, warnings)
    return Masked(lines, is_code, warnings)


def mask_closed_fences(lines: Sequence[str], skipped: int, warnings: list[str]) -> list[bool]:
    is_code, start = [False] * len(lines), 0
    for _ in range(8):
        fences = [
            replace(each, start=each.start + start, end=each.end + start)
            for each in find_fences(lines[start:])
        ]
        for fence in fences:
            if fence.closed:
                is_code[fence.start : fence.end] = [True] * (fence.end - fence.start)
        if not fences or fences[-1].closed:
            break
        start = fences[-1].start + 1
        warnings.append(
            f"Line {skipped + start}: this code fence is never closed; the rest was read as text."
        )
    return is_code


def blank_comments(
    lines: list[str], is_code: Sequence[bool], skipped: int, warnings: list[str]
) -> None:
    opened = -1  # the line on which a comment began
    items = 0
    kept = list(lines)
    for n, line in enumerate(lines):
        if is_code[n] and opened < 0:
            continue
        at, rest = 0, ""
        masked = INLINE_CODE.sub(lambda code: "." * len(code[0]), line) if "`" in line else line
        while at < len(line):
            if opened >= 0:
                end = line.find("-->", at)
                inside = line[at : end if end >= 0 else len(line)]
                items += looks_like_work(inside.removeprefix("<!--"))
                if end < 0:
                    break
                if items:
                    lines_of = f"Line {skipped + n + 1}"
                    if opened != n:
                        lines_of = f"Lines {skipped + opened + 1} to {skipped + n + 1}"
                    what = "1 item" if items == 1 else f"{items} items"
                    warnings.append(f"{lines_of}: {what} in a comment: not imported.")
                opened, items, at = -1, 0, end + 3
            else:
                start = masked.find("<!--", at)
                if start < 0:
                    rest += line[at:]
                    break
                rest += line[at:start]
                opened, at = n, start + 4
        kept[n] = rest
    if opened >= 0:
        warnings.append(
            f"Line {skipped + opened + 1}: this comment is never closed; it was read as text."
        )
        kept[opened:] = lines[opened:]
    lines[:] = kept


def looks_like_work(line: str) -> bool:
    return read_item(line) is not None or is_task_heading(line)


def is_task_heading(line: str) -> bool:
    heading = read_heading(line)
    return bool(heading and TASK_HEADING.match(heading[2]))


def has_stray_box(line: str) -> bool:
    # Cells of tables have such boxes.
    return "[" in line and bool(STRAY_BOX.search(INLINE_CODE.sub("", line)) or CODE_BOX.match(line))
