"""Sparklines and small bars."""

import pytest

from dashboard.charts.sparklines import bars, spark


def test_a_sparkline_continues_over_gaps() -> None:
    line = spark([None, 1, None, 3, 2])
    assert line and line.line == "M1 25L29 25L57 3L85 14"
    assert (line.x, line.y) == (85, 14)
    assert spark([None, None]) is None and spark([1]) is None
    flat = spark([2, 2], floor=0)
    assert flat and flat.y == pytest.approx(8.1)
    steps = spark([0, 1], floor=0, steps=True)
    assert steps and steps.line.startswith("M1 25H85V")


def test_small_bars_stay_visible() -> None:
    drawn = bars([1000, 1, 0], [0, 1, 0], tall=20)
    assert (drawn.width, drawn.all.count("M"), drawn.bad.count("M")) == (30, 2, 1)
    assert "h8v1.5h-8z" in drawn.bad
