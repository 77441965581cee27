"""The code grows only where a limit in `bench/house.py` is raised."""

from functools import cache

import pytest

from bench.house import LIMITS, count_house
from tests.source_tree import ROOT

SLACK = 0.03


@cache
def count() -> dict[str, float]:
    """Return the figures; every test process would take seconds to count them at its start."""
    return count_house(ROOT)


@pytest.mark.parametrize("name", LIMITS)
def test_a_figure_is_within_its_limit(name: str) -> None:
    assert LIMITS[name].is_met(count()[name]), f"{count()[name]}, limit {LIMITS[name]}"


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_follows_its_figure(name: str) -> None:
    """What a change saves is no room for the next one."""
    difference = abs(LIMITS[name].limit - count()[name])
    assert difference <= SLACK * count()[name] or "%" in name or "100" in name
