"""The commands for instructions: send, pull, ack, signal."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tenfour.client import Client
from tenfour.commands.terminal import OK, REFUSED, complain, json_object, note, pretty, say, text_of
from tenfour.http.problems import ServerAway, TenfourError
from tenfour.models import Pulled

FOLLOW_S = 5.0
LONGEST_FOLLOW_S = 60.0
OBJECT = """For example: '{"command": "python3"}'"""


def add_send_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="AGENT")
    parser.add_argument("text", metavar="TEXT", help="the instruction; - reads it from stdin")
    parser.add_argument("--plain", action="store_true", help="deliver once, without reminders")
    parser.add_argument("--max-retries", type=int, metavar="N", help="reminders before it fails")
    parser.add_argument(
        "--expect",
        metavar="TYPE [JSON]",
        help="the signal that acknowledges it, and what its data must contain",
    )
    parser.add_argument("--match", metavar="JSON", help=argparse.SUPPRESS)
    parser.add_argument("--priority", action="store_true", help="put it at the front of the queue")
    parser.add_argument("--on-failed", choices=["record", "escalate"])
    parser.add_argument(
        "--register", action="store_true", help="register the agent if it is unknown"
    )
    parser.add_argument("--json", action="store_true", help="print the whole instruction")


def rewrite_send_arguments(argv: Sequence[str]) -> list[str]:
    """Rewrite `--expect TYPE {…}` as `--expect TYPE --match {…}`, which argparse can parse."""
    args = list(argv)
    for at in range(len(args) - 2):
        if args[at] == "--":
            break
        if args[at] == "--expect" and args[at + 2].lstrip().startswith("{"):
            return [*args[: at + 2], f"--match={args[at + 2]}", *args[at + 3 :]]
    return args


def send(args: argparse.Namespace) -> int:
    """Print the instruction's id, with a note if the same one is waiting already."""
    with Client(args.url) as tenfour:
        sent = tenfour.instructions.send(
            args.agent,
            text_of(args.text),
            tracked=False if args.plain else None,
            max_retries=args.max_retries,
            expect=_expectation(args),
            priority=args.priority or None,
            on_failed=args.on_failed,
            register=args.register or None,
        )
    if sent.deduplicated:
        note(f"The same instruction is already waiting for {args.agent}; nothing new was sent.")
    say(pretty(sent.raw) if args.json else sent.id)
    return OK


def _expectation(args: argparse.Namespace) -> Mapping[str, Any] | None:
    if args.expect is None:
        return None
    if args.match is None:
        return {"type": args.expect}
    return {
        "type": args.expect,
        "match": json_object(args.match, what="What --expect matches", hint=OBJECT),
    }


def add_pull_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, default=10, metavar="N")
    parser.add_argument("--json", action="store_true", help="print ids too, for a program")
    parser.add_argument("--follow", action="store_true", help="continue until interrupted")


def pull(args: argparse.Namespace) -> int:
    """Print the agent's waiting instructions: the texts alone, or everything as JSON."""
    with Client(args.url) as tenfour:
        if args.follow:
            return _follow(tenfour, args)
        pulled = tenfour.instructions.pull(args.limit, via="cli")
    if args.json:
        say(pretty(pulled.raw))
    elif pulled:
        say(_texts(pulled))
    return OK


def _texts(pulled: Pulled) -> str:
    return "\n\n".join(instruction.text for instruction in pulled)


def _follow(tenfour: Client, args: argparse.Namespace) -> int:
    before = ""
    while True:
        pulled, wait = _pull_or_wait(tenfour, args.limit)
        for instruction in pulled if args.json else ():
            say(json.dumps(instruction.raw, ensure_ascii=False))
        if pulled and not args.json:
            say(before + _texts(pulled))
            before = "\n"
        time.sleep(wait)


def _pull_or_wait(tenfour: Client, limit: int) -> tuple[Pulled, float]:
    try:
        pulled = tenfour.instructions.pull(limit, via="cli")
    except TenfourError as error:
        if not error.retryable:
            raise
        complain(error)
        return Pulled(), error.retry_after_s or FOLLOW_S
    # Never at once after an empty response, whatever it says: that would spin.
    wait = pulled.retry_after_s if pulled else pulled.retry_after_s or FOLLOW_S
    return pulled, min(wait, LONGEST_FOLLOW_S)


def add_ack_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+")
    add_ack_options(parser)


def add_ack_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--outcome", choices=["done", "accepted", "declined"])
    parser.add_argument("--note", metavar="TEXT")


def ack(args: argparse.Namespace) -> int:
    """Print each id and its state; exit with 1 if one is unknown."""
    with Client(args.url) as tenfour:
        results = [_ack_one(tenfour, id, args) for id in dict.fromkeys(args.ids)]
    return OK if all(results) else REFUSED


def _ack_one(tenfour: Client, id: str, args: argparse.Namespace) -> bool:
    try:
        acked = tenfour.instructions.ack(id, outcome=args.outcome, note=args.note)
    except ServerAway:
        raise
    except TenfourError as error:
        if error.status not in {404, 422}:
            raise
        complain(error, subject=id)
        return False
    say(f"{id} {acked.state}{' (late: it was settled before)' if acked.late else ''}")
    return True


def add_signal_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("type", metavar="TYPE")
    parser.add_argument("data", metavar="JSON", nargs="?", help="an object; - reads it from stdin")


def signal(args: argparse.Namespace) -> int:
    """Print the ids that the signal acknowledged."""
    data = (
        json_object(text_of(args.data), what="The signal's data", hint=OBJECT) if args.data else {}
    )
    with Client(args.url) as tenfour:
        acknowledged = tenfour.signal(args.type, data)
    for id in acknowledged:
        say(id)
    if not acknowledged:
        note("No instruction expects this signal.")
    return OK
