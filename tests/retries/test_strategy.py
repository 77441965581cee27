"""Backoff and retries: how long the waits are, how many calls there are, and what is raised."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retries.breaker import CircuitBreakerOpen
from retries.decisions import delay_s
from retries.strategy import RetryConfig, RetryStrategy
from tests.loops import run_coroutine

BARE = RetryConfig(jitter=False)
HASTY = RetryConfig(base_delay_ms=0)


class Flaky:
    """Fails `times` times, each time with another error, then returns what it was given."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.called_at: list[float] = []

    def __call__(self, value: Any = None, *, doubled: bool = False) -> Any:
        self.called_at.append(time.perf_counter())
        if self.calls <= self.times:
            raise ValueError(f"failure {self.calls}")
        return value * 2 if doubled else value

    async def awaited(self, value: Any = None, *, doubled: bool = False) -> Any:
        await asyncio.sleep(0)
        return self(value, doubled=doubled)

    @property
    def calls(self) -> int:
        return len(self.called_at)

    @property
    def waits(self) -> list[float]:
        pairs = zip(self.called_at, self.called_at[1:], strict=False)
        return [later - earlier for earlier, later in pairs]


def sync(strategy: RetryStrategy, flaky: Flaky, *args: Any, **kwargs: Any) -> Any:
    return strategy.execute_with_retry(flaky, *args, **kwargs)


def awaited(strategy: RetryStrategy, flaky: Flaky, *args: Any, **kwargs: Any) -> Any:
    return run_coroutine(strategy.execute_with_retry(flaky.awaited, *args, **kwargs))


Execute = Callable[..., Any]
both = pytest.mark.parametrize("execute", [sync, awaited])


# ---- how long


def test_defaults() -> None:
    """S3.22"""
    expected = RetryConfig(3, 100, 30_000, 2.0, True)
    assert RetryConfig() == RetryStrategy().config == expected


def test_exponential_backoff() -> None:
    """S3.23: in seconds."""
    strategy = RetryStrategy(BARE)
    assert [strategy.calculate_delay(n) for n in range(4)] == [0.1, 0.2, 0.4, 0.8]
    threefold = RetryStrategy(RetryConfig(base_delay_ms=1000, exponential_base=3, jitter=False))
    assert [threefold.calculate_delay(n) for n in range(3)] == [1, 3, 9]


def test_max_delay_cap() -> None:
    """S3.24"""
    assert delay_s(BARE, 9) == delay_s(BARE, 1000) == 30
    assert delay_s(RetryConfig(max_delay_ms=500, jitter=False), 20) == 0.5


@pytest.mark.parametrize("n", [1023, 1024, 10**9])
@pytest.mark.parametrize("base", [2, 2.0, 100])
def test_a_huge_attempt_does_not_overflow(n: int, base: float) -> None:
    """S3.24"""
    assert delay_s(RetryConfig(exponential_base=base, jitter=False), n) == 30
    assert delay_s(RetryConfig(base_delay_ms=0, exponential_base=base), n) == 0


def test_jitter() -> None:
    """S3.25: between half and one and a half times, and never twice the same."""
    delays = [RetryStrategy().calculate_delay(0) for _ in range(200)]
    assert len(set(delays)) > 190
    assert 0.05 <= min(delays) < 0.07 and 0.13 < max(delays) <= 0.15


def test_jitter_comes_after_the_cap() -> None:
    """S3.25: what has reached the cap still spreads, up to 45 s."""
    asked = []

    def most(low: float, high: float) -> float:
        asked.append((low, high))
        return high

    assert delay_s(RetryConfig(), 50, uniform=most) == 45
    assert asked == [(0.5, 1.5)]


@given(n=st.integers(0, 10**6), base=st.floats(1, 100), jitter=st.booleans())
def test_every_delay_is_within_its_limits(n: int, base: float, jitter: bool) -> None:
    delay = delay_s(RetryConfig(exponential_base=base, jitter=jitter), n)
    assert 0.05 <= delay <= 45


# ---- how often


@both
@pytest.mark.parametrize("failures", range(4))
def test_the_first_success_is_returned(execute: Execute, failures: int) -> None:
    """S3.26, S3.28: arguments are passed on each time."""
    flaky = Flaky(failures)
    assert execute(RetryStrategy(HASTY), flaky, 21, doubled=True) == 42
    assert flaky.calls == failures + 1


@both
def test_retry_exhaustion(execute: Execute) -> None:
    """S3.26, S3.27: four calls, then the last error itself."""
    flaky = Flaky(99)
    with pytest.raises(ValueError, match="failure 4") as caught:
        execute(RetryStrategy(HASTY), flaky)
    assert flaky.calls == 4 and caught.value.__cause__ is caught.value.__context__ is None


@both
def test_no_retries_is_one_call(execute: Execute) -> None:
    """S3.28"""
    flaky = Flaky(99)
    with pytest.raises(ValueError, match="failure 1"):
        execute(RetryStrategy(RetryConfig(max_retries=0)), flaky)
    assert flaky.calls == 1


@both
def test_it_waits_as_long_as_was_calculated_and_only_between_calls(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3.26, S3.45: a wait is never shorter; how much longer it gets is the machine's doing."""
    asked: list[float] = []
    sleep, sleep_async = time.sleep, asyncio.sleep

    def note(seconds: float) -> None:
        asked.append(seconds)
        sleep(seconds)

    def note_async(seconds: float) -> Any:
        asked.extend([seconds] if seconds else [])
        return sleep_async(seconds)

    monkeypatch.setattr(time, "sleep", note)
    monkeypatch.setattr(asyncio, "sleep", note_async)
    flaky = Flaky(99)
    with pytest.raises(ValueError):
        execute(RetryStrategy(RetryConfig(2, base_delay_ms=100, jitter=False)), flaky)
    assert asked == [0.1, 0.2]
    assert all(wait >= least for wait, least in zip(flaky.waits, asked, strict=True))


@both
def test_each_run_counts_for_itself(execute: Execute) -> None:
    """S3.29"""
    strategy = RetryStrategy(HASTY)
    for flaky in (Flaky(3), Flaky(3)):
        execute(strategy, flaky)
        assert flaky.calls == 4


# ---- an open circuit


class Opening(Flaky):
    """Fails `times` times; then the circuit is open."""

    def __call__(self, value: Any = None, *, doubled: bool = False) -> Any:
        super().__call__(value, doubled=doubled)
        raise CircuitBreakerOpen("coder")


@both
def test_an_open_circuit_is_never_called_again(execute: Execute) -> None:
    """S3.41: no useless retries."""
    opening = Opening(0)
    with pytest.raises(CircuitBreakerOpen):
        execute(RetryStrategy(HASTY), opening)
    assert opening.calls == 1


@both
@pytest.mark.parametrize("failures", [1, 3])
def test_an_open_circuit_never_hides_the_real_error(execute: Execute, failures: int) -> None:
    """S3.41"""
    opening = Opening(failures)
    with pytest.raises(ValueError, match=f"failure {failures}"):
        execute(RetryStrategy(HASTY), opening)
    assert opening.calls == failures + 1


@both
def test_what_stops_the_process_is_not_retried(execute: Execute) -> None:
    calls = []

    class Stopped(Flaky):
        def __call__(self, value: Any = None, *, doubled: bool = False) -> Any:
            calls.append(value)
            raise SystemExit(1)

    with pytest.raises(SystemExit):
        execute(RetryStrategy(HASTY), Stopped(0))
    assert len(calls) == 1


# ---- sync and async callers


def test_an_async_caller_awaits_a_sync_function() -> None:
    flaky = Flaky(2)

    async def work() -> Any:
        return await RetryStrategy(HASTY).execute_with_retry(flaky, 21, doubled=True)

    assert run_coroutine(work()) == 42 and flaky.calls == 3


@pytest.mark.parametrize("is_in_loop", [False, True])
def test_a_lambda_that_returns_a_coroutine_is_retried(is_in_loop: bool) -> None:
    flaky, strategy = Flaky(2), RetryStrategy(HASTY)

    def call() -> Any:
        return strategy.execute_with_retry(lambda: flaky.awaited(21))

    async def work() -> Any:
        return await call()

    assert run_coroutine(work() if is_in_loop else call()) == 21
    assert flaky.calls == 3


def test_an_async_call_method_is_awaited() -> None:
    class Remote:
        async def __call__(self, value: int) -> int:
            await asyncio.sleep(0)
            return value

    assert run_coroutine(RetryStrategy(HASTY).execute_with_retry(Remote(), 3)) == 3  # type: ignore[arg-type]
