"""When a window of an account will be full, as far as its figure tells."""

from datetime import timedelta

import pytest

from dashboard.agents.account_limits import AccountLimit
from ledger.values.account_windows import LEAST_FACTS
from tests.factories import NOW

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("window", "used", "resets_in", "seen_ago", "full_in"),
    [
        # half of it was used in the first hour of five
        ("five_hours", 0.5, 4, 0, 1),
        ("five_hours", 0.5, 3.5, 0.5, 0.5),
        ("week", 0.8, 48, 0, 30),
        # it resets before, is full, was nearly unused, has just begun, or its figure is too old
        ("five_hours", 0.5, 2, 0, None),
        ("five_hours", 1.0, 2, 0, None),
        ("five_hours", 0.04, 0.5, 0, None),
        ("five_hours", 0.5, 4.9, 0, None),
        ("five_hours", 0.5, 3, 2, None),
        ("five_hours", 0.5, -1, 2, None),
        # its length is not known, or its reset
        ("credit", 0.5, 4, 0, None),
        ("week", 0.5, None, 0, None),
    ],
)
def test_the_time_at_which_a_window_will_be_full(
    window: str, used: float, resets_in: float | None, seen_ago: float, full_in: float | None
) -> None:
    at = None if resets_in is None else NOW + resets_in * HOUR
    limit = AccountLimit(window, used, at, "codex", NOW - seen_ago * HOUR, LEAST_FACTS, NOW)
    expected = None if full_in is None else NOW + full_in * HOUR
    assert limit.full_at == expected or abs(limit.full_at - expected) < timedelta(seconds=1)  # type: ignore[operator]
    assert bool(limit.waits_for) is (full_in is not None)


@pytest.mark.parametrize(
    ("used", "percent", "tone"),
    [(0, 0, ""), (0.799, 80, ""), (0.8, 80, "amber"), (0.999, 99, "amber"), (1, 100, "red")],
)
def test_only_a_full_window_shows_100_percent(used: float, percent: int, tone: str) -> None:
    limit = AccountLimit("week", used, None, "codex", NOW, 1, NOW)
    assert (limit.percent, limit.tone) == (percent, tone)


@pytest.mark.parametrize(
    ("used", "resets_in", "facts", "few"),
    [
        (0.5, 4, LEAST_FACTS, False),
        (0.5, 4, LEAST_FACTS - 1, True),
        (0.04, 0.5, LEAST_FACTS, True),
        (0.5, 4.9, LEAST_FACTS, True),
        # there is nothing to forecast
        (1.0, 4, 1, False),
        (0.5, -1, 1, False),
        (0.5, None, 1, False),
    ],
)
def test_a_forecast_of_few_data_says_so(
    used: float, resets_in: float | None, facts: int, few: bool
) -> None:
    at = None if resets_in is None else NOW + resets_in * HOUR
    limit = AccountLimit("five_hours", used, at, "codex", NOW, facts, NOW)
    assert limit.forecast.has_few_data is few
    assert not (few and limit.full_at)
