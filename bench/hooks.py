"""Measure hook calls whose text repeats one character, and whether the server responds meanwhile."""

import threading
import time
from collections.abc import Iterable
from string import printable
from typing import Any

import httpx2

from bench.figures import Figure, Say, Scale, at_most
from bench.http import run_web_server
from bench.servers import Sandbox

SIZE = 200_000
# A short run measures these alone, once; a whole one every printable character, too.
REPEATED = ("1", "a", " ", "\n", "\t", "'", '"', "`", "\\", ";", "&", "(", "=", "-", "2>&1 ", "a\n")
ORDINARY = "cd src && make test 2>&1 | tail -20\n"
PROBE_EVERY_S = 0.05
PROBE_TIMEOUT_S = 4.0


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    url = sandbox.create_migrated("tenfour_hooks")
    (secret,) = sandbox.seed(url, ("agents", {"count": 1}), ("tokens", {"count": 1}))[1].values()
    failed: list[float] = []
    ended = threading.Event()
    with run_web_server(sandbox, "config.wsgi:application", url) as address:

        def probe() -> None:
            with httpx2.Client(base_url=address, timeout=PROBE_TIMEOUT_S) as client:
                while not ended.wait(PROBE_EVERY_S):
                    try:
                        client.get("/healthz").raise_for_status()
                    except httpx2.HTTPError:
                        failed.append(time.monotonic())

        probing = threading.Thread(target=probe)
        probing.start()
        try:
            with httpx2.Client(base_url=address, timeout=120) as client:
                client.headers["Authorization"] = f"Bearer {secret}"
                parts = (
                    REPEATED if scale.quick else dict.fromkeys((*REPEATED, *printable, "é", "漢"))
                )
                rounds = 1 if scale.quick else scale.rounds
                ratios = [measure_slowest(client, parts, say) for _ in range(rounds)]
        finally:
            ended.set()
            probing.join()
    return [
        Figure(
            "hook call with 200 KB of one character, to an ordinary one", ratios, "×", at_most(3)
        ),
        Figure("probes of /healthz without a response meanwhile", [len(failed)], "", at_most(0)),
    ]


def measure_slowest(client: httpx2.Client, parts: Iterable[str], say: Say) -> float:
    """Return the time of the slowest text's call, as a multiple of an ordinary call's."""
    ordinary = measure_call(client, ORDINARY)
    times = {part: measure_call(client, part) for part in parts}
    slowest = max(times, key=lambda part: times[part])
    say(
        f"ordinary: {ordinary * 1000:.0f} ms, slowest: {slowest!r} with {times[slowest] * 1000:.0f} ms"
    )
    return times[slowest] / ordinary


def measure_call(client: httpx2.Client, part: str) -> float:
    """Return the shortest time of three calls whose command repeats a part."""
    body: dict[str, Any] = {
        "hook_event_name": "PostToolUse",
        "session_id": "bench",
        "tool_name": "Bash",
        "tool_input": {"command": (part * (SIZE // len(part) + 1))[:SIZE]},
        "tool_response": {"stdout": "ok"},
    }
    times = []
    for _ in range(3):
        start = time.perf_counter()
        client.post("/v1/hooks/agent", json=body).raise_for_status()
        times.append(time.perf_counter() - start)
    return min(times)
