"""Times, durations and names as text."""

import doctest
from datetime import UTC, datetime, timedelta

from dashboard.wording import formatting

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def test_doctests() -> None:
    assert doctest.testmod(formatting).failed == 0


def test_times_of_other_days_have_a_date() -> None:
    assert formatting.clock_time(ago(3725), now=NOW) == "10:57:55"
    assert formatting.clock_time(ago(86_400), now=NOW) == "20 Nov 12:00"
    assert formatting.clock_time(ago(400 * 86_400), now=NOW) == "17 Oct 2025 12:00"
    assert [formatting.monogram(name) for name in ("coder", "x", "–", "סוכן")] == [
        "co",
        "x",
        "·",
        "סו",
    ]
