"""Intervals of shares, and of the difference between two shares (pure)."""

from dataclasses import dataclass
from math import ceil, sqrt

# the standard normal distribution's quantile for a two-sided interval of 95 %
Z95 = 1.959963984540054
# the quantile for a chance of 80 % to find a difference that is there
Z80 = 0.8416212335729143


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two shares with its interval, as fractions of 1."""

    value: float
    low: float
    high: float

    @property
    def is_conclusive(self) -> bool:
        return self.low > 0 or self.high < 0


def wilson_interval(successes: int, n: int, *, z: float = Z95) -> tuple[float, float]:
    """Return Wilson's score interval of a share (Wilson 1927).

    >>> [round(each, 4) for each in wilson_interval(56, 70)]
    [0.6918, 0.877]
    """
    share, zz = successes / n, z * z
    center = (share + zz / (2 * n)) / (1 + zz / n)
    half = z * sqrt(share * (1 - share) / n + zz / (4 * n * n)) / (1 + zz / n)
    return center - half, center + half


def newcombe_difference(successes: int, n: int, others: int, other_n: int) -> Difference:
    """Return one share minus another, with Newcombe's interval (1998, method 10).

    It combines the Wilson intervals of both shares, and holds its 95 % for small numbers and for
    shares near 0 or 1, where the usual interval does not.

    >>> found = newcombe_difference(56, 70, 48, 80)
    >>> round(found.value, 4), round(found.low, 4), round(found.high, 4)
    (0.2, 0.0524, 0.3339)
    """
    share, other = successes / n, others / other_n
    low, high = wilson_interval(successes, n)
    other_low, other_high = wilson_interval(others, other_n)
    value = share - other
    return Difference(
        value,
        value - sqrt((share - low) ** 2 + (other_high - other) ** 2),
        value + sqrt((high - share) ** 2 + (other - other_low) ** 2),
    )


def count_needed(difference: float, share: float) -> int:
    """Return how many cases on both sides show a difference, in four of five experiments.

    `share` is the smaller side's share of the cases. It is the size for a two-sided test at 5 %
    and sides of different sizes, of Fleiss, Levin & Paik, "Statistical Methods for Rates and
    Proportions" (2003), chapter 4, without the correction for continuity. The shares of successes
    are taken to be around one half, which takes the most cases.

    >>> count_needed(0.1, 0.5), count_needed(0.1, 0.1)
    (783, 2164)
    """
    one, other = 0.5 - difference / 2, 0.5 + difference / 2
    both = share * one + (1 - share) * other
    variance = (1 - share) * one * (1 - one) + share * other * (1 - other)
    root = Z95 * sqrt(both * (1 - both)) + Z80 * sqrt(variance)
    return ceil((root / difference) ** 2 / (share * (1 - share)))
