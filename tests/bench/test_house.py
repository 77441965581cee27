"""The code grows only where a limit in `bench/house.py` is raised."""

import pytest

from bench.house import LIMITS, count_house
from tests.source_tree import ROOT

COUNTED = count_house(ROOT)
SLACK = 0.03


@pytest.mark.parametrize("name", LIMITS)
def test_a_figure_is_within_its_limit(name: str) -> None:
    assert LIMITS[name].is_met(COUNTED[name]), f"{COUNTED[name]}, limit {LIMITS[name]}"


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_follows_its_figure(name: str) -> None:
    """What a change saves is no room for the next one."""
    difference = abs(LIMITS[name].limit - COUNTED[name])
    assert difference <= SLACK * COUNTED[name] or "%" in name or "100" in name
