"""Tasks through Tenfour's Python verbs, beside the same moves in bare SQL; and claims as tables grow."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg

from bench.figures import Figure, Say, Scale, at_least, at_most, ratios, summary
from bench.floor import sql as floor_sql
from bench.send import pipes
from bench.servers import Ground, Missing, python_with
from config.local.places import PROJECT

AGENT = "agent-00001"
WORKERS = 4
SMALL, LARGE = 10_000, 1_000_000
WAITING, DUE = 100_000, 100_000
CLAIMS = 100
# what is set beside Tenfour: what it is installed from, and how often its rate Tenfour's is to be
PEERS = {
    "procrastinate": (["procrastinate", "psycopg[binary]"], 1.5),
    "django-tasks": (["django-tasks", "django-tasks-db", "psycopg[binary]"], 2),
}


@dataclass(frozen=True)
class Doer:
    """A process that does tasks when it is told to."""

    process: "subprocess.Popen[str]"

    def begin(self, what: str, count: int) -> None:
        print(f"{what} {count}", file=pipes(self.process)[0], flush=True)

    def end(self) -> float:
        return float(pipes(self.process)[1].readline())


@contextmanager
def doer(
    ground: Ground,
    whose: str,
    url: str,
    *,
    module: str = "bench.jobs",
    python: str = sys.executable,
) -> Iterator[Doer]:
    argv = [python, "-m", module, whose, AGENT]
    pipe = subprocess.PIPE
    env = ground.env(url)
    with subprocess.Popen(
        argv, env=env, cwd=PROJECT, stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert pipes(process)[1].readline() == "ready\n"
        yield Doer(process)
        pipes(process)[0].close()


def rate(doers: list[Doer], what: str, count: int) -> float:
    """How many a second, all of them at it together."""
    for each in doers:
        each.begin(what, count)
    return len(doers) * count / max([each.end() for each in doers])


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    with ExitStack() as stack:
        return compared(ground, scale, say, stack) + grown(ground, scale, say, stack)


def compared(ground: Ground, scale: Scale, say: Say, stack: ExitStack) -> list[Figure]:
    """Enqueueing and doing, by one worker and by four, in turn with the floor."""
    tenfour_url = ground.migrated("tenfour_tasks")
    ground.fill(tenfour_url, ("agents", {"count": 2}))
    floor_url = ground.create("floor_tasks")
    with psycopg.connect(floor_url, autocommit=True) as conn:
        conn.execute(floor_sql.SCHEMA)
    others = peers(ground, say, stack)
    tenfour = [stack.enter_context(doer(ground, "tenfour", tenfour_url)) for _ in range(WORKERS)]
    floor = [stack.enter_context(doer(ground, "floor", floor_url)) for _ in range(WORKERS)]
    count = 100 if scale.quick else 400
    steps = [
        ("enqueue 500", 1, 5 * count, 0.5),
        ("enqueue", 1, count, 0.6),
        ("do", 1, count, 0.6),
        ("do", WORKERS, count, 0.45),
    ]
    rates: dict[tuple[str, int], tuple[list[float], list[float]]] = {}
    theirs: dict[str, list[float]] = {name: [] for name in others}
    for number in range(scale.rounds + 1):
        for what, workers, times, _ in steps:
            sides = [(tenfour, 0), (floor, 1)]
            for doers, side in sides if number % 2 else sides[::-1]:
                found = rate(doers[:workers], what, times)
                if number:  # the first round warms up
                    rates.setdefault((what, workers), ([], []))[side].append(found)
            if what == "do" and workers == 1:
                for name, other in others.items():
                    found = rate([other], "do", times)
                    if number:
                        theirs[name].append(found)
        if not number:  # PostgreSQL must know both tables before it plans for good
            ground.fill(tenfour_url, ("settle", {}))
            with psycopg.connect(floor_url, autocommit=True) as conn:
                conn.execute("vacuum analyze")
        if number:
            last = {key: (ours[-1], theirs[-1]) for key, (ours, theirs) in rates.items()}
            say(
                ", ".join(
                    f"{what} × {n}: {a:,.0f} of {b:,.0f}/s" for (what, n), (a, b) in last.items()
                )
            )
    enough(tenfour[0], 4 * scale.rounds * CLAIMS)
    names = {
        "enqueue": "enqueue one",
        "enqueue 500": "enqueue 500 at once",
        "do": "claim and finish",
    }
    return (
        moved(tenfour[0], scale, say)
        + beside(rates["do", 1][0], theirs)
        + [
            Figure(
                f"{names[what]}, {workers} worker{'s' if workers > 1 else ''} / bare SQL",
                ratios(*rates[what, workers]),
                target=at_least(limit),
                detail={
                    "tenfour_per_s": summary(rates[what, workers][0]),
                    "floor_per_s": summary(rates[what, workers][1]),
                },
            )
            for what, workers, _, limit in steps
        ]
    )


def peers(ground: Ground, say: Say, stack: ExitStack) -> dict[str, Doer]:
    """Other queues on the same server, one worker each; those that can't be had are left out."""
    found = {}
    for name, (packages, _) in PEERS.items():
        try:
            python = str(python_with(ground, name, packages))
        except Missing as missing:
            say(f"{name} is left out: {missing}")
            continue
        url = ground.create(f"peer_{name.replace('-', '_')}")
        one = doer(ground, name, url, module="bench.peers", python=python)
        found[name] = stack.enter_context(one)
    return found


def beside(ours: list[float], theirs: dict[str, list[float]]) -> list[Figure]:
    return [
        Figure(
            f"claim and finish, 1 worker / {name}",
            ratios(ours, rates),
            target=at_least(PEERS[name][1]),
            detail={"peer_per_s": summary(rates)},
        )
        for name, rates in theirs.items()
    ]


def enough(doer: Doer, count: int) -> None:
    """See to it that so many tasks are queued."""
    doer.begin("enqueue 500", count + 500)
    doer.end()


def moved(doer: Doer, scale: Scale, say: Say) -> list[Figure]:
    """One move by itself, beside a statement that writes the same rows; and one look at a breaker."""
    took: dict[str, list[float]] = {"move": [], "same rows": [], "gate": []}
    for number in range(2 * scale.rounds):
        for what in took if number % 2 else list(took)[::-1]:
            doer.begin(what, CLAIMS)
            took[what].append(doer.end() * 1000)
    say(", ".join(f"p95 of {what}: {summary(found)} ms" for what, found in took.items()))
    return [
        Figure(
            "one move: p95 / bare SQL of the same rows",
            ratios(took["move"], took["same rows"]),
            target=at_most(2),
        ),
        Figure("one move: p95", took["move"], unit="ms", target=at_most(10)),
        Figure("breaker asked: p95", took["gate"], unit="ms", target=at_most(1)),
    ]


def grown(ground: Ground, scale: Scale, say: Say, stack: ExitStack) -> list[Figure]:
    """A claim where little waits, where a million does, and where retries wait and are due."""
    large = LARGE // 10 if scale.quick else LARGE
    sizes = {
        "small": {"queued": SMALL},
        "large": {"queued": large},
        "retries": {"queued": SMALL, "waiting": WAITING, "due": DUE},
    }
    doers = {}
    for name, size in sizes.items():
        url = ground.migrated(f"tenfour_{name}_tasks")
        ground.fill(url, ("agents", {"count": 2}), ("tasks", size), ("settle", {}))
        doers[name] = stack.enter_context(doer(ground, "tenfour", url))
    times: dict[str, list[float]] = {name: [] for name in doers}
    for number in range(2 * scale.rounds + 1):
        for name in doers if number % 2 else list(doers)[::-1]:
            doers[name].begin("claim", CLAIMS)
            took = doers[name].end() / CLAIMS * 1000
            if number:
                times[name].append(took)
    say(", ".join(f"claim, {name}: {summary(took)} ms" for name, took in times.items()))
    return [
        Figure(
            f"claim: {large:,} queued / {SMALL:,}",
            ratios(times["large"], times["small"]),
            target=at_most(1.2),
        ),
        Figure(
            f"claim: {WAITING:,} retries waiting, {DUE:,} due / {SMALL:,} queued",
            ratios(times["retries"], times["small"]),
            target=at_most(1.5),
        ),
    ]
