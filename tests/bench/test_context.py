"""The measurement of search patterns knows every pattern."""

from bench.context import list_patterns, time_search


def test_every_pattern_of_the_product_can_be_measured() -> None:
    found = list_patterns()
    assert min(len(patterns) for patterns in found.values()) > 5
    for patterns in found.values():
        for pattern in patterns:
            assert time_search(pattern, "password: x\n", 64) >= 0
