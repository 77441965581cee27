"""The arguments of the command `tenfour`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from tenfour.version import __version__

Runs = Mapping[str, Callable[[argparse.Namespace], int]]

EPILOG = """environment:
  TENFOUR_URL         where Tenfour runs, for example http://127.0.0.1:8000
  TENFOUR_TOKEN       the token
  TENFOUR_TOKEN_FILE  a file with the token, instead of TENFOUR_TOKEN

exit status: 0 done, 1 refused, 2 wrong usage, 3 no task, 69 server away;
             `run` exits with its command's exit status"""


def parser_of(runs: Runs) -> argparse.ArgumentParser:
    """Return the parser of all commands; `runs` maps each command to its function."""
    parser = argparse.ArgumentParser(
        prog="tenfour",
        description="The command line of Tenfour, the reliability ledger for AI agents' work.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tenfour {__version__}")
    parser.add_argument("--url", default=None, help="where Tenfour runs (TENFOUR_URL)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (does, add) in PARTS.items():
        part = commands.add_parser(name, help=does, description=does)
        part.set_defaults(run=runs[name])
        # --url may stand before or after the command; the absent one must not undo the other.
        part.add_argument("--url", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        add(part)
    return parser


def _add_send(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="AGENT")
    parser.add_argument("text", metavar="TEXT", help="the instruction; - reads it from stdin")
    parser.add_argument("--plain", action="store_true", help="deliver once, without reminders")
    parser.add_argument("--max-retries", type=int, metavar="N", help="reminders before giving up")
    parser.add_argument(
        "--expect",
        metavar="TYPE [JSON]",
        help="the signal that acknowledges it, and what its data must contain",
    )
    parser.add_argument("--match", metavar="JSON", help=argparse.SUPPRESS)
    parser.add_argument("--priority", action="store_true", help="to the front of the queue")
    parser.add_argument("--on-failed", choices=["record", "escalate"])
    parser.add_argument(
        "--register", action="store_true", help="register the agent if it is unknown"
    )
    parser.add_argument("--json", action="store_true", help="print the whole instruction")


def _add_pull(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, default=10, metavar="N")
    parser.add_argument("--json", action="store_true", help="print ids too, for a program")
    parser.add_argument("--follow", action="store_true", help="continue until interrupted")


def _add_ack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+")
    parser.add_argument("--outcome", choices=["done", "accepted", "declined"])
    parser.add_argument("--note", metavar="TEXT")


def _add_signal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("type", metavar="TYPE")
    parser.add_argument("data", metavar="JSON", nargs="?", help="an object; - reads it from stdin")


def _add_enqueue(parser: argparse.ArgumentParser) -> None:
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
    _add_limits(parser)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-attempts", type=int, metavar="N", help="including the first")
    parser.add_argument("--lease", type=int, metavar="SECONDS", help="time between heartbeats")
    parser.add_argument("--timeout", type=int, metavar="SECONDS", help="time limit of an attempt")


def _add_claim(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", metavar="ID", help="claim this task")
    parser.add_argument(
        "--worker", metavar="NAME", help="the worker's name; it gets back what it still holds"
    )
    parser.add_argument("--lease", type=int, metavar="SECONDS", help="time between heartbeats")
    parser.add_argument("--json", action="store_true", help="print attempt and task")


def _add_report(parser: argparse.ArgumentParser) -> None:
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


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tenfour run [options] -- COMMAND [ARGUMENT …]"
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--task", metavar="ID", help="run this task")
    which.add_argument("--name", metavar="TEXT", help="create a task with this title")
    parser.add_argument("--type", metavar="TYPE", help="the new task's type (command)")
    parser.add_argument("--verify", metavar="COMMAND", help="a shell command that checks the work")
    _add_limits(parser)
    parser.add_argument("command", metavar="COMMAND", nargs="+", help="what to run")


def _add_plan(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    part = verbs.add_parser("import", help="import a plan from a file, or update it")
    part.add_argument(
        "file", metavar="FILE", help="JSON, YAML, XML or Markdown; - reads it from stdin"
    )
    part.add_argument("--agent", metavar="NAME", help="the default agent, for tasks that name none")
    part.add_argument("--ref", metavar="REF", help="the plan's ref, if the file names none")
    part.add_argument("--dry-run", action="store_true", help="show what would change")
    part.add_argument(
        "--mode",
        choices=["create", "merge", "replace"],
        help="for a changed plan: refuse it, add and update tasks, or also abort removed ones",
    )
    part.add_argument("--register", action="store_true", help="register unknown agents")
    part.add_argument(
        "--allow-missing-needs", action="store_true", help="wait for plans that are imported later"
    )
    part.add_argument("--json", action="store_true", help="print the whole response")
    part = verbs.add_parser("status", help="print a plan and its tasks")
    part.add_argument("ref", metavar="REF", help="such as 03-01, or its id")
    part.add_argument("--json", action="store_true", help="print the whole response")
    for verb, does in {
        "pause": "start no further tasks",
        "resume": "start tasks again",
        "abort": "stop it; finished tasks stay finished",
    }.items():
        part = verbs.add_parser(verb, help=does)
        part.add_argument("ref", metavar="REF", help="such as 03-01, or its id")
        part.add_argument("--reason", metavar="TEXT")
    part = verbs.add_parser("restart", help="run unfinished tasks again")
    part.add_argument("ref", metavar="REF", help="such as 03-01, or its id")
    part.add_argument(
        "--carry-over",
        metavar="TIME",
        help="tasks started at or after this time keep their attempts",
    )


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="created if missing")
    parser.add_argument("--plan", metavar="REF", help="this plan only")


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add nothing: `doctor` has no arguments."""


PARTS: Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "send": ("Send an instruction to an agent; prints its id.", _add_send),
    "pull": ("Take the agent's waiting instructions.", _add_pull),
    "ack": ("Acknowledge instructions by their ids.", _add_ack),
    "signal": ("Report an event; prints the ids that it acknowledges.", _add_signal),
    "enqueue": ("Enqueue a task for an agent; prints its id.", _add_enqueue),
    "claim": ("Start the agent's next task; prints the attempt's id.", _add_claim),
    "report": ("Report how an attempt ended; prints the decision.", _add_report),
    "run": ("Run a command as an attempt at a task.", _add_run),
    "plan": ("Import, show, pause, resume, abort or restart a plan.", _add_plan),
    "export": ("Write retry state and logs as files; prints their names.", _add_export),
    "doctor": ("Check URL, token, clock, versions and the server's health.", _add_doctor),
}


def with_match(argv: Sequence[str]) -> list[str]:
    """Rewrite `--expect TYPE {…}` as `--expect TYPE --match {…}`, which argparse can parse."""
    args = list(argv)
    for at in range(len(args) - 2):
        if args[at] == "--":
            break
        if args[at] == "--expect" and args[at + 2].lstrip().startswith("{"):
            return [*args[: at + 2], f"--match={args[at + 2]}", *args[at + 3 :]]
    return args
