"""Compare what two attempts were told, line by line and element by element (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

SAME, ONLY_FIRST, ONLY_SECOND = "", "−", "+"
CSS = {SAME: "", ONLY_FIRST: "del", ONLY_SECOND: "add"}
WHO = {ONLY_FIRST: "only the first was told", ONLY_SECOND: "only the second was told"}


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """A line of one of the blocks, or of both."""

    sign: str
    text: str
    is_start: bool = False  # set on the first of several lines that only one block has

    @property
    def css(self) -> str:
        return CSS[self.sign]

    @property
    def who(self) -> str:
        # Screen readers hear the attempt where its lines begin.
        return WHO.get(self.sign, "") if self.is_start else ""


def compare_lines(first: str, second: str) -> list[ComparedLine]:
    """Return all lines of two blocks in order, each marked with its block.

    >>> [line.sign + line.text for line in compare_lines("a\\nb", "a\\nc")]
    ['a', '−b', '+c']
    """
    old, new = first.splitlines(), second.splitlines()
    lines: list[ComparedLine] = []
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [ComparedLine(SAME, text) for text in old[a:b]]
        else:
            lines += mark(ONLY_FIRST, old[a:b])
            lines += mark(ONLY_SECOND, new[c:d])
    return lines


def mark(sign: str, texts: list[str]) -> list[ComparedLine]:
    return [ComparedLine(sign, text, is_start=not number) for number, text in enumerate(texts)]


@dataclass(frozen=True, slots=True)
class ComparedElement:
    """The number of elements of one name in each block."""

    name: str
    first: int
    second: int

    @property
    def differs(self) -> bool:
        return self.first != self.second


def compare_elements(
    first: Mapping[str, int] | None, second: Mapping[str, int] | None
) -> list[ComparedElement]:
    one, two = first or {}, second or {}
    return [
        ComparedElement(name, one.get(name, 0), two.get(name, 0)) for name in sorted({*one, *two})
    ]
