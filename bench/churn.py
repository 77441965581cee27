"""Measure claims while 500,000 tasks pass through the queue and autovacuum runs, and afterward."""

from collections.abc import Iterable
from contextlib import ExitStack

import psycopg

from bench.figures import Figure, Say, Scale, at_most, ratios, summarize
from bench.servers import Sandbox
from bench.tasks import Worker, start_worker

QUEUED = 10_000
FINISHED = 500_000
STEP = 5_000
CLAIMS_DURING, CLAIMS_AFTER = 20, 100  # claims per sample

TABLE_STATISTICS = """select s.n_dead_tup, s.autovacuum_count, pg_relation_size('task_queue') / 1e6
from pg_stat_user_tables s where s.relname = 'ledger_task'"""


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Time claims on a busy queue of constant depth and on an idle queue of the same depth."""
    finished = FINISHED // 10 if scale.quick else FINISHED
    with ExitStack() as stack:
        urls = {name: sandbox.create_migrated(f"tenfour_{name}") for name in ("busy", "idle_queue")}
        for url in urls.values():
            sandbox.seed(
                url, ("agents", {"count": 2}), ("tasks", {"queued": QUEUED}), ("vacuum", {})
            )
        claimers = {
            name: stack.enter_context(start_worker(sandbox, "tenfour", url))
            for name, url in urls.items()
        }
        churner = stack.enter_context(start_worker(sandbox, "tenfour", urls["busy"]))
        during: dict[str, list[float]] = {name: [] for name in claimers}
        seconds = 0.0
        for number in range(finished // STEP):
            churner.begin("churn", STEP)
            time_claims(claimers, CLAIMS_DURING, number, during)
            seconds += churner.end()
            if not number % 10:
                table = describe_table(urls["busy"])
                say(f"{(number + 1) * STEP:,} finished in {seconds:.0f} s: {table}")
        after: dict[str, list[float]] = {name: [] for name in claimers}
        for number in range(2 * scale.rounds):
            time_claims(claimers, CLAIMS_AFTER, number, after)
    say(f"{finished / seconds:,.0f} finished per second; {describe_table(urls['busy'])}")
    return [
        Figure(
            f"claim: {when} / {QUEUED:,} queued",
            ratios(times["busy"], times["idle_queue"]),
            target=at_most(1.5),
            detail={f"{name}_ms": summarize(values) for name, values in times.items()},
        )
        for when, times in (
            (f"while {finished:,} finish", during),
            (f"after {finished:,} finished", after),
        )
    ]


def time_claims(
    claimers: dict[str, Worker], count: int, number: int, times: dict[str, list[float]]
) -> None:
    """Append each claimer's milliseconds per claim to `times`; the order alternates."""
    names: Iterable[str] = claimers if number % 2 else reversed(claimers)
    for name in names:
        claimers[name].begin("claim", count)
        times[name].append(claimers[name].end() / count * 1000)


def describe_table(url: str) -> str:
    """Describe the task table's dead rows, vacuums, and index size."""
    with psycopg.connect(url) as conn:
        row = conn.execute(TABLE_STATISTICS).fetchone()
    assert row
    return f"{row[0]:,} dead rows, vacuumed {row[1]} times, queue index {row[2]:.1f} MB"
