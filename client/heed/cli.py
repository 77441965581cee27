"""The command `heed`: send, pull, ack, signal, doctor."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heed import doctor
from heed.arguments import Runs, parser_of, with_match
from heed.client import Client
from heed.models import Pulled
from heed.problems import HeedError, ServerAway
from heed.settings import NotConfigured

OK, REFUSED, USAGE, AWAY, INTERRUPTED = 0, 1, 2, 69, 130
FOLLOW_S = 5.0
LONGEST_FOLLOW_S = 60.0
OBJECT = """For example: '{"command": "python3"}'"""
# Where this command has other words for it than the API.
HINTS = {"unknown_agent": "Use one of the nearest names, or --register to make it known."}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; gives its exit status."""
    _speak_utf8()
    args = parser_of(RUNS).parse_args(with_match(sys.argv[1:] if argv is None else argv))
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        return run(args)
    except HeedError as error:
        _complain(error)
        return exit_status(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads any more, and Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return REFUSED


def exit_status(error: HeedError) -> int:
    """The exit status that an error stands for."""
    if isinstance(error, (NotConfigured, WrongUsage)):
        return USAGE
    return AWAY if isinstance(error, ServerAway) else REFUSED


def send(args: argparse.Namespace) -> int:
    """Prints the id of the instruction; says so where the same one waits already."""
    with Client(args.url) as heed:
        sent = heed.instructions.send(
            args.agent,
            _text(args.text),
            tracked=False if args.plain else None,
            max_retries=args.max_retries,
            expect=_expectation(args),
            priority=args.priority or None,
            on_failed=args.on_failed,
            register=args.register or None,
        )
    if sent.deduplicated:
        _note(f"The same instruction waits for {args.agent} already; nothing new was sent.")
    _print(_pretty(sent.raw) if args.json else sent.id)
    return OK


def pull(args: argparse.Namespace) -> int:
    """Prints what waits for this agent: the texts alone, or everything as JSON."""
    with Client(args.url) as heed:
        if args.follow:
            return _follow(heed, args)
        pulled = heed.instructions.pull(args.limit)
    if args.json:
        _print(_pretty(pulled.raw))
    elif pulled:
        _print(_texts(pulled))
    return OK


def _follow(heed: Client, args: argparse.Namespace) -> int:
    before = ""
    while True:
        pulled, wait = _pull_or_wait(heed, args.limit)
        for instruction in pulled if args.json else ():
            _print(json.dumps(instruction.raw, ensure_ascii=False))
        if pulled and not args.json:
            _print(before + _texts(pulled))
            before = "\n"
        time.sleep(wait)


def _pull_or_wait(heed: Client, limit: int) -> tuple[Pulled, float]:
    try:
        pulled = heed.instructions.pull(limit)
    except HeedError as error:
        if not error.retryable:
            raise
        _complain(error)
        return Pulled(), error.retry_after_s or FOLLOW_S
    # Never at once after an empty answer, whatever it says: that would spin.
    wait = pulled.retry_after_s if pulled else pulled.retry_after_s or FOLLOW_S
    return pulled, min(wait, LONGEST_FOLLOW_S)


def ack(args: argparse.Namespace) -> int:
    """Prints each id and what became of it; 1 if one of them is unknown."""
    with Client(args.url) as heed:
        results = [_ack_one(heed, id, args) for id in dict.fromkeys(args.ids)]
    return OK if all(results) else REFUSED


def _ack_one(heed: Client, id: str, args: argparse.Namespace) -> bool:
    try:
        acked = heed.instructions.ack(id, outcome=args.outcome, note=args.note)
    except ServerAway:
        raise
    except HeedError as error:
        if error.status not in {404, 422}:
            raise
        _complain(error, subject=id)
        return False
    _print(f"{id} {acked.state}{' (too late to count)' if acked.late else ''}")
    return True


def signal(args: argparse.Namespace) -> int:
    """Prints the ids that the signal acknowledged."""
    data = _json_object(_text(args.data), what="the signal's data") if args.data else {}
    with Client(args.url) as heed:
        acknowledged = heed.signal(args.type, data)
    for id in acknowledged:
        _print(id)
    if not acknowledged:
        _note("No instruction waits for this signal.")
    return OK


def examine(args: argparse.Namespace) -> int:
    """Prints one line for each thing looked at; 1 if one of them fails."""
    findings = doctor.examine(args.url)
    for finding in findings:
        _print(finding.line)
    return REFUSED if any(finding.level == "fail" for finding in findings) else OK


RUNS: Runs = {"send": send, "pull": pull, "ack": ack, "signal": signal, "doctor": examine}


def _expectation(args: argparse.Namespace) -> Mapping[str, Any] | None:
    if args.expect is None:
        return None
    if args.match is None:
        return {"type": args.expect}
    return {"type": args.expect, "match": _json_object(args.match, what="what --expect matches")}


def _json_object(text: str, *, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _usage(f"{what.capitalize()} is not JSON: {error}.", OBJECT) from error
    if not isinstance(value, dict):
        raise _usage(f"{what.capitalize()} is not a JSON object.", OBJECT)
    return value


class WrongUsage(HeedError):
    """An argument that cannot be meant."""


def _usage(detail: str, hint: str = "") -> WrongUsage:
    return WrongUsage(detail, code="usage", hint=hint)


def _text(argument: str) -> str:
    # The newline that ends a file or an echo is not part of what was said.
    if argument != "-":
        return argument
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise _usage("What stdin gave is not UTF-8 text.") from error


def _texts(pulled: Pulled) -> str:
    return "\n\n".join(instruction.text for instruction in pulled)


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _print(text: str) -> None:
    print(text, flush=True)


def _note(text: str) -> None:
    print(f"heed: {text}", file=sys.stderr)


def _complain(error: HeedError, *, subject: str = "") -> None:
    """One sentence, one hint, and the request's id for the server's log."""
    said = f"{subject}: {error.sentence}" if subject else error.sentence
    hint = HINTS.get(error.code, error.hint)
    known = f"(request {error.request_id})" if error.request_id else ""
    _note(" ".join(f"{said} {hint} {known}".split()))


def _speak_utf8() -> None:
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            errors = "strict" if stream is sys.stdin else "replace"
            stream.reconfigure(encoding="utf-8", errors=errors)
