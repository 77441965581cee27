"""The chart of outcomes."""

import re
from datetime import UTC, datetime

import pytest

from dashboard.overview.outcome_chart import draw_outcomes
from tests.dashboard.overview.conftest import a_day


def test_the_last_half_hour_is_the_current_one() -> None:
    days = a_day()
    assert (days[0].at, days[-1].at) == (
        datetime(2026, 11, 20, 15, 0, tzinfo=UTC),
        datetime(2026, 11, 21, 14, 30, tzinfo=UTC),
    )


def test_the_parts_of_a_bar_are_stacked() -> None:
    chart = draw_outcomes(a_day(sent=10, first=5, reminded=3, failed=1, waiting=1))
    assert (chart.top, chart.half, chart.first, chart.failed) == (10, 5, 240, 48)
    assert len(chart.bars) == 48 and chart.bars[-1].hit == pytest.approx(97.92)
    drawn = re.findall(
        r'class="(f-[a-z]+)".*?y="([\d.]+)".*?height="([\d.]+)"', chart.bars[0].parts
    )
    assert [css for css, _, _ in drawn] == ["f-ok", "f-retry", "f-wait", "f-fail"]
    tops = [float(y) for _, y, _ in drawn]
    assert tops == sorted(tops, reverse=True) and tops[0] == 72.0
    assert chart.bars[0].tip.startswith("15:00 to 15:30|First delivery 5|After a reminder 3")
    assert [f"{tick.at:%H:%M}" for tick in chart.ticks] == [
        "16:00",
        "20:00",
        "00:00",
        "04:00",
        "08:00",
        "12:00",
    ]


def test_an_empty_chart_has_an_axis() -> None:
    chart = draw_outcomes(a_day())
    assert chart.top == 2 and all(bar.parts == "" for bar in chart.bars)
