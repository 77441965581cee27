"""Measure claims while retention runs, and who waits for it: old tasks, and months of the journal."""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.figures import Figure, Say, Scale, at_most, ratios, summarize
from bench.sending import get_pipes
from bench.servers import Sandbox
from bench.tasks import Worker, start_worker
from config.local.places import PROJECT

TASKS, EVENTS, QUEUED = 1_000_000, 5_000_000, 200_000
CLAIMS = 400
PAUSE_S = 3.0  # between the claims beside a run
SLICE_S, QUICK_SLICE_S = 60.0, 5.0
MAX_WAIT_MS = 100
# Detaching a month waits for all transactions that read it. Only what others wait for counts.
LONGEST_WAIT = """select coalesce(max(extract(epoch from clock_timestamp() - waitstart)), 0) * 1000
from pg_locks where not granted and pid <> %s"""


@dataclass
class Retention:
    """A process that runs an entry of the clock on request, and what it has done."""

    process: "subprocess.Popen[str]"
    pid: int  # of its connection
    did: list[dict[str, Any]] = field(default_factory=list)

    def run(self, entry: str) -> None:
        print(entry, file=get_pipes(self.process)[0], flush=True)
        self.did.append(json.loads(get_pipes(self.process)[1].readline()))

    def count(self, what: str) -> int:
        return sum(did.get(what, 0) for did in self.did)


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Time claims beside each kind of run and alone, in turn, in one database."""
    url = sandbox.create_migrated("tenfour_retention")
    part = 20 if scale.quick else 1
    sandbox.seed(
        url,
        ("journal_partitions", {}),
        ("agents", {"count": 2}),
        ("volume", {"count": TASKS // part}),
        ("tasks", {"queued": QUEUED // part}),
        ("journal_year", {"count": EVENTS // part}),
        ("vacuum", {}),
    )
    slice_s = QUICK_SLICE_S if scale.quick else SLICE_S
    with start_worker(sandbox, "tenfour", url) as claimer:
        claim(claimer)
        with start_retention(sandbox, url, slice_s) as retention:
            figures = compare(
                claimer, retention, "retention", f"deleting {TASKS // part:,} tasks", url, scale
            )
            say(f"{retention.count('tasks'):,} tasks are gone")
            figures += compare(
                claimer,
                retention,
                "journal",
                f"dropping months of {EVENTS // part:,} events",
                url,
                scale,
            )
            say(f"{retention.count('dropped')} months of the journal are gone")
    return figures


def compare(
    claimer: Worker, retention: Retention, entry: str, what: str, url: str, scale: Scale
) -> list[Figure]:
    alone: list[float] = []
    beside: list[float] = []
    waits: list[float] = []
    for number in range(2 * scale.rounds):
        for is_beside in (False, True) if number % 2 else (True, False):
            if is_beside:
                with watch_waits(url, retention, waits):
                    beside.append(claim_beside(claimer, retention, entry))
            else:
                alone.append(claim(claimer))
    return [
        Figure(
            f"claim beside {what}: p95 / alone",
            ratios(beside, alone),
            target=at_most(1.5),
            detail={"beside_ms": summarize(beside), "alone_ms": summarize(alone)},
        ),
        Figure(
            f"{what}: longest wait for a lock", [max(waits)], unit="ms", target=at_most(MAX_WAIT_MS)
        ),
    ]


def claim(claimer: Worker) -> float:
    """Return the 95th percentile of some claims, in milliseconds."""
    claimer.begin("move", CLAIMS)
    return claimer.end() * 1000


def claim_beside(claimer: Worker, retention: Retention, entry: str) -> float:
    """Claim again and again during a whole run of an entry; return the median percentile."""
    found = []
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(retention.run, entry)
        while not found or not done.done():
            found.append(claim(claimer))
            time.sleep(0 if done.done() else PAUSE_S)
        done.result()
    return statistics.median(found)


@contextmanager
def start_retention(sandbox: Sandbox, url: str, seconds: float) -> Iterator[Retention]:
    pipe = subprocess.PIPE
    env = sandbox.env(url) | {"TENFOUR_TASK_DAYS": "1", "TENFOUR_EVENT_DAYS": "30"}
    argv = [sys.executable, "-m", "bench.retention_worker", str(seconds)]
    with subprocess.Popen(
        argv, env=env, cwd=PROJECT, stdin=pipe, stdout=pipe, text=True
    ) as process:
        yield Retention(process, int(get_pipes(process)[1].readline()))
        get_pipes(process)[0].close()


@contextmanager
def watch_waits(url: str, retention: Retention, waits: list[float]) -> Iterator[None]:
    """Append the longest wait for a lock, as it is seen every few milliseconds."""
    ended = threading.Event()

    def watch() -> None:
        longest = 0.0
        with psycopg.connect(url, autocommit=True) as conn:
            while not ended.wait(0.005):
                row = conn.execute(LONGEST_WAIT, [retention.pid]).fetchone()
                longest = max(longest, float(row[0])) if row else longest
        waits.append(longest)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
