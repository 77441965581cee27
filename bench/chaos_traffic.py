"""Agents and producers over HTTP that remember every write that was acknowledged."""

import http.client
import itertools
import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

PRODUCERS = 2
REQUEST_TIMEOUT_S = 20
RETRY_S = 0.05
LEASE_S = 10
FAILURES = 0.05  # of the attempts
ABANDONED = 0.02
NO_ANSWER = "no answer"
# An attempt is over when its lease ran out, or when the answer to its first report was lost.
IS_OVER = ("lease_lost", "attempt_already_reported")


@dataclass
class Record:
    """The server's acknowledgments, and every answer that it should not have given."""

    requests: Counter[str] = field(default_factory=Counter)
    tasks: dict[str, str] = field(default_factory=dict)  # title -> id
    claims: dict[str, set[str]] = field(default_factory=dict)  # attempt -> workers
    finished: dict[str, str] = field(default_factory=dict)  # attempt -> task
    instructions: dict[str, str] = field(default_factory=dict)  # content -> id
    acknowledged: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, status: str) -> None:
        with self.lock:
            self.requests[status] += 1

    @property
    def answered(self) -> int:
        """The number of requests that the server has answered."""
        return self.requests.total() - self.requests[NO_ANSWER]

    def check(self, path: str, status: int, body: Any, *legal: int | str) -> bool:
        """Return whether an answer has a legal status or code; note any other as wrong.

        A status of 0 means that the traffic was stopped before an answer came.
        """
        if status in legal or (status >= 400 and body["code"] in legal):
            return True
        if status:
            self.wrong.append(f"{path}: {status} {str(body)[:300]}")
        return False


@dataclass
class Caller:
    """One connection with one token, which repeats a request until the answer is final."""

    port: int
    token: str
    record: Record
    stop: threading.Event
    connection: http.client.HTTPConnection | None = None

    def call(self, path: str, body: Any, *, key: str = "") -> tuple[int, Any]:
        """Post until the server gives a final answer; return it, or (0, None) after the stop."""
        while True:
            answer = self.try_once(path, json.dumps(body).encode(), key)
            if answer is not None:
                return answer
            if self.stop.is_set():
                return 0, None
            time.sleep(RETRY_S)

    def try_once(self, path: str, body: bytes, key: str) -> tuple[int, Any] | None:
        """Post once; return None if the same request may be sent again."""
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            **({"Idempotency-Key": key} if key else {}),
        }
        if self.connection is None:
            self.connection = http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=REQUEST_TIMEOUT_S
            )
        try:
            self.connection.request("POST", path, body, headers)
            response = self.connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            self.record.count(NO_ANSWER)
            self.close()
            return None
        self.record.count(str(response.status))
        if response.status < 500 and response.status != 429:
            return response.status, json.loads(text or b"null")
        if not is_retryable(response, text):
            self.record.wrong.append(f"{path}: {response.status} {text[:300]!r}")
        return None

    def close(self) -> None:
        if self.connection:
            self.connection.close()
            self.connection = None


def is_retryable(response: http.client.HTTPResponse, text: bytes) -> bool:
    """Return whether an error is a problem that says that it may be retried."""
    if not (response.getheader("Content-Type") or "").startswith("application/problem+json"):
        return False
    return bool(json.loads(text).get("retryable"))


# ---- what each thread does


def produce(caller: Caller, agents: list[str]) -> None:
    """Send tasks and instructions, each with a key, until the stop."""
    while not caller.stop.is_set():
        name = str(uuid.uuid4())
        agent = random.choice(agents)
        task = {"agent": agent, "type": "chaos", "title": name, "lease_s": LEASE_S}
        status, body = caller.call("/v1/tasks", task, key=name)
        if caller.record.check("/v1/tasks", status, body, 200, 201):
            caller.record.tasks[name] = body["id"]
        instruction = {"agent": agent, "content": f"note {name}"}
        status, body = caller.call("/v1/instructions", instruction, key=f"i{name}")
        if caller.record.check("/v1/instructions", status, body, 200, 201):
            caller.record.instructions[instruction["content"]] = body["id"]
        time.sleep(0.01)


def work(caller: Caller, worker: str) -> None:
    """Claim, report and acknowledge until the stop; sometimes fail or leave an attempt."""
    while not caller.stop.is_set():
        status, body = caller.call("/v1/claims", {"worker_id": worker, "resume": True})
        claims = body["data"] if caller.record.check("/v1/claims", status, body, 200) else []
        for claim in claims:
            report(caller, worker, claim)
        acknowledge(caller)
        if not claims:
            time.sleep(0.1)


def report(caller: Caller, worker: str, claim: Any) -> None:
    attempt, task = claim["attempt"]["id"], claim["task"]["id"]
    with caller.record.lock:
        caller.record.claims.setdefault(attempt, set()).add(worker)
    chance = random.random()
    if chance < ABANDONED:
        path, said = f"/v1/attempts/{attempt}/release", {"reason": "shutdown"}
    else:
        path, said = f"/v1/attempts/{attempt}/result", choose_result(chance)
    status, body = caller.call(path, said)
    caller.record.check(path, status, body, 200, *IS_OVER)
    # The first answer may have been lost; then the repeated report gets the decision that is known.
    is_known = status == 200 or (status == 409 and body["code"] == "attempt_already_reported")
    if said.get("status") == "success" and is_known:
        caller.record.finished[attempt] = task


def choose_result(chance: float) -> dict[str, Any]:
    if chance < ABANDONED + FAILURES:
        failure = {"type": "execution_error", "message": "chaos"}
        return {"status": "failure", "failure": failure}
    return {"status": "success"}


def acknowledge(caller: Caller) -> None:
    status, body = caller.call("/v1/instructions/pull", {"limit": 10})
    pulled = caller.record.check("/v1/instructions/pull", status, body, 200)
    for each in body["data"] if pulled else []:
        path = f"/v1/instructions/{each['id']}/ack"
        status, body = caller.call(path, {"outcome": "done"})
        if caller.record.check(path, status, body, 200):
            caller.record.acknowledged.add(each["id"])


@dataclass
class Probe:
    """Writes all the time with a short patience, and notes when each write succeeded."""

    caller: Caller
    agent: str
    successes: list[float] = field(default_factory=list)

    def run(self) -> None:
        while not self.caller.stop.is_set():
            name = str(uuid.uuid4())
            body = json.dumps({"agent": self.agent, "type": "probe", "title": name}).encode()
            answer = self.caller.try_once("/v1/tasks", body, name)
            if answer and self.caller.record.check("/v1/tasks", *answer, 200, 201):
                self.successes.append(time.monotonic())
                self.caller.record.tasks[name] = answer[1]["id"]
            time.sleep(0.05)

    def longest_gap(self, begin: float, end: float) -> float:
        """Return the longest time without a success that touches the span."""
        times = [begin, *(at for at in self.successes if begin < at <= end), end]
        return max(after - before for before, after in itertools.pairwise(times))


@contextmanager
def run_traffic(
    port: int, producer: str, agents: dict[str, str], workers: int
) -> Iterator[tuple[Record, Probe]]:
    """Run producers and workers in threads; its end stops them."""
    record = Record()
    stop_producers, stop_workers = threading.Event(), threading.Event()
    names = sorted(agents)
    producers = [Caller(port, producer, record, stop_producers) for _ in range(PRODUCERS + 1)]
    probe = Probe(producers[-1], names[0])
    threads = [threading.Thread(target=probe.run)]
    for caller in producers[:-1]:
        threads.append(threading.Thread(target=produce, args=(caller, names)))
    tokens = itertools.cycle(agents[name] for name in names)
    callers = [Caller(port, next(tokens), record, stop_workers) for _ in range(workers)]
    for n, caller in enumerate(callers):
        threads.append(threading.Thread(target=work, args=(caller, f"worker-{n}")))
    for each in threads:
        each.start()
    try:
        yield record, probe
    finally:
        stop_producers.set()
        stop_workers.set()
        for each in threads:
            each.join()
        for caller in (*producers, *callers):
            caller.close()
