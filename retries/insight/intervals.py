"""Intervals of shares, and of the difference between two shares (pure)."""

from dataclasses import dataclass
from math import sqrt

# the standard normal distribution's quantile for a two-sided interval of 95 %
Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two shares with its interval, as fractions of 1."""

    value: float
    low: float
    high: float

    @property
    def is_conclusive(self) -> bool:
        """Whether the interval leaves out 0."""
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
