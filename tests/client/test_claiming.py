"""The iteration over attempts: what ends it, what it waits for, and how often it says so."""

import logging
import time
from collections.abc import Iterator

import pytest
from tenfour import AsyncClient, Client, TenfourError
from tenfour.attempts import claiming

from tests.client.faulty import DROPPED, FaultyLine, problem
from tests.loops import run_coroutine
from tests.serving import Tenfour

Log = pytest.LogCaptureFixture


def lines_of(log: Log, start: str) -> list[str]:
    return [each.getMessage() for each in log.records if each.getMessage().startswith(start)]


@pytest.fixture
def operator(tenfour_server: Tenfour) -> Iterator[Client]:
    with tenfour_server.client("operator") as client:
        yield client


def pause(operator: Client, *, paused: bool) -> None:
    (agent,) = operator.agents.list()
    operator.agents.change(agent.id, paused=paused)


def test_an_empty_queue_ends_it_quietly(agent_client: Client, caplog: Log) -> None:
    caplog.set_level(logging.INFO, "tenfour")
    attempts = agent_client.attempts()
    assert list(attempts) == [] and list(attempts) == []
    assert attempts.ended and attempts.ended.reason == "no_task"
    assert str(attempts.ended) == "No task is waiting" and attempts.ended.retry_after_s > 0
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", "No more attempts: No task is waiting")
    ]


def test_a_paused_agent_ends_it_with_one_warning(
    producer: Client, agent_client: Client, operator: Client, caplog: Log
) -> None:
    producer.tasks.enqueue("coder", "code")
    pause(operator, paused=True)
    attempts = agent_client.attempts()
    assert list(attempts) == []
    assert attempts.ended and attempts.ended.reason == "agent_paused"
    assert lines_of(caplog, "No more") == ["No more attempts: The agent is paused"]


def test_an_open_breaker_ends_it_with_one_warning(
    producer: Client, agent_client: Client, operator: Client, caplog: Log
) -> None:
    producer.tasks.enqueue("coder", "code")
    (agent,) = operator.agents.list()
    operator.agents.trip_breaker(agent.id, reason="it deletes its own tests")
    attempts = agent_client.attempts()
    assert list(attempts) == []
    assert attempts.ended and attempts.ended.reason == "breaker_open"
    assert lines_of(caplog, "No more") == ["No more attempts: The agent's circuit breaker is open"]
    operator.agents.reset_breaker(agent.id)
    assert len(list(agent_client.attempts())) == 1


def test_while_it_waits_it_says_once_for_what(
    tenfour_server: Tenfour,
    line: FaultyLine,
    producer: Client,
    operator: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: Log,
) -> None:
    """Also while the server restarts: a broken connection, then 503, then it is back."""
    monkeypatch.setattr(claiming, "LONGEST_PAUSE_S", 0.05)
    monkeypatch.setattr(claiming, "SHORTEST_PAUSE_S", 0.05)
    producer.tasks.enqueue("coder", "code", register=True)
    pause(operator, paused=True)
    secret = tenfour_server.token("agent", "coder")
    away = [DROPPED, DROPPED, problem(503, "temporarily_unavailable")]
    with Client(line.url, secret, retries=0) as coder:
        attempts = coder.attempts(wait=True)
        seen = []

        def claims() -> int:
            return sum(each.path == "/v1/claims" for each in line.seen)

        def act() -> None:
            # What happens while it waits, in the order of its claims.
            if claims() == 3:
                line.faults.extend(away)
            if claims() == 8 and attempts.waiting and attempts.waiting.reason == "agent_paused":
                pause(operator, paused=False)

        sleep = time.sleep
        monkeypatch.setattr(time, "sleep", lambda seconds: (act(), sleep(seconds)))
        for attempt in attempts:
            with attempt:
                seen.append(attempt.number)
                break
    assert seen == [1] and attempts.ended is None and attempts.waiting is None
    waits = lines_of(caplog, "Waiting")
    assert len(waits) == 4, waits
    assert waits[0] == waits[3] == "Waiting for a task: The agent is paused"
    assert "did not respond" in waits[1] and "temporarily_unavailable" in waits[2]


def test_without_wait_an_absent_server_is_an_error(
    tenfour_server: Tenfour, line: FaultyLine
) -> None:
    line.faults.append(DROPPED)
    with (
        Client(line.url, tenfour_server.token("agent", "coder")) as coder,
        pytest.raises(TenfourError),
    ):
        list(coder.attempts())


def test_it_yields_again_after_a_retry_decision(producer: Client, agent_client: Client) -> None:
    producer.tasks.enqueue("coder", "code", max_attempts=3, backoff={"base_delay_ms": 300})
    seen = []
    attempts = agent_client.attempts()
    for attempt in attempts:
        with attempt:
            seen.append(attempt.number)
            if attempt.number < 3:
                raise RuntimeError("no luck")
    assert seen == [1, 2, 3] and attempts.ended and attempts.ended.reason == "no_task"


def test_the_async_one_ends_alike(
    tenfour_server: Tenfour, producer: Client, operator: Client, caplog: Log
) -> None:
    secret = tenfour_server.token("agent", "coder")
    producer.tasks.enqueue("coder", "code")
    pause(operator, paused=True)

    async def story() -> None:
        async with AsyncClient(tenfour_server.url, secret) as coder:
            attempts = coder.attempts()
            assert [each async for each in attempts] == []
            assert attempts.ended and attempts.ended.reason == "agent_paused"

    run_coroutine(story())
    assert lines_of(caplog, "No more") == ["No more attempts: The agent is paused"]
