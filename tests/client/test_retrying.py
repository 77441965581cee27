"""`tenfour.retry` and its strategy: any callable, called again until it succeeds."""

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from tenfour import Blocked, Client, RetryConfig, RetryStrategy, retry

from tests.loops import run_coroutine

AT_ONCE = RetryConfig(base_delay_ms=0)


class Flaky:
    """Fails `failures` times, each time with its own error, then returns what it was given."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.errors: list[Exception] = []
        self.calls: list[tuple[tuple[object, ...], dict[str, object]]] = []

    def __call__(self, *args: object, **kwargs: object) -> object:
        self.calls.append((args, kwargs))
        if len(self.errors) < self.failures:
            self.errors.append(ValueError(f"failure {len(self.errors) + 1}"))
            raise self.errors[-1]
        return args, kwargs


class AsyncFlaky(Flaky):
    async def __call__(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
        return super().__call__(*args, **kwargs)


def test_the_defaults() -> None:
    """S3.22"""
    config = RetryConfig()
    assert (config.max_retries, config.base_delay_ms, config.max_delay_ms) == (3, 100, 30_000)
    assert (config.exponential_base, config.jitter) == (2.0, True)


def test_delays_grow_up_to_the_cap() -> None:
    """S3.23, S3.24: in seconds, without jitter."""
    strategy = RetryStrategy(RetryConfig(jitter=False))
    assert [strategy.calculate_delay(n) for n in range(4)] == [0.1, 0.2, 0.4, 0.8]
    assert [strategy.calculate_delay(n) for n in (20, 5000, 10**9)] == [30.0] * 3
    capped = RetryStrategy(RetryConfig(max_delay_ms=500, jitter=False))
    assert capped.calculate_delay(10) == 0.5


def test_jitter_spreads_what_has_reached_the_cap() -> None:
    """S3.25"""
    strategy = RetryStrategy(RetryConfig(max_delay_ms=1000))
    delays = {strategy.calculate_delay(10) for _ in range(200)}
    assert 0.5 <= min(delays) < 0.7 < 1.3 < max(delays) <= 1.5
    assert len(delays) > 150


def test_the_first_success_returns_and_arguments_are_passed_each_time() -> None:
    """S3.26, S3.28, S3.29: a second call has its own retries."""
    fetch = Flaky(2)
    once = retry(base_delay_ms=0)(fetch)
    assert once(1, key="a") == ((1,), {"key": "a"})
    assert fetch.calls == [((1,), {"key": "a"})] * 3
    fetch.failures += 3
    assert once() == ((), {}) and len(fetch.calls) == 7


def test_the_last_error_itself_is_raised() -> None:
    """S3.26, S3.27: four calls."""
    fetch = Flaky(9)
    with pytest.raises(ValueError, match="failure 4") as raised:
        RetryStrategy(AT_ONCE).execute_with_retry(fetch)
    assert raised.value is fetch.errors[-1] and len(fetch.calls) == 4


def test_without_retries_there_is_one_call() -> None:
    """S3.28"""
    fetch = Flaky(9)
    with pytest.raises(ValueError, match="failure 1"):
        retry(max_retries=0)(fetch)()
    assert len(fetch.calls) == 1
    with pytest.raises(ValueError, match="must not be negative"):
        retry(max_retries=-1)


def test_it_waits_between_the_calls_and_not_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3.26, S3.45: 0.1 and 0.2 s; how much later a wait ends is the machine's doing."""
    waits: list[float] = []
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: (waits.append(seconds), sleep(seconds)))
    began = time.monotonic()
    with pytest.raises(ValueError, match="failure 3"):
        retry(max_retries=2, jitter=False)(Flaky(9))()
    assert waits == [0.1, 0.2] and time.monotonic() - began >= 0.3


def as_function(flaky: AsyncFlaky) -> Callable[..., Any]:
    async def fetch(*args: object, **kwargs: object) -> object:
        return await flaky(*args, **kwargs)

    return fetch


def as_partial(flaky: AsyncFlaky) -> Callable[..., Any]:
    return functools.partial(as_function(flaky))


def as_lambda(flaky: AsyncFlaky) -> Callable[..., Any]:
    """A function that is not async, and returns a coroutine all the same."""
    return lambda *args, **kwargs: flaky(*args, **kwargs)


@pytest.mark.parametrize("made", [as_function, as_partial, as_lambda, lambda flaky: flaky])
def test_async_functions_of_each_kind(made: Callable[[AsyncFlaky], Callable[..., Any]]) -> None:
    """S3.26, S3.27, S3.28"""

    async def story() -> None:
        for failures in (0, 2):
            flaky = AsyncFlaky(failures)
            assert await retry(base_delay_ms=0)(made(flaky))(1, key="a") == ((1,), {"key": "a"})
            assert len(flaky.calls) == failures + 1
        flaky = AsyncFlaky(9)
        with pytest.raises(ValueError, match="failure 4") as raised:
            await RetryStrategy(AT_ONCE).execute_with_retry(made(flaky))
        assert raised.value is flaky.errors[-1] and len(flaky.calls) == 4

    run_coroutine(story())


def test_a_decorated_function_keeps_its_name_and_its_kind() -> None:
    @retry
    def fetch(number: int) -> int:
        """Fetch."""
        return number

    @retry(max_retries=1)
    async def fetch_later(number: int) -> int:
        return number

    assert (fetch.__name__, fetch.__doc__, fetch(3)) == ("fetch", "Fetch.", 3)
    assert run_coroutine(fetch_later(3)) == 3  # type: ignore[arg-type]


def test_each_retry_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tenfour"):
        retry(base_delay_ms=0)(Flaky(2))()
    assert len(caplog.messages) == 2
    assert "retry 1 of 3 in 0.0 s: failure 1" in caplog.messages[0]


def test_what_needs_a_person_and_an_interrupt_end_the_retries() -> None:
    for error in (Blocked("no key"), KeyboardInterrupt()):
        calls = []

        def fail(error: BaseException = error, calls: list[int] = calls) -> None:
            calls.append(1)
            raise error

        with pytest.raises(type(error)):
            retry(fail)()
        assert len(calls) == 1


def test_four_calls_are_one_report(producer: Client, agent_client: Client) -> None:
    """S3.40: the retries are in the process; the ledger gets one failure, with the last error."""
    task = producer.tasks.enqueue(
        "coder", "code", max_attempts=1, on_exhausted="dead_letter", register=True
    )
    fetch = Flaky(9)
    for attempt in agent_client.attempts():
        with attempt:
            retry(base_delay_ms=0)(fetch)()
    assert len(fetch.calls) == 4
    assert producer.tasks.get(task.id).state == "failed"
    (made,) = producer.tasks.attempts(task.id)
    assert made.failure and made.failure["message"] == "ValueError: failure 4"
    (letter,) = producer.dead_letters.list()
    assert letter.task == task.id and "failure 4" in letter.error
