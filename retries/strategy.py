"""Retries in the same process: call a function until it succeeds."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

from retries.breaker import CircuitBreakerOpen
from retries.calls import must_await, resolve
from retries.decisions import delay_s

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """The number of retries after the first call, and the wait before each."""

    max_retries: int = 3
    base_delay_ms: float = 100
    max_delay_ms: float = 30_000
    exponential_base: float = 2.0
    jitter: bool = True


class RetryStrategy:
    """Calls a function until it succeeds or has no retries left."""

    def __init__(self, config: RetryConfig | None = None) -> None:
        self.config = config or RetryConfig()

    def calculate_delay(self, attempt: int) -> float:
        """Return the seconds to wait after call number `attempt`, counted from 0."""
        return delay_s(self.config, attempt)

    def execute_with_retry(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of the first call that succeeds.

        An async caller awaits this method, and so does the caller of an async function: it returns
        a coroutine. Raises the last call's error. An open circuit ends the retries, and does not
        hide the error of the call before.
        """
        call = partial(fn, *args, **kwargs)
        if must_await(fn):
            return cast(T, self._call_async(call))
        return self._call(call)

    def _call(self, call: Callable[[], T]) -> T:
        errors: list[Exception] = []
        while not self._is_over(errors):
            if errors:
                time.sleep(self.calculate_delay(len(errors) - 1))
            try:
                result = call()
            except Exception as error:
                errors.append(error)
                continue
            if inspect.isawaitable(result):  # of a lambda, or another function that is not async
                return cast(T, self._call_async(call, errors, started=result))
            return result
        raise error_to_raise(errors)

    async def _call_async(
        self,
        call: Callable[[], Any],
        errors: Sequence[Exception] = (),
        *,
        started: Awaitable[Any] | None = None,
    ) -> Any:
        """Call until a call succeeds; `started` is the result of a call that already began."""
        errors = list(errors)
        while not self._is_over(errors):
            if errors and started is None:
                await asyncio.sleep(self.calculate_delay(len(errors) - 1))
            try:
                return await resolve(call() if started is None else started)
            except Exception as error:
                errors.append(error)
                started = None
        raise error_to_raise(errors)

    def _is_over(self, errors: Sequence[Exception]) -> bool:
        if errors and isinstance(errors[-1], CircuitBreakerOpen):
            return True
        return len(errors) > self.config.max_retries


def error_to_raise(errors: Sequence[Exception]) -> Exception:
    """Return the last error that is not an open circuit, or the last of all."""
    real = [error for error in errors if not isinstance(error, CircuitBreakerOpen)]
    return (real or errors)[-1]
