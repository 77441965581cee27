"""Claims where half a million tasks came and went, vacuumed as Tenfour's tables ask to be."""

from collections.abc import Iterable
from contextlib import ExitStack

import psycopg

from bench.figures import Figure, Say, Scale, at_most, ratios, summary
from bench.servers import Ground
from bench.tasks import Doer, doer

QUEUED = 10_000
FINISHED = 500_000
STEP = 5_000
MEANWHILE, AFTERWARDS = 20, 100  # claims that are timed together

LEFT = """select s.n_dead_tup, s.autovacuum_count, pg_relation_size('task_queue') / 1e6
from pg_stat_user_tables s where s.relname = 'ledger_task'"""


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    """As many are enqueued as are finished; claims are timed beside a queue where nothing is."""
    finished = FINISHED // 10 if scale.quick else FINISHED
    with ExitStack() as stack:
        urls = {name: ground.migrated(f"tenfour_{name}") for name in ("churned", "calm")}
        for url in urls.values():
            ground.fill(
                url, ("agents", {"count": 2}), ("tasks", {"queued": QUEUED}), ("settle", {})
            )
        doers = {
            name: stack.enter_context(doer(ground, "tenfour", url)) for name, url in urls.items()
        }
        worker = stack.enter_context(doer(ground, "tenfour", urls["churned"]))
        meanwhile: dict[str, list[float]] = {name: [] for name in doers}
        took = 0.0
        for number in range(finished // STEP):
            worker.begin("churn", STEP)
            claimed(doers, MEANWHILE, number, meanwhile)
            took += worker.end()
            if not number % 10:
                say(f"{(number + 1) * STEP:,} finished in {took:.0f} s: {left(urls['churned'])}")
        afterwards: dict[str, list[float]] = {name: [] for name in doers}
        for number in range(2 * scale.rounds):
            claimed(doers, AFTERWARDS, number, afterwards)
    say(f"{finished / took:,.0f} finished a second; {left(urls['churned'])}")
    return [
        Figure(
            f"claim: {when} {finished:,} were finished / {QUEUED:,} queued",
            ratios(times["churned"], times["calm"]),
            target=at_most(1.5),
            detail={f"{name}_ms": summary(found) for name, found in times.items()},
        )
        for when, times in (("while", meanwhile), ("after", afterwards))
    ]


def claimed(doers: dict[str, Doer], count: int, number: int, times: dict[str, list[float]]) -> None:
    """Time so many claims of each, in turn who is first; in milliseconds a claim."""
    names: Iterable[str] = doers if number % 2 else reversed(doers)
    for name in names:
        doers[name].begin("claim", count)
        times[name].append(doers[name].end() / count * 1000)


def left(url: str) -> str:
    """What lies about in the table of tasks."""
    with psycopg.connect(url) as conn:
        row = conn.execute(LEFT).fetchone()
    assert row
    return f"{row[0]:,} dead rows, vacuumed {row[1]} times, index of the queue {row[2]:.1f} MB"
