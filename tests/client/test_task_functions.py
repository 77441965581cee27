"""Functions whose calls are tasks."""

import shlex
import threading
from pathlib import Path

import pytest
from tenfour import AsyncClient, Blocked, Client, LiveAttempt, TaskFailed
from tenfour.models import Task

from tests.loops import run_coroutine
from tests.serving import Tenfour
from tests.waiting import wait_until


def newest(producer: Client) -> Task:
    return next(producer.tasks.list())


def test_a_call_is_a_task_with_its_arguments_and_result(
    producer: Client, agent_client: Client
) -> None:
    @agent_client.task(title="Add numbers")
    def add(a: int, b: object = 2) -> int:
        """Add two numbers."""
        return a + 2

    assert add(1, b=Path("x")) == 3
    assert (add.__name__, add.__doc__) == ("add", "Add two numbers.")
    task = newest(producer)
    assert (task.state, task.type, task.title, task.result) == ("done", "add", "Add numbers", 3)
    assert task.payload["arguments"] == {"a": 1, "b": "PosixPath('x')"}
    assert task.payload["function"].endswith(".add")
    with pytest.raises(TypeError):
        add()  # type: ignore[call-arg]
    assert newest(producer).id == task.id


def test_a_failure_is_retried_and_the_last_one_raised(
    producer: Client, agent_client: Client
) -> None:
    numbers = []

    @agent_client.task(max_attempts=3, backoff={"base_delay_ms": 100}, on_exhausted="dead_letter")
    def flaky(attempt: LiveAttempt | None = None) -> int:
        assert attempt
        numbers.append(attempt.number)
        if len(numbers) in {1, 3, 4, 5}:
            raise RuntimeError(f"no luck {len(numbers)}")
        return attempt.number

    assert flaky() == 2
    with pytest.raises(TaskFailed) as raised:
        flaky()
    assert numbers == [1, 2, 1, 2, 3]
    assert raised.value.decision.decision == "failed"
    assert str(raised.value.__cause__) == "no luck 5"
    (letter,) = producer.dead_letters.list()
    assert letter.task == raised.value.task == newest(producer).id and letter.is_open


def test_it_is_verified(producer: Client, agent_client: Client, tmp_path: Path) -> None:
    file = tmp_path / "done"
    check = f"test -e {shlex.quote(str(file))}"

    @agent_client.task(verify=check, max_attempts=2, backoff={"base_delay_ms": 0})
    def work(attempt: LiveAttempt | None = None) -> str:
        assert attempt
        if attempt.number == 2:
            assert "test -e" in attempt.retry_context
            file.touch()
        return "worked"

    assert work() == "worked"
    first, second = sorted(producer.tasks.attempts(newest(producer).id), key=lambda a: a.number)
    assert (first.outcome, second.outcome) == ("failure", "success")


def test_an_escalation_is_raised_or_waited_for(
    tenfour_server: Tenfour, producer: Client, agent_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenfour.attempts.live_attempts.Live._await_answer.__defaults__", (0.05,))
    keys: list[str] = []

    def push() -> str:
        if not keys:
            raise Blocked("The token can't push.", code="permission_denied")
        return keys[0]

    with pytest.raises(TaskFailed, match="a person is asked: http") as raised:
        agent_client.task()(push)()
    assert isinstance(raised.value.__cause__, Blocked)

    client = tenfour_server.client("operator")

    def answer() -> None:
        with client as operator:
            wait_until(lambda: len(list(operator.escalations.list(state="open"))) == 2)
            found = list(operator.escalations.list(state="open"))
            keys.append("key")
            operator.escalations.resolve(found[0].id, "fix: there is a key now")

    thread = threading.Thread(target=answer)
    thread.start()
    assert agent_client.task(wait=True)(push)() == "key"
    thread.join()


def test_an_agent_that_may_not_work_is_an_error(
    tenfour_server: Tenfour, producer: Client, agent_client: Client
) -> None:
    with tenfour_server.client("operator") as operator:
        operator.agents.change("coder", paused=True)

    @agent_client.task()
    def work() -> None:
        raise AssertionError

    with pytest.raises(TaskFailed, match="The agent is paused; the task stays queued") as raised:
        work()
    assert producer.tasks.get(raised.value.task).state == "queued"


def test_the_async_one(tenfour_server: Tenfour, producer: Client) -> None:
    secret = tenfour_server.token("agent", "coder")
    numbers = []

    async def story() -> None:
        async with AsyncClient(tenfour_server.url, secret) as coder:

            @coder.task(verify="true", max_attempts=2, backoff={"base_delay_ms": 0})
            async def twice(n: int) -> int:
                numbers.append(n)
                if len(numbers) == 1:
                    raise RuntimeError("no luck")
                return n * 2

            assert await twice(4) == 8

    run_coroutine(story())
    assert numbers == [4, 4] and newest(producer).result == 8
