"""`tenfour target`: list, set, and remove targets for acknowledgments, waits, and runs."""

from __future__ import annotations

import argparse

from tenfour.api.calls import given, json_object
from tenfour.api.settings.target_calls import PATH
from tenfour.client import Client
from tenfour.commands.terminal import OK, pretty, say
from tenfour.http.core import Call
from tenfour.nouns.noun import Noun, Parser, Verb
from tenfour.nouns.output.columns import Row, computed, plain, time
from tenfour.nouns.output.json_output import add_json_output
from tenfour.nouns.reading import add_json, print_rows
from tenfour.nouns.rows import get

READ, WRITE = "events:read", "escalations:resolve"
OWNERS = ("agent", "type", "plan")


def _owner(row: Row) -> str:
    return next((f"{name} {row[name]}" for name in OWNERS if row[name]), "")


def _target(row: Row) -> str:
    return f"{row['percent']}% within {row['within_s']} s" if row["percent"] else "removed"


COLUMNS = (
    computed("of", _owner, stretch=True),
    plain("measure"),
    computed("target", _target),
    plain("set_by", "set by"),
    time("set_at", "set"),
)


def list_targets(args: argparse.Namespace) -> int:
    """Print the project's targets."""
    with Client(args.url) as client:
        rows = get(client, PATH)["data"]
    print_rows(rows, COLUMNS, plural="targets", output=args.json)
    return OK


def add_subject(parser: Parser) -> None:
    parser.add_argument(
        "measure", metavar="MEASURE", choices=["ack", "wait", "run"], help="ack, wait, or run"
    )
    owner = parser.add_mutually_exclusive_group(required=True)
    owner.add_argument("--agent", metavar="NAME", help="of this agent: its name or id")
    owner.add_argument("--type", metavar="TYPE", help="of this type of tasks")
    owner.add_argument("--plan", metavar="REF", help="of this plan: its ref or id")
    add_json(parser, "print the target as JSON")


def add_set_arguments(parser: Parser) -> None:
    add_subject(parser)
    parser.add_argument("percent", metavar="PERCENT", type=int, help="the share to be in time")
    parser.add_argument("within_s", metavar="SECONDS", type=int, help="the time")


def put_target(args: argparse.Namespace) -> int:
    """Set or remove a target; print it."""
    names = ("measure", *OWNERS, "percent", "within_s")
    body = given({name: getattr(args, name, None) for name in names})
    with Client(args.url) as client:
        row: Row = client.perform(Call("PUT", PATH, json_object, body))
    say(pretty(row) if args.json else f"{_owner(row)} {row['measure']} {_target(row)}")
    return OK


NOUN = Noun(
    "target",
    "Targets of agents, types of tasks, and plans: the share that should be in time.",
    {
        "list": Verb(
            "List targets, those of agents first.",
            READ,
            list_targets,
            lambda parser: add_json_output(parser, "print the targets as a JSON array"),
        ),
        "set": Verb(
            "Set a target, or replace the one of the same measure; prints it.",
            WRITE,
            put_target,
            add_set_arguments,
            example="tenfour target set wait 95 120 --type code",
        ),
        "remove": Verb(
            "Remove a target, if there is one.",
            WRITE,
            put_target,
            add_subject,
            example="tenfour target remove wait --type code",
        ),
    },
)
