"""Time a search in payloads at a million tasks against one in an empty project, and a write."""

import statistics
import subprocess
import sys

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Sandbox
from config.local.places import PROJECT

TASKS, ROUNDS = 1_000_000, 60
KEYS = ["payload.order", "payload.customer", "payload.region"]
# the searched key, and how many tasks have one of its values
SEARCHES = {"order": "one task", "customer": "200 tasks", "region": "a third of the tasks"}


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Compare the page of tasks round by round, in one run."""
    url = sandbox.create_migrated("tenfour_payload_search")
    tasks = TASKS // 20 if scale.quick else TASKS
    rounds = ROUNDS // 3 if scale.quick else ROUNDS
    argv = [sys.executable, "-m", "bench.payload_search_worker", str(rounds), str(tasks)]
    done = subprocess.run(
        argv, env=sandbox.env(url), cwd=PROJECT, check=True, stdout=subprocess.PIPE
    )
    (filled,), *times = [list(map(float, line.split())) for line in done.stdout.splitlines()]
    say(f"the clock added {tasks:,} older tasks in {filled:.0f} s")
    *searches, without, written = times
    figures = []
    for (key, text), empty, full in zip(
        SEARCHES.items(), searches[::2], searches[1::2], strict=False
    ):
        p95s = [statistics.quantiles(each, n=20)[-1] for each in (empty, full)]
        say(f"p95 of {key} ({text}): {p95s[1]:.1f} ms, in an empty project {p95s[0]:.1f} ms")
        name = f"payload search: {key}, p95 at {tasks:,} tasks / empty"
        figures.append(Figure(name, [p95s[1] / p95s[0]], target=at_most(2)))
    say(f"a write: {statistics.median(without):.3f} ms, with keys {statistics.median(written):.3f}")
    ratios = [b / a for a, b in zip(without, written, strict=True)]
    return [
        *figures,
        Figure("payload search: write with 3 keys / without", ratios, target=at_most(1.1)),
    ]
