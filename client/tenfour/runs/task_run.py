"""Run a command as the attempts at a task: verify, report, retry, wait for a person."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tenfour import tasks
from tenfour.attempts.claiming import pause_after, why_nothing
from tenfour.attempts.live_attempts import GOES_ON, OVER, LiveAttempt
from tenfour.attempts.usage import read_usage
from tenfour.checks import verification
from tenfour.checks.diffs import (
    NoDiff,
    SourceWatch,
    make_folder,
    read_environment,
    shares_diffs,
    watch_source,
)
from tenfour.checks.verification import Verified, has_check
from tenfour.commands.display import one_line
from tenfour.commands.terminal import (
    BLOCKED,
    ESCALATED,
    INTERRUPTED,
    OK,
    REFUSED,
    complain,
    note,
    wrong_usage,
)
from tenfour.http import outbox
from tenfour.http.core import Call
from tenfour.http.problems import ServerAway, TenfourError
from tenfour.models import Claim, Claimed, Decision, Instruction, Task
from tenfour.redaction.masking import masked
from tenfour.runs import runner
from tenfour.runs.attempt_files import PLACE, attempt_variables, fill_placeholders, is_too_large
from tenfour.runs.live_output import OutputStream
from tenfour.runs.output_buffer import OutputBuffer
from tenfour.runs.runner import CommandResult
from tenfour.sessions.limit_records import TAIL_BYTES, find_limit_event

if TYPE_CHECKING:
    from tenfour.client import Client

# Seconds between tries while the server is down, and between polls for a person's answer.
AWAY_EVERY_S = 5.0
ANSWER_EVERY_S = 5.0
# how far the clocks of files and of the system may differ
CLOCK_S = 2.0
# The part of the output that goes to the task's page while the command runs.
LAST_BYTES = 4096
# The exit status for the state of a task that this run can't continue.
STATUS_OF = {"done": OK, "escalated": ESCALATED, "blocked": BLOCKED, "aborted": INTERRUPTED}


class ReportUndelivered(ServerAway):
    """The server was down for too long; the report waits on the disk."""


@dataclass(frozen=True)
class RunOptions:
    """Options of a command's run; `waits` for an escalation's answer, `patience_s` for a server."""

    command: Sequence[str]
    verify: str | None = None
    coverage: str | None = None
    waits: bool = False
    uses_stdin: bool = False
    # a file that gets the instructions which heartbeats announce
    messages: str | None = None
    sends_diffs: bool = False
    patience_s: float = 300.0
    lease_s: int | None = None
    max_attempts: int | None = None


class TaskRun:
    """The attempts of one run at one task."""

    def __init__(self, tenfour: Client, options: RunOptions, *, worker_id: str) -> None:
        self._tenfour = tenfour
        self._options = options
        self._worker_id = worker_id
        here, environ = Path.cwd(), os.environ
        shared = options.sends_diffs or shares_diffs(tenfour.settings.url, here, environ)
        self._sends_diffs = shared
        self._streams = True

    def run(self, claim: Claim) -> int:
        """Make attempts until the task is over, or needs a person; return the exit status."""
        count = 0
        while True:
            count += 1
            attempt = self._tenfour.attempt(claim)
            decision = self.make_attempt(attempt)
            if decision is None:
                # Lost, or ended by the command itself: not claimed again.
                following = self._leave(self._tenfour.tasks.get(attempt.task.id))
            else:
                explain(attempt, decision)
                if decision.decision == "wait" and count == self._options.max_attempts:
                    note(f"This was the last of the {count} attempts of --max-attempts.")
                    return REFUSED
                following = self._follow(attempt, decision)
            if isinstance(following, int):
                return following
            claim = following

    def make_attempt(self, attempt: LiveAttempt) -> Decision | None:
        """Run and report one attempt; None if it was over before. Raises ReportUndelivered.

        An interrupt releases the attempt.
        """
        stream = self._open_stream(attempt)
        output = OutputBuffer(on_add=stream.add if stream else None)
        attempt.read_output = lambda: last_lines(output)
        attempt.read_limits = lambda: find_limit_event(output.last(TAIL_BYTES))
        group = None
        try:
            with attempt.renewed(), self._watched() as watch:
                try:
                    with self._streaming(attempt, stream):
                        ended = self._run_command(attempt, output)
                        group = ended.group
                        checked = None if ended.code else self._verify(attempt, output)
                except (KeyboardInterrupt, SystemExit) as error:
                    interrupted = isinstance(error, KeyboardInterrupt)
                    release(attempt, "user_interrupt" if interrupted else "shutdown")
                    raise
                except runner.ArgumentsTooLarge as error:
                    release(attempt, "shutdown")
                    raise unfit(self._options.command) from error
                self._send_source(attempt, watch, has_failed=not passed(ended, checked))
                return self._report(attempt, ended, checked)
        finally:
            # After the check, which may need what the command has started.
            if group is not None:
                runner.stop_group(group)

    def _open_stream(self, attempt: LiveAttempt) -> OutputStream | None:
        if not self._streams:
            return None
        resumed = attempt.claim.attempt.resumed
        return OutputStream(attempt.id, core=attempt._core, resumed=resumed)

    @contextmanager
    def _streaming(self, attempt: LiveAttempt, stream: OutputStream | None) -> Iterator[None]:
        """Send the output while this block runs."""
        if stream is None:
            yield
            return
        with attempt._driver.background(stream.steps()):
            yield
        # An older server has no such operation; it gets the last lines alone.
        self._streams = not stream.is_unknown

    @contextmanager
    def _watched(self) -> Iterator[SourceWatch | None]:
        """Yield what reads the source's changes, if they are sent; says once why it can't."""
        if not self._sends_diffs:
            yield None
            return
        with make_folder() as folder:
            try:
                watch = watch_source(Path(folder))
            except NoDiff as reason:
                self._sends_diffs = False
                note(f"No diff is sent: {reason}.")
                watch = None
            yield watch

    def _send_source(
        self, attempt: LiveAttempt, watch: SourceWatch | None, *, has_failed: bool
    ) -> None:
        """Send what a failed attempt changed, and where every attempt ran."""
        if watch is None or attempt.should_stop:
            return
        given, payload = self._options.verify, attempt.task.payload
        has_one = bool(given) or has_check(payload)
        check = verification.choose_check(payload, given).command if has_one else ""
        try:
            attempt._driver.run(
                attempt._heartbeat(
                    diff=watch.read_diff() if has_failed else None,
                    environment=read_environment(),
                    check=masked(check, os.environ)[: verification.COMMAND_LENGTH],
                )
            )
        except NoDiff as reason:
            note(f"The diff could not be read: {reason}.")
        except TenfourError as error:
            # The report says so if the attempt is over, and tries longer if the server is away.
            if error.code not in OVER and not error.retryable:
                complain(error, subject="The diff")

    def _run_command(self, attempt: LiveAttempt, output: OutputBuffer) -> CommandResult:
        command = fill_placeholders(self._options.command, attempt)
        if is_too_large(command):
            raise runner.ArgumentsTooLarge
        with attempt_variables(attempt) as variables:
            attempt.read_usage = lambda: read_usage(variables["TENFOUR_USAGE_FILE"])
            ended = runner.run(
                command,
                env=os.environ | variables,
                should_stop=lambda: self._look(attempt),
                stdin=attempt.prompt.encode(errors="replace") if self._options.uses_stdin else None,
                output=output,
            )
            attempt.usage = read_usage(variables["TENFOUR_USAGE_FILE"])
            return ended

    def _look(self, attempt: LiveAttempt) -> bool:
        """Pass on the instructions that wait; return whether the command must stop."""
        if self._options.messages and not attempt.should_stop:
            try:
                pass_on(attempt.messages(), self._options.messages)
            except TenfourError as error:  # The next heartbeat tells it again.
                complain(error)
        return attempt.should_stop

    def _verify(self, attempt: LiveAttempt, output: OutputBuffer) -> Verified | None:
        """Run the check of the work, by default the task's own; return its result, if any."""
        given, payload = self._options.verify, attempt.task.payload
        if attempt.should_stop or not (given or has_check(payload)):
            return None
        check = verification.choose_check(payload, given)
        whose = "verify command" if given else "verify command that the task declares"
        note(f"Running the {whose}: {one_line(check.command)}")
        found = verification.run(
            check, should_stop=lambda: attempt.should_stop, is_shown=True, collected=output
        )
        if self._options.coverage and not found.passed:
            found = with_suspects(found, self._options.coverage)
        return attempt._keep(check, found)

    def _report(
        self, attempt: LiveAttempt, ended: CommandResult, checked: Verified | None
    ) -> Decision | None:
        if checked and checked.timed_out:
            note(f"The verify command was stopped after {checked.check.timeout_s:g} s.")
        if checked and checked.is_flaky:
            note("The verify command failed, then passed on the same files: it is flaky.")
        if checked:
            call = attempt._success_call(None, tree=checked.tree)
        else:
            output = masked(ended.output, os.environ)
            call = tasks.exit(attempt.id, ended.code, output, usage=attempt.usage)
        report = store(attempt, call)
        send_last_lines(attempt)
        until = time.monotonic() + self._options.patience_s
        while True:
            try:
                decision = attempt._driver.run(attempt._report(report.call if report else call))
            except TenfourError as error:
                if error.code in OVER:
                    if report:
                        outbox.set_aside(report)
                    complain(error)
                    return None
                if not error.retryable:
                    raise
                complain(error)
                if time.monotonic() > until:
                    raise undelivered(report) from error
                time.sleep(error.retry_after_s or AWAY_EVERY_S)
            else:
                if report:
                    outbox.forget(report)
                return decision

    def _follow(self, attempt: LiveAttempt, decision: Decision) -> Claim | int:
        """Return the claim of the next attempt, or the exit status."""
        if decision.decision == "done":
            return OK
        if decision.decision == "wait":
            time.sleep(decision.delay_s)
            return self._find_next(attempt.task.id)
        if decision.escalation and self._options.waits:
            return self._await_answer(str(decision.escalation["id"]), attempt.task.id)
        return STATUS_OF.get(decision.decision, REFUSED)

    def _find_next(self, task_id: str) -> Claim | int:
        """Claim the task once it can be claimed; return the exit status if it can't."""
        said = ""
        while True:
            try:
                claimed = claim_task(
                    self._tenfour, task_id, self._worker_id, lease_s=self._options.lease_s
                )
                for claim in claimed:
                    return claim
                task = self._tenfour.tasks.get(task_id)
            except TenfourError as error:
                if not error.retryable:
                    raise
                said = note_once(str(error.sentence), said)
                time.sleep(error.retry_after_s or AWAY_EVERY_S)
                continue
            if task.state not in {"queued", "retry"}:
                return self._leave(task)
            if claimed.reason != "no_task":
                said = note_once(f"{why_nothing(claimed.reason)}; waiting.", said)
            time.sleep(pause_after(claimed))

    def _leave(self, task: Task) -> Claim | int:
        if task.escalation and self._options.waits:
            return self._await_answer(task.escalation, task.id)
        if task.state not in {"done", "aborted"}:
            note(describe(task))
        return STATUS_OF.get(task.state, REFUSED)

    def _await_answer(self, escalation_id: str, task_id: str) -> Claim | int:
        said = ""
        while True:
            try:
                asked = self._tenfour.escalations.get(escalation_id)
            except TenfourError as error:
                if not error.retryable:
                    raise
                said = note_once(str(error.sentence), said)
            else:
                if not asked.is_open:
                    break
                said = note_once(f"Waiting for an answer: {asked.url}", said)
            time.sleep(ANSWER_EVERY_S)
        if asked.action in GOES_ON or not asked.action:
            note("Continuing with the answer." if asked.action else "The question is closed.")
            return self._find_next(task_id)
        note(f"The answer is: {asked.action}.")
        return STATUS_OF.get(self._tenfour.tasks.get(task_id).state, REFUSED)


def passed(ended: CommandResult, checked: Verified | None) -> bool:
    """Return whether an attempt succeeded, as far as this side knows."""
    return ended.code == 0 and (checked is None or checked.passed)


def with_suspects(found: Verified, path: str) -> Verified:
    """Return a failed check with the most suspicious lines of the coverage file that it wrote.

    The report must not fail because of the file, so that a note says what is wrong with it.
    """
    from tenfour.checks.suspects import list_suspects

    file = os.path.join(found.check.cwd or "", path)
    try:
        if time.time() - os.path.getmtime(file) > found.duration_s + CLOCK_S:
            raise ValueError("the verify command has not written it")
        return replace(found, suspects=list_suspects(file, found.output))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        note(f"The coverage file {path} names no suspicious lines: {why}.")
        return found


def claim_task(
    tenfour: Client, task: str | None, worker_id: str, *, lease_s: int | None
) -> Claimed:
    """Claim a task; the result is empty if its state does not allow that."""
    try:
        return tenfour.tasks.claim(task=task, worker_id=worker_id, lease_s=lease_s)
    except TenfourError as error:
        if error.code != "invalid_transition":
            raise
        return Claimed(reason="no_task")


def last_lines(output: OutputBuffer) -> str:
    """Return the end of an output without secrets: whole lines, if there is the end of one."""
    # Masked before it is cut to its final length: half a secret could not be recognized.
    text = masked(output.last(2 * LAST_BYTES), os.environ)
    end = text.encode()[-LAST_BYTES:].decode(errors="ignore")
    return end if len(end) == len(text) else end.partition("\n")[2] or end


def send_last_lines(attempt: LiveAttempt) -> None:
    """Bring the end of the output to the task's page, where a success would show nothing else."""
    if attempt.should_stop or attempt._new_output() is None:
        return
    with suppress(TenfourError):  # The report says what is wrong.
        attempt.heartbeat()


def pass_on(messages: Sequence[Instruction], path: str) -> None:
    """Add instructions to a file, each as a line of JSON; print those that it can't take."""
    lines = [json.dumps({"id": each.id, "text": each.text}) + "\n" for each in messages]
    if not lines:
        return
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(opened, "a", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        note(f"The instructions can't be written to {path}: {error.strerror}.")
        for each in messages:
            note(each.text)


def store(attempt: LiveAttempt, call: Call[Decision]) -> outbox.Report | None:
    """Write a report to the disk; a disk that refuses it must not stop it from being sent."""
    try:
        return outbox.store(attempt.id, call, attempt._core.settings)
    except OSError as error:
        note(f"The report can't be stored on this machine: {error.strerror}: {error.filename}.")
        return None


def undelivered(report: outbox.Report | None) -> ReportUndelivered:
    where = f"It waits in {report.path.parent}" if report else "It is lost"
    hint = "The next command that reaches the server sends it, or `tenfour resend`."
    return ReportUndelivered(
        f"The server is unreachable and did not receive the report. {where}.",
        code="server_away",
        hint=hint if report else "",
        retryable=True,
    )


def unfit(command: Sequence[str]) -> TenfourError:
    """Return the error for a prompt that can't be an argument."""
    placed = PLACE.search(" ".join(command))
    what = f"The text for {placed[0]} is" if placed else "The command's arguments are"
    return wrong_usage(
        f"{what} too large for an argument; nothing ran, and the attempt was released.",
        "Use --stdin to pipe the prompt to the command, or read the file $TENFOUR_PROMPT_FILE.",
    )


def release(attempt: LiveAttempt, reason: tasks.Reason) -> None:
    try:
        attempt.release(reason)
    except TenfourError as error:
        complain(error)


def explain(attempt: LiveAttempt, decision: Decision) -> None:
    """Print what follows an attempt that was not a success."""
    which = f"Attempt {attempt.number} of {attempt.claim.attempt.attempt_limit}"
    url = (decision.escalation or {}).get("url")
    words = {
        "done": "",
        "wait": f"{which} failed; retrying in {decision.delay_s:g} s.",
        "escalated": f"{which} ended; a person is asked: {url}",
        "blocked": f"{which} ended; the task is blocked until a person answers: {url}",
        "failed": f"{which} failed, and the task with it ({decision.reason}).",
        "aborted": "The task was aborted.",
    }
    if text := words.get(decision.decision, f"{which}: {decision.decision}."):
        note(text)


def describe(task: Task) -> str:
    """Return the state of a task that this run can't claim."""
    if task.state == "running":
        return f"Task {task.id} is running: another worker has it."
    return f"Task {task.id} is {task.state}."


def note_once(text: str, before: str) -> str:
    if text != before:
        note(text)
    return text
