"""Verbs for the same process: the five `mark_*` functions, and the call that does everything."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from ledger import tasks
from ledger.errors import InvalidTransition, NotFound
from ledger.journal import Stamp
from ledger.models import Agent, Attempt, Breaker, DeadLetter, Event, Task, TaskHistory
from ledger.states import BreakerState, TaskState
from retries import breaker, breaker_actions, in_process
from retries.breaker import CircuitBreakerConfig, CircuitBreakerOpen
from retries.in_process import execute_agent_task_with_resilience
from retries.models import Escalation
from retries.strategy import RetryConfig, RetryStrategy
from tests.elsewhere import blocked
from tests.factories import MINUTE, NOW, make_agent
from tests.loops import Caller, cancel_when_begun, run_coroutine
from tests.retries.moves import kinds, make_task
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db

HASTY = RetryStrategy(RetryConfig(base_delay_ms=0))


class Worker:
    """Does agents' tasks, but fails the first `failures` times."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.calls: list[tuple[str, str, Any]] = []

    def __call__(self, *call: Any) -> dict[str, int]:
        self.calls.append(call)
        if len(self.calls) <= self.failures:
            raise ValueError(f"failure {len(self.calls)}")
        return {"built": len(self.calls)}


def execute(work: Any) -> Any:
    payload = {"ref": "main"}
    return execute_agent_task_with_resilience("coder", "build", payload, work, strategy=HASTY)


def path(task: Task) -> list[str]:
    """The states that the task went through."""
    events = Event.objects.filter(subject_id=task.pk).exclude(to_state=None).order_by("id")
    return [str(state) for state in events.values_list("to_state", flat=True)]


@pytest.mark.parametrize("failures", [0, 3])
def test_a_success_is_stored_and_returned(agent: Agent, failures: int) -> None:
    """S3.39, S3.43: what fails for a while does not lose the task."""
    worker = Worker(failures)
    expected = {"built": failures + 1}
    assert execute(worker) == expected
    assert worker.calls == [("coder", "build", {"ref": "main"})] * (failures + 1)
    task = Task.objects.get()
    assert (task.agent, task.result, task.error) == (agent, expected, None)
    assert path(task) == ["queued", "running", "done"]


def test_a_lasting_failure_is_reported_once_and_raised(agent: Agent) -> None:
    """S3.40, S3.43"""
    worker = Worker(99)
    with pytest.raises(ValueError, match="failure 4"):
        execute(worker)
    task = Task.objects.get()
    assert len(worker.calls) == 4 and Attempt.objects.count() == 1
    assert path(task) == ["queued", "running", "failed"]
    assert DeadLetter.objects.get().task == task
    assert DeadLetter.objects.get().error == "ValueError: failure 4"
    assert Breaker.objects.get().failures == 1


def test_an_open_circuit_blocks_the_task_without_a_call(agent: Agent) -> None:
    """S3.41"""
    breaker_actions.trip([agent], reason="", stamp=Stamp(breaker.SYSTEM))
    worker = Worker()
    with pytest.raises(CircuitBreakerOpen, match="Circuit breaker 'coder' is OPEN"):
        execute(worker)
    task = Task.objects.get()
    assert (task.state, task.blocked_reason) == (TaskState.BLOCKED, "breaker_open")
    assert not worker.calls and not DeadLetter.objects.exists()


def test_an_open_circuit_within_the_function_does_not_bury_the_task(agent: Agent) -> None:
    """S3.41"""

    def work(*call: Any) -> None:
        raise CircuitBreakerOpen("model")

    with pytest.raises(CircuitBreakerOpen, match="model"):
        execute(work)
    assert path(Task.objects.get()) == ["queued", "running", "retry"]
    assert not DeadLetter.objects.exists()


def test_the_fifth_lasting_failure_opens_the_circuit(agent: Agent) -> None:
    """S3.31, S3.52: another agent continues."""
    for _ in range(5):
        with pytest.raises(ValueError):
            execute(Worker(99))
    assert Breaker.objects.get().state == BreakerState.OPEN
    with pytest.raises(CircuitBreakerOpen):
        execute(Worker())
    make_agent("other")
    done = execute_agent_task_with_resilience("other", "build", None, Worker())
    assert done == {"built": 1}


# ---- by a task's id


def test_state_transitions(agent: Agent) -> None:
    """S3.2, S3.10, S3.14"""
    id = make_task(agent)
    in_process.mark_running(id, now=NOW)
    assert Task.objects.get(pk=id).state == TaskState.RUNNING
    with pytest.raises(InvalidTransition) as refused:
        in_process.mark_running(id, now=NOW)
    assert refused.value.more["current"] == "running"
    in_process.mark_done(id, {"ok": 1}, now=NOW)
    task = Task.objects.get(pk=id)
    assert (task.state, task.result) == (TaskState.DONE, {"ok": 1})
    before = kinds(id)
    for verb in (in_process.mark_retry, in_process.mark_failed, in_process.mark_blocked):
        with pytest.raises(InvalidTransition):
            verb(id, "too late", now=NOW)
    assert kinds(id) == before
    with pytest.raises(NotFound):
        in_process.mark_done(agent.pk)


def test_retry_count_increment(agent: Agent) -> None:
    """S3.11, S3.29"""
    one, two = make_task(agent, priority=1), make_task(agent)
    in_process.mark_running(one, now=NOW)
    in_process.mark_retry(one, "it broke", now=NOW)
    assert [Task.objects.get(pk=id).retry_count for id in (one, two)] == [1, 0]
    assert Task.objects.get(pk=one).state == TaskState.RETRY


def test_blocked_stores_its_reason_and_asks(agent: Agent) -> None:
    """S3.13, S1.8"""
    id = make_task(agent)
    in_process.mark_running(id, now=NOW)
    in_process.mark_blocked(id, "no key", now=NOW)
    task = Task.objects.get(pk=id)
    assert (task.state, task.blocked_reason, task.retry_count) == (TaskState.BLOCKED, "reported", 0)
    assert Escalation.objects.get().task_id == id


def test_failed_is_final_at_once(agent: Agent) -> None:
    id = make_task(agent)
    in_process.mark_running(id, now=NOW)
    in_process.mark_failed(id, "no way", now=NOW)
    assert Task.objects.get(pk=id).state == TaskState.FAILED
    assert DeadLetter.objects.get().reason == "non_retryable"


def test_task_history(agent: Agent) -> None:
    """S3.6: one row for each move, in order, with the error."""
    id = make_task(agent, max_attempts=2)
    for number in range(2):
        at = NOW + MINUTE * number
        in_process.mark_running(id, now=at)
        in_process.mark_retry(id, f"error {number}", now=at)
    rows = TaskHistory.objects.filter(task_id=id).order_by("id")
    assert list(rows.values_list("from_state", "to_state", "error")) == [
        ("queued", "running", None),
        ("running", "retry", "error 0"),
        ("retry", "running", None),
        ("running", "failed", "error 1"),
    ]
    assert rows[0].timestamp == NOW


# ---- results, errors and callers of every kind


def run_and_get(work: Any) -> tuple[Any, Task]:
    result = execute(work)
    return result, Task.objects.latest("id")


class Odd:
    def __repr__(self) -> str:
        return "<Odd>"


@pytest.mark.parametrize(
    ("result", "stored"),
    [
        (datetime(2026, 11, 21, tzinfo=UTC), "2026-11-21T00:00:00Z"),
        ({"ids": {3}}, {"ids": [3]}),
        ({"rate": float("nan")}, {"rate": None}),
        ([float("inf")], [None]),
        (Odd(), "<Odd>"),
        ({"odd": Odd()}, {"odd": "<Odd>"}),
        (b"\xff", "_w=="),
        ("half \ud800", "'half \\ud800'"),
    ],
)
def test_a_result_that_is_not_plain_json_ends_the_attempt(
    agent: Agent, result: Any, stored: Any
) -> None:
    returned, task = run_and_get(lambda *call: result)
    assert returned is result
    assert (task.state, task.result) == (TaskState.DONE, stored)


def test_a_result_with_a_null_character_or_that_contains_itself_is_stored(agent: Agent) -> None:
    itself: list[Any] = []
    itself.append(itself)
    for result in (itself, "a\x00b"):
        task = run_and_get(lambda *call, given=result: given)[1]
        assert task.state == TaskState.DONE and task.result


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_releases_the_task(agent: Agent, interrupt: type[BaseException]) -> None:
    def work(*call: Any) -> None:
        raise interrupt

    with pytest.raises(interrupt):
        execute(work)
    assert path(Task.objects.get()) == ["queued", "running", "queued"]
    assert Attempt.objects.get().outcome == "released"


@pytest.mark.django_db(transaction=True)
def test_an_interrupt_inside_a_statement_releases_the_task(agent: Agent) -> None:
    def work(*call: Any) -> None:
        connection.connection.pgconn.send_query(b"select pg_sleep(0)")  # its rows are never read
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(work)
    assert Attempt.objects.get().outcome == "released"


def test_an_error_whose_text_fails_is_reported(agent: Agent) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def work(*call: Any) -> None:
        raise Mute

    with pytest.raises(Mute):
        execute(work)
    assert DeadLetter.objects.get().error == "Mute"


@pytest.mark.django_db(transaction=True)
def test_an_async_function_is_run_to_its_end(elsewhere: Callable[..., Future[Any]]) -> None:
    make_agent()
    worker = Worker(2)

    async def work(*call: Any) -> Any:
        await asyncio.sleep(0)
        return worker(*call)

    # In a thread without a loop: in this one a browser test may keep one running.
    assert elsewhere(lambda: execute(work)).result() == {"built": 3}
    assert Task.objects.get().state == TaskState.DONE


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_async", [False, True])
def test_an_async_caller_awaits_it(is_async: bool) -> None:
    make_agent()
    worker = Worker(1)

    async def work(*call: Any) -> Any:
        await asyncio.sleep(0)
        return worker(*call)

    async def caller() -> Any:
        return await execute(work if is_async else worker)

    assert run_coroutine(caller()) == {"built": 2}
    assert Task.objects.get().state == TaskState.DONE


@pytest.mark.django_db(transaction=True)
def test_a_cancelled_caller_releases_the_task() -> None:
    make_agent()
    with pytest.raises(asyncio.CancelledError):
        run_coroutine(cancel_when_begun(execute))
    assert Task.objects.get().state == TaskState.QUEUED


@pytest.mark.django_db(transaction=True)
def test_a_caller_that_is_cancelled_while_its_task_begins_releases_it(
    elsewhere: Callable[..., Future[Any]],
) -> None:
    make_agent()
    worker = Worker()
    caller = Caller(lambda: execute(worker))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("lock table ledger_task in share mode")
        ended = elsewhere(caller.run)
        with blocked(ended):
            caller.cancel()
    assert isinstance(ended.exception(PATIENCE_S), asyncio.CancelledError)
    assert Task.objects.get().state == TaskState.QUEUED and not worker.calls


# ---- the documented arguments


def test_the_documented_arguments(agent: Agent) -> None:
    id = tasks.enqueue(agent_name="coder", task_type="build", payload={}, max_retries=2)
    other = tasks.enqueue("newcomer", "build")
    task = Task.objects.select_related("agent").get(pk=id)
    assert (task.agent, task.type, task.max_attempts) == (agent, "build", 2)
    assert Task.objects.select_related("agent").get(pk=other).agent.name == "newcomer"
    in_process.mark_running(str(id), now=NOW)
    in_process.mark_retry(str(id), ValueError("x"), now=NOW)
    assert Task.objects.get(pk=id).error == "ValueError: x"
    assert CircuitBreakerConfig(timeout_seconds=1.5).open_for.total_seconds() == 1.5


@pytest.mark.parametrize("id", ["nothing", str(UUID(int=7)), UUID(int=7)])
def test_an_unknown_id_is_not_found(db: None, id: Any) -> None:
    for verb in (in_process.mark_retry, in_process.mark_failed, in_process.mark_blocked):
        with pytest.raises(NotFound):
            verb(id, "no")
    for verb in (in_process.mark_running, in_process.mark_done):
        with pytest.raises(NotFound):
            verb(id)
