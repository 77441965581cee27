"""Compare tasks through the Python API with bare SQL, and claims on tables of different sizes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg

from bench.figures import Figure, Say, Scale, Target, at_least, at_most, ratios, summarize
from bench.floor import sql as floor_sql
from bench.sending import get_pipes
from bench.servers import MissingDependency, Sandbox, install_packages
from config.local.places import PROJECT

AGENT = "agent-00001"
WORKERS = 4
SMALL, LARGE = 10_000, 1_000_000
WAITING, DUE = 100_000, 100_000
CLAIMS = 100
# name: packages to install, and the target for Tenfour's rate divided by theirs
PEERS: dict[str, tuple[list[str], Target | None]] = {
    "procrastinate": (["procrastinate", "psycopg[binary]"], at_least(1.5)),
    "django-tasks": (["django-tasks", "django-tasks-db", "psycopg[binary]"], at_least(2)),
    "Celery": (["celery[redis]", "sqlalchemy", "psycopg[binary]"], None),
}
NAMES = {"Celery": "Celery with results in PostgreSQL"}


@dataclass(frozen=True)
class Worker:
    """A process that runs operations on request and returns the seconds."""

    process: "subprocess.Popen[str]"

    def begin(self, operation: str, count: int) -> None:
        print(f"{operation} {count}", file=get_pipes(self.process)[0], flush=True)

    def end(self) -> float:
        return float(get_pipes(self.process)[1].readline())


@contextmanager
def start_worker(
    sandbox: Sandbox,
    side: str,
    url: str,
    *,
    module: str = "bench.task_worker",
    python: str = sys.executable,
) -> Iterator[Worker]:
    argv = [python, "-m", module, side, AGENT]
    pipe = subprocess.PIPE
    env = sandbox.env(url)
    with subprocess.Popen(
        argv, env=env, cwd=PROJECT, stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert get_pipes(process)[1].readline() == "ready\n"
        yield Worker(process)
        get_pipes(process)[0].close()


def measure_rate(group: list[Worker], operation: str, count: int) -> float:
    """Return the operations per second of all workers together."""
    for each in group:
        each.begin(operation, count)
    return len(group) * count / max([each.end() for each in group])


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    with ExitStack() as stack:
        return compare_throughput(sandbox, scale, say, stack) + measure_table_growth(
            sandbox, scale, say, stack
        )


@dataclass(frozen=True)
class Step:
    """An operation that `workers` run `count` times at once, and the target for its ratio."""

    operation: str
    workers: int
    count: int
    limit: float

    @property
    def label(self) -> str:
        name = LABELS.get(self.operation, self.operation)
        return f"{name}, {self.workers} worker{'s' if self.workers > 1 else ''}"


LABELS = {"enqueue": "enqueue one", "enqueue 500": "enqueue 500 in one call"}


def compare_throughput(sandbox: Sandbox, scale: Scale, say: Say, stack: ExitStack) -> list[Figure]:
    """Compare enqueueing and finishing with the floor and the peers, with one and four workers."""
    tenfour_url = sandbox.create_migrated("tenfour_tasks")
    sandbox.seed(tenfour_url, ("agents", {"count": 2}))
    floor_url = sandbox.create("floor_tasks")
    with psycopg.connect(floor_url, autocommit=True) as conn:
        conn.execute(floor_sql.SCHEMA)
    peers = start_peers(sandbox, say, stack)
    tenfour = [
        stack.enter_context(start_worker(sandbox, "tenfour", tenfour_url)) for _ in range(WORKERS)
    ]
    floor = [stack.enter_context(start_worker(sandbox, "floor", floor_url)) for _ in range(WORKERS)]
    count = 100 if scale.quick else 400
    finish_alone = Step("claim and finish", 1, count, 0.65)
    steps = [
        Step("enqueue 500", 1, 5 * count, 0.5),
        Step("enqueue", 1, count, 0.6),
        finish_alone,
        Step("claim and finish", WORKERS, count, 0.55),
    ]
    rates: dict[Step, tuple[list[float], list[float]]] = {step: ([], []) for step in steps}
    peer_rates: dict[str, list[float]] = {name: [] for name in peers}
    for number in range(scale.rounds + 1):
        found: dict[Step, tuple[float, float]] = {}
        for step in steps:
            found[step] = measure_sides(step, tenfour, floor, floor_first=number % 2 == 0)
            if step is finish_alone:
                of_peers = {
                    name: measure_rate([peer], step.operation, step.count)
                    for name, peer in peers.items()
                }
        if not number:  # the first round is a warm-up
            analyze(sandbox, tenfour_url, floor_url)
            continue
        for step, (ours, bare) in found.items():
            rates[step][0].append(ours)
            rates[step][1].append(bare)
        for name, rate in of_peers.items():
            peer_rates[name].append(rate)
        say(", ".join(f"{step.label}: {a:,.0f} of {b:,.0f}/s" for step, (a, b) in found.items()))
    enqueue_tasks(tenfour[0], 4 * scale.rounds * CLAIMS)
    return (
        measure_moves(tenfour[0], scale, say)
        + compare_with_peers(rates[finish_alone][0], peer_rates)
        + [compare_with_floor(step, *rates[step]) for step in steps]
    )


def analyze(sandbox: Sandbox, tenfour_url: str, floor_url: str) -> None:
    """Give PostgreSQL statistics on both tables, before it caches plans."""
    sandbox.seed(tenfour_url, ("vacuum", {}))
    with psycopg.connect(floor_url, autocommit=True) as conn:
        conn.execute("vacuum analyze")


def measure_sides(
    step: Step, tenfour: list[Worker], floor: list[Worker], *, floor_first: bool
) -> tuple[float, float]:
    """Return Tenfour's rate and the floor's, measured one after the other."""
    groups = [floor, tenfour] if floor_first else [tenfour, floor]
    found = [measure_rate(group[: step.workers], step.operation, step.count) for group in groups]
    first, second = found
    return (second, first) if floor_first else (first, second)


def compare_with_floor(step: Step, ours: list[float], bare: list[float]) -> Figure:
    return Figure(
        f"{step.label} / bare SQL",
        ratios(ours, bare),
        target=at_least(step.limit),
        detail={"tenfour_per_s": summarize(ours), "floor_per_s": summarize(bare)},
    )


def start_peers(sandbox: Sandbox, say: Say, stack: ExitStack) -> dict[str, Worker]:
    """Start one worker of each other queue on the same server; skip those not installable."""
    peers = {}
    for name, (packages, _) in PEERS.items():
        try:
            python = str(install_packages(sandbox, name, packages))
        except MissingDependency as missing:
            say(f"{name} skipped: {missing}")
            continue
        url = sandbox.create(f"peer_{name.replace('-', '_').lower()}")
        worker = start_worker(sandbox, name, url, module="bench.peers", python=python)
        peers[name] = stack.enter_context(worker)
    return peers


def compare_with_peers(ours: list[float], theirs: dict[str, list[float]]) -> list[Figure]:
    return [
        Figure(
            f"claim and finish, 1 worker / {NAMES.get(name, name)}",
            ratios(ours, rates),
            target=PEERS[name][1],
            detail={"peer_per_s": summarize(rates)},
        )
        for name, rates in theirs.items()
    ]


def enqueue_tasks(worker: Worker, count: int) -> None:
    """Enqueue at least `count` tasks."""
    worker.begin("enqueue 500", count + 500)
    worker.end()


def measure_moves(worker: Worker, scale: Scale, say: Say) -> list[Figure]:
    """Time a single claim, a bare statement that writes the same rows, and a breaker check."""
    took: dict[str, list[float]] = {"move": [], "same rows": [], "breaker check": []}
    for number in range(2 * scale.rounds):
        for operation in took if number % 2 else list(took)[::-1]:
            worker.begin(operation, CLAIMS)
            took[operation].append(worker.end() * 1000)
    say(
        ", ".join(f"p95 of {operation}: {summarize(found)} ms" for operation, found in took.items())
    )
    return [
        Figure(
            "one move: p95 / bare SQL of the same rows",
            ratios(took["move"], took["same rows"]),
            target=at_most(2),
        ),
        Figure("one move: p95", took["move"], unit="ms", target=at_most(10)),
        Figure("breaker check: p95", took["breaker check"], unit="ms", target=at_most(1)),
    ]


def measure_table_growth(
    sandbox: Sandbox, scale: Scale, say: Say, stack: ExitStack
) -> list[Figure]:
    """Compare claims on a small queue, on a large one, and on one with waiting and due retries."""
    large = LARGE // 10 if scale.quick else LARGE
    sizes = {
        "small": {"queued": SMALL},
        "large": {"queued": large},
        "retries": {"queued": SMALL, "waiting": WAITING, "due": DUE},
    }
    group = {}
    for name, size in sizes.items():
        url = sandbox.create_migrated(f"tenfour_{name}_tasks")
        sandbox.seed(url, ("agents", {"count": 2}), ("tasks", size), ("vacuum", {}))
        group[name] = stack.enter_context(start_worker(sandbox, "tenfour", url))
    times: dict[str, list[float]] = {name: [] for name in group}
    for number in range(2 * scale.rounds + 1):
        for name in group if number % 2 else list(group)[::-1]:
            group[name].begin("claim", CLAIMS)
            took = group[name].end() / CLAIMS * 1000
            if number:
                times[name].append(took)
    say(", ".join(f"claim, {name}: {summarize(took)} ms" for name, took in times.items()))
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
