"""Measure how a message reaches a running agent: at which tool call, when it is read, at what cost.

With `--against REV`, each hook call follows one to a revision's code on the same database.
"""

import math
import random
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx2

from bench.costs import processor_time
from bench.figures import Figure, Say, Scale, at_most, ratios, summarize
from bench.http import run_web_processes
from bench.page_comparison import check_out
from bench.servers import Sandbox

SESSIONS = 20
CALL_EVERY_S = 1.0
# A message is sent in the first part of a round, so that its receipt comes in the round.
ROUND_S, SENDING_S = 6.0, 3.0
# The agents whose share of a web worker is calculated, each with a hook call a second.
MANY_AGENTS = 500
CALLS, QUICK_CALLS = 600, 150
WARM_UP = 50


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    url = sandbox.create_migrated("tenfour_steering")
    secrets, producer = sandbox.seed(
        url,
        ("agents", {"count": SESSIONS}),
        ("tokens", {"count": SESSIONS}),
        ("project_token", {"kind": "orchestrator"}),
    )[1:]
    with ExitStack() as stack:
        address, web = stack.enter_context(
            run_web_processes(sandbox, "config.wsgi:application", url)
        )
        ours = [open_client(stack, address, secret) for secret in secrets.values()]
        sender = open_client(stack, address, producer)
        sessions = [Session(name, client) for name, client in zip(secrets, ours, strict=True)]
        calls, receipts = measure_steering(sender, sessions, scale, say)
        costs = measure_costs(ours[0], web, scale, say)
        figures = [
            Figure("steering: tool calls until a message reaches the model", calls, "", at_most(1)),
            Figure(
                "steering: p95 from a delivery to its receipt, a call a second",
                receipts,
                "s",
                at_most(2),
            ),
            Figure("steering: processor time of the web server for a hook call", costs, "ms"),
            Figure(
                f"steering: web workers that {MANY_AGENTS} agents with a call a second keep busy",
                [MANY_AGENTS * each / 1000 for each in costs],
                "",
            ),
        ]
        if scale.against:
            folder = check_out(sandbox, scale.against)
            their_address, _ = stack.enter_context(
                run_web_processes(sandbox, "config.wsgi:application", url, folder=folder)
            )
            theirs = open_client(stack, their_address, next(iter(secrets.values())))
            figures.append(compare(ours[0], theirs, scale, say))
    return figures


def open_client(stack: ExitStack, address: str, secret: str) -> httpx2.Client:
    client = stack.enter_context(httpx2.Client(base_url=address, timeout=30))
    client.headers["Authorization"] = f"Bearer {secret}"
    return client


def call_hook(client: httpx2.Client, session: str = "bench") -> str:
    """Report a tool call; return what the model gets."""
    body: dict[str, Any] = {
        "hook_event_name": "PostToolUse",
        "session_id": session,
        "cwd": "/srv/app",
        "tool_name": "Bash",
        "tool_input": {"command": "make test"},
        "tool_response": {"stdout": "1 passed", "stderr": ""},
        "duration_ms": 0,
    }
    answer = client.post("/v1/hooks/agent", json=body).raise_for_status().json()
    return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))


# ---- messages to agents that work


@dataclass
class Session:
    """An agent that makes a tool call a second, and what each call brought to its model."""

    name: str
    client: httpx2.Client
    calls: list[tuple[float, str]] = field(default_factory=list)

    def work(self, ended: threading.Event) -> None:
        ended.wait(random.random() * CALL_EVERY_S)
        while not ended.is_set():
            began = time.monotonic()
            self.calls.append((began, call_hook(self.client, self.name)))
            ended.wait(max(0.0, began + CALL_EVERY_S - time.monotonic()))


@dataclass(frozen=True)
class Message:
    """A message that was sent to a session, and when the server had it."""

    id: str
    text: str
    session: Session
    sent: float

    def count_calls(self) -> float:
        """Return how many calls began since then, up to the one that brought the message.

        That is 0 for a call that had begun before, and infinite if none brought it.
        """
        count = 0
        for began, text in self.session.calls:
            count += began >= self.sent
            if self.text in text:
                return count
        return math.inf


def measure_steering(
    sender: httpx2.Client, sessions: list[Session], scale: Scale, say: Say
) -> tuple[list[float], list[float]]:
    """Return, of each round, the most calls until a message came, and the p95 of the receipts."""
    most, receipts = [], []
    for number in range(scale.rounds):
        messages = run_round(sender, sessions, number)
        most.append(max(message.count_calls() for message in messages))
        waits = sorted(read_receipt(sender, message.id) for message in messages)
        receipts.append(waits[len(waits) * 95 // 100])
        say(f"at most {most[-1]:g} calls, receipt within {receipts[-1]:.2f} s")
    return most, receipts


def run_round(sender: httpx2.Client, sessions: list[Session], number: int) -> list[Message]:
    """Let the sessions work, and send a message to each of them."""
    ended = threading.Event()
    threads = [threading.Thread(target=each.work, args=(ended,)) for each in sessions]
    for thread in threads:
        thread.start()
    messages = []
    for session in random.sample(sessions, len(sessions)):
        time.sleep(SENDING_S / len(sessions))
        text = f"Message {number} to {session.name}"
        body = {"agent": session.name, "content": text}
        sent = sender.post("/v1/instructions", json=body).raise_for_status().json()
        messages.append(Message(sent["id"], text, session, time.monotonic()))
    time.sleep(ROUND_S - SENDING_S)
    ended.set()
    for thread in threads:
        thread.join()
    return messages


def read_receipt(sender: httpx2.Client, id: str) -> float:
    """Return the seconds from the delivery of a message to its receipt."""
    row = sender.get(f"/v1/instructions/{id}").raise_for_status().json()
    if row["read_at"] is None:
        return math.inf
    read, delivered = (datetime.fromisoformat(row[name]) for name in ("read_at", "delivered_at"))
    return (read - delivered).total_seconds()


# ---- the cost of a call


def measure_costs(client: httpx2.Client, web: int, scale: Scale, say: Say) -> list[float]:
    """Return the milliseconds of the web server's processor time for a call, of each round."""
    count = QUICK_CALLS if scale.quick else CALLS
    for _ in range(WARM_UP):
        call_hook(client)
    costs = []
    for _ in range(scale.rounds):
        before = processor_time(web)
        for _ in range(count):
            call_hook(client)
        costs.append((processor_time(web) - before) * 1000 / count)
    say(", ".join(f"{each:.2f} ms" for each in costs))
    return costs


def compare(ours: httpx2.Client, theirs: httpx2.Client, scale: Scale, say: Say) -> Figure:
    """Compare the calls of two servers that answer in turn."""
    sides = (ours, theirs)
    for _ in range(WARM_UP):
        for side in sides:
            call_hook(side)
    p95: tuple[list[float], list[float]] = ([], [])
    count = QUICK_CALLS if scale.quick else CALLS
    for _ in range(scale.rounds):
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(count):
            for n in (0, 1) if number % 2 else (1, 0):
                began = time.perf_counter()
                call_hook(sides[n])
                times[n].append((time.perf_counter() - began) * 1000)
        for n in (0, 1):
            p95[n].append(sorted(times[n])[count * 95 // 100])
        say(f"p95 {p95[0][-1]:.1f} ms, {p95[1][-1]:.1f} ms at {scale.against}")
    return Figure(
        f"steering: a hook call, p95 / {scale.against}",
        ratios(*p95),
        target=at_most(1.2),
        detail={"ours_ms": summarize(p95[0]), "theirs_ms": summarize(p95[1])},
    )
