"""The two clients, sync and async, over one core: they send, wait, and decide nothing."""

from __future__ import annotations

import asyncio
import random
import time
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from heed import calls, settings
from heed.core import Call, steps
from heed.exchange import Answer, NoAnswer, Request, Wait
from heed.models import Acked, Instruction
from heed.resend import RETRIES
from heed.verbs import AsyncListing, AsyncPerforms, AsyncVerb, Listing, Performs, Verb

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
Ids = list[str] | tuple[str, ...]

TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0


class _Group(Performs):
    def __init__(self, client: Performs) -> None:
        self._client = client

    def perform(self, call: Call[T]) -> T:
        return self._client.perform(call)


class _AsyncGroup(AsyncPerforms):
    def __init__(self, client: AsyncPerforms) -> None:
        self._client = client

    async def perform(self, call: Call[T]) -> T:
        return await self._client.perform(call)


class Agents(_Group):
    list = Listing(calls.agents)


class AsyncAgents(_AsyncGroup):
    list = AsyncListing(calls.agents)


class Instructions(_Group):
    send = Verb(calls.send)
    pull = Verb(calls.pull)
    get = Verb(calls.get)
    cancel = Verb(calls.cancel)
    list = Listing(calls.instructions)

    @overload
    def ack(
        self, ids: str, *, outcome: calls.Outcome | None = ..., note: str | None = ...
    ) -> Instruction: ...

    @overload
    def ack(self, ids: Ids) -> tuple[Acked, ...]: ...

    def ack(
        self, ids: str | Ids, *, outcome: calls.Outcome | None = None, note: str | None = None
    ) -> Instruction | tuple[Acked, ...]:
        """Acknowledges one instruction, or a list of them with a result for each."""
        if isinstance(ids, str):
            return self.perform(calls.ack(ids, outcome=outcome, note=note))
        _refuse_words_on_a_list(outcome, note)
        return tuple(acked for call in calls.acks(ids) for acked in self.perform(call))


class AsyncInstructions(_AsyncGroup):
    send = AsyncVerb(calls.send)
    pull = AsyncVerb(calls.pull)
    get = AsyncVerb(calls.get)
    cancel = AsyncVerb(calls.cancel)
    list = AsyncListing(calls.instructions)

    @overload
    async def ack(
        self, ids: str, *, outcome: calls.Outcome | None = ..., note: str | None = ...
    ) -> Instruction: ...

    @overload
    async def ack(self, ids: Ids) -> tuple[Acked, ...]: ...

    async def ack(
        self, ids: str | Ids, *, outcome: calls.Outcome | None = None, note: str | None = None
    ) -> Instruction | tuple[Acked, ...]:
        """Acknowledges one instruction, or a list of them with a result for each."""
        if isinstance(ids, str):
            return await self.perform(calls.ack(ids, outcome=outcome, note=note))
        _refuse_words_on_a_list(outcome, note)
        return tuple([acked for call in calls.acks(ids) for acked in await self.perform(call)])


class Client(Performs):
    """Speaks to Heed; reads HEED_URL, and HEED_TOKEN or HEED_TOKEN_FILE, where not told."""

    me = Verb(calls.me)
    signal = Verb(calls.signal)
    stats = Verb(calls.stats)

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
        self.agents = Agents(self)
        self._http: httpx2.Client | None = None
        self._opening = Lock()

    def perform(self, call: Call[T]) -> T:
        """Makes one call, again where that is safe; raises HeedError or ServerAway."""
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

    def _exchange(self, request: Request) -> Answer | NoAnswer:
        import httpx2

        try:
            return _answer(self._opened().request(**_as_sent(request)))
        except httpx2.TransportError as error:
            return _no_answer(error)

    def _opened(self) -> httpx2.Client:
        import httpx2

        with self._opening:
            if self._http is None:
                self._http = httpx2.Client(**_options(self.settings, self.timeout))
            return self._http

    def close(self) -> None:
        """Closes the connections; the next call opens new ones."""
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
    """As `Client`, for asyncio."""

    me = AsyncVerb(calls.me)
    signal = AsyncVerb(calls.signal)
    stats = AsyncVerb(calls.stats)

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
        self.agents = AsyncAgents(self)
        self._http: httpx2.AsyncClient | None = None

    async def perform(self, call: Call[T]) -> T:
        """Makes one call, again where that is safe; raises HeedError or ServerAway."""
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

    async def _exchange(self, request: Request) -> Answer | NoAnswer:
        import httpx2

        try:
            return _answer(await self._opened().request(**_as_sent(request)))
        except httpx2.TransportError as error:
            return _no_answer(error)

    def _opened(self) -> httpx2.AsyncClient:
        import httpx2

        if self._http is None:
            self._http = httpx2.AsyncClient(**_options(self.settings, self.timeout))
        return self._http

    async def aclose(self) -> None:
        """Closes the connections; the next call opens new ones."""
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


def _refuse_words_on_a_list(outcome: str | None, note: str | None) -> None:
    if outcome is not None or note is not None:
        raise TypeError("outcome and note belong to one instruction: acknowledge it by itself")


def _options(heed: settings.Settings, timeout: float) -> dict[str, Any]:
    import httpx2

    return {
        "timeout": httpx2.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT_S)),
        # A proxy from the environment must not come between us and our own machine.
        "trust_env": not heed.is_local,
    }


def _as_sent(request: Request) -> dict[str, Any]:
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
    reason = "it took too long" if isinstance(error, httpx2.TimeoutException) else str(error)
    return NoAnswer(reason or type(error).__name__, connected=not unsent)
