"""The command `tenfour`: its entry point, the commands for instructions, and `doctor`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenfour import doctor, export, planning, work
from tenfour.arguments import Runs, parser_of, with_match
from tenfour.client import Client
from tenfour.models import Pulled
from tenfour.problems import ServerAway, TenfourError
from tenfour.terminal import (
    INTERRUPTED,
    OK,
    REFUSED,
    complain,
    exit_status,
    json_object,
    note,
    pretty,
    say,
    text_of,
    use_utf8,
)

FOLLOW_S = 5.0
LONGEST_FOLLOW_S = 60.0
OBJECT = """For example: '{"command": "python3"}'"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    use_utf8()
    args = parser_of(RUNS).parse_args(with_match(sys.argv[1:] if argv is None else argv))
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        return run(args)
    except TenfourError as error:
        complain(error)
        return exit_status(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader is gone; this keeps Python from printing an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return REFUSED


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


def pull(args: argparse.Namespace) -> int:
    """Print the agent's waiting instructions: the texts alone, or everything as JSON."""
    with Client(args.url) as tenfour:
        if args.follow:
            return _follow(tenfour, args)
        pulled = tenfour.instructions.pull(args.limit)
    if args.json:
        say(pretty(pulled.raw))
    elif pulled:
        say(_texts(pulled))
    return OK


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
        pulled = tenfour.instructions.pull(limit)
    except TenfourError as error:
        if not error.retryable:
            raise
        complain(error)
        return Pulled(), error.retry_after_s or FOLLOW_S
    # Never at once after an empty response, whatever it says: that would spin.
    wait = pulled.retry_after_s if pulled else pulled.retry_after_s or FOLLOW_S
    return pulled, min(wait, LONGEST_FOLLOW_S)


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


def examine(args: argparse.Namespace) -> int:
    """Print one line for each check; exit with 1 if one fails."""
    findings = doctor.examine(args.url)
    for finding in findings:
        say(finding.line)
    return REFUSED if any(finding.level == "fail" for finding in findings) else OK


RUNS: Runs = {
    "send": send,
    "pull": pull,
    "ack": ack,
    "signal": signal,
    "enqueue": work.enqueue,
    "claim": work.claim,
    "report": work.report,
    "run": work.run,
    "plan": planning.plan,
    "export": export.export,
    "doctor": examine,
}


def _expectation(args: argparse.Namespace) -> Mapping[str, Any] | None:
    if args.expect is None:
        return None
    if args.match is None:
        return {"type": args.expect}
    return {
        "type": args.expect,
        "match": json_object(args.match, what="What --expect matches", hint=OBJECT),
    }


def _texts(pulled: Pulled) -> str:
    return "\n\n".join(instruction.text for instruction in pulled)
