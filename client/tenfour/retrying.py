"""Retries in the same process: call any function again until it succeeds."""

from __future__ import annotations

import functools
import inspect
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, cast, overload

from tenfour.http.problems import Blocked
from tenfour.log import log

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class RetryConfig:
    """The number of retries after the first call, and the waits before them."""

    max_retries: int = 3
    base_delay_ms: float = 100
    max_delay_ms: float = 30_000
    exponential_base: float = 2.0
    jitter: bool = True

    def __post_init__(self) -> None:
        if self.max_retries < 0 or self.base_delay_ms < 0 or self.max_delay_ms < 0:
            raise ValueError("max_retries, base_delay_ms and max_delay_ms must not be negative.")


class RetryStrategy:
    """Calls a function until it succeeds or has no retries left."""

    def __init__(self, config: RetryConfig | None = None) -> None:
        self.config = config or RetryConfig()

    def calculate_delay(self, attempt: int) -> float:
        """Return the seconds to wait after call number `attempt`, counted from 0.

        >>> strategy = RetryStrategy(RetryConfig(jitter=False))
        >>> [strategy.calculate_delay(attempt) for attempt in (0, 1, 2, 3, 100_000)]
        [0.1, 0.2, 0.4, 0.8, 30.0]
        """
        config = self.config
        try:
            factor = float(config.exponential_base) ** attempt
        except OverflowError:
            factor = sys.float_info.max
        delay_ms = min(config.base_delay_ms * factor, config.max_delay_ms)
        # Jitter comes after the cap, so that retries at the cap do not all come due at once.
        if config.jitter:
            delay_ms *= random.uniform(0.5, 1.5)  # noqa: S311 - it spreads retries
        return delay_ms / 1000

    def execute_with_retry(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of the first call that succeeds; raises the last call's error.

        The caller awaits what an async function returns. Of a sync function, this blocks, also
        while it waits. `Blocked` ends the retries: it asks for a person.
        """
        call = functools.partial(fn, *args, **kwargs)
        if is_async(fn):
            return cast(T, self._call_async(call, 0, None))
        failures = 0
        while True:
            try:
                result = call()
            except Exception as error:
                time.sleep(self._delay_before_retry(failures, error, fn))
                failures += 1
                continue
            if inspect.isawaitable(result):  # of a lambda, or another function that is not async
                return cast(T, self._call_async(call, failures, result))
            return result

    async def _call_async(
        self, call: functools.partial[Any], failures: int, started: Awaitable[Any] | None
    ) -> Any:
        """Call until a call succeeds; `started` is the result of a call that already began."""
        import asyncio

        while True:
            try:
                result = call() if started is None else started
                return (await result) if inspect.isawaitable(result) else result
            except Exception as error:
                delay = self._delay_before_retry(failures, error, call.func)
            started = None
            await asyncio.sleep(delay)
            failures += 1

    def _delay_before_retry(self, failures: int, error: Exception, fn: Callable[..., Any]) -> float:
        """Return the seconds to wait; raises the error if no retry is left."""
        if failures >= self.config.max_retries or isinstance(error, Blocked):
            raise error
        delay = self.calculate_delay(failures)
        # Not its repr: that of a partial contains arguments.
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        message = "%s failed; retry %d of %d in %.1f s: %s"
        log.warning(message, name, failures + 1, self.config.max_retries, delay, error)
        return delay


@overload
def retry(fn: Callable[P, T], /) -> Callable[P, T]: ...


@overload
def retry(
    *,
    max_retries: int = ...,
    base_delay_ms: float = ...,
    max_delay_ms: float = ...,
    exponential_base: float = ...,
    jitter: bool = ...,
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...


def retry(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Return a function that calls `fn` until it succeeds: `retry(fetch)(url)`, or `@retry`.

    By default 3 retries follow the first call, and the last error is raised. Options, as in
    `@retry(max_retries=5)`: max_retries, base_delay_ms, max_delay_ms, exponential_base, jitter.
    """
    strategy = RetryStrategy(RetryConfig(**options))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if is_async(function):

            async def call_async(*args: Any, **kwargs: Any) -> Any:
                return await strategy.execute_with_retry(function, *args, **kwargs)

            return named_after(function, call_async)

        def call(*args: Any, **kwargs: Any) -> Any:
            return strategy.execute_with_retry(function, *args, **kwargs)

        return named_after(function, call)

    return decorate if fn is None else decorate(fn)


def named_after(fn: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    # A partial or an object with __call__ has no name to copy.
    return functools.update_wrapper(wrapper, fn)


def is_async(fn: Callable[..., Any]) -> bool:
    """Return whether a call of the function returns a coroutine, as far as that can be seen."""
    call = getattr(fn, "__call__", None)  # noqa: B004 - an object can have an async __call__
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(call)
