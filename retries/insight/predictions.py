"""Estimate the chance that a task is done within its attempts, from earlier tasks (pure)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

# the earlier tasks that a chance needs before it is shown
LEAST_TASKS = 20
# A level counts as much as the levels above it when it has this many tasks.
WEIGHT = 20
# Tasks that have failed so often or more count together.
MOST_FAILURES = 2
BINS = 10


class Level(StrEnum):
    """The features that a task shares with earlier ones, the most general first."""

    ALL = "all"
    KIND = "kind"
    AGENT = "agent"
    PATTERN = "pattern"
    SIGNATURE = "signature"


@dataclass(frozen=True, slots=True)
class Rate:
    """The number of earlier tasks, and of those that were done within their attempts."""

    tasks: int = 0
    done: int = 0


Rates = Mapping[tuple[int, str, str], Rate]


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a task: how often it has failed, and its last failure."""

    failures: int
    kind: str
    agent: str
    pattern: str = ""
    signature: str = ""

    @property
    def keys(self) -> list[tuple[int, str, str]]:
        """Return the keys of its rates, the most general level first."""
        failures = min(self.failures, MOST_FAILURES)
        found = [
            (Level.ALL, ""),
            (Level.KIND, self.kind),
            (Level.AGENT, f"{self.agent}:{self.kind}"),
        ]
        if self.pattern:
            found.append((Level.PATTERN, self.pattern))
        if self.signature:
            found.append((Level.SIGNATURE, self.signature))
        return [(failures, str(level), key) for level, key in found]


@dataclass(frozen=True, slots=True)
class Prediction:
    """The chance of a task, the number of tasks that it rests on, and what those have in common.

    The chance is None where too few tasks have anything in common with it. `brier` is the score
    of such chances for the newest tasks.
    """

    chance: float | None
    tasks: int
    level: str = ""
    brier: float | None = None

    @property
    def percent(self) -> int | None:
        return None if self.chance is None else round(100 * self.chance)


def predict(rates: Rates, features: Features) -> Prediction:
    """Return the chance that a task is done within its attempts.

    Each level's share of done tasks is shrunk towards the chance of the level above it:
    `(done + WEIGHT * above) / (tasks + WEIGHT)`. The narrowest level with enough tasks gives the
    chance; the share of all tasks alone is no prediction.
    """
    _, *keys = found = features.keys
    everything = rates.get(found[0], Rate())
    if not everything.tasks:
        return Prediction(None, 0)
    chance = everything.done / everything.tasks
    best = Prediction(None, 0)
    for failures, level, key in keys:
        rate = rates.get((failures, level, key), Rate())
        chance = (rate.done + WEIGHT * chance) / (rate.tasks + WEIGHT)
        if rate.tasks >= LEAST_TASKS:
            best = Prediction(chance, rate.tasks, level)
        elif best.chance is None:
            best = Prediction(None, max(best.tasks, rate.tasks))
    return best


@dataclass(frozen=True, slots=True)
class Case:
    """A task of the past at one point of its way, and whether it was done within its attempts."""

    features: Features
    is_done: bool


def count_rates(cases: Iterable[Case]) -> dict[tuple[int, str, str], Rate]:
    tasks: dict[tuple[int, str, str], int] = defaultdict(int)
    done: dict[tuple[int, str, str], int] = defaultdict(int)
    for case in cases:
        for key in case.features.keys:
            tasks[key] += 1
            done[key] += case.is_done
    return {key: Rate(number, done[key]) for key, number in tasks.items()}


@dataclass(frozen=True, slots=True)
class Bin:
    """The cases whose chances lie in one tenth: their mean chance, and the share that was done."""

    predicted: float
    observed: float
    cases: int


@dataclass(frozen=True, slots=True)
class Quality:
    """The distance of the chances from what happened; lower scores are better.

    `base` is the score of always predicting the share of done tasks.
    """

    cases: int = 0
    brier: float | None = None
    base: float | None = None
    bins: list[Bin] = field(default_factory=list)


def measure_quality(cases: Sequence[Case]) -> Quality:
    """Score the predictions of the newest fifth of the cases by the rates of those before them."""
    # The cases come oldest first. A prediction that would be hidden is not scored.
    split = len(cases) - len(cases) // 5
    rates = count_rates(cases[:split])
    scored = [
        (prediction.chance, base_chance(rates, case.features), case.is_done)
        for case in cases[split:]
        if (prediction := predict(rates, case.features)).chance is not None
    ]
    if not scored:
        return Quality()
    number = len(scored)
    brier = sum((chance - done) ** 2 for chance, _, done in scored) / number
    base = sum((average - done) ** 2 for _, average, done in scored) / number
    return Quality(number, brier, base, fill_bins([(chance, done) for chance, _, done in scored]))


def base_chance(rates: Rates, features: Features) -> float:
    everything = rates[features.keys[0]]
    return everything.done / everything.tasks


def fill_bins(scored: Sequence[tuple[float, bool]]) -> list[Bin]:
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for chance, done in scored:
        bins[min(int(chance * BINS), BINS - 1)].append((chance, done))
    return [
        Bin(
            sum(chance for chance, _ in found) / len(found),
            sum(done for _, done in found) / len(found),
            len(found),
        )
        for _, found in sorted(bins.items())
    ]
