"""The tiles of Overview, and its unusual agents."""

from collections import Counter
from uuid import UUID

from dashboard.agents.rates import DAY, Rates, Sums
from dashboard.overview.figures import Tile, build_tiles
from dashboard.overview.trends import Slot
from dashboard.overview.unusual_agents import list_unusual
from tests.dashboard.overview.conftest import make_trend


def tiles_by_label(whole: Slot, before: Slot | None = None) -> dict[str, Tile]:
    trend = make_trend(whole, before, tasks_done=2, tasks_done_first=1, sent=1)
    return {tile.label: tile for tile in build_tiles(trend, waiting=3)}


def test_figures_worse_than_before_are_colored() -> None:
    whole = Slot(tasks_done=90, tasks_done_first=60, tasks_failed=10, finished_attempts=150)
    whole.acknowledged_first, whole.given_up = 90, 10
    whole.ack, whole.answer = Counter({0: 90, 45: 10}), Counter({100: 5})
    before = Slot(tasks_done=80, tasks_done_first=70, tasks_failed=20, finished_attempts=110)
    before.acknowledged_first, before.given_up = 95, 5
    before.ack, before.answer = Counter({44: 20}), Counter({120: 5})
    tile = tiles_by_label(whole, before)
    shown = {
        label: (each.change and (each.change.text, each.change.up, each.change.tone))
        for label, each in tile.items()
    }
    assert shown == {
        "Tasks done": ("10", True, "good"),
        "First-attempt success": ("10.0 pt", False, "bad"),
        "Attempts per task": ("0.40", True, "bad"),
        "Acknowledged": ("5.0 pt", False, "bad"),
        "Time to ack, p95": None,  # five percent are one step
        "Time to answer": ("3 m 37 s", False, "good"),
    }
    assert tile["Acknowledged"].tone == "amber" and tile["Tasks done"].tone == ""
    assert tile["Tasks done"].note == "of 100 finished" and tile["Time to answer"].note == "3 open"
    assert tile["Time to ack, p95"].note == "half within 1.0 s"


def test_nothing_is_compared_without_a_range_before() -> None:
    found = tiles_by_label(Slot(tasks_done=9, tasks_done_first=9, finished_attempts=9))
    assert all(tile.change is None for tile in found.values())
    assert found["Time to ack, p95"].value == [("–", "")]
    assert found["First-attempt success"].value == [("100", "%")]


def test_nothing_at_all_has_no_figures() -> None:
    assert [tile.value for tile in tiles_by_label(Slot()).values()][1:] == [[("–", "")]] * 5


def test_agents_whose_breaker_is_open_outrank_all_others() -> None:
    """However unusual the others are."""
    usual = Rates(DAY, now=Sums(attempts=20), before=Sums(attempts=20))
    worse = Rates(DAY, now=Sums(attempts=20, attempts_failed=9), before=Sums(attempts=20))
    worst = Rates(DAY, now=Sums(attempts=20, attempts_failed=15), before=Sums(attempts=20))
    ids = [UUID(int=number) for number in range(5)]
    rates = dict(zip(ids, (worst, worse, usual, usual), strict=False))
    found = list_unusual(rates, {ids[1]: "Timed out", ids[3]: "Timed out", ids[4]: "Manually"})
    assert [(each.id.int, each.why) for each in found] == [
        (1, "Errors up from 0% to 45%"),
        (3, "Timed out"),
        (4, "Manually"),
        (0, "Errors up from 0% to 75%"),
    ]
