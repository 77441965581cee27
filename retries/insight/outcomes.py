"""Count how tasks ended, by group, by number of attempts and over time (pure)."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# the tasks that a group needs before its figures are shown
LEAST_TASKS = 50
MOST_ATTEMPTS = 4
# An attempt is useful if it adds so many points to the share of done tasks.
USEFUL_POINTS = 5


@dataclass(frozen=True, slots=True)
class Ending:
    """A task's end, by its groups: done after so many attempts, or None if it was not done."""

    groups: tuple[tuple[str, str], ...]
    at: datetime
    done_after: int | None
    is_proven: bool = False


@dataclass(slots=True)
class Group:
    """The tasks of one group: how many, done after each number of attempts, and by slot."""

    slots: list[list[int]]  # of equal length, oldest first: tasks, and those that were done
    tasks: int = 0
    done_after: list[int] = field(default_factory=lambda: [0] * MOST_ATTEMPTS)
    done: int = 0
    proven: int = 0

    @property
    def shares(self) -> list[int]:
        """Return the percentages of tasks done after at most 1, 2, 3 and 4 attempts."""
        return [
            round(100 * sum(self.done_after[: n + 1]) / self.tasks) for n in range(MOST_ATTEMPTS)
        ]

    @property
    def most_useful(self) -> int:
        """Return the last attempt that adds five points or more; the first if none does."""
        gains = [100 * count / self.tasks for count in self.done_after]
        useful = [n for n, gain in enumerate(gains, 1) if gain >= USEFUL_POINTS]
        return max(useful, default=1)

    @property
    def proven_share(self) -> int | None:
        """Return the percentage of done tasks that are proven; None without done tasks."""
        return round(100 * self.proven / self.done) if self.done else None

    @property
    def done_by_slot(self) -> list[int | None]:
        """Return the percentage of tasks done in each slot of time; None for an empty slot."""
        return [round(100 * done / tasks) if tasks else None for tasks, done in self.slots]

    def to_data(self) -> dict[str, Any]:
        return {
            "n": self.tasks,
            "shares": self.shares,
            "most_useful": self.most_useful,
            "slots": self.done_by_slot,
            "proven": self.proven_share,
        }


def count_endings(
    endings: Iterable[Ending], *, since: datetime, now: datetime, slots: int
) -> dict[tuple[str, str], Group]:
    """Return the groups of all tasks by kind and key, each with `slots` slots of time."""
    groups: dict[tuple[str, str], Group] = defaultdict(
        lambda: Group([[0, 0] for _ in range(slots)])
    )
    length = (now - since) / slots
    for each in endings:
        slot = min(slots - 1, int((each.at - since) / length))
        for key in each.groups:
            group = groups[key]
            group.tasks += 1
            group.done += each.done_after is not None
            group.proven += each.is_proven
            done = each.done_after is not None and each.done_after <= MOST_ATTEMPTS
            if done and each.done_after:
                group.done_after[each.done_after - 1] += 1
            if slot >= 0:
                group.slots[slot][0] += 1
                group.slots[slot][1] += done
    return dict(groups)
