"""A live attempt: renewed while it is worked on, reported at its end."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tenfour import AsyncClient, Client, TenfourError
from tenfour.attempts.live_attempts import LiveAttempt

from tests.client.faulty import Fault, FaultyLine, problem
from tests.loops import run_coroutine
from tests.serving import Tenfour
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def coder(tenfour_server: Tenfour, line: FaultyLine) -> Iterator[Client]:
    """The agent `coder`, over a line that shows what it says."""
    with Client(line.url, tenfour_server.token("agent", "coder")) as client:
        yield client


def beats(line: FaultyLine) -> int:
    return sum(seen.path.endswith("/heartbeat") for seen in line.seen)


def next_of(client: Client, **options: Any) -> LiveAttempt:
    return next(client.attempts(**options))


def quick(attempt: LiveAttempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat ten times a second: the server allows no lease below seconds."""
    monkeypatch.setattr(type(attempt), "every_s", 0.1)


def test_a_clean_end_is_a_success_with_the_result(producer: Client, coder: Client) -> None:
    sent = producer.tasks.enqueue("coder", "code", {"n": 1})
    for attempt in coder.attempts(worker_id="w-1"):
        with attempt:
            attempt.result = {"twice": attempt.payload["n"] * 2}
    assert attempt.decision and attempt.decision.decision == "done"
    assert producer.tasks.get(sent.id).result == {"twice": 2}


def test_messages_come_at_heartbeats(producer: Client, coder: Client, line: FaultyLine) -> None:
    producer.tasks.enqueue("coder", "code")
    attempt = next_of(coder)
    with attempt:
        assert attempt.messages() == ()
        producer.instructions.send("coder", "Stop after the parser")
        assert attempt.messages() == ()  # no heartbeat has told it yet
        attempt.heartbeat()
        (message,) = attempt.messages()
        assert attempt.messages() == ()
        attempt.heartbeat()
        assert attempt.messages() == ()
        coder.instructions.ack(message.id)
    assert sum(seen.path.endswith("/instructions/pull") for seen in line.seen) == 1
    row = producer.instructions.get(message.id)
    assert (row.text, row.delivered_via) == ("Stop after the parser", "heartbeat")
    assert row.first_delivered_at and row.read_at == row.acknowledged_at


def test_heartbeats_bring_usage_when_it_has_changed(
    producer: Client, coder: Client, line: FaultyLine
) -> None:
    producer.tasks.enqueue("coder", "code")
    with next_of(coder) as attempt:
        attempt.heartbeat(usage={"input_tokens": 7})
        assert producer.tasks.attempt(attempt.id).usage == {"input_tokens": 7}
        attempt.heartbeat()
        attempt.usage = {"input_tokens": 9}
        attempt.heartbeat()
        assert producer.tasks.attempt(attempt.id).usage == {"input_tokens": 9}
    bodies = [seen.body for seen in line.seen if seen.path.endswith("/heartbeat")]
    assert [b"usage" in each for each in bodies] == [True, False, True]
    assert producer.tasks.attempt(attempt.id).usage == {"input_tokens": 9}


def test_a_server_that_does_not_know_usage_is_renewed_without_it(
    producer: Client, coder: Client, line: FaultyLine
) -> None:
    producer.tasks.enqueue("coder", "code")
    refused = {"code": "validation_error", "errors": [{"pointer": "/usage"}]}
    with next_of(coder) as attempt:
        line.faults.append(Fault(422, {}, json.dumps(refused).encode()))
        assert attempt.heartbeat(usage={"input_tokens": 7}).lease_expires_at


def test_a_record_of_limits_that_the_server_refuses_is_sent_once(
    producer: Client, coder: Client
) -> None:
    producer.tasks.enqueue("coder", "code")
    refused: Any = "no record"
    with next_of(coder) as attempt:
        attempt.read_limits = lambda: refused
        with pytest.raises(TenfourError):
            attempt.heartbeat()
        attempt.heartbeat()
    assert attempt.decision and attempt.decision.decision == "done"


def test_an_exception_is_a_failure_and_goes_no_further(producer: Client, coder: Client) -> None:
    sent = producer.tasks.enqueue("coder", "code", max_attempts=2, backoff={"base_delay_ms": 0})
    numbers = []
    for attempt in coder.attempts():
        with attempt:
            numbers.append(attempt.number)
            raise RuntimeError("no luck")
    assert numbers == [1, 2]
    assert attempt.decision and attempt.decision.decision == "failed"
    assert producer.tasks.get(sent.id).error == "RuntimeError: no luck"
    failure = producer.tasks.attempt(attempt.id).failure or {}
    assert failure["type"] == "execution_error"
    assert "test_attempts.py" in failure["details"] and "Traceback" in failure["details"]


def test_an_attempt_has_what_the_model_reads(producer: Client, coder: Client) -> None:
    """S1.22"""
    payload = {"action": "Mend it"}
    producer.tasks.enqueue("coder", "code", payload, max_attempts=2, backoff={"base_delay_ms": 0})
    for attempt in coder.attempts():
        with attempt:
            if attempt.number == 2:
                break
            assert attempt.retry_context == "" and "<action>Mend it</action>" in attempt.prompt
            raise RuntimeError("no <luck>")
    assert "RuntimeError: no &lt;luck&gt;" in attempt.retry_context
    assert attempt.prompt.startswith(attempt.retry_context + "\n\n<task ")


@pytest.mark.parametrize(
    ("interrupt", "reason"), [(KeyboardInterrupt, "user_interrupt"), (SystemExit, "shutdown")]
)
def test_an_interrupt_gives_the_task_back(
    producer: Client, coder: Client, line: FaultyLine, interrupt: type[BaseException], reason: str
) -> None:
    sent = producer.tasks.enqueue("coder", "code")
    with pytest.raises(interrupt), next_of(coder):
        raise interrupt
    now = producer.tasks.get(sent.id)
    assert (now.state, now.retry_count) == ("queued", 0)
    assert reason.encode() in line.seen[-1].body


def test_what_was_reported_within_is_not_reported_again(
    producer: Client, coder: Client, line: FaultyLine
) -> None:
    for _ in range(4):
        producer.tasks.enqueue("coder", "code")
    with next_of(coder) as first:
        first.done({"n": 1}, summary="well")
    with next_of(coder) as second:
        second.failed("not allowed", code="permission_denied", suggested_fix="ask")
    with next_of(coder) as third:
        handed_back = third.release(note="not mine")
    with next_of(coder) as fourth:
        fourth.exited(1, "broken")
    decisions = [each.decision and each.decision.decision for each in (first, second, fourth)]
    assert decisions == ["done", "escalated", "wait"] and handed_back.state == "queued"
    assert sum("/result" in seen.path for seen in line.seen) == 2


def test_it_is_renewed_as_long_as_it_lasts(
    producer: Client, coder: Client, line: FaultyLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer.tasks.enqueue("coder", "code")
    attempt = next_of(coder)
    quick(attempt, monkeypatch)
    line.faults.append(problem(500, "internal_error"))  # one that fails is made good by the next
    with attempt:
        wait_until(lambda: beats(line) >= 4)
        attempt.heartbeat("half of it", 50)
    count = beats(line)
    assert count >= 5 and not attempt.is_lost
    time.sleep(0.3)
    assert beats(line) == count
    assert producer.tasks.attempt(attempt.id).progress == {"message": "half of it", "percent": 50}


def test_an_abort_is_heard_at_the_next_heartbeat(
    producer: Client, coder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = producer.tasks.enqueue("coder", "code")
    attempt = next_of(coder)
    quick(attempt, monkeypatch)
    with attempt:
        at_first = attempt.should_stop
        producer.tasks.abort(sent.id)
        wait_until(lambda: attempt.should_stop)
    assert (at_first, attempt.abort_requested, attempt.is_lost) == (False, True, False)
    assert attempt.decision and attempt.decision.decision == "aborted"


def test_a_lease_that_was_lost_is_noticed_and_its_end_is_no_error(
    producer: Client, agent_client: Client, coder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = producer.tasks.enqueue("coder", "code")
    attempt = next_of(coder)
    quick(attempt, monkeypatch)
    with attempt:
        agent_client.tasks.release(attempt.id)
        wait_until(lambda: attempt.should_stop)
    assert attempt.is_lost and attempt.decision is None
    assert producer.tasks.get(sent.id).state == "queued"


def test_a_report_that_is_refused_for_another_reason_is_an_error(
    producer: Client, coder: Client, line: FaultyLine
) -> None:
    producer.tasks.enqueue("coder", "code")
    attempt = next_of(coder)
    line.faults.append(Fault(403, {"Content-Type": "application/problem+json"}, b'{"code": "x"}'))
    with pytest.raises(TenfourError), attempt:
        pass


def test_it_waits_for_the_next_task_when_asked_to(producer: Client, coder: Client) -> None:
    assert list(coder.attempts()) == []
    producer.tasks.enqueue("coder", "code", max_attempts=2, backoff={"base_delay_ms": 300})
    seen = []
    for attempt in coder.attempts(wait=True):
        with attempt:
            seen.append(attempt.number)
            if attempt.number == 2:
                break
            raise RuntimeError
    assert seen == [1, 2]


def test_the_async_one_does_the_same(
    tenfour_server: Tenfour, producer: Client, line: FaultyLine
) -> None:
    secret = tenfour_server.token("agent", "coder")
    sent = [producer.tasks.enqueue("coder", "code", n, max_attempts=1) for n in range(4)]

    decisions = []

    async def story() -> None:
        async with AsyncClient(line.url, secret) as coder:
            async for attempt in coder.attempts():
                async with attempt:
                    if attempt.payload == 0:
                        attempt.result = "zero"
                    elif attempt.payload == 1:
                        raise RuntimeError("no luck")
                    elif attempt.payload == 2:
                        await attempt.exited(0, "fine")
                    else:
                        await attempt.heartbeat("late")
                        await attempt.failed("no")
                decisions.append(attempt.decision and attempt.decision.decision)
            assert len([each async for each in coder.tasks.list(state="failed")]) == 2

    run_coroutine(story())
    assert decisions == ["done", "failed", "done", "failed"]
    assert [producer.tasks.get(each.id).state for each in sent] == decisions
    assert producer.tasks.get(sent[0].id).result == "zero"


def test_the_async_one_is_renewed_and_gives_back_what_is_cancelled(
    tenfour_server: Tenfour, producer: Client, line: FaultyLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tenfour_server.token("agent", "coder")
    sent = producer.tasks.enqueue("coder", "code")

    async def story() -> None:
        async with AsyncClient(line.url, secret) as coder:
            attempt = await anext(coder.attempts())
            monkeypatch.setattr(type(attempt), "every_s", 0.05)

            async def work() -> None:
                async with attempt:
                    await asyncio.sleep(600)

            working = asyncio.create_task(work())
            while beats(line) < 3:
                await asyncio.sleep(0.02)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            assert (await coder.tasks.get(sent.id)).state == "queued"

    run_coroutine(asyncio.wait_for(story(), PATIENCE_S))
