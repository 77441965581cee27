"""Measure sending with deduplication, with 10,000 instructions waiting and with a million."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from bench.figures import Figure, Say, Scale, at_most, ratios, summarize
from bench.servers import Sandbox
from config.local.places import PROJECT

AGENTS = 1000
SMALL = 10_000
LARGE = 1_000_000
QUICK_LARGE = 200_000
SENDS = 200


@dataclass
class SendWorker:
    """A process that sends into one database on request, with its median times in milliseconds."""

    process: "subprocess.Popen[str]"
    new_ms: list[float] = field(default_factory=list)
    duplicate_ms: list[float] = field(default_factory=list)

    def send(self, count: int, *, measured: bool = True) -> None:
        stdin, stdout = get_pipes(self.process)
        print(count, file=stdin, flush=True)
        medians = json.loads(stdout.readline())
        if measured:
            self.new_ms.append(medians["new_ms"])
            self.duplicate_ms.append(medians["duplicate_ms"])


def get_pipes(process: "subprocess.Popen[str]") -> tuple[IO[str], IO[str]]:
    """Return the process's stdin and stdout."""
    assert process.stdin and process.stdout
    return process.stdin, process.stdout


@contextmanager
def start_send_worker(sandbox: Sandbox, url: str) -> Iterator[SendWorker]:
    argv = [sys.executable, "-m", "bench.send_worker"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, env=sandbox.env(url), cwd=PROJECT, stdin=pipe, stdout=pipe, text=True
    ) as process:
        yield SendWorker(process)
        get_pipes(process)[0].close()


def create_database(sandbox: Sandbox, name: str, rows: int) -> str:
    """Create a database with `rows` queued instructions, all in the deduplication index."""
    url = sandbox.create_migrated(name)
    sandbox.seed(
        url,
        ("agents", {"count": AGENTS}),
        ("instructions_with_events", {"count": rows, "state": "queued"}),
        ("vacuum", {}),
    )
    return url


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    rows = QUICK_LARGE if scale.quick else LARGE
    urls = [
        create_database(sandbox, "tenfour_small", SMALL),
        create_database(sandbox, "tenfour_large", rows),
    ]
    with start_send_worker(sandbox, urls[0]) as small, start_send_worker(sandbox, urls[1]) as large:
        for each in (small, large):
            each.send(SENDS, measured=False)
        for number in range(4 * scale.rounds):
            # Alternate the order: the second worker finds the disk busy.
            for each in (small, large) if number % 2 else (large, small):
                each.send(SENDS)
        say(f"new: {summarize(small.new_ms)} ms, then {summarize(large.new_ms)} ms")
    return [
        build_figure("send, new", rows, small.new_ms, large.new_ms),
        build_figure("send, duplicate", rows, small.duplicate_ms, large.duplicate_ms),
    ]


def build_figure(name: str, rows: int, small: list[float], large: list[float]) -> Figure:
    return Figure(
        f"{name}: {rows:,} rows / {SMALL:,}",
        ratios(large, small),
        target=at_most(1.2),
        detail={"large_ms": summarize(large), "small_ms": summarize(small)},
    )
