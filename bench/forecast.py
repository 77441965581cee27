"""Measure how often plans end inside the interval that was forecast for them.

Simulated fleets (`bench/forecast_fleets.py`), twenty of each of eleven kinds, run to their ends. In
each, one plan is forecast at a moment of its middle from what was known then, and compared with
what happened. An interval of 80 % should hold 80 % of the ends.
"""

import random
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from math import inf

from bench.figures import Figure, Say, Scale, at_least, at_most
from bench.forecast_fleets import VARIANTS, Fleet, Job, Variant, build_fleet
from bench.servers import Sandbox
from retries.insight.forecasts.cases import AnswerCase, Case, End, History
from retries.insight.forecasts.simulation import OpenTask, Outlook, Slots, forecast, measure_peak

FLEETS, QUICK_FLEETS = 220, 44
LARGE = 500
ENDS = {"done": End.DONE, "failed": End.FAILED, "released": End.RELEASED}


@dataclass(frozen=True)
class Comparison:
    """A forecast beside the seconds that its plan took from then on, and what they cost."""

    variant: str
    outlook: Outlook
    seconds: float
    cost: float


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    fleets = QUICK_FLEETS if scale.quick else FLEETS
    found = [compare(VARIANTS[n % len(VARIANTS)], n) for n in range(fleets)]
    shown = [each for each in found if each.outlook.seconds]
    by_variant = defaultdict(list)
    for each in shown:
        by_variant[each.variant].append(is_inside(each))
    for variant, inside in by_variant.items():
        say(f"  {variant}: {sum(inside)} of {len(inside)} inside")
    inside = percent([is_inside(each) for each in shown])
    costs = percent([is_cost_inside(each) for each in shown if each.outlook.cost])
    widths = [
        (each.outlook.seconds.high - each.outlook.seconds.low) / each.outlook.seconds.median
        for each in shown
        if each.outlook.seconds and each.outlook.seconds.median
    ]
    below = percent([is_below(each) for each in shown])
    return [
        Figure("plans that end inside the 80 % interval", [inside], "%", at_least(75)),
        Figure("the same, at most", [inside], "%", at_most(85)),
        Figure("plans that end before it", [below], "%"),
        Figure("plans whose cost is inside its interval", [costs], "%"),
        Figure("plans with a forecast", [100 * len(shown) / len(found)], "%"),
        Figure("width of the interval, of its median", [statistics.median(widths)], "×"),
        Figure(
            f"processor time of a forecast, {LARGE} tasks",
            measure_time(scale.rounds),
            "ms",
            at_most(100),
        ),
    ]


def percent(cases: list[bool]) -> float:
    return 100 * sum(cases) / len(cases) if cases else 0.0


def is_inside(each: Comparison) -> bool:
    found = each.outlook.seconds
    return found is not None and found.low <= each.seconds <= found.high


def is_below(each: Comparison) -> bool:
    return each.outlook.seconds is not None and each.seconds < each.outlook.seconds.low


def is_cost_inside(each: Comparison) -> bool:
    found = each.outlook.cost
    return found is not None and found.low <= each.cost <= found.high


def compare(variant: Variant, seed: int) -> Comparison:
    fleet = build_fleet(variant, seed)
    rng = random.Random(seed)
    # one of the later half: the earlier plans are the history
    plan = rng.randrange(len(fleet.starts) // 2, len(fleet.starts))
    ends = sorted(job.over_at for job in fleet.jobs_of(plan))
    now = ends[int(rng.uniform(0.2, 0.7) * (len(ends) - 1))] + 1.0
    cost = sum(
        each.cost for each in fleet.tries if each.end > now and fleet.jobs[each.job].plan == plan
    )
    return Comparison(variant.name, forecast_plan(fleet, plan, now), ends[-1] - now, cost)


def forecast_plan(fleet: Fleet, plan: int, now: float) -> Outlook:
    """Forecast a plan from what is known at this time."""
    tries = sorted((each for each in fleet.tries if each.start <= now), key=lambda t: -t.end)
    ended = [each for each in tries if each.end <= now]
    seen: dict[int, int] = defaultdict(int)
    retries = {}
    for each in sorted(tries, key=lambda t: t.start):
        retries[each] = seen[each.job] > 0
        seen[each.job] += each.how == "failed" and each.end <= now
    cases = []
    for each in ended:
        job = fleet.jobs[each.job]
        keys = (("agent", job.agent, job.kind), ("kind", job.kind))
        cases.append(
            Case(
                keys,
                job.plan,
                retries[each],
                each.end - each.start,
                ENDS[each.how],
                each.wait,
                each.cost,
            )
        )
    answers = [
        AnswerCase(each.answered - each.asked, each.grants)
        for each in fleet.questions
        if each.answered <= now
    ]
    agents = []
    for agent in range(len(fleet.slots)):
        spans = [(t.start, min(t.end, now)) for t in tries if fleet.jobs[t.job].agent == agent]
        wait = max(
            (until - now for at, until in fleet.limits[agent] if at <= now < until), default=0
        )
        agents.append(Slots(max(1, measure_peak(spans)), wait))
    jobs = [job for job in fleet.jobs if job.over_at > now and fleet.starts[job.plan] <= now]
    places = {job.number: place for place, job in enumerate(jobs)}
    tasks = [read_task(fleet, job, places, now, is_own=job.plan == plan) for job in jobs]
    return forecast(tasks, agents, History(cases, answers), plan=plan, seed=str(plan))


def read_task(
    fleet: Fleet, job: Job, places: dict[int, int], now: float, *, is_own: bool
) -> OpenTask:
    tries = [each for each in fleet.tries if each.job == job.number and each.start <= now]
    failures = [each for each in tries if each.end <= now and each.how == "failed"]
    asked = [each for each in fleet.questions if each.job == job.number and each.asked <= now]
    limit, since = 3, -inf
    if asked and asked[-1].answered <= now:
        limit, since = asked[-1].grants, asked[-1].answered
    counted = sum(each.end > since for each in failures)
    running = [each for each in tries if each.end > now]
    due = failures[-1].end + failures[-1].wait - now if failures else 0.0
    return OpenTask(
        agent=job.agent,
        keys=(("agent", job.agent, job.kind), ("kind", job.kind)),
        needs=tuple(places[need] for need in job.needs if need in places),
        attempts_left=max(1, limit - counted),
        is_retry=bool(failures),
        starts_in_s=max(0.0, due),
        running_s=now - running[0].start if running else None,
        asked_s=now - asked[-1].asked if asked and asked[-1].answered > now else None,
        is_own=is_own,
    )


def measure_time(rounds: int) -> list[float]:
    """Return the processor time of forecasts of a large plan, in milliseconds."""
    fleet = build_fleet(VARIANTS[0], 1)
    cases = [
        Case((), each.job, is_retry=False, seconds=each.end - each.start, end=ENDS[each.how])
        for each in fleet.tries
    ]
    history = History(cases, [AnswerCase(600.0, 1)] * 20)
    tasks = [
        OpenTask(place % 4, (), (place - 3, place - 2) if place > 2 else (), 3)
        for place in range(LARGE)
    ]
    found = []
    for _ in range(rounds):
        start = time.process_time()
        forecast(tasks, [Slots(2)] * 4, history, plan=None, seed="")
        found.append((time.process_time() - start) * 1000)
    return found
