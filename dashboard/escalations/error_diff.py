"""Compare the errors of two attempts line by line, without long unchanged stretches (pure)."""

from dataclasses import dataclass
from difflib import SequenceMatcher

MOST_LINES = 400
LINE_LENGTH = 300
CONTEXT_LINES = 3  # unchanged lines to show beside a change

SAME, REMOVED, ADDED, OMITTED = " ", "−", "+", "…"
CLASSES = {SAME: "", REMOVED: "del", ADDED: "add", OMITTED: "cut"}


@dataclass(frozen=True, slots=True)
class DiffLine:
    sign: str
    text: str

    @property
    def css(self) -> str:
        return CLASSES[self.sign]


@dataclass(frozen=True, slots=True)
class Diff:
    """The lines of a comparison and the numbers of removed and added ones."""

    lines: list[DiffLine]
    removed: int
    added: int

    @property
    def summary(self) -> str:
        """A short description of the difference.

        >>> diff("a\\nb", "a\\nc").summary
        '1 line removed, 1 added'
        """
        if not self.removed and not self.added:
            return "the same error"
        lines = f"{self.removed} line{'' if self.removed == 1 else 's'}" if self.removed else "none"
        return f"{lines} removed, {self.added or 'none'} added"


def diff(before: str, after: str) -> Diff:
    """Compare two texts line by line."""
    old, new = last_lines(before), last_lines(after)
    lines: list[DiffLine] = []
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += shorten_same(old[a:b], first=a == 0, last=b == len(old) and d == len(new))
        else:
            lines += [DiffLine(REMOVED, text) for text in old[a:b]]
            lines += [DiffLine(ADDED, text) for text in new[c:d]]
    signs = [line.sign for line in lines]
    return Diff(lines, signs.count(REMOVED), signs.count(ADDED))


def last_lines(text: str) -> list[str]:
    """Return the last lines of a text, where errors explain themselves, each cut to size."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return [line[:LINE_LENGTH] for line in lines[-MOST_LINES:]]


def shorten_same(texts: list[str], *, first: bool, last: bool) -> list[DiffLine]:
    """Return unchanged lines without the middle; at an end of the text, without that end."""
    before, after = (0 if first else CONTEXT_LINES), (0 if last else CONTEXT_LINES)
    omitted = len(texts) - before - after
    if first and last:
        before, omitted = CONTEXT_LINES, len(texts) - CONTEXT_LINES
    if omitted < 2:
        return [DiffLine(SAME, text) for text in texts]
    gap = DiffLine(OMITTED, f"{omitted} unchanged lines")
    head = [DiffLine(SAME, text) for text in texts[:before]]
    return [*head, gap, *(DiffLine(SAME, text) for text in texts[before + omitted :])]
