"""Coroutines in tests."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from tests.waiting import PATIENCE_S, wait_until

T = TypeVar("T")


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in its own thread: a browser test may keep a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


async def cancel_when_begun(run: Callable[[Callable[..., Any]], Awaitable[Any]]) -> None:
    """Run a function that never ends, and cancel its caller once it has begun."""
    begun = asyncio.Event()

    async def work(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    caller = asyncio.ensure_future(run(work))
    await asyncio.wait_for(begun.wait(), PATIENCE_S)
    caller.cancel()
    await caller


class Caller:
    """Awaits something in a thread's own loop, and can be cancelled from another thread."""

    def __init__(self, start: Callable[[], Awaitable[Any]]) -> None:
        self.start = start
        self.begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    def run(self) -> None:
        asyncio.run(self.call())

    async def call(self) -> None:
        task = asyncio.current_task()
        assert task
        self.begun.set_result((asyncio.get_running_loop(), task))
        await self.start()

    def cancel(self) -> None:
        """Cancel the caller; return when it has been told."""
        loop, task = self.begun.result(PATIENCE_S)
        loop.call_soon_threadsafe(task.cancel)
        wait_until(lambda: task.done() or task.cancelling() > 0)
