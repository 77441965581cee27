"""The arguments of the command `tenfour`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from tenfour.version import __version__

Runs = Mapping[str, Callable[[argparse.Namespace], int]]

EPILOG = """environment:
  TENFOUR_URL         where Tenfour runs, for example http://127.0.0.1:8000
  TENFOUR_TOKEN       the token to speak with
  TENFOUR_TOKEN_FILE  or a file that holds it

exit status: 0 done, 1 refused, 2 wrong usage, 3 no task, 69 server away;
             of `run`, that of its command"""


def parser_of(runs: Runs) -> argparse.ArgumentParser:
    """The parser of the whole command; `runs` says what runs for each of its parts."""
    parser = argparse.ArgumentParser(
        prog="tenfour",
        description="Instructions that are chased until acknowledged, tasks until they are done.",
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
    parser.add_argument("text", metavar="TEXT", help="what to do; - reads it from stdin")
    parser.add_argument("--plain", action="store_true", help="deliver once, never chase it")
    parser.add_argument("--max-retries", type=int, metavar="N", help="reminders before giving up")
    parser.add_argument(
        "--expect",
        metavar="TYPE [JSON]",
        help="the signal that acknowledges it, and what its data must contain",
    )
    parser.add_argument("--match", metavar="JSON", help=argparse.SUPPRESS)
    parser.add_argument("--priority", action="store_true", help="to the front of the queue")
    parser.add_argument("--on-failed", choices=["record", "escalate"])
    parser.add_argument("--register", action="store_true", help="make the agent if it is new")
    parser.add_argument("--json", action="store_true", help="print the whole instruction")


def _add_pull(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, default=10, metavar="N")
    parser.add_argument("--json", action="store_true", help="with ids, for a program")
    parser.add_argument("--follow", action="store_true", help="go on until interrupted")


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
    parser.add_argument("payload", metavar="JSON", nargs="?", help="what it is about; - for stdin")
    parser.add_argument("--title", metavar="TEXT")
    parser.add_argument("--priority", type=int, metavar="N", help="higher ones go first")
    parser.add_argument(
        "--needs", action="append", metavar="ID", help="wait for this task; may be repeated"
    )
    parser.add_argument("--on-exhausted", choices=["escalate", "dead_letter"])
    parser.add_argument("--register", action="store_true", help="make the agent if it is new")
    parser.add_argument("--json", action="store_true", help="print the whole task")
    _add_limits(parser)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-attempts", type=int, metavar="N", help="the first one included")
    parser.add_argument("--lease", type=int, metavar="SECONDS", help="how long without a heartbeat")
    parser.add_argument("--timeout", type=int, metavar="SECONDS", help="how long an attempt lasts")


def _add_claim(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", metavar="ID", help="this one and no other")
    parser.add_argument("--worker", metavar="NAME", help="who claims; gets back what it holds")
    parser.add_argument("--lease", type=int, metavar="SECONDS", help="how long without a heartbeat")
    parser.add_argument("--json", action="store_true", help="print attempt and task")


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("attempt", metavar="ATTEMPT")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--status", choices=["success", "failure", "blocked"])
    how.add_argument("--exit", type=int, metavar="CODE", help="of a command; its output on stdin")
    parser.add_argument("--summary", metavar="TEXT")
    parser.add_argument("--result", metavar="JSON", help="what the task was for")
    parser.add_argument("--message", metavar="TEXT", help="what went wrong; - reads it from stdin")
    parser.add_argument("--type", metavar="TYPE", help="of a failure, such as execution_error")
    parser.add_argument("--code", metavar="CODE", help="of a failure, such as permission_denied")
    parser.add_argument("--final", action="store_true", help="no further attempt can help")
    parser.add_argument("--json", action="store_true", help="print the whole decision")


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tenfour run [options] -- COMMAND [ARGUMENT …]"
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--task", metavar="ID", help="this task, not the next one")
    which.add_argument("--name", metavar="TEXT", help="a new task of this title")
    parser.add_argument("--type", metavar="TYPE", help="of the new task (command)")
    parser.add_argument("--verify", metavar="COMMAND", help="of the shell: checks what was done")
    _add_limits(parser)
    parser.add_argument("command", metavar="COMMAND", nargs="+", help="what to run")


def _add_plan(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    part = verbs.add_parser("import", help="bring a plan from a file, or bring it up to date")
    part.add_argument(
        "file", metavar="FILE", help="JSON, YAML, XML or Markdown; - reads it from stdin"
    )
    part.add_argument("--agent", metavar="NAME", help="for tasks for which the file names none")
    part.add_argument("--dry-run", action="store_true", help="say what would change")
    part.add_argument(
        "--mode",
        choices=["create", "merge", "replace"],
        help="what to do with a changed plan: refuse it, add and update, also abort what is gone",
    )
    part.add_argument("--register", action="store_true", help="make agents that are new")
    part.add_argument(
        "--allow-missing-needs", action="store_true", help="wait for plans that are yet to come"
    )
    part.add_argument("--json", action="store_true", help="print the whole answer")
    part = verbs.add_parser("status", help="print a plan and its tasks")
    part.add_argument("ref", metavar="REF", help="such as 03-01, or its id")
    part.add_argument("--json", action="store_true", help="print the whole answer")
    for verb, does in {
        "pause": "let no more of its tasks begin",
        "resume": "let them begin again",
        "abort": "stop it; what is done stays done",
    }.items():
        part = verbs.add_parser(verb, help=does)
        part.add_argument("ref", metavar="REF", help="such as 03-01, or its id")
        part.add_argument("--reason", metavar="TEXT")
    part = verbs.add_parser("restart", help="run once more what is not done")
    part.add_argument("ref", metavar="REF", help="such as 03-01, or its id")
    part.add_argument(
        "--carry-over",
        metavar="TIME",
        help="what was begun at or after it goes on with its attempts",
    )


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="made where it is missing")
    parser.add_argument("--plan", metavar="REF", help="of this plan alone")


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    """It needs no arguments of its own."""


PARTS: Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "send": ("Send an instruction to an agent; prints its id.", _add_send),
    "pull": ("Take the instructions that wait for this agent.", _add_pull),
    "ack": ("Acknowledge instructions by their ids.", _add_ack),
    "signal": ("Report an event; prints the ids it settles.", _add_signal),
    "enqueue": ("Put a task into an agent's queue; prints its id.", _add_enqueue),
    "claim": ("Start the agent's next task; prints the attempt's id.", _add_claim),
    "report": ("End an attempt; prints what becomes of the task.", _add_report),
    "run": ("Run a command as an attempt at a task.", _add_run),
    "plan": ("Import a plan of tasks, follow it, stop it.", _add_plan),
    "export": ("Write retry state and logs as files; prints their names.", _add_export),
    "doctor": ("Say whether URL, token and server are well.", _add_doctor),
}


def with_match(argv: Sequence[str]) -> list[str]:
    """`--expect TYPE {…}` as `--expect TYPE --match {…}`: argparse cannot tell the object apart."""
    args = list(argv)
    for at in range(len(args) - 2):
        if args[at] == "--":
            break
        if args[at] == "--expect" and args[at + 2].lstrip().startswith("{"):
            return [*args[: at + 2], f"--match={args[at + 2]}", *args[at + 3 :]]
    return args
