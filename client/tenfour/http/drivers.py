"""Drivers: they take the steps that an operation yields. This one blocks; `async_driver` awaits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from tenfour.http.exchange import Answer, NoAnswer, Request, Steps, Wait, Work

if TYPE_CHECKING:
    import httpx2

    from tenfour.settings import Settings

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
# How long the end of a block waits for what runs in the background.
PATIENCE_S = 5.0


class Exhausted(Exception):
    """Raised by the step that would produce the next item of an iteration that has ended."""


class Driver:
    """Blocks the thread for each step."""

    def __init__(self, settings: Settings, timeout: float) -> None:
        self._settings = settings
        self._timeout = timeout
        self._http: httpx2.Client | None = None
        self._opening = Lock()

    def run(self, steps: Steps[T], sleep: Callable[[float], None] | None = None) -> T:
        """Take all steps of an operation and return its result."""
        advance, reply = steps.send, None
        while True:
            try:
                step = advance(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                advance, reply = steps.send, self._take(step, sleep or time.sleep)
            except BaseException as error:
                advance, reply = steps.throw, error

    def iterate(self, step: Callable[[], Steps[T]]) -> Iterator[T]:
        """Yield the result of each step until one raises Exhausted."""
        while True:
            try:
                item = self.run(step())
            except Exhausted:
                return
            yield item

    @contextmanager
    def background(self, steps: Steps[None]) -> Iterator[None]:
        """Take the steps in a thread until this block ends."""
        ended = Event()

        def sleep(seconds: float) -> None:
            if ended.wait(seconds):
                raise Exhausted

        def work() -> None:
            with suppress(Exhausted):
                self.run(steps, sleep)

        thread = Thread(target=work, name="tenfour-background", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            # Not longer: a heartbeat without a response must not delay the report.
            thread.join(PATIENCE_S)

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        with self._opening:
            http, self._http = self._http, None
        if http is not None:
            http.close()

    def _take(self, step: Request | Wait | Work, sleep: Callable[[float], None]) -> Any:
        if isinstance(step, Request):
            return self._exchange(step)
        if isinstance(step, Wait):
            return sleep(step.seconds)
        return step.run(lambda: False)

    def _exchange(self, request: Request) -> Answer | NoAnswer:
        import httpx2

        try:
            return answer_of(self._connection().request(**request_arguments(request)))
        except httpx2.TransportError as error:
            return no_answer_of(error)

    def _connection(self) -> httpx2.Client:
        import httpx2

        with self._opening:
            if self._http is None:
                self._http = httpx2.Client(**connection_options(self._settings, self._timeout))
            return self._http


def connection_options(settings: Settings, timeout: float) -> dict[str, Any]:
    import httpx2

    return {
        "timeout": httpx2.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT_S)),
        # A proxy from the environment must not be used for this machine.
        "trust_env": not settings.is_local,
    }


def request_arguments(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.url,
        "headers": dict(request.headers),
        "content": request.content,
    }


def answer_of(response: httpx2.Response) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, response.content)


def no_answer_of(error: httpx2.TransportError) -> NoAnswer:
    import httpx2

    unsent = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
    reason = "it timed out" if isinstance(error, httpx2.TimeoutException) else str(error)
    return NoAnswer(reason or type(error).__name__, connected=not unsent)
