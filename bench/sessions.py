"""Measure sessions: messages over HTTP, a thousand buffers at once, and a batch of 32."""

import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

import psycopg

from bench.figures import Figure, Say, Scale, at_least, at_most, ratios
from bench.http import (
    AGENTS,
    ROWS_PER_CPU_SECOND,
    WARM_UP_S,
    LoadTarget,
    prepare_floor,
    require_wrk,
    run_web_server,
)
from bench.idle_check import run_worker
from bench.servers import Sandbox, wait_until
from config.local.places import PROJECT

SESSIONS, MESSAGES, WINDOW_S = 1000, 40, 8
PER_SESSION = 15  # below a full buffer, so that a worker is not missed
AT_ONCE = 256
BATCHES = 60
UNPROCESSED = "select count(*) from ledger_message where state in ('pending', 'running')"
BY_STATE = "select state, count(*) from ledger_message group by state"


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    require_wrk()
    return [
        *measure_http(sandbox, scale, say),
        *measure_buffers(sandbox, say),
        measure_batches(sandbox, scale, say),
    ]


def run_session_worker(sandbox: Sandbox, url: str, *argv: object) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "bench.session_worker", *map(str, argv)],
        env=sandbox.env(url),
        cwd=PROJECT,
        check=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(done.stdout)


def measure_http(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Compare one message per request with the floor endpoint, as the acknowledgment is."""
    rows = ROWS_PER_CPU_SECOND * (scale.rounds * scale.seconds + WARM_UP_S)
    floor_url, floor_lines = prepare_floor(sandbox, "floor_sessions", rows)
    url = sandbox.create_migrated("tenfour_sessions_http")
    secrets = sandbox.seed(url, ("agents", {"count": AGENTS}), ("tokens", {"count": AGENTS}))[1]
    made = run_session_worker(sandbox, url, "create", rows // PER_SESSION)
    with ExitStack() as stack:
        bare = stack.enter_context(
            run_web_server(sandbox, "bench.floor.wsgi:application", floor_url)
        )
        ours = stack.enter_context(run_web_server(sandbox, "config.wsgi:application", url))
        targets = [
            LoadTarget("floor", bare, "acks.lua", floor_lines),
            LoadTarget("messages", ours, "acks.lua", list_requests(made, secrets)),
        ]
        for target in targets:
            target.load(WARM_UP_S, sandbox.folder)
        for number in range(scale.rounds):
            for target in targets if number % 2 else targets[::-1]:
                target.measure(scale.seconds, sandbox.folder)
            say(", ".join(f"{target.name} {target.rates[-1]:,.0f}/s" for target in targets))
    floor, messages = targets
    return [
        Figure(
            "message over HTTP / floor endpoint",
            ratios(messages.rates, floor.rates),
            target=at_least(0.6),
            detail={"tenfour": messages.as_json(), "floor": floor.as_json()},
        )
    ]


def list_requests(sessions: list[str], secrets: dict[str, str]) -> list[str]:
    """Return the lines of the load: many sessions at once, each with 15 messages."""
    body = '{"role":"assistant","content":"The planner tests pass now; next I write the docs."}'
    lines = []
    for start in range(0, len(sessions), AT_ONCE):
        for _ in range(PER_SESSION):
            for line in sessions[start : start + AT_ONCE]:
                id, agent = line.split()
                lines.append(f"{secrets[agent]} /v1/sessions/{id}/messages {body}")
    return lines


def measure_buffers(sandbox: Sandbox, say: Say) -> list[Figure]:
    """Feed 1,000 sessions beside one worker with 4 threads; count what was processed, and timers."""
    url = sandbox.create_migrated("tenfour_sessions_buffers")
    sandbox.seed(url, ("agents", {"count": AGENTS}))
    with run_worker(sandbox, url), psycopg.connect(url, autocommit=True) as conn:
        began = time.monotonic()
        fed = run_session_worker(sandbox, url, "feed", SESSIONS, MESSAGES)
        wait_until(lambda: count(conn) == 0, "the buffers", seconds=300)
        took = time.monotonic() - began
        states = dict(conn.execute(BY_STATE).fetchall())
    say(f"{states} in {took:.1f} s, fed in {fed['seconds']:.1f} s, {fed['timers']} timers")
    windows = fed["seconds"] / WINDOW_S + 1
    return [
        Figure(
            "messages processed of 40,000",
            [float(states.get("success", 0))],
            unit="",
            target=at_least(SESSIONS * MESSAGES),
            detail={"seconds": round(took, 1), "fed_s": round(fed["seconds"], 1)},
        ),
        Figure(
            "timers per session and window, at most",
            [fed["timers"] / SESSIONS / windows],
            unit="",
            target=at_most(1),
            detail={"timers": fed["timers"], "least_gap_s": round(fed["least_gap"], 2)},
        ),
        Figure(
            "least time between two timers of a session",
            [min(fed["least_gap"], 999.0)],
            unit="s",
            target=at_least(WINDOW_S - 0.1),
        ),
    ]


def count(conn: "psycopg.Connection[Any]") -> int:
    return int(conn.execute(UNPROCESSED).fetchall()[0][0])


def measure_batches(sandbox: Sandbox, scale: Scale, say: Say) -> Figure:
    """Compare a batch of 32 with the tracker `todo` with the statements that write its rows."""
    url = sandbox.create_migrated("tenfour_sessions_batches")
    sandbox.seed(url, ("agents", {"count": 1}))
    values = []
    for _ in range(scale.rounds):
        rounds = run_session_worker(sandbox, url, "compare", BATCHES)[10:]  # without the warm-up
        ours, bare = (statistics.median(column) for column in zip(*rounds, strict=True))
        values.append(ours / bare)
        say(f"batch of 32: {ours:.2f} ms, bare {bare:.2f} ms")
    return Figure("batch of 32 messages / bare SQL of its rows", values, target=at_most(3))
