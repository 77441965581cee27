"""Redis goes away, Postgres is restarted under load: nothing acked is lost, no one is misled."""

import json
import threading
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from ledger.models import Event, Instruction
from ledger.states import InstructionState
from tests import services
from tests.serving import Tenfour
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(services.running is None, reason="needs servers that it may restart"),
]


def call(url: str, token: str = "", body: Any = None) -> tuple[int, dict[str, Any]]:
    """One request, as it comes: no client that would try again."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def find_ready(url: str) -> dict[str, Any] | None:
    """Return what a server says about itself that serves requests."""
    status, ready = call(f"{url}/readyz")
    return ready if status == 200 else None


def test_without_redis_sending_pulling_and_acking_go_on(tenfour_server: Tenfour) -> None:
    producer, agent = tenfour_server.token("orchestrator"), tenfour_server.token("agent", "coder")
    url = tenfour_server.url
    services.stop_redis()
    try:
        body = {"agent": "coder", "content": "Check", "expect": {"type": "done"}}
        assert call(f"{url}/v1/instructions", producer, body)[0] == 201
        status, pulled = call(f"{url}/v1/instructions/pull", agent, {})
        assert status == 200 and len(pulled["data"]) == 1
        assert call(f"{url}/v1/signals", agent, {"type": "done"})[1]["acknowledged"]
        # a busy machine may make PostgreSQL slower than its check waits
        ready = wait_until(lambda: find_ready(url))
        assert ready["status"] == "degraded" and ready["checks"]["redis"].startswith("away")
        assert call(f"{url}/v1/me", "wrong")[1]["code"] == "token_invalid"
        metrics = urllib.request.Request(
            f"{url}/metrics", headers={"Authorization": f"Bearer {producer}"}
        )
        assert urllib.request.urlopen(metrics, timeout=PATIENCE_S).status == 200
    finally:
        services.start_redis()
    wait_until(lambda: call(f"{url}/readyz")[1]["checks"]["redis"] == "ok")


def test_a_restart_of_postgres_costs_only_the_requests_in_flight(tenfour_server: Tenfour) -> None:
    url, agent = tenfour_server.url, tenfour_server.token("agent", "coder")
    producer = tenfour_server.token("orchestrator")
    answers: Counter[tuple[int, str]] = Counter()
    acked: list[str] = []
    stop = threading.Event()

    def work(number: int) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            body = {"agent": "coder", "content": f"thing {number}.{turn}"}
            status, made = call(f"{url}/v1/instructions", producer, body)
            answers[status, made.get("code", "")] += 1
            if status != 201:
                assert made["retryable"] and made["retry_after_s"] == 1
                continue
            status, row = call(f"{url}/v1/instructions/{made['id']}/ack", agent, {})
            answers[status, row.get("code", "")] += 1
            if status == 200:
                acked.append(row["id"])

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work, number) for number in range(4)]
        wait_until(lambda: len(acked) > 20 or any(worker.done() for worker in workers))
        connection.close()
        services.restart_postgres()
        before = len(acked)
        wait_until(lambda: len(acked) > before + 20 or any(worker.done() for worker in workers))
        stop.set()
        for worker in workers:
            worker.result(PATIENCE_S)
    assert set(answers) <= {(201, ""), (200, ""), (503, "temporarily_unavailable")}, answers
    assert call(f"{url}/v1/me", agent)[0] == 200
    wait_until(lambda: find_ready(url))
    assert Instruction.objects.filter(
        pk__in=acked, state=InstructionState.ACKNOWLEDGED
    ).count() == len(acked)
    told = Event.objects.filter(kind="instruction.acknowledged", subject_id__in=acked)
    assert told.count() == len(acked)


def test_a_connection_that_died_while_idle_costs_no_request(tenfour_server: Tenfour) -> None:
    url, agent = tenfour_server.url, tenfour_server.token("agent", "coder")

    def pulls() -> list[int]:
        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(call, f"{url}/v1/instructions/pull", agent, {}) for _ in range(32)]
            return [each.result(PATIENCE_S)[0] for each in calls]

    assert set(pulls()) == {200}
    connection.close()
    services.restart_postgres()
    assert set(pulls()) == {200}


def test_without_postgres_it_says_so_and_comes_back(tenfour_server: Tenfour) -> None:
    url, agent = tenfour_server.url, tenfour_server.token("agent", "coder")
    connection.close()
    services.ours().stop("postgres")
    try:
        status, body = call(f"{url}/v1/instructions/pull", agent, {})
        assert (status, body["code"], body["retryable"]) == (503, "temporarily_unavailable", True)
        status, ready = call(f"{url}/readyz")
        assert (status, ready["status"]) == (503, "unavailable")
        assert call(f"{url}/healthz")[0] == 200
    finally:
        services.ours().start("postgres")
    assert call(f"{url}/v1/instructions/pull", agent, {})[0] == 200
