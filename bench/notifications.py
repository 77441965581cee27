"""Measure what notifications cost the move, how late they arrive, and a storm of events."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from bench.figures import Figure, Say, Scale, at_least, at_most, ratios
from bench.idle_check import measure_peak_mb
from bench.servers import Sandbox, run_program
from config.local.places import PROJECT
from config.local.supervisor import celery_beat, celery_worker

MOVES = 200
STORM = 10_000


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Run a worker and the clock, and let another process make the moves."""
    url = sandbox.create_migrated("tenfour_notifications")
    sandbox.seed(url, ("agents", {"count": 2}))
    with receive() as (port, arrivals):
        env = sandbox.env(url) | {"TENFOUR_WEBHOOK_ALLOW": f"127.0.0.1:{port}"}
        with (
            run_program(replace(celery_worker(), env=env)) as pid,
            run_program(replace(celery_beat(), env=env)),
        ):
            hook = f"http://127.0.0.1:{port}/hook"
            moves = MOVES // 4 if scale.quick else MOVES
            argv = ["-m", "bench.notification_worker", hook, str(scale.rounds), str(moves)]
            completed = subprocess.run(
                [sys.executable, *argv], env=env, cwd=PROJECT, check=True, stdout=subprocess.PIPE
            )
            peak = measure_peak_mb(pid)
    found: dict[str, Any] = json.loads(completed.stdout)
    waits = sorted(arrivals[id] - at for id, at in found["commits"].items() if id in arrivals)
    p95 = waits[int(len(waits) * 0.95)]
    missing = len(found["commits"]) - len(waits)
    say(f"{len(waits)} arrived, {missing} did not; median {waits[len(waits) // 2]:.2f} s")
    say(f"storm: {found['storm_s']:.0f} s, {found['states']}")
    sent = found["states"].get("webhook delivered", 0)
    return [
        Figure(
            "move with a channel / without one",
            ratios(found["with_ms"], found["without_ms"]),
            target=at_most(1.1),
            detail={"with_ms": found["with_ms"], "without_ms": found["without_ms"]},
        ),
        Figure("from move to receiver, p95", [p95], unit="s", target=at_most(1.5)),
        Figure(
            f"webhooks of {STORM:,} events at once that arrived",
            [float(sent)],
            unit="",
            target=at_least(STORM),
            detail={"seconds": found["storm_s"], "states": found["states"]},
        ),
        Figure("worker peak memory in that storm", [peak], unit="MB", target=at_most(150)),
    ]


@contextmanager
def receive() -> Iterator[tuple[int, dict[str, float]]]:
    """Run a receiver; yield its port, and when each subject's webhook arrived first."""
    arrivals: dict[str, float] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            at = time.time()
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "data" in body:
                arrivals.setdefault(body["data"]["subject"]["id"], at)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], arrivals
        server.shutdown()
