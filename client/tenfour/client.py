"""The two clients: `Client` blocks, `AsyncClient` is awaited; both drive the same operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tenfour import settings
from tenfour.api import calls
from tenfour.api.groups import (
    Agents,
    Budgets,
    Channels,
    DeadLetters,
    EscalationPolicies,
    Escalations,
    Events,
    Instructions,
    Markers,
    Operations,
    Patterns,
    Plans,
    Policies,
    Pools,
    Rotas,
    Sessions,
    StandingInstructions,
    Targets,
    Tasks,
    Tokens,
    Webhooks,
)
from tenfour.attempts.claiming import AsyncAttempts, Attempts
from tenfour.attempts.live_attempts import AsyncLiveAttempt, LiveAttempt
from tenfour.http.async_driver import AsyncDriver
from tenfour.http.core import Call, Core
from tenfour.http.drivers import Driver
from tenfour.http.resend import RETRIES
from tenfour.http.verbs import D, Driven, Verb

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from tenfour.attempts.task_functions import Options
    from tenfour.models import Claim

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_S = 30.0


class Nouns(Driven[D]):
    """The methods of both clients that depend on no driver."""

    me = Verb(calls.me)
    signal = Verb(calls.signal)
    stats = Verb(calls.stats)
    document = Verb(calls.document)

    def __init__(self, driver: D, core: Core) -> None:
        super().__init__(driver, core)
        self.settings = core.settings
        self.instructions: Instructions[D] = Instructions(driver, core)
        self.tasks: Tasks[D] = Tasks(driver, core)
        self.plans: Plans[D] = Plans(driver, core)
        self.agents: Agents[D] = Agents(driver, core)
        self.pools: Pools[D] = Pools(driver, core)
        self.escalations: Escalations[D] = Escalations(driver, core)
        self.dead_letters: DeadLetters[D] = DeadLetters(driver, core)
        self.patterns: Patterns[D] = Patterns(driver, core)
        self.tokens: Tokens[D] = Tokens(driver, core)
        self.events: Events[D] = Events(driver, core)
        self.markers: Markers[D] = Markers(driver, core)
        self.standing_instructions: StandingInstructions[D] = StandingInstructions(driver, core)
        self.sessions: Sessions[D] = Sessions(driver, core)
        self.operations: Operations[D] = Operations(driver, core)
        self.policies: Policies[D] = Policies(driver, core)
        self.escalation_policies: EscalationPolicies[D] = EscalationPolicies(driver, core)
        self.rotas: Rotas[D] = Rotas(driver, core)
        self.budgets: Budgets[D] = Budgets(driver, core)
        self.targets: Targets[D] = Targets(driver, core)
        self.channels: Channels[D] = Channels(driver, core)
        self.webhooks: Webhooks[D] = Webhooks(driver, core)


class Client(Nouns[Driver]):
    """Calls Tenfour. Reads TENFOUR_URL and TENFOUR_TOKEN (or TENFOUR_TOKEN_FILE) by default."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        retries: int = RETRIES,
    ) -> None:
        core = Core(settings.read(url, token), retries)
        super().__init__(Driver(core.settings, timeout), core)

    def perform(self, call: Call[T]) -> T:
        """Perform one call, retried where that is safe; raises TenfourError or ServerAway."""
        return self._driver.run(self._core.perform(call))

    def attempts(
        self,
        *,
        agent: str | None = None,
        worker_id: str | None = None,
        lease_s: int | None = None,
        wait: bool = False,
    ) -> Attempts:
        """Claim task after task until none is waiting; with `wait`, keep asking.

        End each attempt, best with `with`, before you ask for the next one. With `agent`, raises
        NotConfigured if the token belongs to another agent. What ends the iteration is in `ended`.
        """
        claim: dict[str, Any] = {"worker_id": worker_id, "lease_s": lease_s}
        return Attempts(self._driver, self._core, agent=agent, wait=wait, **claim)

    def attempt(self, claim: Claim) -> LiveAttempt:
        """Return the live attempt of a claim."""
        return LiveAttempt(self._driver, self._core, claim)

    def task(self, **options: Unpack[Options]) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """Make each call of a function a task of this token's agent: attempted, verified, retried.

        The call returns what the successful attempt returned, or raises TaskFailed. A parameter
        named `attempt` is given the live attempt. Options: verify, wait (for a person's answer),
        type, title, priority, max_attempts, on_exhausted, backoff, lease_s, timeout_s, idempotent.
        """
        from tenfour.attempts.task_functions import make_task

        return lambda function: make_task(self, function, options)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient(Nouns[AsyncDriver]):
    """Like `Client`, for asyncio."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        retries: int = RETRIES,
    ) -> None:
        core = Core(settings.read(url, token), retries)
        super().__init__(AsyncDriver(core.settings, timeout), core)

    async def perform(self, call: Call[T]) -> T:
        """Perform one call, retried where that is safe; raises TenfourError or ServerAway."""
        return await self._driver.run(self._core.perform(call))

    def attempts(
        self,
        *,
        agent: str | None = None,
        worker_id: str | None = None,
        lease_s: int | None = None,
        wait: bool = False,
    ) -> AsyncAttempts:
        """Like `Client.attempts`, for `async for` and `async with`."""
        claim: dict[str, Any] = {"worker_id": worker_id, "lease_s": lease_s}
        return AsyncAttempts(self._driver, self._core, agent=agent, wait=wait, **claim)

    def attempt(self, claim: Claim) -> AsyncLiveAttempt:
        """Return the live attempt of a claim."""
        return AsyncLiveAttempt(self._driver, self._core, claim)

    def task(
        self, **options: Unpack[Options]
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
        """Like `Client.task`, for coroutine functions."""
        from tenfour.attempts.task_functions import make_async_task

        return lambda function: make_async_task(self, function, options)

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        await self._driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
