"""The past attempts and answers that a forecast draws from, and what they say (pure)."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import exp, log
from statistics import NormalDist, fmean

# the cases that a group needs before a forecast rests on it
LEAST_CASES = 20
# of each group, the newest count
MOST_CASES = 500
# Plans differ from each other even where few plans were seen. This variance of the logarithm of
# a plan's mean duration counts as much as that of so many plans.
PRIOR_VARIANCE, PRIOR_PLANS = 0.09, 3
# A plan's own share of attempts that fail differs from its group's share as if that share rested
# on so many attempts.
SHARE_WEIGHT = 20
SHORTEST_S = 0.1
LEAST_VARIANCE = 0.01


class End(Enum):
    """How an attempt ended, by what its task needs next."""

    DONE = "done"
    # it counts as one of the task's attempts
    FAILED = "failed"
    # the task goes back to its queue, and its agent may have to wait
    RELEASED = "released"
    # only a person can let the task go on
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Case:
    """An attempt of the past; `keys` are the groups that it belongs to, the narrowest first.

    `wait_s` is the time until the task could go on, or until its agent got work again if it was
    released. `cost` is None where it was not reported, and `plan` for a task without one.
    """

    keys: tuple[Hashable, ...]
    plan: Hashable
    is_retry: bool
    seconds: float
    end: End = End.DONE
    wait_s: float = 0.0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class AnswerCase:
    """A person's answer of the past: how long it took, and how many attempts it granted.

    The task went on without an attempt if it granted none.
    """

    seconds: float
    attempts: int


# While there are few answers, these stand in for those that are missing: a few minutes to a day,
# half of them within an hour. A forecast that waits for an answer now is not made of them.
GUESSED_ANSWERS = [
    AnswerCase(3600 * exp(1.5 * NormalDist().inv_cdf((n * 7 % 20 + 0.5) / 20)), 1)
    for n in range(LEAST_CASES)
]


@dataclass(slots=True)
class Group:
    """The cases of one group, and what they have in common.

    `cost_rate` is the cost of a second, None where too few cases reported their cost.
    """

    cases: list[Case] = field(default_factory=list)
    done: list[Case] = field(default_factory=list)
    others: list[Case] = field(default_factory=list)
    # by length, and the lengths
    ordered: list[Case] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)
    mean_log: float = 0.0
    cost_rate: float | None = None

    def close(self) -> None:
        self.done = [case for case in self.cases if case.end is End.DONE]
        self.others = [case for case in self.cases if case.end is not End.DONE]
        self.ordered = sorted(self.cases, key=lambda case: case.seconds)
        self.lengths = [case.seconds for case in self.ordered]
        self.mean_log = fmean(log(max(case.seconds, SHORTEST_S)) for case in self.cases)
        known = [case for case in self.cases if case.cost is not None]
        if len(known) >= LEAST_CASES:
            length = sum(max(case.seconds, SHORTEST_S) for case in known)
            self.cost_rate = sum(case.cost or 0.0 for case in known) / length


@dataclass(slots=True)
class Record:
    """The attempts of one plan: the distance of each from its group, and how they ended."""

    residuals: list[float] = field(default_factory=list)
    # by group: attempts, and those that succeeded
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, case: Case, group: Group) -> None:
        self.residuals.append(log(max(case.seconds, SHORTEST_S)) - group.mean_log)
        ended, done = self.ends.get(id(group), (0, 0))
        self.ends[id(group)] = ended + 1, done + (case.end is End.DONE)


@dataclass(frozen=True, slots=True)
class Effect:
    """How a plan's durations differ from its groups': a normal variable of their logarithm."""

    mean: float
    deviation: float


# every case belongs to this group
ALL = ()


class History:
    """The groups of past attempts, and how much plans differ from each other."""

    def __init__(self, cases: Iterable[Case], answers: Iterable[AnswerCase] = ()) -> None:
        self.answers = list(answers)[:MOST_CASES]
        self.answer_count = len(self.answers)
        self.answers += GUESSED_ANSWERS[: max(0, LEAST_CASES - self.answer_count)]
        self.groups: dict[tuple[Hashable, bool | None], Group] = defaultdict(Group)
        cases = list(cases)
        for case in cases:
            for key in (*case.keys, ALL):
                for of in ((key, case.is_retry), (key, None)):
                    if len(found := self.groups[of].cases) < MOST_CASES:
                        found.append(case)
        for group in self.groups.values():
            group.close()
        self.size = len(cases)
        self.records: dict[Hashable, Record] = {}
        for case in cases if self.size >= LEAST_CASES else ():
            if case.plan is None:
                continue
            record = self.records.setdefault(case.plan, Record())
            record.add(case, self.find(case.keys, is_retry=case.is_retry))
        self.between, self.within = self.measure_spread()

    def find(self, keys: Sequence[Hashable], *, is_retry: bool) -> Group:
        """Return the narrowest group with enough cases, or that of all cases."""
        # A retry without enough like it is taken to be like any attempt of its group.
        for key in (*keys, ALL):
            for kind in (is_retry, None):
                group = self.groups.get((key, kind))
                if group and len(group.cases) >= LEAST_CASES:
                    return group
        return self.groups[ALL, None]

    def measure_spread(self) -> tuple[float, float]:
        """Return the variance of the logarithm of durations between plans and within them."""
        # the method of moments of a one-way analysis of variance with random effects
        samples = [record.residuals for record in self.records.values()]
        total, plans = sum(map(len, samples)), len(samples)
        if plans < 2 or total == plans:
            return PRIOR_VARIANCE, 1.0
        means = [fmean(sample) for sample in samples]
        grand = sum(map(sum, samples)) / total
        pairs = list(zip(samples, means, strict=True))
        inside = sum((x - mean) ** 2 for sample, mean in pairs for x in sample) / (total - plans)
        outside = sum(len(sample) * (mean - grand) ** 2 for sample, mean in pairs) / (plans - 1)
        size = (total - sum(len(sample) ** 2 for sample in samples) / total) / (plans - 1)
        seen = max(0.0, (outside - inside) / size)
        between = (plans * seen + PRIOR_PLANS * PRIOR_VARIANCE) / (plans + PRIOR_PLANS)
        return between, max(inside, LEAST_VARIANCE)

    def estimate_effect(self, plan: Hashable, *, running: int = 0) -> Effect:
        """Return how the plan's durations differ, by those of its attempts that have ended."""
        own = self.records.get(plan, Record()).residuals
        # The attempts that have ended are the short ones, the more so the more still run.
        weight = len(own) / (len(own) + running) / self.within if own else 0.0
        precision = 1 / self.between + len(own) * weight
        return Effect(sum(own) * weight / precision, precision**-0.5)
