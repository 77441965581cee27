"""A live attempt: sends heartbeats while it runs, and is reported at its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tenfour import tasks
from tenfour.api import calls
from tenfour.api.escalation_calls import get as get_escalation
from tenfour.attempts import permissions
from tenfour.attempts.usage import Usage
from tenfour.http.async_driver import AsyncDriver
from tenfour.http.core import Call, Core
from tenfour.http.drivers import Driver
from tenfour.http.exchange import Steps, Wait, Work
from tenfour.http.problems import Blocked, TenfourError
from tenfour.http.verbs import D, Driven, Operation
from tenfour.log import log
from tenfour.models import Claim, Decision, Escalation, Heartbeat, Instruction, Task
from tenfour.record_models import Permission

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from tenfour.checks.trees import Tree
    from tenfour.checks.verification import Check, Verified

T = TypeVar("T")

# Seconds between heartbeats, if the server does not say.
EVERY_S = 60.0
SHORTEST_S = 0.1
# Seconds between heartbeats with new output.
OUTPUT_EVERY_S = 5.0
# Seconds between looks at a question that a person has not answered.
ASK_EVERY_S = 5.0
DETAILS_LENGTH = 8000
# of one report
MOST_CHECKS = 20
# Codes of a report that came too late to count.
OVER = {"lease_lost", "attempt_already_reported"}
# Answers to a question after which the task continues.
GOES_ON = {"answer", "fix", "retry"}


class Live(Driven[D]):
    """An attempt with either driver; `LiveAttempt` and `AsyncLiveAttempt` are its `with` blocks."""

    def __init__(self, driver: D, core: Core, claim: Claim) -> None:
        super().__init__(driver, core)
        # Reported on a clean exit.
        self.result: Any = None
        # The attempt's tokens and cost so far, for heartbeats and the report: see `Usage`.
        self.usage: Usage | None = None
        self._sent_usage: Usage | None = None
        # Returns what a program has left about them so far.
        self.read_usage: Callable[[], Usage | None] | None = None
        self.decision: Decision | None = None
        self.abort_requested = False
        self.is_lost = False
        # Returns the last lines of what runs: heartbeats bring them to the task's page.
        self.read_output: Callable[[], str] | None = None
        self._sent_output = ""
        # Returns what the program has printed last about its account's limits.
        self.read_limits: Callable[[], Mapping[str, Any] | None] | None = None
        self._sent_limits: Mapping[str, Any] | None = None
        # Instructions wait, as the answer to a heartbeat said.
        self._has_messages = False
        self._is_over = False
        self._verified: dict[str, Verified]
        self._take_over(claim)

    def _take_over(self, claim: Claim) -> None:
        self.claim = claim
        self.task = claim.task
        self.id = claim.attempt.id
        self.number = claim.attempt.number
        self.payload = claim.task.payload
        # The model reads the prompt: what went wrong before (empty at first), then the task.
        self.prompt = claim.prompt
        self.retry_context = claim.retry_context
        self.usage = self._sent_usage = None
        self._verified = {}

    @property
    def should_stop(self) -> bool:
        """Return whether to stop: the task was aborted, or another worker has it."""
        return self.abort_requested or self.is_lost

    @property
    def every_s(self) -> float:
        """Return the seconds between heartbeats."""
        return self.claim.attempt.heartbeat_every_s or EVERY_S

    @Operation
    def heartbeat(
        self,
        message: str | None = None,
        percent: float | None = None,
        details: Mapping[str, Any] | None = None,
        *,
        usage: Usage | None = None,
    ) -> Steps[Heartbeat]:
        """Report progress; the lease is renewed without this call.

        `usage` is what the attempt has used since it began; budgets count it at once.
        """
        self.usage = usage or self.usage
        return (yield from self._heartbeat(message=message, percent=percent, details=details))

    @Operation
    def messages(self) -> Steps[tuple[Instruction, ...]]:
        """Take the instructions that wait for the agent; asks the server only if some wait.

        Heartbeats tell that. Call this between two steps of the work, and acknowledge what was
        followed with `tenfour.instructions.ack(message.id)`.
        """
        if not self._has_messages:
            return ()
        self._has_messages = False
        pulled = yield from self._core.perform(calls.pull(via="heartbeat"))
        self._has_messages = bool(pulled) and not pulled.retry_after_s
        return tuple(pulled)

    @Operation
    def verify(
        self,
        command: str | None = None,
        *,
        cwd: str | None = None,
        timeout_s: float | None = None,
        is_shown: bool = False,
    ) -> Steps[Verified]:
        """Run a shell command here, by default the task's verify command, and store the result.

        Its output is printed only with `is_shown`.

        Whatever ends the attempt reports it, and the server judges its exit code: a clean exit is
        no success if the check failed. Of several commands, the first that failed is reported,
        each with its last result.
        """
        from tenfour.checks import verification

        check = verification.choose_check(self.payload, command, cwd=cwd, timeout_s=timeout_s)

        def run(is_unwanted: Callable[[], bool]) -> Verified:
            return verification.run(
                check, should_stop=lambda: self.should_stop or is_unwanted(), is_shown=is_shown
            )

        return self._keep(check, (yield Work(run)))

    @Operation
    def done(self, result: Any = None, *, summary: str | None = None) -> Steps[Decision]:
        """Report success."""
        return (yield from self._report_success(result, summary=summary))

    @Operation
    def failed(
        self, /, message: str, *, type: str = "execution_error", **failure: Any
    ) -> Steps[Decision]:
        """Report a failure: code, details, suggested_fix, non_retryable …"""
        call = self._failure_call({"type": type, "message": message, **failure})
        return (yield from self._report(call))

    @Operation
    def blocked(
        self, /, message: str, *, code: str | None = None, **failure: Any
    ) -> Steps[Decision]:
        """Report that the task needs a person to continue; `raise Blocked(…)` does the same."""
        call = self._failure_call({"message": message, "code": code, **failure}, "blocked")
        return (yield from self._report(call))

    @Operation
    def exited(
        self, code: int, output: str = "", *, of: tasks.ExitOf = "command"
    ) -> Steps[Decision]:
        """Report the exit code and output of a command, or of the task's verify command."""
        return (yield from self._report(tasks.exit(self.id, code, output, of=of, usage=self.usage)))

    @Operation
    def release(self, reason: tasks.Reason = "shutdown", note: str | None = None) -> Steps[Task]:
        """Release the task; the attempt does not count."""
        task = yield from self._core.perform(tasks.release(self.id, reason=reason, note=note))
        self._is_over = True
        return task

    @Operation
    def ask_permission(
        self,
        tool: str,
        input: Mapping[str, Any],
        *,
        folder: str | None = None,
        wait_s: int = permissions.WAIT_S,
        said: str = "",
    ) -> Steps[Permission]:
        """Ask people, or the project's rules, whether to make a tool call; waits for the answer.

        The attempt goes on meanwhile. `allowed` is True or False, and None if no one has answered
        or the server is unreachable: then don't make the call, or ask elsewhere. Call the tool
        with `input` of the answer, which a person may have changed.
        """
        asked = permissions.ask(
            tool,
            input,
            folder=os.getcwd() if folder is None else folder,
            # the same call of an attempt is asked about once
            call_id=self.id,
            task=self.task.id,
            said=said or None,
            wait_s=wait_s,
        )
        found = yield from permissions.await_decision(self._core, asked, wait_s=wait_s)
        return replace(found, input=(found.answer or {}).get("input") or input)

    def _asking_steps(self, question: str, options: Mapping[str, Any]) -> Steps[Escalation]:
        asked = yield from self._core.perform(tasks.ask(self.id, question, **options))
        self._is_over = True
        return asked

    _ask = Operation(_asking_steps)

    def _heartbeat(self, **progress: Any) -> Steps[Heartbeat]:
        output = self._new_output()
        limits = self.read_limits() if self.read_limits else None
        if limits is not None and limits != self._sent_limits:
            progress["limit_records"] = [limits]
        # before the call: a record that the server refuses must not be in each heartbeat
        self._sent_limits = limits
        usage = (self.read_usage() if self.read_usage else None) or self.usage
        if usage is not None and usage != self._sent_usage:
            progress["usage"] = usage
        self._sent_usage = usage or self._sent_usage
        beat = yield from self._core.perform(tasks.heartbeat(self.id, output=output, **progress))
        self._sent_output = self._sent_output if output is None else output
        self.abort_requested = self.abort_requested or beat.abort_requested
        self._has_messages = beat.pending_instructions > 0
        return beat

    def _new_output(self) -> str | None:
        output = self.read_output() if self.read_output else ""
        return None if output == self._sent_output else output

    def _beat(self) -> Steps[None]:
        waited = 0.0
        while True:
            pause = OUTPUT_EVERY_S if self.read_output else self.every_s
            pause = max(min(pause, self.every_s - waited), SHORTEST_S)
            yield Wait(pause)
            waited += pause
            if self._is_over or self.is_lost:
                waited = 0.0
                continue
            if waited < self.every_s and self._new_output() is None:
                continue
            waited = 0.0
            try:
                yield from self._heartbeat()
            except TenfourError as error:
                # It is lost only if no later heartbeat can succeed.
                self.is_lost = self.is_lost or error.code in OVER or error.status == 404
                log.warning("Heartbeat of attempt %s: %s", self.id, error)

    def _report(self, call: Call[Decision]) -> Steps[Decision]:
        self.decision = yield from self._core.perform(call)
        self._is_over = True
        return self.decision

    def _keep(self, check: Check, found: Verified) -> Verified:
        # An earlier result of the same command no longer counts.
        self._verified.pop(check.command, None)
        self._verified[check.command] = found
        return found

    @property
    def _checks(self) -> list[dict[str, Any]]:
        runs = [each for found in self._verified.values() for each in found.runs]
        return runs[-MOST_CHECKS:]

    def _report_success(self, result: Any, *, summary: str | None = None) -> Steps[Decision]:
        """Report success with the files as they are now, where a check could read them."""
        *_, last = [None, *(each for each in self._verified.values() if each.tree)]
        tree = None
        if last:
            from tenfour.checks.trees import read_tree

            tree = yield Work(lambda is_unwanted: read_tree(last.check.cwd, before=last.tree))
        call = self._success_call(result, summary=summary, tree=tree)
        return (yield from self._report(call))

    def _deciding_check(self) -> Verified | None:
        if not self._verified:
            return None
        from tenfour.checks.verification import deciding_check

        return deciding_check(self._verified)

    def _success_call(
        self, result: Any, *, summary: str | None = None, tree: Tree | None = None
    ) -> Call[Decision]:
        """Return the call that reports success, or failure if a check failed."""
        found = self._deciding_check()
        failure = found.failure if found else None
        return tasks.report(
            self.id,
            "failure" if failure else "success",
            result=result,
            summary=summary,
            failure=failure,
            verification=found.fields if found else None,
            usage=self.usage,
            checks=self._checks,
            tree=tree,
        )

    def _failure_call(
        self, failure: Mapping[str, Any], status: tasks.Status = "failure"
    ) -> Call[Decision]:
        found = self._deciding_check()
        known = {name: value for name, value in failure.items() if value is not None}
        return tasks.report(
            self.id,
            status,
            failure=known,
            verification=found.fields if found else None,
            usage=self.usage,
            checks=self._checks,
        )

    def _close(self, error: BaseException | None) -> Steps[bool]:
        """Report how the block ended; return whether its exception is dealt with."""
        if not self._is_over:
            try:
                yield from self._closing_steps(error)
            except TenfourError as refused:
                if refused.code not in OVER:
                    raise
                log.warning("Attempt %s had ended before it was reported: %s", self.id, refused)
        return isinstance(error, Exception)

    def _closing_steps(self, error: BaseException | None) -> Steps[None]:
        if error is None:
            yield from self._report_success(self.result)
        elif isinstance(error, Blocked):
            log.warning("Attempt %s is blocked: %s", self.id, error)
            yield from self._report(self._failure_call(error.failure, "blocked"))
        elif isinstance(error, Exception):
            log.warning("Attempt %s failed", self.id, exc_info=error)
            yield from self._report(self._failure_call(failure_of(error)))
        else:
            interrupted = isinstance(error, KeyboardInterrupt)
            reason: tasks.Reason = "user_interrupt" if interrupted else "shutdown"
            yield from self._core.perform(tasks.release(self.id, reason=reason))

    def _await_answer(self, asked: Escalation, every_s: float = ASK_EVERY_S) -> Steps[Escalation]:
        """Wait until a person has answered, then continue the task in a new attempt."""
        while asked.is_open:
            yield Wait(every_s)
            try:
                asked = yield from self._core.perform(get_escalation(asked.id))
            except TenfourError as error:
                if not error.retryable:
                    raise
                log.warning("Question %s: %s", asked.id, error)
        if asked.action in GOES_ON:
            yield from self._claim_again()
        else:
            self.abort_requested = True
        return asked

    def _claim_again(self) -> Steps[None]:
        attempt = self.claim.attempt
        call = tasks.claim(task=self.task.id, worker_id=attempt.worker_id or None)
        try:
            claimed = yield from self._core.perform(call)
        except TenfourError as error:
            if error.code != "invalid_transition":
                raise
            claimed = None
        for claim in claimed or ():
            self._take_over(claim)
            self._is_over = False
            return
        self.is_lost = True
        log.warning("Task %s was answered, but another worker has it", self.task.id)


class Question(Driven[D]):
    """A question to a person. The attempt that asked has ended; `wait` starts the next one."""

    def __init__(self, live: Live[D], escalation: Escalation) -> None:
        super().__init__(live._driver, live._core)
        self._live = live
        self.escalation = escalation
        self.id = escalation.id
        self.url = escalation.url

    @Operation
    def wait(self, *, every_s: float = ASK_EVERY_S) -> Steps[Escalation]:
        """Wait for the answer and continue the task: the same `attempt` is live again.

        If the answer does not let the task continue, `attempt.should_stop` is true.
        """
        self.escalation = yield from self._live._await_answer(self.escalation, every_s)
        return self.escalation


class LiveAttempt(Live[Driver]):
    """An attempt for `with`: a clean exit reports success; an exception reports a failure and is
    not raised again; an interrupt releases the task."""

    def ask(self, question: str, **options: Unpack[tasks.AskOptions]) -> Question[Driver]:
        """Ask a person; the attempt ends without counting. `.wait()` returns the answer."""
        return Question(self, self._ask(question, options))

    def renewed(self) -> AbstractContextManager[None]:
        """Send heartbeats from a thread inside this block; reports nothing."""
        return self._driver.background(self._beat())

    def __enter__(self) -> Self:
        self._beating = self.renewed()
        self._beating.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._beating.__exit__(None, None, None)
        return self._driver.run(self._close(error))


class AsyncLiveAttempt(Live[AsyncDriver]):
    """Like `LiveAttempt`, for `async with`."""

    async def ask(
        self, question: str, **options: Unpack[tasks.AskOptions]
    ) -> Question[AsyncDriver]:
        """Ask a person; the attempt ends without counting. `.wait()` returns the answer."""
        return Question(self, await self._ask(question, options))

    def renewed(self) -> AbstractAsyncContextManager[None]:
        """Send heartbeats from a task of the event loop inside this block; reports nothing."""
        return self._driver.background(self._beat())

    async def __aenter__(self) -> Self:
        self._beating = self.renewed()
        await self._beating.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        await self._beating.__aexit__(None, None, None)
        return await self._driver.run(self._close(error))


def failure_of(error: Exception) -> dict[str, Any]:
    """Return an exception as a report contains it."""
    import traceback

    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {
        "type": "execution_error",
        "message": f"{type(error).__name__}: {error}"[:DETAILS_LENGTH],
        "details": text[-DETAILS_LENGTH:],
    }
