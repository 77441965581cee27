"""Report the tries of a command in Tenfour: as attempts of a task, or as progress of an attempt."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tenfour import tasks
from tenfour.attempts.task_functions import as_json
from tenfour.http.problems import TenfourError
from tenfour.log import log
from tenfour.redaction.masking import masked
from tenfour.results import ChangedVerb, Err, Ok, Result

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from tenfour.attempts.live_attempts import LiveAttempt
    from tenfour.client import Client

T = TypeVar("T")

TITLE_LENGTH, ERROR_LENGTH = 200, 4000
TASK_TYPE = "command"


@dataclass(frozen=True)
class Try:
    """One execution of a command; `error` is None if it succeeded."""

    number: int
    args: tuple[str, ...]
    error: str | None
    duration_s: float
    timed_out: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "args": list(self.args),
            "error": self.error,
            "duration_s": round(self.duration_s, 3),
        }


class Reports:
    """Reports nothing; the base of those that do."""

    @property
    def should_stop(self) -> bool:
        return False

    def begin(self, args: Sequence[str]) -> None:
        """Note that a try begins."""

    def add(self, made: Try) -> None:
        """Note a try that has ended."""

    def close(self, result: Result[Any]) -> None:
        """Note the result of the last try."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


class ProgressReports(Reports):
    """Sends all tries so far as the progress of an attempt, which its owner ends."""

    def __init__(self, live: LiveAttempt) -> None:
        self._live = live
        self._tries: list[Try] = []

    @property
    def should_stop(self) -> bool:
        return self._live.should_stop

    def add(self, made: Try) -> None:
        self._tries.append(made)
        details = {"tries": [each.fields for each in self._tries]}
        if made.error is None:
            message = f"Try {made.number} succeeded"
        else:
            message = f"Try {made.number} failed: {made.error}"[:TITLE_LENGTH]
        send(lambda: self._live.heartbeat(message, details=details))


class TaskReports(Reports):
    """Makes each try an attempt of a task.

    The command never depends on it: without the server, it runs unreported.
    """

    def __init__(
        self,
        name: str,
        *,
        client: Client | None = None,
        live: LiveAttempt | None = None,
        most_tries: int,
        idempotent: bool,
        asks_again: bool = False,
    ) -> None:
        self._name = name
        self._client = client
        self._live = live
        # After a fix that changed the verb, the caller asks a person, with this attempt.
        self._asks_again = asks_again
        self._most_tries = most_tries
        self._idempotent = idempotent
        self._failed: Try | None = None
        self._has_begun = live is not None
        self._renewed: AbstractContextManager[Any] = nullcontext()

    @property
    def live(self) -> LiveAttempt | None:
        """Return the attempt that the last try was; None if it ran unreported."""
        return self._live

    @property
    def should_stop(self) -> bool:
        return self._live is not None and self._live.should_stop

    def begin(self, args: Sequence[str]) -> None:
        """Open the attempt that this try is; the first one may be live already."""
        if not self._has_begun:
            self._has_begun = True
            self._live = send(lambda: self._create(args))
        elif self._failed and self._live:
            self._live = send(lambda: self._follow(self._live, self._failed))
        self._failed = None
        if self._live:
            self._renewed = self._live.renewed()
            self._renewed.__enter__()

    def add(self, made: Try) -> None:
        self._end_heartbeats()
        self._failed = made if made.error is not None else None

    def close(self, result: Result[Any]) -> None:
        """Report the last try; a failure ends the task, whatever attempts it has left."""
        live, failed = self._live, self._failed
        if live is None or (self._asks_again and isinstance(result, ChangedVerb)):
            return
        if isinstance(result, Ok):
            send(lambda: live.done(as_json(result.value)))
        elif failed:
            send(lambda: report_failure(live, failed, is_last=True, error=result))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_heartbeats()
        live = self._live
        if error is not None and live is not None:
            reason: tasks.Reason = (
                "user_interrupt" if isinstance(error, KeyboardInterrupt) else "shutdown"
            )
            send(lambda: live.release(reason))

    def _end_heartbeats(self) -> None:
        renewed, self._renewed = self._renewed, nullcontext()
        renewed.__exit__(None, None, None)

    def _create(self, args: Sequence[str]) -> LiveAttempt | None:
        assert self._client is not None
        live = create_task(
            self._client,
            [self._name, *args],
            most_tries=self._most_tries,
            idempotent=self._idempotent,
        )
        if live is None:
            log.warning("The command runs without reports: its task can't start now")
        return live

    def _follow(self, live: LiveAttempt | None, failed: Try | None) -> LiveAttempt | None:
        """Report a failed try and return the attempt that the next one is."""
        assert live is not None and failed is not None
        decision = report_failure(live, failed)
        if decision != "wait":
            # Aborted, or no attempt is left: the task is over, and so is the command.
            live.abort_requested = live.abort_requested or decision == "aborted"
            return live if live.abort_requested else None
        claimed = live._driver.run(live._core.perform(tasks.claim(task=live.task.id)))
        for claim in claimed:
            live._take_over(claim)
            live._is_over = False
            return live
        log.warning("The command continues without reports: Tenfour says %s", claimed.reason)
        return None


def create_task(
    client: Client, argv: Sequence[str], *, most_tries: int, idempotent: bool
) -> LiveAttempt | None:
    """Create the task of a command and start it; None if the agent may not work now."""
    command = masked(shlex.join(argv), os.environ)
    claimed = client.tasks.enqueue_and_claim(
        TASK_TYPE,
        {"command": command},
        title=command[:TITLE_LENGTH],
        max_attempts=most_tries,
        # The caller gets the error: a person is not asked for each command that fails.
        on_exhausted="dead_letter",
        backoff={"base_delay_ms": 0},
        idempotent=idempotent,
    )
    return next((client.attempt(claim) for claim in claimed), None)


def report_failure(
    live: LiveAttempt, made: Try, *, is_last: bool = False, error: Err | None = None
) -> str:
    """Report a failed try; return what Tenfour decided."""
    command = masked(shlex.join(made.args), os.environ)
    text = masked((error.error if error else "") or made.error or "", os.environ)
    first = next(iter(text.splitlines()), "") or "The command failed."
    decision = live.failed(
        first[:ERROR_LENGTH],
        type="timeout" if made.timed_out else "execution_error",
        details=f"Try {made.number} ({made.duration_s:.1f} s): {command}\n{text}"[-ERROR_LENGTH:],
        non_retryable=is_last or None,
    )
    return decision.decision


def choose_reports(
    client: Client | None,
    attempt: LiveAttempt | None,
    name: str,
    *,
    idempotent: bool,
    most_tries: int,
) -> Reports:
    """Return where the tries of a command are reported."""
    if attempt is not None:
        return ProgressReports(attempt)
    if client is not None:
        return TaskReports(name, client=client, most_tries=most_tries, idempotent=idempotent)
    return Reports()


def send(report: Callable[[], T]) -> T | None:
    """Return a report's result; None, with a warning, if it can't be sent."""
    try:
        return report()
    except TenfourError as error:
        log.warning("A try of a command could not be reported: %s", error)
        return None
