"""Find the agents that are out of their usual range (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from dashboard.agents.rates import DAY, Rates, Sums

LEAST = 10  # attempts or tasks on either side
WORSE = 0.10  # the least change of a share
SLOWER = 2.0
FEWER = 0.5


@dataclass(frozen=True, slots=True)
class UnusualAgent:
    """An agent, its unusual figure, and how far that is out of its range."""

    id: UUID
    why: str
    distance: float
    rates: Rates


def list_unusual(
    rates: Mapping[UUID, Rates], open_breakers: Mapping[UUID, str]
) -> list[UnusualAgent]:
    """Return the agents with an open breaker, then those that got worse in a day, worst first."""
    # `open_breakers` says why each of them is open.
    found = []
    for id in [*open_breakers, *(id for id in rates if id not in open_breakers)]:
        each = rates.get(id) or Rates(DAY)
        reason = find_reason(each.now, each.before)
        if reason:
            found.append(UnusualAgent(id, reason[1], reason[0], each))
        elif id in open_breakers:
            found.append(UnusualAgent(id, open_breakers[id], 0, each))
    return sorted(
        found, key=lambda agent: (agent.id not in open_breakers, -agent.distance, str(agent.id))
    )


def find_reason(now: Sums, before: Sums) -> tuple[float, str] | None:
    """Return the largest change for the worse and its text, or None."""
    reasons = []
    if now.attempts >= LEAST and before.attempts >= LEAST:
        worse = (now.error_rate or 0) - (before.error_rate or 0)
        if worse >= WORSE:
            text = f"Errors up from {before.error_rate:.0%} to {now.error_rate:.0%}"
            reasons.append((worse, text))
        slower = (now.seconds_per_attempt or 0) / (before.seconds_per_attempt or 1)
        if slower >= SLOWER:
            reasons.append((slower / 10, f"{slower:.0f} × slower than the day before"))
    if now.finished >= LEAST and before.finished >= LEAST:
        lower = (before.first_rate or 0) - (now.first_rate or 0)
        if lower >= WORSE:
            text = f"First-attempt success down {100 * lower:.0f} pt"
            reasons.append((lower, text))
    if before.tasks_done >= 2 * LEAST and now.tasks_done <= FEWER * before.tasks_done:
        text = f"{now.tasks_done:,} tasks done, {before.tasks_done:,} the day before"
        reasons.append((0.1, text))
    return max(reasons, default=None)
