"""`tenfour event`: list, show, and the stream that `list --follow` prints."""

from __future__ import annotations

import argparse

from tenfour.client import Client
from tenfour.commands.terminal import OK, wrong_usage
from tenfour.nouns.events.event_columns import COLUMNS, LAYOUT
from tenfour.nouns.noun import Noun, Parser, Verb, choose
from tenfour.nouns.output.json_output import add_json_output
from tenfour.nouns.reading import add_id, add_limit, add_web, open_page, print_record, print_rows
from tenfour.nouns.rows import Kind, fetch_rows, find_id, unknown

KIND = Kind("/v1/events", "event", "events", title="type", page="/activity/?q={subject}")


def add_list_arguments(parser: Parser) -> None:
    parser.add_argument("--kind", metavar="KINDS", help="such as task.completed,task.failed")
    parser.add_argument("--agent", metavar="NAME", help="about this agent")
    parser.add_argument("--subject", metavar="ID", help="about this task, plan, …: its whole id")
    parser.add_argument("--since", metavar="TIME", help="such as 2026-11-22T12:00:00Z")
    parser.add_argument("--until", metavar="TIME", help="before this time")
    parser.add_argument(
        "--follow", "-f", action="store_true", help="print new events until interrupted"
    )
    add_limit(parser)
    add_json_output(parser, "print the events as a JSON array; with --follow one object a line")


def list_events(args: argparse.Namespace) -> int:
    """Print events, newest first; with --follow oldest first, and every new one."""
    if args.follow and (args.since or args.until):
        raise wrong_usage("--follow goes with neither --since nor --until.", "Leave them out.")
    if args.follow and args.json and not args.json.is_whole:
        raise wrong_usage(
            "--follow goes with neither --fields nor --jq.", "Use --json and pipe it to jq."
        )
    params = choose(args, "kind", "agent", "subject", "since", "until")
    with Client(args.url) as client:
        if args.follow:
            from tenfour.nouns.events.following import follow_events

            return follow_events(client, params, limit=args.limit, as_json=bool(args.json))
        rows, more = fetch_rows(client, KIND.path, params, limit=args.limit)
    print_rows(rows, COLUMNS, plural=KIND.plural, output=args.json, more=more)
    return OK


def add_show_arguments(parser: Parser) -> None:
    add_id(parser, KIND)
    add_web(parser)
    add_json_output(parser, "print the event as JSON, as the API has it")


def show(args: argparse.Namespace) -> int:
    """Print one event; the API lists it, as no path has one event."""
    with Client(args.url) as client:
        id = find_id(client, KIND, args.id)
        rows, _ = fetch_rows(client, KIND.path, {"id": id}, limit=1)
    found = next((row for row in rows if row["id"] == id), None)
    if found is None:
        raise unknown(KIND, args.id)
    if args.web:
        open_page(client, KIND, found)
    elif args.json:
        args.json.print(found)
    else:
        print_record(LAYOUT, found)
    return OK


NOUN = Noun(
    "event",
    "Events: the journal of everything that happened. `tenfour events --follow` watches it.",
    {
        "list": Verb(
            "List events, newest first, or follow them.",
            "events:read",
            list_events,
            add_list_arguments,
            example="tenfour event list --follow --kind task.failed,escalation.opened",
        ),
        "show": Verb("Show one event.", "events:read", show, add_show_arguments),
    },
)
