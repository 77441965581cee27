"""Split the time that escalations take into its phases (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, TypeVar

T = TypeVar("T")
LEAST_ANSWERS = 20


@dataclass(frozen=True, slots=True)
class AnsweredCase:
    """An answered escalation, with the attempt that followed the answer, if there was one.

    While its task waits for that attempt, it starts now; while the attempt runs, it ends now.
    """

    opened_at: datetime
    seen_at: datetime | None
    answered_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def phases(self) -> tuple[float, float, float, float]:
        """Return the seconds in which it was unseen, thought about, waiting, and running again."""
        # An escalation that was answered without its page, for example by mail, was unseen until
        # then.
        seen = max(self.opened_at, min(self.seen_at or self.answered_at, self.answered_at))
        started = max(self.answered_at, self.started_at or self.answered_at)
        ended = max(started, self.ended_at or started)
        return (
            (seen - self.opened_at).total_seconds(),
            (self.answered_at - seen).total_seconds(),
            (started - self.answered_at).total_seconds(),
            (ended - started).total_seconds(),
        )


def describe_cases(cases: Sequence[AnsweredCase]) -> dict[str, Any]:
    """Return the number of cases and, with enough of them, the median and the 90th percentile."""
    # The phases are those of the median case: the means of the middle fifth by their sum.
    if len(cases) < LEAST_ANSWERS:
        return {"n": len(cases)}
    ordered = sorted((each.phases for each in cases), key=sum)
    fifth = max(1, len(ordered) // 5)
    start = (len(ordered) - fifth) // 2
    middle = ordered[start : start + fifth]
    return {
        "n": len(cases),
        "phases": [round(sum(each[n] for each in middle) / fifth, 1) for n in range(4)],
        "within": round(sum(find_ninth(ordered)), 1),
    }


def describe_answer_times(cases: Sequence[AnsweredCase]) -> dict[str, Any]:
    if len(cases) < LEAST_ANSWERS:
        return {"n": len(cases)}
    seconds = sorted((each.answered_at - each.opened_at).total_seconds() for each in cases)
    return {
        "n": len(cases),
        "median": round(median(seconds), 1),
        "within": round(find_ninth(seconds), 1),
    }


def find_ninth(ordered: Sequence[T]) -> T:
    return ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
