"""Measure claims while retention archives and deletes old tasks, and who waits for it."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from bench.figures import Figure, Say, Scale, at_most, ratios, summarize
from bench.sending import get_pipes
from bench.servers import Sandbox
from bench.tasks import Worker, start_worker
from config.local.places import PROJECT

TASKS, QUEUED = 1_000_000, 20_000
CLAIMS = 400
MAX_WAIT_MS = 100
LONGEST_WAIT = """select coalesce(max(extract(epoch from clock_timestamp() - waitstart)), 0) * 1000
from pg_locks where not granted"""


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Time claims beside retention and alone, in turn, in one database."""
    url = sandbox.create_migrated("tenfour_retention")
    sandbox.seed(
        url,
        ("agents", {"count": 2}),
        ("volume", {"count": TASKS // 20 if scale.quick else TASKS}),
        ("tasks", {"queued": QUEUED}),
        ("vacuum", {}),
    )
    alone: list[float] = []
    beside: list[float] = []
    waits: list[float] = []
    gone = 0
    with start_worker(sandbox, "tenfour", url) as claimer, start_retention(sandbox, url) as process:
        claim(claimer)
        for number in range(2 * scale.rounds):
            for is_beside in (False, True) if number % 2 else (True, False):
                if is_beside:
                    with watch_waits(url, waits):
                        say_to(process, "go")
                        beside.append(claim(claimer))
                        say_to(process, "stop")
                        gone += int(get_pipes(process)[1].readline())
                else:
                    alone.append(claim(claimer))
    say(f"{gone:,} tasks are gone; the longest wait for a lock was {max(waits):.1f} ms")
    return [
        Figure(
            f"claim beside retention over {TASKS:,} tasks: p95 / alone",
            ratios(beside, alone),
            target=at_most(1.5),
            detail={"beside_ms": summarize(beside), "alone_ms": summarize(alone), "gone": gone},
        ),
        Figure(
            "retention: longest wait for a lock",
            [max(waits)],
            unit="ms",
            target=at_most(MAX_WAIT_MS),
        ),
    ]


def claim(claimer: Worker) -> float:
    """Return the 95th percentile of some claims, in milliseconds."""
    claimer.begin("move", CLAIMS)
    return claimer.end() * 1000


def say_to(process: "subprocess.Popen[str]", word: str) -> None:
    print(word, file=get_pipes(process)[0], flush=True)


@contextmanager
def start_retention(sandbox: Sandbox, url: str) -> Iterator["subprocess.Popen[str]"]:
    pipe = subprocess.PIPE
    env = sandbox.env(url) | {"TENFOUR_TASK_DAYS": "1"}
    argv = [sys.executable, "-m", "bench.retention_worker"]
    with subprocess.Popen(
        argv, env=env, cwd=PROJECT, stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert get_pipes(process)[1].readline() == "ready\n"
        yield process
        get_pipes(process)[0].close()


@contextmanager
def watch_waits(url: str, waits: list[float]) -> Iterator[None]:
    """Append the longest wait for a lock, as it is seen every few milliseconds."""
    ended = threading.Event()

    def watch() -> None:
        longest = 0.0
        with psycopg.connect(url, autocommit=True) as conn:
            while not ended.wait(0.005):
                row = conn.execute(LONGEST_WAIT).fetchone()
                longest = max(longest, float(row[0])) if row else longest
        waits.append(longest)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
