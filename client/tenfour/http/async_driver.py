"""The driver for asyncio: it awaits each step that an operation yields.

asyncio itself is imported where it is used: most programs block, and it takes long to import.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tenfour.http.drivers import (
    Exhausted,
    answer_of,
    connection_options,
    no_answer_of,
    request_arguments,
)
from tenfour.http.exchange import Answer, NoAnswer, Request, Steps, Wait, Work

if TYPE_CHECKING:
    import httpx2

    from tenfour.settings import Settings

T = TypeVar("T")


class AsyncDriver:
    """Awaits each step."""

    def __init__(self, settings: Settings, timeout: float) -> None:
        self._settings = settings
        self._timeout = timeout
        self._http: httpx2.AsyncClient | None = None

    async def run(self, steps: Steps[T]) -> T:
        """Take all steps of an operation and return its result."""
        advance, reply = steps.send, None
        while True:
            try:
                step = advance(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                advance, reply = steps.send, await self._take(step)
            except BaseException as error:
                advance, reply = steps.throw, error

    async def iterate(self, step: Callable[[], Steps[T]]) -> AsyncIterator[T]:
        """Yield the result of each step until one raises Exhausted."""
        while True:
            try:
                item = await self.run(step())
            except Exhausted:
                return
            yield item

    @asynccontextmanager
    async def background(self, steps: Steps[None]) -> AsyncIterator[None]:
        """Take the steps in a task of the event loop until this block ends."""
        import asyncio

        task = asyncio.create_task(self.run(steps))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def _take(self, step: Request | Wait | Work) -> Any:
        if isinstance(step, Request):
            return await self._exchange(step)
        if isinstance(step, Wait):
            import asyncio

            return await asyncio.sleep(step.seconds)
        return await _run_in_thread(step)

    async def _exchange(self, request: Request) -> Answer | NoAnswer:
        import httpx2

        try:
            return answer_of(await self._connection().request(**request_arguments(request)))
        except httpx2.TransportError as error:
            return no_answer_of(error)

    def _connection(self) -> httpx2.AsyncClient:
        import httpx2

        if self._http is None:
            self._http = httpx2.AsyncClient(**connection_options(self._settings, self._timeout))
        return self._http


async def _run_in_thread(work: Work) -> Any:
    import asyncio
    from threading import Event

    is_unwanted = Event()
    try:
        return await asyncio.to_thread(work.run, is_unwanted.is_set)
    finally:
        is_unwanted.set()
