"""The tiles of Overview."""

from dashboard.overview.figures import Tile, build_tiles
from dashboard.overview.queries import Day
from ledger.instruction_stats import Statistics
from tests.dashboard.overview.conftest import a_day


def tiles_by_label(whole: Statistics, before: Day) -> dict[str, Tile]:
    return {tile.label: tile for tile in build_tiles(whole, before, a_day(sent=1, first=1))}


def test_figures_worse_than_yesterday_are_colored() -> None:
    whole = Statistics(
        "", sent=100, acknowledged=90, failed=10, retry_rate=0.5, ack_p50_s=1.0, ack_p95_s=9.0
    )
    before = Day(sent=100, acknowledged_share=0.95, retry_rate=0.6, failed=5, ack_p95_s=9.1)
    tile = tiles_by_label(whole, before)
    shown = {
        label: (each.change and (each.change.text, each.change.up, each.change.tone))
        for label, each in tile.items()
    }
    assert shown == {
        "Instructions sent": None,
        "Acknowledged": ("5.0 pt", False, "bad"),
        "Time to acknowledge, p95": None,  # a hundredth is no change
        "Retries per instruction": ("0.10", False, "good"),
        "Given up": ("5", True, "bad"),
    }
    assert tile["Given up"].tone == "amber" and tile["Retries per instruction"].tone == ""


def test_nothing_is_compared_without_a_day_before() -> None:
    whole = Statistics("", sent=10, acknowledged=10, ack_p50_s=228.0, ack_p95_s=228.0)
    found = tiles_by_label(whole, Day())
    assert all(tile.change is None for tile in found.values())
    assert found["Time to acknowledge, p95"].value == [("3", "m"), ("48", "s")]
