"""Sending with deduplication, in a table of 10,000 rows and in one of a million, alternately."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from bench.figures import Figure, Say, Scale, at_most, ratios, summary
from bench.servers import Ground
from config.local.places import PROJECT

AGENTS = 1000
SMALL = 10_000
LARGE = 1_000_000
QUICK_LARGE = 200_000
SENDS = 200


@dataclass
class Sender:
    """A process that sends into one database when it is told to; medians in milliseconds."""

    process: "subprocess.Popen[str]"
    fresh: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)

    def send(self, count: int, *, measured: bool = True) -> None:
        stdin, stdout = pipes(self.process)
        print(count, file=stdin, flush=True)
        took = json.loads(stdout.readline())
        if measured:
            self.fresh.append(took["fresh_ms"])
            self.again.append(took["again_ms"])


def pipes(process: "subprocess.Popen[str]") -> tuple[IO[str], IO[str]]:
    assert process.stdin and process.stdout
    return process.stdin, process.stdout


@contextmanager
def sender(ground: Ground, url: str) -> Iterator[Sender]:
    argv = [sys.executable, "-m", "bench.sender"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, env=ground.env(url), cwd=PROJECT, stdin=pipe, stdout=pipe, text=True
    ) as process:
        yield Sender(process)
        pipes(process)[0].close()


def filled(ground: Ground, name: str, rows: int) -> str:
    """A database in which so many instructions wait: the index that finds duplicates has them all."""
    url = ground.migrated(name)
    ground.fill(
        url,
        ("agents", {"count": AGENTS}),
        ("many", {"count": rows, "state": "queued"}),
        ("settle", {}),
    )
    return url


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    rows = QUICK_LARGE if scale.quick else LARGE
    urls = [filled(ground, "tenfour_small", SMALL), filled(ground, "tenfour_large", rows)]
    with sender(ground, urls[0]) as small, sender(ground, urls[1]) as large:
        for each in (small, large):
            each.send(SENDS, measured=False)
        for number in range(4 * scale.rounds):
            # Who comes first takes turns: the one behind finds the disk busy.
            for each in (small, large) if number % 2 else (large, small):
                each.send(SENDS)
        say(f"a new one {summary(small.fresh)} ms, then {summary(large.fresh)} ms")
    return [
        figure("send, new", rows, small.fresh, large.fresh),
        figure("send, duplicate", rows, small.again, large.again),
    ]


def figure(name: str, rows: int, small: list[float], large: list[float]) -> Figure:
    return Figure(
        f"{name}: {rows:,} rows / {SMALL:,}",
        ratios(large, small),
        target=at_most(1.2),
        detail={"large_ms": summary(large), "small_ms": summary(small)},
    )
