"""Trends for the tiles and charts of Overview."""

from datetime import UTC, datetime

from dashboard.overview.trends import LAST_DAY, Slot, Trend, TrendRange

NOW = datetime(2026, 11, 21, 14, 40, tzinfo=UTC)


def make_trend(
    whole: Slot, before: Slot | None = None, *, range: TrendRange = LAST_DAY, **each: int
) -> Trend:
    """A trend whose bars are alike."""
    slots = [Slot(**each) for _ in [None] * range.bars]
    return Trend(range, range.find_start(NOW), slots, whole, before or Slot())
