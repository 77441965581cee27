"""The commands of `tenfour standing`: list, show, create, pause, resume, retire, try."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from tenfour.client import Client
from tenfour.problems import TenfourError
from tenfour.record_models import StandingInstruction
from tenfour.terminal import NOTHING, OK, json_object, note, pretty, say, text_of, wrong_usage

OBJECT = """Give an object, such as '{"path": "src/a.py"}'."""
SHORT_ID = 8


def add_standing_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    part = verbs.add_parser("list", help="print the rules, newest first")
    part.add_argument("--state", metavar="STATE", help="active, paused, draft or retired")
    part.add_argument("--agent", metavar="NAME", help="rules of this agent only")
    part.add_argument("--json", action="store_true", help="print the whole rows")
    part = verbs.add_parser("show", help="print one rule")
    part.add_argument("id", metavar="ID", help="its id, or the last 8 digits")
    part = verbs.add_parser("create", help="create a rule; prints its id")
    part.add_argument("file", metavar="FILE", help="the rule in JSON; - reads it from stdin")
    part.add_argument("--draft", action="store_true", help="save it without switching it on")
    for verb, does in {
        "pause": "send nothing until it is resumed",
        "resume": "switch it on",
        "retire": "end it for good",
    }.items():
        part = verbs.add_parser(verb, help=does)
        part.add_argument("id", metavar="ID", help="its id, or the last 8 digits")
    part = verbs.add_parser("try", help="try a rule on a sample signal; sends nothing")
    part.add_argument("id", metavar="ID", help="its id, or the last 8 digits")
    part.add_argument("type", metavar="TYPE", help="the signal's type, such as fs_write")
    part.add_argument("data", metavar="JSON", nargs="?", help="its data; - reads it from stdin")


def standing(args: argparse.Namespace) -> int:
    """Run one of the verbs of `tenfour standing`."""
    return VERBS[args.verb](args)


def list_rules(args: argparse.Namespace) -> int:
    with Client(args.url) as tenfour:
        rows = list(tenfour.standing_instructions.list(state=args.state, agent=args.agent))
    if args.json:
        say(pretty([row.raw for row in rows]))
        return OK
    for row in rows:
        say(line_of(row))
    if not rows:
        note("There are no such rules.")
    return OK


def line_of(row: StandingInstruction) -> str:
    """Return a rule as one line: its short id, state, trigger and text."""
    on = row.on
    what = " ".join(str(on[name]) for name in ("event", "type") if on.get(name))
    held = " holds the stop" if row.hold_stop else ""
    text = " ".join(row.content.split())
    return f"{row.id[-SHORT_ID:]}  {row.state:8} {what:24} {text}{held}"


def show(args: argparse.Namespace) -> int:
    with Client(args.url) as tenfour:
        found = tenfour.standing_instructions.get(id_of(tenfour, args.id))
    say(pretty(found.raw))
    return OK


def create(args: argparse.Namespace) -> int:
    body = json_object(read_rule(args.file), what="The rule", hint=OBJECT)
    on, content = body.pop("on", None), body.pop("content", None)
    if not isinstance(on, dict) or not isinstance(content, str):
        raise wrong_usage("The rule needs an object 'on' and a text 'content'.")
    if args.draft:
        body["paused"] = True
    with Client(args.url) as tenfour:
        made = tenfour.standing_instructions.create(on, content, **body)
    say(made.id)
    return OK


def read_rule(file: str) -> str:
    if file == "-":
        return text_of("-")
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except OSError as error:
        raise wrong_usage(f"{file} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise wrong_usage(f"{file} is not UTF-8 text.") from error


def change_state(args: argparse.Namespace) -> int:
    with Client(args.url) as tenfour:
        rules = tenfour.standing_instructions
        changed = getattr(rules, args.verb)(id_of(tenfour, args.id))
    say(line_of(changed))
    return OK


def try_rule(args: argparse.Namespace) -> int:
    """Print each condition; exit with 3 if the rule would not fire."""
    data = json_object(text_of(args.data), what="The data", hint=OBJECT) if args.data else {}
    with Client(args.url) as tenfour:
        id = id_of(tenfour, args.id)
        trial = tenfour.standing_instructions.try_saved(id, args.type, data)
    for condition in trial.conditions:
        say(f"{'yes' if condition.get('holds') else 'no ':3} {condition.get('text', '')}")
    note("It would fire." if trial.fires else "It would not fire.")
    return OK if trial.fires else NOTHING


def id_of(tenfour: Client, text: str) -> str:
    """Return the id of the rule whose id ends with these digits; a whole id as it is."""
    if len(text) == 36:
        return text
    for row in tenfour.standing_instructions.list():
        if len(text) >= SHORT_ID and row.id.endswith(text):
            return row.id
    raise TenfourError(
        f"No rule {text} is visible to this token.",
        status=404,
        code="not_found",
        hint="`tenfour standing list` prints the ids of the rules.",
    )


VERBS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "list": list_rules,
    "show": show,
    "create": create,
    "pause": change_state,
    "resume": change_state,
    "retire": change_state,
    "try": try_rule,
}
