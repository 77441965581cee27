"""Group dead letters by the cause of their errors (pure)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger.text import truncate
from retries.failures.fingerprints import compute_fingerprint, make_template
from retries.failures.salience import find_headline

CAUSE_LENGTH = 160


def find_cause(error: str) -> str:
    """Return the headline of an error with marks for its varying parts.

    >>> find_cause("timeout after 300 s: npx test")
    'timeout after ‹amount›: npx test'
    """
    return truncate(make_template(find_headline(error).cause), CAUSE_LENGTH) or "no error text"


@dataclass(frozen=True, slots=True)
class CauseGroup:
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
    def open_letters(self) -> list[Any]:
        return [letter for letter in self.letters if letter.closed_at is None]

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for one of these."""
        return sum(letter.waiting for letter in self.letters)


def group_by_cause(letters: Iterable[Any]) -> list[CauseGroup]:
    """Return the groups, the largest first, then the one with the newest dead letter."""
    found: dict[str, CauseGroup] = {}
    for letter in letters:
        cause = find_cause(letter.error)
        found.setdefault(compute_fingerprint(cause), CauseGroup(cause, [])).letters.append(letter)
    groups = list(found.values())
    return sorted(groups, key=lambda group: (-len(group.letters), -group.last_at.timestamp()))
