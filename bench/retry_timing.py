"""How punctual a retry is for a client that asks again when it is told to."""

import json
import subprocess
import sys

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Ground
from config.local.places import PROJECT

AGENT = "agent-00001"
DELAYS_MS = (500, 1000, 2000)
TIMES = 8


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    """From the failure's report to the claim of the next attempt, beside the delay that was set."""
    url = ground.migrated("tenfour_due")
    ground.fill(url, ("agents", {"count": 2}))
    times = TIMES // 4 if scale.quick else TIMES
    argv = [sys.executable, "-m", "bench.poller", AGENT, str(times), *map(str, DELAYS_MS)]
    done = subprocess.run(
        argv, env=ground.env(url), cwd=PROJECT, check=True, stdout=subprocess.PIPE
    )
    took: dict[str, list[float]] = json.loads(done.stdout)
    for delay, found in took.items():
        say(f"{delay} ms: {min(found):.0f} to {max(found):.0f} ms")
    return [
        Figure(
            f"retry due after {delay} ms: how far off",
            [abs(each / int(delay) - 1) * 100 for each in found],
            unit="%",
            target=at_most(10),
        )
        for delay, found in took.items()
    ]
