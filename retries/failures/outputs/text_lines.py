"""The lines of a long text, found on demand (pure).

A list of many short lines is many times larger than its text, and takes long to make.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TypeVar, overload

T = TypeVar("T", str, bytes)

# line ends are counted for each part of this length
PART = 4_096
add_newline = (1).__add__


def number_lines(text: str, positions: Iterable[int]) -> list[int]:
    """Return the numbers of the lines at some positions, which are in order, each once.

    >>> number_lines("one\\ntwo\\nthree", [4, 5, 9])
    [1, 2]
    """
    numbers: list[int] = []
    number = last = 0
    for at in positions:
        number += text.count("\n", last, at)
        last = at
        if not numbers or numbers[-1] != number:
            numbers.append(number)
    return numbers


def choose_possible(words: Iterable[T], text: T) -> list[T]:
    """Return the words whose characters are all in a text: others need not be searched in it.

    >>> choose_possible(["error", "fail"], "a life")
    ['fail']
    """
    words = list(words)
    absent = {each for each in set().union(*words) if each not in text}
    return [word for word in words if absent.isdisjoint(word)]


class TextLines(Sequence[str]):
    """The lines of a text as `text.split("\\n")` returns them.

    >>> lines = TextLines("one\\n\\ntwo")
    >>> list(lines), lines[-1], lines.number_at(6), lines.start_of(2)
    (['one', '', 'two'], 'two', 2, 5)
    """

    def __init__(self, text: str) -> None:
        self.text = text
        counts = (text.count("\n", at, at + PART) for at in range(0, len(text), PART))
        # the number of line ends before each part
        self.counts = array("I", accumulate(counts, initial=0))
        self.part, self.part_starts = -1, array("I")

    def __len__(self) -> int:
        return self.counts[-1] + 1

    def number_at(self, position: int) -> int:
        part = position // PART
        return self.counts[part] + self.text.count("\n", part * PART, position)

    def start_of(self, number: int) -> int:
        # The line after the last one begins after the text.
        if number <= 0:
            return 0
        if number > self.counts[-1]:
            return len(self.text) + 1
        part = bisect_left(self.counts, number) - 1
        if part != self.part:
            self.part, self.part_starts = part, self.find_starts(part * PART)
        return self.part_starts[number - self.counts[part] - 1]

    def find_starts(self, at: int) -> "array[int]":
        *ended, _ = self.text[at : at + PART].split("\n")
        starts = array("I", accumulate(map(add_newline, map(len, ended)), initial=at))
        return starts[1:]

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        start = self.start_of(number)
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else None]
