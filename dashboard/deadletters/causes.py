"""What dead letters died of (pure): in groups of those whose errors say the same."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger.text import truncate
from retries.failures.fingerprints import compute_fingerprint, find_headline, make_template

CAUSE_LENGTH = 160


def cause(error: str) -> str:
    """The line that says what went wrong, without what differs from case to case.

    >>> cause("timeout after 300 s: npx test")
    'timeout after ‹amount›: npx test'
    """
    return truncate(make_template(find_headline(error)), CAUSE_LENGTH) or "no error text"


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters of one cause, newest first."""

    cause: str
    letters: list[Any]

    @property
    def id(self) -> str:
        return compute_fingerprint(self.cause)[:8]

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
    found: dict[str, Group] = {}
    for letter in letters:
        said = cause(letter.error)
        found.setdefault(compute_fingerprint(said), Group(said, [])).letters.append(letter)
    groups = list(found.values())
    return sorted(groups, key=lambda group: (-len(group.letters), -group.last_at.timestamp()))
