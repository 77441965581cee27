"""Time a claim of members of 1, 5 and 200 pools against one of an agent that is in none."""

import statistics
import subprocess
import sys

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Sandbox
from config.local.places import PROJECT

ROUNDS = 40
DEEP = 1_000_000
# the pools that each agent is in; the last one's pool has DEEP tasks
AGENTS = {
    "in no pool": 0,
    "in 1 pool": 1,
    "in 5 pools": 5,
    "in 200 pools": 200,
    "in a deep pool": 1,
}
NONE, *MEMBERS = AGENTS
TARGETS = {"in 1 pool": 1.15, "in 5 pools": 1.15, "in a deep pool": 1.15}


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Compare claims round by round, in one run."""
    url = sandbox.create_migrated("tenfour_pools")
    deep = DEEP // 20 if scale.quick else DEEP
    rounds = ROUNDS // 4 if scale.quick else ROUNDS
    env = sandbox.env(url)
    argv = [sys.executable, "-m", "bench.pools_worker", str(rounds), str(deep)]
    done = subprocess.run(argv, env=env, cwd=PROJECT, check=True, capture_output=True)
    times_of = [list(map(float, line.split())) for line in done.stdout.splitlines()]
    took = dict(zip(AGENTS, times_of, strict=True))
    for name, times in took.items():
        say(f"a claim {name}: {statistics.median(times):.2f} ms")
    return [
        Figure(
            f"pools: claim {name} / {NONE}",
            [b / a for a, b in zip(took[NONE], took[name], strict=True)],
            target=at_most(TARGETS[name]) if name in TARGETS else None,
        )
        for name in MEMBERS
    ]
