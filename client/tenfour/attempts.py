"""A live attempt: sends heartbeats while it runs, and is reported at its end; sync and async."""

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

# Seconds between heartbeats, if the server does not say.
EVERY_S = 60.0
PATIENCE_S = 5.0
DETAILS_LENGTH = 8000
# Codes of a report that came too late to count.
OVER = {"lease_lost", "attempt_already_reported"}


class _Live:
    """State and decisions of both kinds; the subclasses perform the calls."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.task = claim.task
        self.id = claim.attempt.id
        self.number = claim.attempt.number
        self.payload = claim.task.payload
        # The model reads the prompt: what went wrong before (empty at first), then the task.
        self.prompt = claim.prompt
        self.retry_context = claim.retry_context
        # Reported on a clean exit.
        self.result: Any = None
        self.decision: Decision | None = None
        self.abort_requested = False
        self.is_lost = False
        self._is_over = False
        self._verified: dict[str, Verified] = {}

    @property
    def should_stop(self) -> bool:
        """Return whether to stop: the task was aborted, or another worker has it."""
        return self.abort_requested or self.is_lost

    @property
    def every_s(self) -> float:
        """Return the seconds between heartbeats."""
        return self.claim.attempt.heartbeat_every_s or EVERY_S

    def _apply_heartbeat(self, beat: Heartbeat) -> Heartbeat:
        self.abort_requested = self.abort_requested or beat.abort_requested
        return beat

    def _record_missed_heartbeat(self, error: TenfourError) -> None:
        """Log a failed heartbeat; the attempt is lost only if no later heartbeat can succeed."""
        self.is_lost = self.is_lost or error.code in OVER or error.status == 404
        logger.warning("Heartbeat of attempt %s: %s", self.id, error)

    def _store_decision(self, decision: Decision) -> Decision:
        self.decision, self._is_over = decision, True
        return decision

    def _run_check(
        self, check: Check, *, should_stop: Callable[[], bool], is_shown: bool = False
    ) -> Verified:
        """Run a check; an earlier result of the same command no longer counts."""
        found = verification.run(check, should_stop=should_stop, is_shown=is_shown)
        self._verified.pop(check.command, None)
        self._verified[check.command] = found
        return found

    def _success_call(self, result: Any, *, summary: str | None = None) -> Call[Decision]:
        """Return the call that reports success, or failure if a check failed."""
        found = verification.deciding_check(self._verified)
        failure = found.failure if found else None
        return tasks.report(
            self.id,
            "failure" if failure else "success",
            result=result,
            summary=summary,
            failure=failure,
            verification=found.fields if found else None,
        )

    def _failure_call(self, failure: Mapping[str, Any]) -> Call[Decision]:
        found = verification.deciding_check(self._verified)
        checked = found.fields if found else None
        return tasks.report(self.id, "failure", failure=failure, verification=checked)

    def _closing_call(self, error: BaseException | None) -> Call[Any] | None:
        """Return the call that ends the attempt; None if it has ended."""
        if self._is_over:
            return None
        if error is None:
            return self._success_call(self.result)
        if isinstance(error, Exception):
            logger.warning("Attempt %s failed", self.id, exc_info=error)
            return self._failure_call(_failure_of(error))
        interrupted = isinstance(error, KeyboardInterrupt)
        return tasks.release(self.id, reason="user_interrupt" if interrupted else "shutdown")

    def _log_late(self, refused: TenfourError) -> None:
        """Log a report that came too late; raise any other error."""
        if refused.code not in OVER:
            raise refused
        logger.warning("Attempt %s had ended before it was reported: %s", self.id, refused)


class LiveAttempt(_Live):
    """An attempt for `with`: a clean exit reports success; an exception reports a failure and is
    not raised again; an interrupt releases the task."""

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
        """Report progress; the lease is renewed without this call."""
        call = tasks.heartbeat(self.id, message=message, percent=percent, details=details)
        return self._apply_heartbeat(self._client.perform(call))

    def verify(
        self,
        command: str | None = None,
        *,
        cwd: str | None = None,
        timeout_s: float | None = None,
        is_shown: bool = False,
    ) -> Verified:
        """Run a shell command here, by default the task's verify command, and store the result.

        Its output is printed only with `is_shown`.

        Whatever ends the attempt reports it, and the server judges its exit code: a clean exit is
        no success if the check failed. Of several commands, the first that failed is reported,
        each with its last result.
        """
        check = verification.choose_check(self.payload, command, cwd=cwd, timeout_s=timeout_s)
        return self._run_check(check, should_stop=lambda: self.should_stop, is_shown=is_shown)

    def done(self, result: Any = None, *, summary: str | None = None) -> Decision:
        """Report success."""
        return self._store_decision(
            self._client.perform(self._success_call(result, summary=summary))
        )

    def failed(self, message: str, *, type: str = "execution_error", **failure: Any) -> Decision:
        """Report a failure: code, details, suggested_fix, non_retryable …"""
        fields = {"type": type, "message": message, **failure}
        return self._store_decision(self._client.perform(self._failure_call(fields)))

    def exited(self, code: int, output: str = "", *, of: tasks.ExitOf = "command") -> Decision:
        """Report the exit code and output of a command, or of the task's verify command."""
        return self._store_decision(self._client.perform(tasks.exit(self.id, code, output, of=of)))

    def release(self, reason: tasks.Reason = "shutdown", note: str | None = None) -> Task:
        """Release the task; the attempt does not count."""
        task = self._client.perform(tasks.release(self.id, reason=reason, note=note))
        self._is_over = True
        return task

    @contextlib.contextmanager
    def renewed(self) -> Iterator[Self]:
        """Send heartbeats from a thread inside this block; reports nothing."""
        ended = Event()
        thread = Thread(target=self._beat, args=(ended,), name="tenfour-heartbeat", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            # Not longer: a heartbeat without a response must not delay the report.
            thread.join(PATIENCE_S)

    def _beat(self, ended: Event) -> None:
        while not ended.wait(self.every_s) and not self.is_lost:
            try:
                self.heartbeat()
            except TenfourError as error:
                self._record_missed_heartbeat(error)

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
        call = self._closing_call(error)
        try:
            ended = self._client.perform(call) if call else None
        except TenfourError as refused:
            self._log_late(refused)
        else:
            if isinstance(ended, Decision):
                self._store_decision(ended)
        return isinstance(error, Exception)


class AsyncLiveAttempt(_Live):
    """Like `LiveAttempt`, for `async with`."""

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
        """Report progress; the lease is renewed without this call."""
        call = tasks.heartbeat(self.id, message=message, percent=percent, details=details)
        return self._apply_heartbeat(await self._client.perform(call))

    async def verify(
        self,
        command: str | None = None,
        *,
        cwd: str | None = None,
        timeout_s: float | None = None,
    ) -> Verified:
        """Run a shell command here, by default the task's verify command, and store the result.

        Whatever ends the attempt reports it, and the server judges its exit code: a clean exit is
        no success if the check failed. Of several commands, the first that failed is reported,
        each with its last result.
        """
        check = verification.choose_check(self.payload, command, cwd=cwd, timeout_s=timeout_s)
        left = Event()

        def should_stop() -> bool:
            return self.should_stop or left.is_set()

        try:
            return await asyncio.to_thread(self._run_check, check, should_stop=should_stop)
        finally:
            left.set()

    async def done(self, result: Any = None, *, summary: str | None = None) -> Decision:
        """Report success."""
        call = self._success_call(result, summary=summary)
        return self._store_decision(await self._client.perform(call))

    async def failed(
        self, message: str, *, type: str = "execution_error", **failure: Any
    ) -> Decision:
        """Report a failure: code, details, suggested_fix, non_retryable …"""
        fields = {"type": type, "message": message, **failure}
        return self._store_decision(await self._client.perform(self._failure_call(fields)))

    async def exited(
        self, code: int, output: str = "", *, of: tasks.ExitOf = "command"
    ) -> Decision:
        """Report the exit code and output of a command, or of the task's verify command."""
        return self._store_decision(
            await self._client.perform(tasks.exit(self.id, code, output, of=of))
        )

    async def release(self, reason: tasks.Reason = "shutdown", note: str | None = None) -> Task:
        """Release the task; the attempt does not count."""
        task = await self._client.perform(tasks.release(self.id, reason=reason, note=note))
        self._is_over = True
        return task

    @contextlib.asynccontextmanager
    async def renewed(self) -> AsyncIterator[Self]:
        """Send heartbeats from a task of the event loop inside this block; reports nothing."""
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
                self._record_missed_heartbeat(error)

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
        call = self._closing_call(error)
        try:
            ended = await self._client.perform(call) if call else None
        except TenfourError as refused:
            self._log_late(refused)
        else:
            if isinstance(ended, Decision):
                self._store_decision(ended)
        return isinstance(error, Exception)


def _failure_of(error: Exception) -> dict[str, Any]:
    text = "".join(traceback.format_exception(error))
    return {
        "type": "execution_error",
        "message": f"{type(error).__name__}: {error}"[:DETAILS_LENGTH],
        "details": text[-DETAILS_LENGTH:],
    }
