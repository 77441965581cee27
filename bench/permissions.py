"""Measure how long an answer about a tool call takes to its agent, and what asking costs."""

import random
import threading
import time
from contextlib import ExitStack
from itertools import count
from typing import Any

import httpx2

from bench.figures import Figure, Say, Scale, at_most, ratios, summarize
from bench.http import run_web_server
from bench.servers import Sandbox
from bench.steering import WARM_UP, call_hook, open_client

AGENTS = 20
# Rules that are looked at and don't match.
RULES = 100
ANSWERING_S = 4.0
CALLS, QUICK_CALLS = 400, 100
NUMBERS = count()


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    url = sandbox.create_migrated("tenfour_permissions")
    secrets, operator = sandbox.seed(
        url,
        ("agents", {"count": AGENTS}),
        ("tokens", {"count": AGENTS}),
        ("project_token", {"kind": "operator"}),
    )[1:]
    with ExitStack() as stack:
        address = stack.enter_context(run_web_server(sandbox, "config.wsgi:application", url))
        agents = [open_client(stack, address, secret) for secret in secrets.values()]
        person = open_client(stack, address, operator)
        for number in range(RULES):
            body = {"tool": "Bash", "matcher": f"make target-{number} **"}
            person.post("/v1/permission-rules", json=body).raise_for_status()
        waits = [measure_round(agents, person, say) for _ in range(scale.rounds)]
        asked, reported = measure_cost(agents[0], scale, say)
    return [
        Figure("permissions: p95 from an answer to its agent", waits, "s", at_most(2)),
        Figure(
            f"permissions: a request that none of {RULES} rules decides, p95 / a hook call",
            ratios(asked, reported),
            target=at_most(1.2),
            detail={"asked_ms": summarize(asked), "hook_call_ms": summarize(reported)},
        ),
    ]


def ask(client: httpx2.Client, *, id: str | None = None) -> dict[str, Any]:
    """Ask about a call that no rule decides, or ask for its answer again."""
    body: dict[str, Any] = {
        "hook_event_name": "PermissionRequest",
        "session_id": f"bench-{next(NUMBERS)}" if id is None else "bench",
        "cwd": "/srv/app",
        "tool_name": "Bash",
        "tool_input": {"command": "make test"},
        "tenfour": {"folder": "/srv/app", "permission": {"wait_s": 60, "id": id}},
    }
    return dict(client.post("/v1/hooks/agent", json=body).raise_for_status().json())


def measure_round(agents: list[httpx2.Client], person: httpx2.Client, say: Say) -> float:
    """Return the p95 of the seconds from a person's answer to its agent's next look."""
    told: dict[str, float] = {}
    asked = [ask(agent)["tenfour"] for agent in agents]

    def wait(agent: httpx2.Client, held: dict[str, Any]) -> None:
        while "hookSpecificOutput" not in ask(agent, id=held["permission"]):
            time.sleep(held["poll_after_s"])
        told[held["permission"]] = time.monotonic()

    threads = [threading.Thread(target=wait, args=each) for each in zip(agents, asked, strict=True)]
    for thread in threads:
        thread.start()
    answered = {}
    for held in random.sample(asked, len(asked)):
        time.sleep(ANSWERING_S / len(asked))
        id = held["permission"]
        row = person.get(f"/v1/permissions/{id}").raise_for_status().json()
        path = f"/v1/escalations/{row['escalation']}/resolve"
        person.post(path, json={"action": "allow"}).raise_for_status()
        answered[id] = time.monotonic()
    for thread in threads:
        thread.join()
    waits = sorted(told[id] - answered[id] for id in answered)
    say(f"p95 {waits[len(waits) * 95 // 100]:.2f} s")
    return waits[len(waits) * 95 // 100]


def measure_cost(client: httpx2.Client, scale: Scale, say: Say) -> tuple[list[float], list[float]]:
    """Return the p95 in milliseconds of asking and of reporting a call, in turn, of each round."""
    calls = (ask, call_hook)
    for _ in range(WARM_UP):
        for call in calls:
            call(client)
    p95: tuple[list[float], list[float]] = ([], [])
    number = QUICK_CALLS if scale.quick else CALLS
    for _ in range(scale.rounds):
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(number):
            for n, call in enumerate(calls):
                began = time.perf_counter()
                call(client)
                times[n].append((time.perf_counter() - began) * 1000)
        for n in (0, 1):
            p95[n].append(sorted(times[n])[number * 95 // 100])
        say(f"p95 {p95[0][-1]:.1f} ms to ask, {p95[1][-1]:.1f} ms to report a call")
    return p95
