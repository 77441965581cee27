"""Claim task after task: the iteration over an agent's attempts, and its end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenfour import settings, tasks
from tenfour.api import calls
from tenfour.attempts.live_attempts import AsyncLiveAttempt, Live, LiveAttempt
from tenfour.http.async_driver import AsyncDriver
from tenfour.http.core import Core
from tenfour.http.drivers import Driver, Exhausted
from tenfour.http.exchange import Steps, Wait
from tenfour.http.problems import TenfourError
from tenfour.http.verbs import D, Driven
from tenfour.log import log
from tenfour.models import Claim, Claimed

if TYPE_CHECKING:
    from typing_extensions import Self


SHORTEST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
# Between tries while the server is down.
AWAY_PAUSE_S = 5.0
WHY = {
    "no_task": "No task is waiting",
    "breaker_open": "The agent's circuit breaker is open",
    "agent_paused": "The agent is paused",
    "agent_waits": "The agent waits for a limit of its account to reset",
    "budget_used": "The task's budget is used up",
    "plan_paused": "The plan is paused",
    "type_paused": "The type of the waiting tasks is paused",
    "concurrency_limit": "The agent is at its concurrency limit",
    "server_away": "Tenfour cannot be reached",
}


@dataclass(frozen=True)
class NoWork:
    """Why there is no attempt: `reason` for a program, `message` for a person."""

    reason: str
    message: str
    retry_after_s: float = 0

    @classmethod
    def of(cls, claimed: Claimed) -> Self:
        reason = claimed.reason or "no_task"
        return cls(reason, why_nothing(reason), claimed.retry_after_s)

    def __str__(self) -> str:
        return self.message


class AttemptIterator(Driven[D]):
    """The attempts of an agent, one after the other.

    `ended` says what ended the iteration, `waiting` what it waits for; each is logged once.
    """

    def __init__(
        self, driver: D, core: Core, *, agent: str | None, wait: bool, **claim: Any
    ) -> None:
        super().__init__(driver, core)
        self._agent = agent
        self._wait = wait
        self._claim = claim
        self._last: Live[D] | None = None
        # When the last of the tasks that failed here may be retried.
        self._retry_at: float | None = None
        self.ended: NoWork | None = None
        self.waiting: NoWork | None = None

    def _advance(self) -> Steps[Live[D]]:
        """Return the next attempt; raises Exhausted when there is none."""
        if self.ended:
            raise Exhausted
        yield from self._check_agent()
        self._look_back()
        while True:
            claimed, pause = yield from self._claim_or_wait()
            for claim in claimed:
                self.waiting = None
                self._last = self._live(claim)
                return self._last
            if pause is None:
                raise Exhausted
            yield Wait(pause)

    def _live(self, claim: Claim) -> Live[D]:
        raise NotImplementedError

    def _check_agent(self) -> Steps[None]:
        if self._agent is not None:
            settings.check_agent((yield from self._core.perform(calls.me())), self._agent)
            self._agent = None

    def _look_back(self) -> None:
        decision = self._last.decision if self._last else None
        if decision is None or decision.decision != "wait":
            return
        if decision.delay_s <= LONGEST_PAUSE_S:
            self._retry_at = max(self._retry_at or 0, time.monotonic() + decision.delay_s)

    def _claim_or_wait(self) -> Steps[tuple[Claimed, float | None]]:
        """Return the claim, else the seconds to wait, or None at the end."""
        try:
            claimed = yield from self._core.perform(tasks.claim(**self._claim))
        except TenfourError as error:
            if not self._wait or not error.retryable:
                raise
            self._note(NoWork(error.code, error.sentence, error.retry_after_s or AWAY_PAUSE_S))
            return Claimed(), min(error.retry_after_s or AWAY_PAUSE_S, LONGEST_PAUSE_S)
        if claimed:
            return claimed, None
        found = NoWork.of(claimed)
        if self._wait:
            self._note(found)
            return claimed, pause_after(claimed)
        if (retry_at := self._retry_at) is not None and found.reason == "no_task":
            # A task that failed here is due soon: once more after that, then it is the end.
            left = retry_at - time.monotonic()
            self._retry_at = None if left <= 0 else retry_at
            return claimed, min(max(left, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
        self.ended = found
        self._log("No more attempts: %s", found)
        return claimed, None

    def _note(self, found: NoWork) -> None:
        if self.waiting is None or self.waiting.reason != found.reason:
            self._log("Waiting for a task: %s", found)
        self.waiting = found

    def _log(self, message: str, found: NoWork) -> None:
        # An empty queue is the usual end; anything else may need a person.
        write = log.info if found.reason == "no_task" else log.warning
        write(message, found)


class Attempts(AttemptIterator[Driver]):
    """The attempts of an agent, for `for`."""

    def _live(self, claim: Claim) -> LiveAttempt:
        return LiveAttempt(self._driver, self._core, claim)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LiveAttempt:
        try:
            live = self._driver.run(self._advance())
        except Exhausted:
            raise StopIteration from None
        assert isinstance(live, LiveAttempt)
        return live


class AsyncAttempts(AttemptIterator[AsyncDriver]):
    """The attempts of an agent, for `async for`."""

    def _live(self, claim: Claim) -> AsyncLiveAttempt:
        return AsyncLiveAttempt(self._driver, self._core, claim)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncLiveAttempt:
        try:
            live = await self._driver.run(self._advance())
        except Exhausted:
            raise StopAsyncIteration from None
        assert isinstance(live, AsyncLiveAttempt)
        return live


def pause_after(claimed: Claimed) -> float:
    # Never at once after an empty response, whatever it says: that would spin.
    return min(max(claimed.retry_after_s, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)


def why_nothing(reason: str | None) -> str:
    """Return the sentence for an empty claim's reason, without the period."""
    return WHY.get(reason or "", f"No task ({reason})")
