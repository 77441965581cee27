"""Time the client's start, a hook's call and a run in fresh processes, minus a baseline's start.

A round starts every program in turn, several times; its value is the difference of the medians.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.figures import Figure, Say, Scale, at_most, summarize
from bench.http import run_web_server
from bench.servers import Sandbox
from config.local.places import PROJECT

# Starts of each program in a round.
STARTS = 9
BARE = ("-c", "pass")
HTTPX2 = ("-c", "import httpx2; httpx2.Client()")


@dataclass(frozen=True)
class Start:
    """A program that starts, the one it is compared with, and the most it may add."""

    name: str
    argv: tuple[str, ...]
    over: tuple[str, ...]
    limit_ms: float
    stdin: str = ""


# An agent waits for this at each of its tool calls.
COMMAND_RAN = {
    "hook_event_name": "PostToolUse",
    "session_id": "s-1",
    "cwd": "/srv/app",
    "tool_name": "Bash",
    "tool_input": {"command": "make test"},
    "tool_response": {"stdout": "1 passed", "stderr": ""},
}
STARTED = (
    Start("client: import tenfour", ("-c", "import tenfour"), BARE, 60),
    Start("client: from tenfour import Client", ("-c", "from tenfour import Client"), BARE, 60),
    Start(
        "client: a client and the command's table",
        ("-c", f"{HTTPX2[1]}; import tenfour.cli; from tenfour import Client"),
        HTTPX2,
        60,
    ),
    Start(
        "client: a hook's call",
        ("-m", "tenfour", "hook"),
        HTTPX2,
        60,
        stdin=json.dumps(COMMAND_RAN),
    ),
    Start(
        "client: tenfour run -- true",
        ("-m", "tenfour", "run", "--name", "bench", "--", "true"),
        HTTPX2,
        150,
    ),
)
STDIN = {each.argv: each.stdin.encode() for each in STARTED}


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Return a figure for each program: the milliseconds that it adds to its baseline."""
    added: dict[str, list[float]] = {each.name: [] for each in STARTED}
    programs = list(dict.fromkeys([argv for each in STARTED for argv in (each.over, each.argv)]))
    times: dict[tuple[str, ...], list[float]] = {argv: [] for argv in programs}
    database = sandbox.create_migrated("tenfour_client")
    secrets = sandbox.seed(database, ("agents", {"count": 1}), ("tokens", {"count": 1}))[1]
    with run_web_server(sandbox, "config.wsgi:application", database) as url:
        env = environment(sandbox, url, next(iter(secrets.values())))
        for _ in range(scale.rounds):
            medians = time_starts(programs, STARTS if not scale.quick else 3, env)
            for argv, median in medians.items():
                times[argv].append(median)
            for each in STARTED:
                added[each.name].append(medians[each.argv] - medians[each.over])
            say(", ".join(f"{name} {values[-1]:.0f} ms" for name, values in added.items()))
    return [
        Figure(
            each.name,
            added[each.name],
            unit="ms",
            target=at_most(each.limit_ms),
            detail={
                "start_ms": summarize(times[each.argv]),
                "over_ms": summarize(times[each.over]),
            },
            note=f"over {' '.join(each.over)}",
        )
        for each in STARTED
    ]


def environment(sandbox: Sandbox, url: str, token: str) -> dict[str, str]:
    """Return what a program of an agent finds: the client, and a server to call."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PROJECT / "client"),
        "TENFOUR_URL": url,
        "TENFOUR_TOKEN": token,
        "TENFOUR_STATE": str(sandbox.folder / "state"),
    }


def time_starts(
    programs: Sequence[tuple[str, ...]], starts: int, env: Mapping[str, str]
) -> dict[tuple[str, ...], float]:
    """Start each program in turn, `starts` times; return the medians in milliseconds."""
    times: dict[tuple[str, ...], list[float]] = {argv: [] for argv in programs}
    for _ in range(starts):
        for argv in programs:
            times[argv].append(time_start(argv, env))
    return {argv: statistics.median(values) for argv, values in times.items()}


def time_start(argv: tuple[str, ...], env: Mapping[str, str]) -> float:
    # Compiled modules are kept, as on an agent's machine.
    began = time.perf_counter()
    subprocess.run([sys.executable, *argv], env=dict(env), input=STDIN.get(argv, b""), check=True)
    return (time.perf_counter() - began) * 1000
