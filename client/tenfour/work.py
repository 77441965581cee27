"""The commands for tasks: enqueue, claim, report, run."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from tenfour import runner
from tenfour.arguments import add_limits
from tenfour.attempts import LiveAttempt
from tenfour.claiming import why_nothing
from tenfour.client import Client
from tenfour.models import Claimed, Decision
from tenfour.problems import TenfourError
from tenfour.redaction import masked
from tenfour.runner import CommandResult, OutputBuffer
from tenfour.tasks import Reason
from tenfour.terminal import (
    INTERRUPTED,
    NOTHING,
    OK,
    REFUSED,
    complain,
    json_of,
    note,
    pretty,
    say,
    text_of,
    wrong_usage,
)
from tenfour.verification import Verified, has_check

PAYLOAD = """For example: '{"files": ["src/app.py"]}'"""
# In the arguments of a command.
PLACE = re.compile(r"\{(prompt|retry_context)\}")
# How long an undelivered report is retried, and how often.
PATIENCE_S = 300.0
AGAIN_S = 5.0


def add_enqueue_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="AGENT")
    parser.add_argument("type", metavar="TYPE", help="such as code or review")
    parser.add_argument(
        "payload", metavar="JSON", nargs="?", help="the task's data; - reads it from stdin"
    )
    parser.add_argument("--title", metavar="TEXT")
    parser.add_argument("--priority", type=int, metavar="N", help="higher ones go first")
    parser.add_argument(
        "--needs", action="append", metavar="ID", help="wait for this task; may be repeated"
    )
    parser.add_argument("--on-exhausted", choices=["escalate", "dead_letter"])
    parser.add_argument(
        "--register", action="store_true", help="register the agent if it is unknown"
    )
    parser.add_argument("--json", action="store_true", help="print the whole task")
    add_limits(parser)


def enqueue(args: argparse.Namespace) -> int:
    """Enqueue a task and print its id."""
    payload = None if args.payload is None else _json(args.payload, "The payload")
    with Client(args.url) as tenfour:
        task = tenfour.tasks.enqueue(
            args.agent,
            args.type,
            payload,
            title=args.title,
            priority=args.priority,
            needs=args.needs,
            on_exhausted=args.on_exhausted,
            register=args.register or None,
            max_attempts=args.max_attempts,
            lease_s=args.lease,
            timeout_s=args.timeout,
        )
    say(pretty(task.raw) if args.json else task.id)
    return OK


def add_claim_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", metavar="ID", help="claim this task")
    parser.add_argument(
        "--worker", metavar="NAME", help="the worker's name; it gets back what it still holds"
    )
    parser.add_argument("--lease", type=int, metavar="SECONDS", help="time between heartbeats")
    parser.add_argument("--json", action="store_true", help="print attempt and task")


def claim(args: argparse.Namespace) -> int:
    """Print the attempt's id, or attempt and task; exit with 3 if there is nothing to do."""
    with Client(args.url) as tenfour:
        claimed = tenfour.tasks.claim(task=args.task, worker_id=args.worker, lease_s=args.lease)
    for each in claimed:
        say(pretty(each.raw) if args.json else each.attempt.id)
    return OK if claimed else _nothing(claimed)


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("attempt", metavar="ATTEMPT")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--status", choices=["success", "failure", "blocked"])
    how.add_argument(
        "--exit", type=int, metavar="CODE", help="a command's exit code; its output on stdin"
    )
    parser.add_argument(
        "--of",
        choices=["command", "verification"],
        default="command",
        help="with --exit: whose exit code it is; 'verification' for the task's verify command",
    )
    parser.add_argument("--summary", metavar="TEXT")
    parser.add_argument("--result", metavar="JSON", help="the task's result")
    parser.add_argument("--message", metavar="TEXT", help="what went wrong; - reads it from stdin")
    parser.add_argument(
        "--type", metavar="TYPE", help="the failure's type, such as execution_error"
    )
    parser.add_argument(
        "--code", metavar="CODE", help="the failure's code, such as permission_denied"
    )
    parser.add_argument(
        "--final", action="store_true", help="don't retry: no further attempt can help"
    )
    parser.add_argument("--json", action="store_true", help="print the whole decision")


def report(args: argparse.Namespace) -> int:
    """Report an attempt and print the decision and its reason."""
    with Client(args.url) as tenfour:
        decision = (
            _report_exit(tenfour, args) if args.exit is not None else _report_status(tenfour, args)
        )
    say(pretty(decision.raw) if args.json else f"{decision.decision} {decision.reason}")
    return OK


def _report_exit(tenfour: Client, args: argparse.Namespace) -> Decision:
    if any((args.summary, args.result, args.message, args.type, args.code, args.final)):
        raise wrong_usage(
            "--exit reads the command's output from stdin and takes no other details."
        )
    output = OutputBuffer()
    while data := b"" if sys.stdin.isatty() else sys.stdin.buffer.read(65_536):
        output.add(data)
    return tenfour.tasks.exit(
        args.attempt, args.exit, masked(output.text(), os.environ), of=args.of
    )


def _report_status(tenfour: Client, args: argparse.Namespace) -> Decision:
    failure = {
        "type": args.type,
        "code": args.code,
        "message": args.message and text_of(args.message),
        "non_retryable": args.final or None,
    }
    known = {name: value for name, value in failure.items() if value is not None}
    return tenfour.tasks.report(
        args.attempt,
        args.status,
        summary=args.summary,
        result=None if args.result is None else _json(args.result, "The result"),
        failure=known or None,
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tenfour run [options] -- COMMAND [ARGUMENT …]"
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--task", metavar="ID", help="run this task")
    which.add_argument("--name", metavar="TEXT", help="create a task with this title")
    parser.add_argument("--type", metavar="TYPE", help="the new task's type (command)")
    parser.add_argument("--verify", metavar="COMMAND", help="a shell command that checks the work")
    add_limits(parser)
    parser.add_argument("command", metavar="COMMAND", nargs="+", help="what to run")


def run(args: argparse.Namespace) -> int:
    """Run a command as an attempt at a task; return the command's exit code."""
    if shutil.which(args.command[0]) is None:
        # Checked before anything is claimed: a typo must not cost an attempt.
        note(f"Command not found: {args.command[0]}")
        return runner.NOT_FOUND
    with _terminated_as_exit(), Client(args.url) as tenfour:
        claimed = _claim_or_create(tenfour, args)
        if not claimed:
            return _nothing(claimed)
        (one,) = claimed
        attempt = tenfour.attempt(one)
        with attempt.renewed():
            try:
                ended = _run_command(attempt, args.command)
                checked = None if ended.code else _verify(attempt, args.verify)
            except (KeyboardInterrupt, SystemExit) as error:
                interrupted = isinstance(error, KeyboardInterrupt)
                _release(attempt, "user_interrupt" if interrupted else "shutdown")
                raise
            decision = _report(attempt, ended, checked)
    _print_decision(attempt, decision)
    code = checked.exit_code if checked and not checked.passed else ended.code
    return _status(code, decision)


def _claim_or_create(tenfour: Client, args: argparse.Namespace) -> Claimed:
    if args.name is None:
        if any((args.type, args.max_attempts, args.timeout)):
            raise wrong_usage(
                "--type, --max-attempts and --timeout describe a new task: add --name."
            )
        worker = f"{socket.gethostname()}-{os.getpid()}"
        return tenfour.tasks.claim(task=args.task, worker_id=worker, lease_s=args.lease)
    return tenfour.tasks.enqueue_and_claim(
        args.type or "command",
        {"command": masked(shlex.join(args.command), os.environ)},
        title=args.name,
        max_attempts=args.max_attempts,
        lease_s=args.lease,
        timeout_s=args.timeout,
    )


def _run_command(attempt: LiveAttempt, command: list[str]) -> CommandResult:
    with ExitStack() as files:
        variables = {
            "TENFOUR_TASK": attempt.task.id,
            "TENFOUR_TASK_FILE": files.enter_context(_file(json.dumps(attempt.task.raw), ".json")),
            "TENFOUR_ATTEMPT": attempt.id,
            "TENFOUR_ATTEMPT_NUMBER": str(attempt.number),
            "TENFOUR_PROMPT_FILE": files.enter_context(_file(attempt.prompt, ".txt")),
            "TENFOUR_RETRY_CONTEXT_FILE": files.enter_context(_file(attempt.retry_context, ".xml")),
        }
        return runner.run(
            _fill_placeholders(command, attempt),
            env=os.environ | variables,
            should_stop=lambda: attempt.should_stop,
        )


@contextmanager
def _file(text: str, suffix: str) -> Iterator[str]:
    """Yield the name of a file that only its owner can read: a task's data is private."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="tenfour-", suffix=suffix
    ) as file:
        file.write(text)
        file.flush()
        yield file.name


def _fill_placeholders(command: list[str], attempt: LiveAttempt) -> list[str]:
    """Return the command with prompt and retry context filled in, each as one argument.

    In one pass: a placeholder inside a prompt is not replaced.
    """
    texts = {"prompt": attempt.prompt, "retry_context": attempt.retry_context}
    return [PLACE.sub(lambda place: texts[place[1]], argument) for argument in command]


def _verify(attempt: LiveAttempt, command: str | None) -> Verified | None:
    """Run the check of the work, by default the task's own; return its result, if there is one."""
    if attempt.should_stop or not (command or has_check(attempt.task.payload)):
        return None
    return attempt.verify(command, is_shown=True)


def _report(attempt: LiveAttempt, ended: CommandResult, checked: Verified | None) -> Decision:
    """Report the result; retried while the server is away, so that it is not lost."""
    output, until = masked(ended.output, os.environ), time.monotonic() + PATIENCE_S
    while True:
        try:
            return attempt.done() if checked else attempt.exited(ended.code, output)
        except TenfourError as error:
            if not error.retryable or time.monotonic() > until:
                raise
            complain(error)
            time.sleep(error.retry_after_s or AGAIN_S)


def _release(attempt: LiveAttempt, reason: Reason) -> None:
    try:
        attempt.release(reason)
    except TenfourError as error:
        complain(error)


def _print_decision(attempt: LiveAttempt, decision: Decision) -> None:
    which = f"Attempt {attempt.number} of {attempt.claim.attempt.attempt_limit}"
    words = {
        "done": "",
        "wait": f"{which} failed; the task can be claimed again at {decision.not_before:%F %T %Z}."
        if decision.not_before
        else f"{which} failed; the task will be retried.",
        "escalated": f"{which} ended; a person is asked: {(decision.escalation or {}).get('url')}",
        "blocked": f"{which} ended; the task is blocked until a person answers.",
        "failed": f"{which} failed, and the task with it ({decision.reason}).",
        "aborted": "The task was aborted.",
    }
    if text := words.get(decision.decision, f"{which}: {decision.decision}."):
        note(text)


def _status(code: int, decision: Decision) -> int:
    if decision.decision == "aborted":
        return INTERRUPTED
    # The exit status alone must not suggest that the task is done when it is not.
    return code if code or decision.decision == "done" else REFUSED


def _nothing(claimed: Claimed) -> int:
    why = why_nothing(claimed.reason)
    ask = f"ask again in {claimed.retry_after_s:g} s"
    note(f"{why}; task {claimed.made} stays in its queue." if claimed.made else f"{why}; {ask}.")
    return NOTHING


def _json(argument: str, what: str) -> Any:
    return json_of(text_of(argument), what=what, hint=PAYLOAD)


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
