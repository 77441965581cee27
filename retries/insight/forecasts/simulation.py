"""Forecast the end and the cost of a plan by simulated runs of its open tasks (pure).

Each run lets the agents take the tasks in the order of their queues, and draws durations, ends,
and costs of attempts from those of like tasks in the past.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from math import exp, inf
from random import Random
from statistics import NormalDist

from retries.insight.forecasts.cases import (
    LEAST_CASES,
    SHARE_WEIGHT,
    Case,
    End,
    Group,
    History,
    Record,
)

MOST_RUNS, LEAST_RUNS = 200, 30
# simulated tasks, over all runs
MOST_WORK = 15_000
# A task is taken to be over after so many answers, and after so many attempts: where all attempts
# of the past were released, it would never end.
MOST_ANSWERS, MOST_TRIES = 5, 30
# the bounds of an interval that holds 80 %, and the median
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task that is not over. Its times are in seconds from now.

    `needs` are the positions of the open tasks that it waits for. `attempts_left` counts a
    running attempt, too. `running_s` and `asked_s` are the ages of its running attempt and of its
    open question, None without one. `is_own` is false for a task of another plan that the agent
    takes, too; a checkpoint is a question to a person, which no agent takes.
    """

    agent: int
    keys: tuple[Hashable, ...]
    needs: tuple[int, ...] = ()
    attempts_left: int = 1
    is_retry: bool = False
    starts_in_s: float = 0.0
    running_s: float | None = None
    asked_s: float | None = None
    is_own: bool = True
    is_checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class Slots:
    """How many tasks an agent can run at once, and from when on, in seconds from now.

    Agents with the same `account` wait together; None is an account of its own.
    """

    count: int
    waits_s: float = 0.0
    account: str | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate with the interval that holds 80 %."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """Seconds until the plan ends, and what it costs from now on, each None with few cases."""

    seconds: Range | None
    cost: Range | None
    cases: int
    is_missing_answers: bool = False


def forecast(
    tasks: Sequence[OpenTask],
    agents: Sequence[Slots],
    history: History,
    *,
    plan: Hashable,
    seed: str,
) -> Outlook:
    """Return the outlook of a plan whose tasks stand in the order in which agents take them."""
    if history.size < LEAST_CASES:
        return Outlook(None, None, history.size)
    running = sum(task.is_own and task.running_s is not None for task in tasks)
    asks = any(task.is_own and task.asked_s is not None for task in tasks)
    if asks and history.answer_count < LEAST_CASES:
        return Outlook(None, None, history.answer_count, is_missing_answers=True)
    simulation = Simulation(tasks, agents, history, plan=plan, random=Random(seed))  # noqa: S311 - no secret
    runs = max(LEAST_RUNS, min(MOST_RUNS, MOST_WORK // len(tasks)))
    # The factor that a plan's durations have in common is spread evenly over the runs, so that
    # few runs suffice.
    effect = history.estimate_effect(plan, running=running)
    found = [
        simulation.run(exp(effect.mean + effect.deviation * NormalDist().inv_cdf((n + 0.5) / runs)))
        for n in range(runs)
    ]
    costs = read_range([cost for _, cost in found]) if simulation.knows_costs else None
    return Outlook(read_range([end for end, _ in found]), costs, simulation.count_cases())


def read_range(values: Sequence[float]) -> Range:
    """Return the quantiles of a sample, with linear interpolation.

    >>> read_range([float(n) for n in range(11)])
    Range(low=1.0, median=5.0, high=9.0)
    """
    ordered = sorted(values)
    found = []
    for share in QUANTILES:
        place = share * (len(ordered) - 1)
        below = ordered[int(place)]
        above = ordered[min(int(place) + 1, len(ordered) - 1)]
        rest = place - int(place)
        found.append(below + rest * (above - below) if above > below else below)
    return Range(*found)


def measure_peak(spans: Iterable[tuple[float, float]]) -> int:
    """Return how many of these spans of time there were at once, at most.

    >>> measure_peak([(0, 2), (1, 3), (2, 4)])
    2
    """
    # where one ends as the next begins, they are not at once
    moves = sorted(move for start, end in spans for move in ((start, 1), (end, -1)))
    return max(accumulate((step for _, step in moves)), default=0)


# the events of a run: plain numbers, because an enum's would take a third of the time
ENDS, ANSWERED, READY, WAKES = range(4)


class Simulation:
    """The open tasks, and what their runs draw from."""

    def __init__(
        self,
        tasks: Sequence[OpenTask],
        agents: Sequence[Slots],
        history: History,
        *,
        plan: Hashable,
        random: Random,
    ) -> None:
        self.tasks, self.agents, self.random = tasks, agents, random
        self.answers = sorted(history.answers, key=lambda answer: answer.seconds)
        self.answer_times = [answer.seconds for answer in self.answers]
        self.dependents: list[list[int]] = [[] for _ in tasks]
        for place, task in enumerate(tasks):
            for need in task.needs:
                self.dependents[need].append(place)
        firsts = [history.find(task.keys, is_retry=False) for task in tasks]
        retries = [history.find(task.keys, is_retry=True) for task in tasks]
        self.groups = list({id(group): group for group in (*firsts, *retries)}.values())
        numbers = {id(group): number for number, group in enumerate(self.groups)}
        # of each task, the groups' numbers of a first attempt and of a retry
        self.kinds = [
            (numbers[id(first)], numbers[id(retry)])
            for first, retry in zip(firsts, retries, strict=True)
        ]
        of_own = [each for task, each in zip(tasks, self.kinds, strict=True) if task.is_own]
        self.own_groups = [self.groups[number] for number in {n for each in of_own for n in each}]
        self.agent_of = [task.agent for task in tasks]
        self.is_own = [task.is_own for task in tasks]
        self.starts = [task.starts_in_s for task in tasks]
        # the agents that wait at a limit of each agent's account
        accounts: dict[Hashable, list[int]] = defaultdict(list)
        for number, agent in enumerate(agents):
            accounts[number if agent.account is None else agent.account].append(number)
        self.sharing = [
            accounts[number if agent.account is None else agent.account]
            for number, agent in enumerate(agents)
        ]
        self.ends = history.records.get(plan, Record()).ends

    @property
    def knows_costs(self) -> bool:
        return all(group.cost_rate is not None for group in self.own_groups)

    def count_cases(self) -> int:
        return min(len(group.cases) for group in self.own_groups)

    def draw_share(self, group: Group) -> float:
        """Return the share of attempts that succeed, as uncertain as the cases leave it."""
        cases, done = len(group.cases), len(group.done)
        own, own_done = self.ends.get(id(group), (0, 0))
        share = (done + 0.5) / (cases + 1)
        weight = 1 / (1 / SHARE_WEIGHT + 1 / cases)
        return self.random.betavariate(
            share * weight + own_done, (1 - share) * weight + own - own_done
        )

    def run(self, factor: float) -> tuple[float, float]:
        """Return when the plan ends and what it costs, if its durations differ by this factor."""
        # local names take a fifth off the time of a run
        tasks, random = self.tasks, self.random.random
        answers, times = self.answers, self.answer_times
        kinds, agent_of, is_own, starts = self.kinds, self.agent_of, self.is_own, self.starts
        draws = [(self.draw_share(group), group) for group in self.groups]
        unmet = [len(task.needs) for task in tasks]
        left = [task.attempts_left for task in tasks]
        is_retry = [task.is_retry for task in tasks]
        asked, tries = [0] * len(tasks), [0] * len(tasks)
        ending: list[Case | None] = [None] * len(tasks)
        granted = [0] * len(tasks)
        free = [agent.count for agent in self.agents]
        waits = [agent.waits_s for agent in self.agents]
        ready: list[list[int]] = [[] for _ in self.agents]
        open_own = sum(is_own)
        cost = 0.0
        events: list[tuple[float, int, int]] = [
            (agent.waits_s, WAKES, number)
            for number, agent in enumerate(self.agents)
            if agent.waits_s > 0
        ]

        def begin(place: int, now: float, *, since: float = 0.0) -> None:
            # the attempt has run for `since` seconds already
            nonlocal cost
            tries[place] += 1
            share, group = draws[kinds[place][is_retry[place]]]
            # the pace of a plan says nothing of another's
            pace = factor if is_own[place] else 1.0
            longer = bisect_right(group.lengths, since / pace) if since else 0
            if not since:
                pool = (group.done if random() < share else group.others) or group.cases
                case = pool[int(random() * len(pool))]
                length = case.seconds * pace
            elif longer < len(group.lengths):
                case = group.ordered[longer + int(random() * (len(group.lengths) - longer))]
                length = max(case.seconds * pace, since)
            else:  # it runs for longer than those of the past: the longer, the longer it goes on
                case = group.cases[int(random() * len(group.cases))]
                length = since * (1 - random()) ** -0.5
            ending[place] = case
            heappush(events, (now + length - since, ENDS, place))
            if is_own[place]:
                cost += factor * (
                    case.seconds * (group.cost_rate or 0.0) if case.cost is None else case.cost
                )

        def ask(place: int, now: float, *, since: float = 0.0) -> None:
            asked[place] += 1
            longer = bisect_right(times, since) if since else 0
            if longer < len(answers):
                answer = answers[longer + int(random() * (len(answers) - longer))]
                length = answer.seconds
            else:
                answer = answers[int(random() * len(answers))]
                length = since * (1 - random()) ** -0.5
            goes_on = tasks[place].is_checkpoint or asked[place] >= MOST_ANSWERS
            granted[place] = 0 if goes_on else answer.attempts
            heappush(events, (now + length - since, ANSWERED, place))

        for place, task in enumerate(tasks):
            if task.running_s is not None:
                free[task.agent] -= 1
                begin(place, 0.0, since=task.running_s)
            elif task.asked_s is not None:
                ask(place, 0.0, since=task.asked_s)
            elif not task.needs:
                heappush(events, (task.starts_in_s, READY, place))
        while events:
            now, move, place = heappop(events)
            is_over = False
            agent = place if move == WAKES else agent_of[place]
            if move == READY:
                if tasks[place].is_checkpoint:
                    ask(place, now)
                else:
                    heappush(ready[agent], place)
            elif move == ANSWERED:
                left[place], is_retry[place] = granted[place], True
                if left[place]:
                    heappush(ready[agent], place)
                else:
                    is_over = True
            elif move == ENDS:
                free[agent] += 1
                case = ending[place]
                assert case is not None
                if case.end is End.DONE or tries[place] >= MOST_TRIES:
                    is_over = True
                elif case.end is End.RELEASED:
                    heappush(ready[agent], place)
                    for other in self.sharing[agent] if case.wait_s > 0 else ():
                        waits[other] = max(waits[other], now + case.wait_s)
                        heappush(events, (waits[other], WAKES, other))
                else:
                    is_retry[place] = True
                    left[place] -= case.end is End.FAILED
                    if case.end is End.FAILED and left[place] > 0:
                        heappush(events, (now + case.wait_s, READY, place))
                    else:
                        ask(place, now)
            if is_over:
                if is_own[place]:
                    open_own -= 1
                    if not open_own:
                        return now, cost
                for other in self.dependents[place]:
                    unmet[other] -= 1
                    if not unmet[other]:
                        at = max(now, starts[other])
                        heappush(events, (at, READY, other))
            queue = ready[agent]
            while queue and free[agent] > 0 and now >= waits[agent]:
                free[agent] -= 1
                begin(heappop(queue), now)
        return inf, cost
