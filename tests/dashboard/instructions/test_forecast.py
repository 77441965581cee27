"""The forecast of an instruction's next delivery."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.instructions.forecast import Clock, Forecast, forecast

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def clock(last_run: float | None = 20, *, min_age: float = 30) -> Clock:
    at = None if last_run is None else ago(last_run)
    return Clock(timedelta(seconds=60), timedelta(seconds=min_age), at)


@pytest.mark.parametrize(
    ("delivered", "last_run", "min_age", "seconds"),
    [
        (100, 20, 30, 40),  # old enough: the next tick
        (5, 20, 30, 40),  # old enough before the next tick
        (5, 20, 60, 100),  # old enough only for the tick after it
        (30, 60, 30, 0),  # a tick is due now
        (100, 100, 0, 20),  # one tick was missed
    ],
)
def test_next_check_is_the_first_tick_after_the_minimum_age(
    delivered: float, last_run: float, min_age: float, seconds: int
) -> None:
    at = clock(last_run, min_age=min_age).next_check(ago(delivered), now=NOW)
    assert at == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize("last_run", [None, 121, 9999])
def test_next_check_is_unknown_while_the_clock_is_late(last_run: float | None) -> None:
    assert clock(last_run).is_late(NOW)
    assert clock(last_run).next_check(ago(50), now=NOW) is None


def test_busy_queue_hides_the_time() -> None:
    result = forecast(
        delivered_at=ago(50), retry_count=3, max_retries=3, queue_busy=True, clock=clock(), now=NOW
    )
    assert result == Forecast(gives_up=True, at=None, queue_busy=True)
