"""What changed from one error to the next (pure): a diff of lines, long same stretches left out."""

from dataclasses import dataclass
from difflib import SequenceMatcher

MOST_LINES = 400
LINE_LENGTH = 300
AROUND = 3  # same lines that are shown beside a change

SAME, GONE, NEW, CUT = " ", "−", "+", "…"
CLASSES = {SAME: "", GONE: "del", NEW: "add", CUT: "cut"}


@dataclass(frozen=True, slots=True)
class Line:
    sign: str
    text: str

    @property
    def css(self) -> str:
        return CLASSES[self.sign]


@dataclass(frozen=True, slots=True)
class Diff:
    """The lines, and how many of those before are gone and how many are new."""

    lines: list[Line]
    gone: int
    new: int

    @property
    def said(self) -> str:
        """The finding in words.

        >>> diff("a\\nb", "a\\nc").said
        '1 line removed, 1 added'
        """
        if not self.gone and not self.new:
            return "the same error"
        gone = (
            f"{self.gone} line{'' if self.gone == 1 else 's'} removed"
            if self.gone
            else "none removed"
        )
        return f"{gone}, {self.new or 'none'} added"


def diff(before: str, after: str) -> Diff:
    """What is gone of `before` and new in `after`, line by line."""
    old, new = lines_of(before), lines_of(after)
    found: list[Line] = []
    for what, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            found += shortened(old[a:b], first=a == 0, last=b == len(old) and d == len(new))
        else:
            found += [Line(GONE, text) for text in old[a:b]]
            found += [Line(NEW, text) for text in new[c:d]]
    signs = [line.sign for line in found]
    return Diff(found, signs.count(GONE), signs.count(NEW))


def lines_of(text: str) -> list[str]:
    """The last lines, each of a bearable length: what went wrong is told at the end."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return [line[:LINE_LENGTH] for line in lines[-MOST_LINES:]]


def shortened(texts: list[str], *, first: bool, last: bool) -> list[Line]:
    """A same stretch, without its middle; the ends of the text need no surroundings."""
    before, after = (0 if first else AROUND), (0 if last else AROUND)
    hidden = len(texts) - before - after
    if first and last:
        before, hidden = AROUND, len(texts) - AROUND
    if hidden < 2:
        return [Line(SAME, text) for text in texts]
    cut = Line(CUT, f"{hidden} unchanged lines")
    head = [Line(SAME, text) for text in texts[:before]]
    return [*head, cut, *(Line(SAME, text) for text in texts[before + hidden :])]
