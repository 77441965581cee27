"""The commands that run an agent's command at tasks: run, worker, resend."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from uuid import UUID

from tenfour import settings
from tenfour.attempts.claiming import pause_after, why_nothing
from tenfour.client import Client
from tenfour.commands.terminal import AWAY, OK, REFUSED, complain, note, say, wrong_usage
from tenfour.commands.work import add_limits, say_nothing
from tenfour.http import outbox
from tenfour.http.problems import ServerAway, TenfourError
from tenfour.models import Claim, Claimed
from tenfour.redaction.masking import masked
from tenfour.runs import runner
from tenfour.runs.task_run import (
    AWAY_EVERY_S,
    STATUS_OF,
    RunOptions,
    TaskRun,
    claim_task,
    describe,
    explain,
    note_once,
)

REFS = "A ref is a plan's ref and the task's number, such as 03-01:task-1."


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tenfour run [options] -- COMMAND [ARGUMENT …]"
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--next", action="store_true", help="run the agent's next task; the default")
    which.add_argument("--task", metavar="REF", help="run this task: its id, or its ref in a plan")
    which.add_argument("--name", metavar="TEXT", help="create a task with this title")
    parser.add_argument("--type", metavar="TYPE", help="the new task's type (command)")
    parser.add_argument(
        "--wait", action="store_true", help="wait for a person's answer, and continue with it"
    )
    _add_shared_arguments(parser)
    add_limits(parser)
    parser.add_argument(
        "--coverage",
        metavar="FILE",
        help="a coverage file that the verify command writes, with the lines of each test: the next"
        " attempt is told the most suspicious lines",
    )
    parser.add_argument(
        "--patience",
        type=float,
        metavar="SECONDS",
        default=300,
        help="how long a report is resent while the server is unreachable (300)",
    )
    parser.add_argument("command", metavar="COMMAND", nargs="+", help="what to run")


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tenfour worker [options] -- COMMAND [ARGUMENT …]"
    _add_shared_arguments(parser)
    parser.add_argument("--lease", type=int, metavar="SECONDS", help="time between heartbeats")
    parser.add_argument("command", metavar="COMMAND", nargs="+", help="what to run")


def _add_shared_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--verify",
        metavar="COMMAND",
        help="a shell command that checks the work, instead of the task's own",
    )
    parser.add_argument(
        "--diffs",
        action="store_true",
        help="send the source changes of failed attempts, without secrets; off by default",
    )
    parser.add_argument("--stdin", action="store_true", help="pipe the prompt to the command")
    parser.add_argument(
        "--messages", metavar="FILE", help="add instructions to this file while the command runs"
    )
    parser.add_argument("--agent", metavar="NAME", help="refuse a token of another agent")


def run(args: argparse.Namespace) -> int:
    """Run a command as the attempts at a task until it is over; return how the task stands."""
    check_command(args.command)
    worker_id = f"{socket.gethostname()}-{os.getpid()}"
    options = RunOptions(
        args.command,
        verify=args.verify,
        coverage=args.coverage,
        waits=args.wait,
        uses_stdin=args.stdin,
        messages=args.messages,
        sends_diffs=args.diffs,
        patience_s=args.patience,
        lease_s=args.lease,
        max_attempts=args.max_attempts,
    )
    with _terminated_as_exit(), Client(args.url) as tenfour:
        _check_agent(tenfour, args.agent)
        claimed = _claim_or_create(tenfour, args, worker_id)
        for claim in claimed:
            return TaskRun(tenfour, options, worker_id=worker_id).run(claim)
        return _say_why(tenfour, args, claimed)


def worker(args: argparse.Namespace) -> int:
    """Run a command at task after task, until interrupted."""
    check_command(args.command)
    worker_id = f"{socket.gethostname()}-{os.getpid()}"
    options = RunOptions(
        args.command,
        verify=args.verify,
        uses_stdin=args.stdin,
        messages=args.messages,
        sends_diffs=args.diffs,
        patience_s=math.inf,
        lease_s=args.lease,
    )
    with _terminated_as_exit(), Client(args.url) as tenfour:
        run_at_task = TaskRun(tenfour, options, worker_id=worker_id)
        for claim in _claims(tenfour, worker_id, args.lease, agent=args.agent):
            attempt = tenfour.attempt(claim)
            note(f"Task {attempt.task.id}, attempt {attempt.number}.")
            # A failed task comes back by itself when its retry is due.
            if decision := run_at_task.make_attempt(attempt):
                explain(attempt, decision)
    return OK


def resend(args: argparse.Namespace) -> int:
    """Send the reports that wait on this machine; print each attempt and its decision."""
    from tenfour.hooks.hook import resend_events

    with Client(args.url) as tenfour:
        if count := resend_events(tenfour):
            note(f"Events of hooks that were sent: {count}.")
        reports = outbox.list_reports(tenfour.settings, of_any_token=True)
        return max(
            (_say_sent(sent) for sent in outbox.send_all(tenfour.perform, reports)), default=OK
        )


def flush_outbox(url: str | None) -> None:
    """Send the reports of this token that wait on this machine, before another command."""
    with Client(url, retries=0) as tenfour:
        reports = outbox.list_reports(tenfour.settings)
        for sent in outbox.send_all(tenfour.perform, reports):
            if sent.decision:
                note(f"Sent the report of attempt {sent.report.attempt}: {sent.decision.decision}.")
            elif isinstance(sent.error, ServerAway):
                return  # the command itself says so
            else:
                _say_refused(sent)


def check_command(command: list[str]) -> None:
    """Raise WrongUsage for a command that is not found: a typo must not cost an attempt."""
    if shutil.which(command[0]) is None:
        raise wrong_usage(f"Command not found: {command[0]}.", "Nothing was claimed.")


def _check_agent(tenfour: Client, name: str | None) -> None:
    if name is not None:
        settings.check_agent(tenfour.me(), name)


def _claim_or_create(tenfour: Client, args: argparse.Namespace, worker_id: str) -> Claimed:
    if args.name is None:
        if any((args.type, args.timeout)):
            raise wrong_usage("--type and --timeout describe a new task: add --name.")
        task = None if args.task is None else find_task(tenfour, args.task)
        return claim_task(tenfour, task, worker_id, lease_s=args.lease)
    return tenfour.tasks.enqueue_and_claim(
        args.type or "command",
        {"command": masked(shlex.join(args.command), os.environ)},
        title=args.name,
        max_attempts=args.max_attempts,
        lease_s=args.lease,
        timeout_s=args.timeout,
    )


def find_task(tenfour: Client, name: str) -> str:
    """Return the id of a task, which may be given by its ref in a plan."""
    try:
        return str(UUID(name))
    except ValueError:
        found = list(tenfour.tasks.list(ref=name))
    if not found:
        raise wrong_usage(f"This agent has no task with the ref {name}.", REFS)
    # Newest first: a plan that was restarted has the ref of an earlier run as well.
    return next((task for task in found if not task.is_final), found[0]).id


def _say_why(tenfour: Client, args: argparse.Namespace, claimed: Claimed) -> int:
    if args.task is not None and claimed.reason == "no_task":
        task = tenfour.tasks.get(find_task(tenfour, args.task))
        note(describe(task))
        return STATUS_OF.get(task.state, REFUSED)
    return say_nothing(claimed)


def _claims(
    tenfour: Client, worker_id: str, lease_s: int | None, *, agent: str | None
) -> Iterator[Claim]:
    """Yield claim after claim; waits while the server is down or the agent is paused."""
    said = ""
    while True:
        try:
            _check_agent(tenfour, agent)
            agent = None
            if not outbox.is_empty():
                flush_outbox(tenfour.settings.url)
            claimed = tenfour.tasks.claim(worker_id=worker_id, lease_s=lease_s)
        except TenfourError as error:
            if not error.retryable:
                raise
            said = note_once(error.sentence, said)
            time.sleep(error.retry_after_s or AWAY_EVERY_S)
            continue
        if not claimed:
            said = note_once(f"{why_nothing(claimed.reason)}; waiting.", said)
            time.sleep(pause_after(claimed))
            continue
        said = ""
        yield from claimed


def _say_sent(sent: outbox.Sent) -> int:
    if sent.decision:
        say(f"{sent.report.attempt} {sent.decision.decision}")
        return OK
    if isinstance(sent.error, ServerAway):
        complain(sent.error)
        return AWAY
    _say_refused(sent)
    return REFUSED


def _say_refused(sent: outbox.Sent) -> None:
    assert sent.error
    complain(sent.error, subject=f"The report of attempt {sent.report.attempt}")
    if not sent.waits:
        note(f"It is stored in {sent.report.path.with_suffix(outbox.REFUSED)}.")


@contextmanager
def _terminated_as_exit() -> Iterator[None]:
    """Inside this block, a termination signal unwinds the program instead of killing it."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(runner.BY_SIGNAL + number)

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    for each, handler in before.items():
        if handler is not signal.SIG_IGN:  # as under nohup
            signal.signal(each, leave)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
