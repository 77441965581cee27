"""Group dead letters by the cause of their errors (pure)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.values.text import truncate
from retries.failures.fingerprints import compute_fingerprint, make_template
from retries.failures.outputs.salience import find_headline

CAUSE_LENGTH = 160


def find_cause(error: str) -> str:
    """Return the headline of an error with marks for its varying parts.

    >>> find_cause("timeout after 300 s: npx test")
    'timeout after ‹amount›: npx test'
    """
    return truncate(make_template(find_headline(error).cause), CAUSE_LENGTH) or "no error text"


@dataclass(frozen=True, slots=True)
class CauseCounts:
    """Totals of a pattern's dead letters in a list, including those on other pages."""

    total: int
    open: int
    waiting: int  # tasks that wait for one of these
    attempts: int
    last_at: datetime
    agents: list[str]
    are_some: bool  # the list has more dead letters than were counted


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """Dead letters of one cause on a page, newest first; `counts` are those of the whole list.

    The cause is the pattern of the last failure. A dead letter without one is grouped by its
    error's text, and counted on the page alone.
    """

    id: str
    cause: str
    letters: list[Any]
    pattern: Mapping[str, Any] | None = None
    counts: CauseCounts | None = None

    @property
    def pattern_id(self) -> UUID | None:
        return UUID(self.pattern["id"]) if self.pattern else None

    @property
    def fingerprint(self) -> str:
        return self.pattern["fingerprint"] if self.pattern else ""

    @property
    def project(self) -> str:
        name: str = self.last.project.name
        return name

    @property
    def last(self) -> Any:
        return self.letters[0]

    @property
    def failure_type(self) -> str:
        return self.last.failure_type or ""

    @property
    def first_at(self) -> datetime:
        if self.pattern:
            return datetime.fromisoformat(self.pattern["first_seen"])
        first: datetime = min(letter.failed_at for letter in self.letters)
        return first

    @property
    def last_at(self) -> datetime:
        if self.counts:
            return self.counts.last_at
        last: datetime = max(letter.failed_at for letter in self.letters)
        return last

    @property
    def agents(self) -> list[str]:
        if self.counts:
            return self.counts.agents
        return sorted({letter.agent.name for letter in self.letters})

    @property
    def attempts(self) -> int:
        if self.counts:
            return self.counts.attempts
        return sum(letter.task.attempts for letter in self.letters)

    @property
    def total(self) -> int:
        return self.counts.total if self.counts else len(self.letters)

    @property
    def number(self) -> str:
        return self.number_of(self.total)

    @property
    def elsewhere(self) -> int:
        """The number of its dead letters that are on other pages of the list."""
        return self.total - len(self.letters)

    @property
    def open_letters(self) -> list[Any]:
        return [letter for letter in self.letters if letter.closed_at is None]

    @property
    def open(self) -> int:
        return self.counts.open if self.counts else len(self.open_letters)

    @property
    def open_number(self) -> str:
        return self.number_of(self.open)

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for one of these."""
        if self.counts:
            return self.counts.waiting
        # Without counts, only the page's own dead letters are known.
        return sum(letter.waiting for letter in self.letters)

    def number_of(self, count: int) -> str:
        return f"{count:,}{'+' if self.counts and self.counts.are_some else ''}"


def group_by_cause(letters: Iterable[Any]) -> list[CauseGroup]:
    found: dict[str, CauseGroup] = {}
    for letter in letters:
        pattern = letter.cause_pattern
        cause = pattern["template"] if pattern else find_cause(letter.error)
        # the end of an id, because ids of the same time begin alike
        id = pattern["id"][-8:] if pattern else compute_fingerprint(cause)[:8]
        found.setdefault(id, CauseGroup(id, cause, [], pattern)).letters.append(letter)
    return list(found.values())


def add_counts(
    groups: Iterable[CauseGroup], counts: Mapping[UUID, CauseCounts]
) -> list[CauseGroup]:
    # The largest group comes first; among equals, the one that failed last.
    counted = [
        replace(group, counts=counts.get(group.pattern_id) if group.pattern_id else None)
        for group in groups
    ]
    return sorted(counted, key=lambda group: (-group.total, -group.last_at.timestamp()))
