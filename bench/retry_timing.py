"""Measure how punctually a client claims its retries if it polls at the interval that it is given."""

import json
import subprocess
import sys

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Sandbox
from config.local.places import PROJECT

AGENT = "agent-00001"
DELAYS_MS = (500, 1000, 2000)
RETRIES = 8


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Compare the time from a failure report to the next claim with the configured delay."""
    url = sandbox.create_migrated("tenfour_retry_timing")
    sandbox.seed(url, ("agents", {"count": 2}))
    count = RETRIES // 4 if scale.quick else RETRIES
    argv = [sys.executable, "-m", "bench.retry_worker", AGENT, str(count), *map(str, DELAYS_MS)]
    completed = subprocess.run(
        argv, env=sandbox.env(url), cwd=PROJECT, check=True, stdout=subprocess.PIPE
    )
    waits_by_delay: dict[str, list[float]] = json.loads(completed.stdout)
    for delay, waits in waits_by_delay.items():
        say(f"{delay} ms: {min(waits):.0f} to {max(waits):.0f} ms")
    return [
        Figure(
            f"retry after {delay} ms: deviation",
            [abs(wait / int(delay) - 1) * 100 for wait in waits],
            unit="%",
            target=at_most(10),
        )
        for delay, waits in waits_by_delay.items()
    ]
