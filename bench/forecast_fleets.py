"""Simulate fleets whose truth is known: plans, agents, limits, and people (`bench forecast`).

It shares nothing with the forecast's own simulation. In it, things are as they are with agents,
and not as the forecast takes them to be: a task's attempts have its size and its difficulty in
common, an account's limit comes after so much work in a window of five hours, people sleep, and
other plans are imported while one is under way.
"""

import random
from dataclasses import dataclass, field
from math import exp, inf, log

HOUR = 3600.0
DAY = 24 * HOUR
WINDOW = 5 * HOUR


@dataclass(frozen=True)
class Variant:
    """What a kind of fleet is like."""

    name: str
    durations: str = "lognormal"  # or weibull, mixed
    noise: float = 0.5
    task_spread: float = 0.4
    plan_spread: float = 0.3
    failing: tuple[float, float] = (0.05, 0.3)
    limited: float = 0.0  # the share of agents whose accounts have a limit
    sleeps: bool = False
    crowding: float = 0.0  # plans that are under way at the same time
    tasks: tuple[int, int] = (8, 40)
    slots: tuple[int, int] = (1, 3)  # of each agent


VARIANTS = (
    Variant("alone"),
    Variant("unequal plans", plan_spread=0.6, task_spread=0.6),
    Variant("equal plans", plan_spread=0.0, task_spread=0.1, noise=0.3),
    Variant("many failures", failing=(0.2, 0.5)),
    Variant("heavy tails", durations="mixed", noise=0.8),
    Variant("weibull", durations="weibull"),
    Variant("limits", limited=0.7),
    Variant("people sleep", sleeps=True, failing=(0.1, 0.4)),
    Variant("crowded", crowding=2.0),
    Variant("many slots", slots=(10, 20), tasks=(20, 80)),
    Variant("everything", "mixed", 0.6, limited=0.4, sleeps=True, crowding=1.0, tasks=(5, 80)),
)


@dataclass
class Job:
    """A task, and where it stands."""

    number: int
    plan: int
    kind: int
    agent: int
    needs: list[int]
    size: float
    failing: float
    limit: int = 3
    attempts: int = 0
    counted: int = 0
    over_at: float = inf
    due: float = 0.0
    held: bool = False  # by a running attempt or a question


@dataclass(frozen=True)
class Try:
    """An attempt: `wait` is that before the next one, or its agent's."""

    job: int
    start: float
    end: float
    how: str  # done, failed, released
    wait: float
    cost: float


@dataclass(frozen=True)
class Question:
    job: int
    asked: float
    answered: float
    grants: int


@dataclass
class Fleet:
    """What happened in a fleet."""

    variant: Variant
    slots: list[int]
    jobs: list[Job]
    starts: list[float]
    tries: list[Try] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    limits: list[list[tuple[float, float]]] = field(default_factory=list)  # by agent: from, until

    def jobs_of(self, plan: int) -> list[Job]:
        return [job for job in self.jobs if job.plan == plan]


def build_fleet(variant: Variant, seed: int) -> Fleet:
    """Build a fleet and let its plans run to their ends."""
    rng = random.Random(f"{variant.name}:{seed}")
    agents, kinds = rng.randint(1, 4), rng.randint(1, 4)
    slots = [rng.randint(*variant.slots) for _ in range(agents)]
    lengths = [rng.lognormvariate(log(600), 0.8) for _ in range(kinds)]
    failing = [rng.uniform(*variant.failing) for _ in range(kinds)]
    jobs: list[Job] = []
    starts: list[float] = []
    at = 0.0
    for plan in range(rng.randint(8, 30)):
        work = add_plan(jobs, plan, variant, rng, agents=agents, lengths=lengths, failing=failing)
        starts.append(at)
        alone = work / sum(slots) * 2
        at += alone / (1 + variant.crowding) * rng.uniform(0.6, 1.8) + HOUR
    fleet = Fleet(variant, slots, jobs, starts, limits=[[] for _ in slots])
    Truth(fleet, rng).run()
    return fleet


def add_plan(
    jobs: list[Job],
    plan: int,
    variant: Variant,
    rng: random.Random,
    *,
    agents: int,
    lengths: list[float],
    failing: list[float],
) -> float:
    """Add a plan's tasks; return their work in seconds."""
    shape = rng.choice(("layers", "chain", "fan", "random"))
    factor = exp(rng.gauss(0, variant.plan_spread))
    first = len(jobs)
    for place in range(rng.randint(*variant.tasks)):
        number = first + place
        earlier = range(first, number)
        if not place:
            needs = []
        elif shape == "chain":
            needs = [number - 1] if rng.random() < 0.8 else []
        elif shape == "fan":
            needs = [first]
        elif shape == "layers":
            layer = place // 4 * 4
            needs = [first + n for n in range(max(0, layer - 4), layer) if rng.random() < 0.6]
        else:
            needs = sorted(rng.sample(earlier, min(len(earlier), rng.randint(0, 3))))
        kind = rng.randrange(len(lengths))
        odds = failing[kind] / (1 - failing[kind]) * exp(rng.gauss(0, 0.5))
        size = lengths[kind] * factor * exp(rng.gauss(0, variant.task_spread))
        share = odds / (1 + odds)
        jobs.append(Job(number, plan, kind, rng.randrange(agents), needs, size, share))
    return sum(job.size for job in jobs[first:])


class Truth:
    """Step from one thing that happens to the next."""

    def __init__(self, fleet: Fleet, rng: random.Random) -> None:
        self.fleet, self.rng = fleet, rng
        variant = fleet.variant
        self.running: list[Try] = []
        self.asked: list[Question] = []
        limited = [rng.random() < variant.limited for _ in fleet.slots]
        self.allowance = [
            rng.uniform(0.3, 1.0) * WINDOW * count if is_limited else inf
            for count, is_limited in zip(fleet.slots, limited, strict=True)
        ]
        self.window = [0.0] * len(fleet.slots)  # when the agent's present one began
        self.used = [0.0] * len(fleet.slots)
        self.until = [0.0] * len(fleet.slots)
        self.answering = rng.lognormvariate(log(1200), 0.7)
        self.open = {job.number for job in fleet.jobs}

    def run(self) -> None:
        now = 0.0
        while self.open:
            self.settle(now)
            for agent, count in enumerate(self.fleet.slots):
                busy = sum(self.fleet.jobs[each.job].agent == agent for each in self.running)
                while busy < count and now >= self.until[agent] and (job := self.next(agent, now)):
                    self.start(job, now)
                    busy += 1
            now = self.find_next(now)

    def find_next(self, now: float) -> float:
        times = [each.end for each in self.running] + [each.answered for each in self.asked]
        times += [*self.until, *self.fleet.starts]
        times += [self.fleet.jobs[n].due for n in self.open]
        return min((at for at in times if at > now), default=inf)

    def next(self, agent: int, now: float) -> Job | None:
        for number in sorted(self.open):
            job = self.fleet.jobs[number]
            if self.fleet.starts[job.plan] > now:
                return None
            is_met = all(self.fleet.jobs[need].over_at <= now for need in job.needs)
            if job.agent == agent and not job.held and job.due <= now and is_met:
                return job
        return None

    def start(self, job: Job, now: float) -> None:
        rng, variant, agent = self.rng, self.fleet.variant, job.agent
        if variant.durations == "weibull":
            length = job.size * rng.weibullvariate(1, 1.4)
        else:
            length = job.size * exp(rng.gauss(0, variant.noise))
            if variant.durations == "mixed" and rng.random() < 0.1:
                length *= 4
        if now - self.window[agent] >= WINDOW:
            self.window[agent], self.used[agent] = now, 0.0
        how = "failed" if rng.random() < job.failing else "done"
        wait = 10.0 if how == "failed" else 0.0
        left = self.allowance[agent] - self.used[agent]
        if length > left:  # the account's limit comes first
            length, how = max(left, 5.0), "released"
            wait = max(60.0, self.window[agent] + WINDOW - now - length)
        self.used[agent] += length
        job.held = True
        cost = length / HOUR * 4 * exp(rng.gauss(0, 0.3))
        self.running.append(Try(job.number, now, now + length, how, wait, cost))

    def settle(self, now: float) -> None:
        for attempt in [each for each in self.running if each.end <= now]:
            self.running.remove(attempt)
            self.end(attempt)
        for question in [each for each in self.asked if each.answered <= now]:
            self.asked.remove(question)
            job = self.fleet.jobs[question.job]
            job.held, job.limit, job.counted = False, question.grants, 0
            if not question.grants:
                self.finish(job, question.answered)

    def end(self, attempt: Try) -> None:
        job = self.fleet.jobs[attempt.job]
        self.fleet.tries.append(attempt)
        job.attempts += 1
        job.held = False
        if attempt.how == "done":
            self.finish(job, attempt.end)
        elif attempt.how == "released":
            until = attempt.end + attempt.wait
            self.until[job.agent] = max(self.until[job.agent], until)
            self.fleet.limits[job.agent].append((attempt.end, until))
        else:
            job.counted += 1
            job.due = attempt.end + attempt.wait
            if job.counted >= job.limit:
                self.ask(job, attempt.end)

    def finish(self, job: Job, at: float) -> None:
        job.over_at = at
        self.open.discard(job.number)

    def ask(self, job: Job, now: float) -> None:
        answered = now + self.answering * exp(self.rng.gauss(0, 0.8))
        if self.fleet.variant.sleeps and answered % DAY > 16 * HOUR:
            answered += DAY - answered % DAY + self.rng.uniform(0, HOUR)
        grants = self.rng.choices((1, 3, 0), (0.7, 0.15, 0.15))[0]
        question = Question(job.number, now, answered, grants)
        job.held = True
        self.asked.append(question)
        self.fleet.questions.append(question)
