"""A live attempt asks for leave to make a tool call, and goes on with the answer or without one."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tenfour import AsyncClient, Client, LiveAttempt, Permission, TenfourError

from retries.models import PermissionRequest, PermissionRule
from tests.client.faulty import DROPPED, Fault, FaultyLine, problem
from tests.loops import run_coroutine
from tests.serving import Tenfour
from tests.waiting import wait_until

CALL = {"command": "make deploy"}


@pytest.fixture
def operator(tenfour_server: Tenfour) -> Iterator[Client]:
    with tenfour_server.client("operator") as client:
        yield client


@pytest.fixture
def attempt(producer: Client, tenfour_server: Tenfour, line: FaultyLine) -> Iterator[LiveAttempt]:
    producer.tasks.enqueue("coder", "code", register=True)
    with Client(line.url, tenfour_server.token("agent", "coder"), retries=0) as coder:
        (claim,) = coder.tasks.claim()
        yield coder.attempt(claim)


def answering(operator: Client, **answer: Any) -> Callable[[], None]:
    """Answer the first question that opens, in a thread of its own."""

    def answer_first() -> None:
        found = wait_until(lambda: list(operator.escalations.list(state="open")))
        operator.escalations.resolve(found[0].id, **answer)

    thread = threading.Thread(target=answer_first)
    thread.start()
    return thread.join


def test_an_answer_lets_the_attempt_go_on(
    attempt: LiveAttempt, operator: Client, producer: Client, line: FaultyLine
) -> None:
    join = answering(operator, action="allow")
    allowed = attempt.ask_permission("Bash", CALL, folder="/srv/app", said="It is ready.")
    join()
    assert (allowed.allowed, allowed.input, allowed.message) == (True, CALL, "")
    assert allowed.by
    request = PermissionRequest.objects.get()
    assert (request.folder, request.said, request.taken_at is None) == (
        "/srv/app",
        "It is ready.",
        False,
    )
    assert str(request.task_id) == attempt.task.id
    assert producer.tasks.get(attempt.task.id).state == "running"
    join = answering(operator, action="deny", instruction="Not on Fridays.")
    denied = attempt.ask_permission("Bash", CALL)
    join()
    assert (denied.allowed, denied.message, denied.input) == (False, "Not on Fridays.", CALL)


def test_a_rule_answers_at_once(attempt: LiveAttempt, operator: Client) -> None:
    from tenfour.api.calls import json_object
    from tenfour.http.core import Call

    rule = {"tool": "Bash", "matcher": "make deploy"}
    operator.perform(Call("POST", "/v1/permission-rules", json_object, rule))
    found = attempt.ask_permission("Bash", CALL, folder="/srv/app")
    assert (found.allowed, found.by) == (True, "rule")
    assert PermissionRule.objects.get().hits == 1


def test_without_an_answer_nothing_is_allowed(attempt: LiveAttempt) -> None:
    found = attempt.ask_permission("Bash", CALL, wait_s=1)
    assert found.allowed is None and found.input == CALL
    assert PermissionRequest.objects.get().state in {"withdrawn", "expired"}


@pytest.mark.parametrize(
    "fault",
    [DROPPED, problem(503, "unavailable"), Fault(502, {}, b"<h1>Bad Gateway</h1>")],
    ids=["dropped", "503", "html"],
)
def test_an_outage_allows_nothing(
    fault: Fault, attempt: LiveAttempt, operator: Client, line: FaultyLine
) -> None:
    line.faults.append(fault)
    assert attempt.ask_permission("Bash", CALL).allowed is None

    def answer(asked: Any) -> None:
        line.faults.append(fault)
        operator.escalations.resolve(asked.id, action="allow")

    # In the middle, it is waited out.
    thread = threading.Thread(
        target=lambda: answer(wait_until(lambda: list(operator.escalations.list(state="open")))[0])
    )
    thread.start()
    found = attempt.ask_permission("Bash", CALL)
    thread.join()
    assert found.allowed is True


def test_a_refusal_to_ask_is_an_error(attempt: LiveAttempt) -> None:
    with pytest.raises(TenfourError):
        attempt.ask_permission("", CALL)
    with pytest.raises(TenfourError):
        attempt.ask_permission("Bash", CALL, wait_s=0)


def test_an_interrupt_withdraws(attempt: LiveAttempt, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenfour.http import drivers

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(drivers.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        attempt.ask_permission("Bash", CALL)
    assert PermissionRequest.objects.get().state == "withdrawn"


def test_the_other_client_is_awaited(
    producer: Client, operator: Client, tenfour_server: Tenfour
) -> None:
    producer.tasks.enqueue("coder", "code", register=True)

    secret = tenfour_server.token("agent", "coder")

    async def work() -> Permission:
        import asyncio

        async with AsyncClient(tenfour_server.url, secret) as coder:
            (claim,) = await coder.tasks.claim()
            attempt = coder.attempt(claim)
            first = await attempt.ask_permission("Bash", CALL)
            asking = asyncio.ensure_future(attempt.ask_permission("Bash", {"command": "ls"}))
            await asyncio.sleep(0.5)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            return first

    join = answering(operator, action="deny")
    first = run_coroutine(work())
    join()
    assert first.allowed is False
    assert PermissionRequest.objects.latest("id").state == "withdrawn"


@pytest.mark.parametrize("answer", [None, {}, {"allow": 1}, {"allow": "yes"}, "yes", [True]])
def test_only_true_allows(answer: Any) -> None:
    assert Permission.read({"id": "1", "answer": answer}).allowed is None
