"""What dead letters died of (pure): errors without their numbers, names and paths, in groups."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

LONGEST = 160
# what differs between two errors of the same cause, and what stands for it
PARTS = (
    (re.compile(r"(['\"`“])[^'\"`”\n]{1,200}['\"`”]"), "‹name›"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}\b"), "‹id›"),
    (re.compile(r"(?<![\w.])(?:\.{0,2}/|[A-Za-z]:\\)[\w.@~+\\/-]+"), "‹path›"),
    (re.compile(r"\b(?=\w*\d)[0-9a-f]{8,}\b"), "‹id›"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "‹n›"),
)


def cause(error: str) -> str:
    """The line that says what went wrong, without what differs from case to case.

    >>> cause("timeout after 300 s: npx test")
    'timeout after ‹n› s: npx test'
    """
    lines = [line.strip() for line in error[:20_000].splitlines() if line.strip()]
    if not lines:
        return "no error text"
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    line = line[: 2 * LONGEST]
    for pattern, word in PARTS:
        line = pattern.sub(word, line)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters of one cause, newest first."""

    cause: str
    letters: list[Any]

    @property
    def id(self) -> str:
        return sha256(self.cause.encode()).hexdigest()[:8]

    @property
    def last(self) -> Any:
        return self.letters[0]

    @property
    def failure_type(self) -> str:
        return self.last.failure_type or ""

    @property
    def first_at(self) -> datetime:
        first: datetime = min(letter.failed_at for letter in self.letters)
        return first

    @property
    def last_at(self) -> datetime:
        last: datetime = max(letter.failed_at for letter in self.letters)
        return last

    @property
    def agents(self) -> list[str]:
        return sorted({letter.agent.name for letter in self.letters})

    @property
    def attempts(self) -> int:
        return sum(letter.task.attempts for letter in self.letters)

    @property
    def open_ones(self) -> list[Any]:
        return [letter for letter in self.letters if letter.closed_at is None]

    @property
    def waiting(self) -> int:
        """How many tasks wait for one of them."""
        return sum(letter.waiting for letter in self.letters)


def grouped(letters: Iterable[Any]) -> list[Group]:
    """By cause, the largest group first, then the one with the newest."""
    found: dict[str, list[Any]] = {}
    for letter in letters:
        found.setdefault(cause(letter.error), []).append(letter)
    groups = [Group(name, each) for name, each in found.items()]
    return sorted(groups, key=lambda group: (-len(group.letters), -group.last_at.timestamp()))
