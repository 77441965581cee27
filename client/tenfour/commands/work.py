"""The commands for tasks: enqueue, claim, report, ask."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import Any, get_args

from tenfour.api.calls import given
from tenfour.attempts.claiming import why_nothing
from tenfour.client import Client
from tenfour.commands.terminal import (
    NOTHING,
    OK,
    json_object,
    json_of,
    note,
    pretty,
    say,
    text_of,
    wrong_usage,
)
from tenfour.hooks.hook_store import find_held_attempt
from tenfour.models import Claimed, Decision
from tenfour.redaction.masking import masked
from tenfour.runs.output_buffer import OutputBuffer
from tenfour.setup.connections import state_folder
from tenfour.tasks import Severity

PAYLOAD = """For example: '{"files": ["src/app.py"]}'"""
USAGE = """'{"input_tokens": 52100, "output_tokens": 1840, "cost_usd": 0.21}'"""
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
    parser.add_argument("--action", metavar="TEXT", help="what to do; - reads it from stdin")
    parser.add_argument(
        "--verify", metavar="COMMAND", help="the shell command that checks the work"
    )
    parser.add_argument(
        "--done", action="append", metavar="TEXT", help="what holds at the end; may be repeated"
    )
    parser.add_argument(
        "--files", action="append", metavar="PATH", help="a file that it is about; may be repeated"
    )
    parser.add_argument("--priority", type=int, metavar="N", help="higher ones go first")
    parser.add_argument(
        "--needs", action="append", metavar="ID", help="wait for this task; may be repeated"
    )
    parser.add_argument("--on-exhausted", choices=["escalate", "dead_letter"])
    add_retry_on(parser)
    add_not_before(parser)
    parser.add_argument(
        "--register", action="store_true", help="register the agent if it is unknown"
    )
    parser.add_argument("--json", action="store_true", help="print the whole task")
    add_limits(parser)


def add_retry_on(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--retry-on",
        choices=["any", "same", "other"],
        help="the members of its pool that may retry it",
    )


def add_not_before(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--not-before", metavar="TIME", help="start no earlier, such as 2026-10-12T18:00:00Z"
    )


def add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-attempts", type=int, metavar="N", help="including the first")
    parser.add_argument("--lease", type=int, metavar="SECONDS", help="time between heartbeats")
    parser.add_argument("--timeout", type=int, metavar="SECONDS", help="time limit of an attempt")


def enqueue(args: argparse.Namespace) -> int:
    """Enqueue a task and print its id."""
    payload = payload_of(args)
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
            retry_on=args.retry_on,
            not_before=args.not_before,
        )
    say(pretty(task.raw) if args.json else task.id)
    return OK


def payload_of(args: argparse.Namespace) -> Any:
    """Return the payload with what the options say; raises WrongUsage if both say the same."""
    if args.payload == args.action == "-":
        raise wrong_usage("Only one of the payload and --action can be read from stdin.")
    payload = None if args.payload is None else _json(args.payload, "The payload")
    named = given(
        {
            "action": args.action and text_of(args.action),
            "verify": args.verify and {"command": args.verify},
            "done": args.done,
            "files": args.files,
        }
    )
    if not named:
        return payload
    if not isinstance(payload, (dict, type(None))):
        raise wrong_usage(f"--{next(iter(named))} needs a payload that is a JSON object, or none.")
    if both := named.keys() & (payload or {}).keys():
        raise wrong_usage(f"The payload has '{min(both)}' too.", f"Leave out --{min(both)}.")
    return {**named, **(payload or {})}


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
    return OK if claimed else say_nothing(claimed)


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "attempt",
        metavar="ATTEMPT",
        nargs="?",
        help="by default the attempt of `tenfour run`, or of the agent's session",
    )
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
    parser.add_argument(
        "--usage", metavar="JSON", help="the attempt's tokens and cost, such as " + USAGE
    )
    parser.add_argument("--json", action="store_true", help="print the whole decision")


def report(args: argparse.Namespace) -> int:
    """Report an attempt and print the decision and its reason."""
    with Client(args.url) as tenfour:
        args.attempt = args.attempt or held_attempt(
            tenfour, "tenfour report 0199… --status blocked"
        )
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
        args.attempt,
        args.exit,
        masked(output.text(), os.environ),
        of=args.of,
        usage=_usage(args.usage),
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
        usage=_usage(args.usage),
    )


def _usage(argument: str | None) -> Any:
    if argument is None:
        return None
    return json_object(text_of(argument), what="--usage", hint=f"For example: {USAGE}")


def add_ask_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "question",
        metavar="QUESTION",
        help="all that a person needs to know; - reads it from stdin",
    )
    parser.add_argument(
        "--attempt",
        metavar="ID",
        help="the attempt; by default that of `tenfour run`, or of the agent's session",
    )
    parser.add_argument(
        "--option", action="append", metavar="NAME", help="a short answer; may be repeated"
    )
    parser.add_argument("--severity", choices=get_args(Severity))
    parser.add_argument("--json", action="store_true", help="print the whole escalation")


def ask(args: argparse.Namespace) -> int:
    """Ask a person about an attempt's task, and print the escalation's id; the attempt ends."""
    with Client(args.url) as tenfour:
        attempt = args.attempt or held_attempt(tenfour, "--attempt 0199…")
        escalation = tenfour.tasks.ask(
            attempt, text_of(args.question), options=args.option or (), severity=args.severity
        )
    say(pretty(escalation.raw) if args.json else escalation.id)
    note(f"The attempt has ended. A person is asked: {escalation.url}")
    return OK


def held_attempt(tenfour: Client, example: str) -> str:
    """Return the attempt that this shell's agent works on; raise without one."""
    known = tenfour.settings
    found = find_held_attempt(
        state_folder(os.environ), os.environ, url=known.url, token=known.token
    )
    if not found:
        raise wrong_usage("Name the attempt.", f"For example: {example}, which claim printed.")
    return found


def say_nothing(claimed: Claimed) -> int:
    """Print why nothing was claimed; return the exit status."""
    why = why_nothing(claimed.reason)
    ask = f"ask again in {claimed.retry_after_s:g} s"
    note(f"{why}; task {claimed.made} stays in its queue." if claimed.made else f"{why}; {ask}.")
    return NOTHING


def _json(argument: str, what: str) -> Any:
    return json_of(text_of(argument), what=what, hint=PAYLOAD)
