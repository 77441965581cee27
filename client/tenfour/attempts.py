"""A live attempt: renewed while it is worked on, and reported at its end; sync and async."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from tenfour import tasks, verification
from tenfour.core import Call
from tenfour.models import Claim, Decision, Heartbeat, Task
from tenfour.problems import TenfourError
from tenfour.verbs import AsyncPerforms, Performs
from tenfour.verification import Check, Verified

logger = logging.getLogger("tenfour")

# Between heartbeats, where the server does not say.
EVERY_S = 60.0
PATIENCE_S = 5.0
DETAILS_LENGTH = 8000
# Why a report is refused that comes too late to count.
OVER = {"lease_lost", "attempt_already_reported"}


class _Live:
    """What both kinds know of their attempt; they send, this decides what."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.task = claim.task
        self.id = claim.attempt.id
        self.number = claim.attempt.number
        self.payload = claim.task.payload
        # What the model reads: what went wrong before (empty on the first attempt), and the task.
        self.prompt = claim.prompt
        self.retry_context = claim.retry_context
        # What a clean end reports.
        self.result: Any = None
        self.decision: Decision | None = None
        self.abort_requested = False
        self.is_lost = False
        self._is_over = False
        self._verified: dict[str, Verified] = {}

    @property
    def should_stop(self) -> bool:
        """Whether to leave off: the task was aborted, or somebody else has it by now."""
        return self.abort_requested or self.is_lost

    @property
    def every_s(self) -> float:
        """The seconds from one heartbeat to the next."""
        return self.claim.attempt.heartbeat_every_s or EVERY_S

    def _heard(self, beat: Heartbeat) -> Heartbeat:
        self.abort_requested = self.abort_requested or beat.abort_requested
        return beat

    def _missed(self, error: TenfourError) -> None:
        """Notes a heartbeat that failed; one that a later one may make good is only logged."""
        self.is_lost = self.is_lost or error.code in OVER or error.status == 404
        logger.warning("Heartbeat of attempt %s: %s", self.id, error)

    def _decided(self, decision: Decision) -> Decision:
        self.decision, self._is_over = decision, True
        return decision

    def _checked(
        self, check: Check, *, should_stop: Callable[[], bool], is_shown: bool = False
    ) -> Verified:
        """Runs a check; how the same command ended before does not count any more."""
        found = verification.run(check, should_stop=should_stop, is_shown=is_shown)
        self._verified.pop(check.command, None)
        self._verified[check.command] = found
        return found

    def _succeeded(self, result: Any, *, summary: str | None = None) -> Call[Decision]:
        """Success, as far as its checks let it be."""
        found = verification.standing(self._verified)
        failure = found.failure if found else None
        return tasks.report(
            self.id,
            "failure" if failure else "success",
            result=result,
            summary=summary,
            failure=failure,
            verification=found.told if found else None,
        )

    def _failed(self, failure: Mapping[str, Any]) -> Call[Decision]:
        found = verification.standing(self._verified)
        told = found.told if found else None
        return tasks.report(self.id, "failure", failure=failure, verification=told)

    def _last_words(self, error: BaseException | None) -> Call[Any] | None:
        """The call that ends it, where nothing has ended it yet."""
        if self._is_over:
            return None
        if error is None:
            return self._succeeded(self.result)
        if isinstance(error, Exception):
            logger.warning("Attempt %s failed", self.id, exc_info=error)
            return self._failed(_failure_of(error))
        interrupted = isinstance(error, KeyboardInterrupt)
        return tasks.release(self.id, reason="user_interrupt" if interrupted else "shutdown")

    def _too_late(self, refused: TenfourError) -> None:
        """Logs that the end came too late; raises anything else."""
        if refused.code not in OVER:
            raise refused
        logger.warning("Attempt %s was over before it ended here: %s", self.id, refused)


class LiveAttempt(_Live):
    """An attempt in a `with`: a clean end reports success, an exception a failure, and goes no
    further; an interrupt gives the task back."""

    def __init__(self, client: Performs, claim: Claim) -> None:
        super().__init__(claim)
        self._client = client
        self._with = contextlib.ExitStack()

    def heartbeat(
        self,
        message: str | None = None,
        percent: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Heartbeat:
        """Says how far it is; that it goes on is said without."""
        call = tasks.heartbeat(self.id, message=message, percent=percent, details=details)
        return self._heard(self._client.perform(call))

    def verify(
        self,
        command: str | None = None,
        *,
        cwd: str | None = None,
        timeout_s: float | None = None,
        is_shown: bool = False,
    ) -> Verified:
        """Runs a command of the shell here, by default the task's own, and keeps how it ended.

        What it prints is shown here only where that is asked for.

        Whatever ends the attempt reports it, and the server judges its exit code: a clean end is
        no success where it failed. Of several the first that failed is reported, each as it ended
        last.
        """
        check = verification.asked(self.payload, command, cwd=cwd, timeout_s=timeout_s)
        return self._checked(check, should_stop=lambda: self.should_stop, is_shown=is_shown)

    def done(self, result: Any = None, *, summary: str | None = None) -> Decision:
        """Reports success."""
        return self._decided(self._client.perform(self._succeeded(result, summary=summary)))

    def failed(self, message: str, *, type: str = "execution_error", **failure: Any) -> Decision:
        """Reports a failure: code, details, suggested_fix, non_retryable …"""
        said = {"type": type, "message": message, **failure}
        return self._decided(self._client.perform(self._failed(said)))

    def exited(self, code: int, output: str = "") -> Decision:
        """Reports how a command ended."""
        return self._decided(self._client.perform(tasks.exit(self.id, code, output)))

    def release(self, reason: tasks.Reason = "shutdown", note: str | None = None) -> Task:
        """Gives the task back; the attempt does not count."""
        task = self._client.perform(tasks.release(self.id, reason=reason, note=note))
        self._is_over = True
        return task

    @contextlib.contextmanager
    def renewed(self) -> Iterator[Self]:
        """Heartbeats in a thread as long as this lasts; reports nothing."""
        ended = Event()
        thread = Thread(target=self._beat, args=(ended,), name="tenfour-heartbeat", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            # No longer: a heartbeat that gets no answer must not hold up the report.
            thread.join(PATIENCE_S)

    def _beat(self, ended: Event) -> None:
        while not ended.wait(self.every_s) and not self.is_lost:
            try:
                self.heartbeat()
            except TenfourError as error:
                self._missed(error)

    def __enter__(self) -> Self:
        self._with.enter_context(self.renewed())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._with.close()
        call = self._last_words(error)
        try:
            ended = self._client.perform(call) if call else None
        except TenfourError as refused:
            self._too_late(refused)
        else:
            if isinstance(ended, Decision):
                self._decided(ended)
        return isinstance(error, Exception)


class AsyncLiveAttempt(_Live):
    """As `LiveAttempt`, for `async with`."""

    def __init__(self, client: AsyncPerforms, claim: Claim) -> None:
        super().__init__(claim)
        self._client = client
        self._with = contextlib.AsyncExitStack()

    async def heartbeat(
        self,
        message: str | None = None,
        percent: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Heartbeat:
        """Says how far it is; that it goes on is said without."""
        call = tasks.heartbeat(self.id, message=message, percent=percent, details=details)
        return self._heard(await self._client.perform(call))

    async def verify(
        self,
        command: str | None = None,
        *,
        cwd: str | None = None,
        timeout_s: float | None = None,
    ) -> Verified:
        """Runs a command of the shell here, by default the task's own, and keeps how it ended.

        Whatever ends the attempt reports it, and the server judges its exit code: a clean end is
        no success where it failed. Of several the first that failed is reported, each as it ended
        last.
        """
        check = verification.asked(self.payload, command, cwd=cwd, timeout_s=timeout_s)
        left = Event()

        def should_stop() -> bool:
            return self.should_stop or left.is_set()

        try:
            return await asyncio.to_thread(self._checked, check, should_stop=should_stop)
        finally:
            left.set()

    async def done(self, result: Any = None, *, summary: str | None = None) -> Decision:
        """Reports success."""
        call = self._succeeded(result, summary=summary)
        return self._decided(await self._client.perform(call))

    async def failed(
        self, message: str, *, type: str = "execution_error", **failure: Any
    ) -> Decision:
        """Reports a failure: code, details, suggested_fix, non_retryable …"""
        said = {"type": type, "message": message, **failure}
        return self._decided(await self._client.perform(self._failed(said)))

    async def exited(self, code: int, output: str = "") -> Decision:
        """Reports how a command ended."""
        return self._decided(await self._client.perform(tasks.exit(self.id, code, output)))

    async def release(self, reason: tasks.Reason = "shutdown", note: str | None = None) -> Task:
        """Gives the task back; the attempt does not count."""
        task = await self._client.perform(tasks.release(self.id, reason=reason, note=note))
        self._is_over = True
        return task

    @contextlib.asynccontextmanager
    async def renewed(self) -> AsyncIterator[Self]:
        """Heartbeats in a task of the loop as long as this lasts; reports nothing."""
        beating = asyncio.create_task(self._beat())
        try:
            yield self
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating

    async def _beat(self) -> None:
        while not self.is_lost:
            await asyncio.sleep(self.every_s)
            try:
                await self.heartbeat()
            except TenfourError as error:
                self._missed(error)

    async def __aenter__(self) -> Self:
        await self._with.enter_async_context(self.renewed())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        await self._with.aclose()
        call = self._last_words(error)
        try:
            ended = await self._client.perform(call) if call else None
        except TenfourError as refused:
            self._too_late(refused)
        else:
            if isinstance(ended, Decision):
                self._decided(ended)
        return isinstance(error, Exception)


def _failure_of(error: Exception) -> dict[str, Any]:
    told = "".join(traceback.format_exception(error))
    return {
        "type": "execution_error",
        "message": f"{type(error).__name__}: {error}"[:DETAILS_LENGTH],
        "details": told[-DETAILS_LENGTH:],
    }
