"""Describe an agent's circuit breaker for its diagram: the state, the reason, the probe (pure)."""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.sentences.tasks import breaker_reason
from dashboard.wording.badges import breaker_badge
from dashboard.wording.formatting import counted, whole_duration
from ledger.states import BreakerState
from retries.breaker import CircuitBreakerConfig

MAX_DOTS = 10  # a higher threshold is shown as a number


@dataclass(frozen=True, slots=True)
class Probe:
    """The attempt that tests a half-open breaker; a call in the same process has no task."""

    task_id: Any = None
    title: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class BreakerView:
    state: BreakerState
    config: CircuitBreakerConfig
    failures: int = 0
    successes: int = 0
    trips: int = 0
    reason: str = ""
    left: int | None = None  # seconds until it becomes half open; None if it is kept open
    kept_open_at: datetime | None = None
    probe: Probe | None = None

    @property
    def label(self) -> str:
        return breaker_badge(self.state).label

    @property
    def icon(self) -> str:
        return breaker_badge(self.state).icon

    @property
    def css(self) -> str:
        return breaker_badge(self.state).css

    @property
    def is_closed(self) -> bool:
        return self.state == BreakerState.CLOSED

    @property
    def is_open(self) -> bool:
        return self.state == BreakerState.OPEN

    @property
    def is_kept_open(self) -> bool:
        return self.is_open and self.kept_open_at is not None

    @property
    def is_half_open(self) -> bool:
        return self.state == BreakerState.HALF_OPEN

    @property
    def stays_open(self) -> int:
        return math.ceil(self.config.timeout_seconds)

    @property
    def dots(self) -> list[bool]:
        """Return a dot for each failure of the threshold, true for those that occurred."""
        threshold = self.config.failure_threshold
        return [n < self.failures for n in range(threshold)] if threshold <= MAX_DOTS else []

    @property
    def run(self) -> str:
        """Return the consecutive failures out of those that open the breaker."""
        threshold = counted(self.config.failure_threshold, "consecutive failure")
        return f"{self.failures} of {threshold}"

    @property
    def opens_after(self) -> str:
        failures = counted(self.config.failure_threshold, "failure")
        return f"{self.failures} of {failures}" if self.is_closed else failures

    @property
    def closes_after(self) -> str:
        if not self.is_half_open or not self.successes:
            return "probe passes"
        return f"{self.successes} of {self.config.success_threshold} passed"

    @property
    def summary(self) -> str:
        if self.is_closed:
            return f"The breaker is closed: {self.run}."
        if self.is_half_open:
            probe = "A probe is running." if self.probe else "It is waiting for a probe."
            return f"The breaker is half open. {probe}"
        if self.is_kept_open:
            return "The breaker is open. It stays open until a person closes or probes it."
        soon = f"in {whole_duration(self.left)}" if self.left else "at the next claim"
        return f"The breaker is open. It becomes half open {soon}."


def describe_breaker(agent: Any, *, now: datetime, config: CircuitBreakerConfig) -> BreakerView:
    breaker = getattr(agent, "breaker", None)
    # an agent has no row until its first failure
    if breaker is None:
        return BreakerView(BreakerState.CLOSED, config)
    left = None
    if breaker.state == BreakerState.OPEN and not breaker.is_kept_open:
        ahead = breaker.opened_at + config.open_for - now
        left = max(math.ceil(ahead.total_seconds()), 0)
    return BreakerView(
        BreakerState(breaker.state),
        config,
        failures=breaker.failures,
        successes=breaker.successes,
        trips=breaker.trips,
        reason=breaker_reason({"reason": breaker.reason}),
        left=left,
        kept_open_at=breaker.kept_open_at,
        probe=probe_of(agent) if breaker.state == BreakerState.HALF_OPEN else None,
    )


def probe_of(agent: Any) -> Probe | None:
    # the breaker keeps the id of a probe that a release or an abort has ended
    if agent.breaker.probe_attempt is None or agent.probe_ended:
        return None
    return Probe(agent.probe_task, agent.probe_title or "", agent.probe_since)
