"""Backoff: how long to wait before the next try, and any function tried again and again."""

import asyncio
import inspect
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

from retries.breaker import CircuitBreakerOpen

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """How often to try again, the first call not counted, and how long to wait in between."""

    max_retries: int = 3
    base_delay_ms: float = 100
    max_delay_ms: float = 30_000
    exponential_base: float = 2.0
    jitter: bool = True


def delay_s(
    config: RetryConfig, n: int, *, uniform: Callable[[float, float], float] = random.uniform
) -> float:
    """Seconds to wait before retry `n`, the first of which is 0.

    Jitter comes after the cap, so that what has reached it does not come back all at once: the
    longest wait is one and a half times the cap.

    >>> [delay_s(RetryConfig(jitter=False), n) for n in (0, 1, 2, 3, 100_000)]
    [0.1, 0.2, 0.4, 0.8, 30.0]
    """
    try:
        factor = float(config.exponential_base) ** n
    except OverflowError:
        factor = sys.float_info.max
    delay_ms = min(config.base_delay_ms * factor, config.max_delay_ms)
    if config.jitter:
        delay_ms *= uniform(0.5, 1.5)
    return delay_ms / 1000


class RetryStrategy:
    """Calls a function until it succeeds or its retries are used up."""

    def __init__(self, config: RetryConfig | None = None) -> None:
        self.config = config or RetryConfig()

    def calculate_delay(self, attempt: int) -> float:
        """Seconds to wait after call number `attempt`, counted from 0."""
        return delay_s(self.config, attempt)

    def execute_with_retry(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the first call that succeeds returns; an async function gives it when awaited.

        Raises what the last call raised. An open circuit is not called again, and does not hide
        the error of the call before.
        """
        call = partial(fn, *args, **kwargs)
        if inspect.iscoroutinefunction(fn):
            return cast(T, self._awaited(call))
        return self._called(call)

    def _called(self, call: Callable[[], T]) -> T:
        errors: list[Exception] = []
        while not self._is_over(errors):
            if errors:
                time.sleep(self.calculate_delay(len(errors) - 1))
            try:
                return call()
            except Exception as error:
                errors.append(error)
        raise verdict(errors)

    async def _awaited(self, call: Callable[[], Any]) -> Any:
        errors: list[Exception] = []
        while not self._is_over(errors):
            if errors:
                await asyncio.sleep(self.calculate_delay(len(errors) - 1))
            try:
                return await call()
            except Exception as error:
                errors.append(error)
        raise verdict(errors)

    def _is_over(self, errors: Sequence[Exception]) -> bool:
        if errors and isinstance(errors[-1], CircuitBreakerOpen):
            return True
        return len(errors) > self.config.max_retries


def verdict(errors: Sequence[Exception]) -> Exception:
    """The last error, or the one before where that only says that the circuit has opened."""
    real = [error for error in errors if not isinstance(error, CircuitBreakerOpen)]
    return (real or errors)[-1]
