"""The sync and async clients over one core: they send and wait; the core decides."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tenfour import calls, settings
from tenfour.attempts import AsyncLiveAttempt, LiveAttempt
from tenfour.core import Call, steps
from tenfour.exchange import Answer, NoAnswer, Request, Wait
from tenfour.groups import (
    Agents,
    AsyncAgents,
    AsyncInstructions,
    AsyncPlans,
    AsyncTasks,
    Instructions,
    Plans,
    Tasks,
)
from tenfour.models import Claimed
from tenfour.resend import RETRIES
from tenfour.verbs import AsyncPerforms, AsyncVerb, Performs, Verb

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
SHORTEST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0


class Client(Performs):
    """Calls Tenfour. Reads TENFOUR_URL and TENFOUR_TOKEN (or TENFOUR_TOKEN_FILE) by default."""

    me = Verb(calls.me)
    signal = Verb(calls.signal)
    stats = Verb(calls.stats)
    document = Verb(calls.document)

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        retries: int = RETRIES,
    ) -> None:
        self.settings = settings.read(url, token)
        self.timeout = timeout
        self.retries = retries
        self.instructions = Instructions(self)
        self.tasks = Tasks(self)
        self.plans = Plans(self)
        self.agents = Agents(self)
        self._http: httpx2.Client | None = None
        self._opening = Lock()

    def perform(self, call: Call[T]) -> T:
        """Perform one call, retried where that is safe; raises TenfourError or ServerAway."""
        script = steps(call, settings=self.settings, retries=self.retries, rand=random.random)
        reply: Answer | NoAnswer | None = None
        while True:
            try:
                step = script.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Wait):
                time.sleep(step.seconds)
                reply = None
            else:
                reply = self._exchange(step)

    def attempts(
        self,
        *,
        agent: str | None = None,
        worker_id: str | None = None,
        lease_s: int | None = None,
        wait: bool = False,
    ) -> Iterator[LiveAttempt]:
        """Claim task after task until none is waiting; with `wait`, keep asking.

        End each attempt, best with `with`, before you ask for the next one. With `agent`, raises
        NotConfigured if the token belongs to another agent.
        """
        if agent is not None:
            settings.check_agent(self.me(), agent)
        while True:
            claimed = self.tasks.claim(worker_id=worker_id, lease_s=lease_s)
            for claim in claimed:
                yield LiveAttempt(self, claim)
            if not claimed:
                if not wait:
                    return
                time.sleep(_pause(claimed))

    def _exchange(self, request: Request) -> Answer | NoAnswer:
        import httpx2

        try:
            return _answer(self._connection().request(**_httpx_arguments(request)))
        except httpx2.TransportError as error:
            return _no_answer(error)

    def _connection(self) -> httpx2.Client:
        import httpx2

        with self._opening:
            if self._http is None:
                self._http = httpx2.Client(**_options(self.settings, self.timeout))
            return self._http

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._opening:
            http, self._http = self._http, None
        if http is not None:
            http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient(AsyncPerforms):
    """Like `Client`, for asyncio."""

    me = AsyncVerb(calls.me)
    signal = AsyncVerb(calls.signal)
    stats = AsyncVerb(calls.stats)
    document = AsyncVerb(calls.document)

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        retries: int = RETRIES,
    ) -> None:
        self.settings = settings.read(url, token)
        self.timeout = timeout
        self.retries = retries
        self.instructions = AsyncInstructions(self)
        self.tasks = AsyncTasks(self)
        self.plans = AsyncPlans(self)
        self.agents = AsyncAgents(self)
        self._http: httpx2.AsyncClient | None = None

    async def perform(self, call: Call[T]) -> T:
        """Perform one call, retried where that is safe; raises TenfourError or ServerAway."""
        script = steps(call, settings=self.settings, retries=self.retries, rand=random.random)
        reply: Answer | NoAnswer | None = None
        while True:
            try:
                step = script.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Wait):
                await asyncio.sleep(step.seconds)
                reply = None
            else:
                reply = await self._exchange(step)

    async def attempts(
        self,
        *,
        agent: str | None = None,
        worker_id: str | None = None,
        lease_s: int | None = None,
        wait: bool = False,
    ) -> AsyncIterator[AsyncLiveAttempt]:
        """Like `Client.attempts`, for `async for` and `async with`."""
        if agent is not None:
            settings.check_agent(await self.me(), agent)
        while True:
            claimed = await self.tasks.claim(worker_id=worker_id, lease_s=lease_s)
            for claim in claimed:
                yield AsyncLiveAttempt(self, claim)
            if not claimed:
                if not wait:
                    return
                await asyncio.sleep(_pause(claimed))

    async def _exchange(self, request: Request) -> Answer | NoAnswer:
        import httpx2

        try:
            return _answer(await self._connection().request(**_httpx_arguments(request)))
        except httpx2.TransportError as error:
            return _no_answer(error)

    def _connection(self) -> httpx2.AsyncClient:
        import httpx2

        if self._http is None:
            self._http = httpx2.AsyncClient(**_options(self.settings, self.timeout))
        return self._http

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def _pause(claimed: Claimed) -> float:
    # Never at once after an empty response, whatever it says: that would spin.
    return min(max(claimed.retry_after_s, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)


def _options(tenfour: settings.Settings, timeout: float) -> dict[str, Any]:
    import httpx2

    return {
        "timeout": httpx2.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT_S)),
        # A proxy from the environment must not be used for this machine.
        "trust_env": not tenfour.is_local,
    }


def _httpx_arguments(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.url,
        "headers": dict(request.headers),
        "content": request.content,
    }


def _answer(response: httpx2.Response) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, response.content)


def _no_answer(error: httpx2.TransportError) -> NoAnswer:
    import httpx2

    unsent = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
    reason = "it timed out" if isinstance(error, httpx2.TimeoutException) else str(error)
    return NoAnswer(reason or type(error).__name__, connected=not unsent)
