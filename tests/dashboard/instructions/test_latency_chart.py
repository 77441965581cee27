"""The chart of latencies."""

import pytest

from dashboard.instructions import latency_chart


def test_every_count_has_a_visible_bar() -> None:
    bars = latency_chart.latency_bars(
        {(0, False): 1, (2, False): 1000, (2, True): 500, (7, True): 3}
    )
    assert [bar.total for bar in bars] == [1, 0, 1500, 0, 0, 0, 0, 3]
    assert bars[0].first_height == 1.5  # a minimum height
    assert bars[2].first_height + bars[2].reminded_height == pytest.approx(
        latency_chart.TALLEST, abs=0.2
    )
    assert all(bar.y_reminded >= latency_chart.BASE - latency_chart.TALLEST - 0.1 for bar in bars)
    assert latency_chart.latency_bars({})[0].total == 0


@pytest.mark.parametrize(
    ("seconds", "x"), [(0, 0), (1, 12.5), (3, 31.25), (8, 50), (59, 87.08), (9e9, 99)]
)
def test_latency_has_its_place_on_the_axis(seconds: float, x: float) -> None:
    assert latency_chart.latency_x(seconds) == x


def test_close_labels_are_on_two_lines() -> None:
    assert [mark.y for mark in latency_chart.percentile_lines(1, 2, labels=("a", "b"))] == [11, 25]
    assert [mark.y for mark in latency_chart.percentile_lines(4, 8, labels=("a", "b"))] == [11, 11]
    assert latency_chart.percentile_lines(None, None, labels=("a", "b")) == []
