"""Restart every process of a small cluster, one after the other, while agents work through it.

The agents don't repeat anything: a response that is not a success, or none, is a failed request.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import psycopg

from bench.cluster import Cluster, Machine, run_cluster
from bench.figures import Figure, Say, Scale, at_least, at_most
from bench.servers import Sandbox, wait_until

AGENTS, QUICK_AGENTS = 8, 2
ROUNDS, QUICK_ROUNDS = 3, 1
# A short run leaves the processor to the processes that start.
PAUSE_S, QUICK_PAUSE_S = 0.0, 0.02
REST_S = 2.0  # nginx tries a server again a second after it refused
TIMEOUT_S = 30
LONGEST_S = 5.0


@dataclass
class Traffic:
    """The requests of the agents, and those that failed."""

    sent: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    tasks: set[str] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, http: httpx2.Client, path: str, body: Any) -> Any:
        """Send one request, once; return the body of a success."""
        began = time.monotonic()
        try:
            answer = http.post(path, json=body)
            failure = "" if answer.is_success else f"{answer.status_code} {answer.text[:100]}"
        except httpx2.TransportError as error:
            failure = repr(error)
        with self.lock:
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.sent[path.rpartition("/")[2]] += 1
            if failure:
                self.failed.append(f"{path}: {failure}")
        return None if failure else answer.json()


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Restart two web servers, two workers and two clocks under load; count failed requests."""
    url = sandbox.create_migrated("rolling")
    count = {"count": QUICK_AGENTS if scale.quick else AGENTS}
    _, secrets = sandbox.seed(url, ("agents", count), ("tokens", count))
    tokens = list(secrets.values())
    with run_cluster(sandbox, url) as cluster:
        say(
            "in network namespaces"
            if cluster.is_apart
            else "on one network: no right to make others"
        )
        with send_traffic(cluster, tokens, QUICK_PAUSE_S if scale.quick else PAUSE_S) as traffic:
            time.sleep(REST_S)
            for _ in range(QUICK_ROUNDS if scale.quick else ROUNDS):
                for machine in cluster.machines:
                    restart(machine, traffic, say)
        illegal = check(cluster, traffic)
    for line in [*traffic.failed[:5], *illegal[:5]]:
        say(line)
    restarts = (QUICK_ROUNDS if scale.quick else ROUNDS) * len(cluster.machines)
    return [
        Figure("rolling restart: processes restarted", [restarts], "", at_least(6)),
        Figure("rolling restart: requests", [traffic.sent.total()], ""),
        Figure("rolling restart: failed requests", [len(traffic.failed)], "", at_most(0)),
        Figure("rolling restart: lost or doubled", [len(illegal)], "", at_most(0)),
        Figure("rolling restart: slowest request", [traffic.slowest], "s", at_most(LONGEST_S)),
    ]


def restart(machine: Machine, traffic: Traffic, say: Say) -> None:
    before, began = traffic.sent.total(), time.monotonic()
    stopping = machine.stop()
    machine.start()
    took = time.monotonic() - began - stopping
    time.sleep(REST_S)
    sent = traffic.sent.total() - before
    say(f"{machine.name}: stopped in {stopping:.1f} s, back in {took:.1f} s, {sent} requests")


@contextmanager
def send_traffic(cluster: Cluster, tokens: list[str], pause_s: float) -> Iterator[Traffic]:
    """Let agents work until the end of the block: each enqueues a task, claims it, reports it."""
    traffic, stop = Traffic(), threading.Event()
    threads = [
        threading.Thread(target=work, args=(cluster.url, token, traffic, stop, pause_s, n % 2 == 0))
        for n, token in enumerate(tokens)
    ]
    for thread in threads:
        thread.start()
    try:
        yield traffic
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def work(
    url: str, token: str, traffic: Traffic, stop: threading.Event, pause_s: float, keeps: bool
) -> None:
    """Work as one agent; half of them open a connection for each request."""
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx2.Limits(max_keepalive_connections=1 if keeps else 0)
    with httpx2.Client(
        base_url=f"{url}/v1", headers=headers, timeout=TIMEOUT_S, limits=limits
    ) as http:
        while not stop.wait(pause_s):
            if made := traffic.send(http, "/tasks", {"type": "rolling"}):
                with traffic.lock:
                    traffic.tasks.add(made["id"])
            claimed = traffic.send(http, "/claims", {})
            for each in claimed["data"] if claimed else []:
                path = f"/attempts/{each['attempt']['id']}/result"
                if traffic.send(http, path, {"status": "success"}):
                    with traffic.lock:
                        traffic.done[each["task"]["id"]] += 1


def check(cluster: Cluster, traffic: Traffic) -> list[str]:
    """Return what was lost or doubled, and clocks that stand still, one line for each."""
    wrong = [f"task {id} was reported {n} times" for id, n in traffic.done.items() if n > 1]
    with psycopg.connect(cluster.database_url, autocommit=True) as db:
        rows = db.execute("select id::text, state from ledger_task").fetchall()
        states = dict(rows)
        wrong += [f"task {id} is lost" for id in traffic.tasks - states.keys()]
        wrong += [f"task {id} is not done" for id in traffic.done if states.get(id) != "done"]

        def is_late() -> bool:
            query = """select 1 from ledger_clockrun where name = 'backoff'
                and last_run_at > clock_timestamp() - interval '5 seconds'"""
            return not db.execute(query).fetchone()

        wait_until(lambda: not is_late(), "the clock")
    return wrong
