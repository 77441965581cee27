"""The command for markers: marker."""

from __future__ import annotations

import argparse

from tenfour.client import Client
from tenfour.commands.terminal import OK, pretty, say


def add_marker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what happened, such as 'deploy 2024.11'")
    parser.add_argument("--kind", metavar="KIND", help="such as deploy, the default, or change")
    parser.add_argument(
        "--at", metavar="TIME", help="when it happened, with a zone; now if missing"
    )
    parser.add_argument("--link", metavar="URL", help="the address of a page about it")
    parser.add_argument("--text", metavar="TEXT", help="more about it")
    parser.add_argument("--key", metavar="KEY", help="a repeated call with it sets one marker")
    parser.add_argument("--json", action="store_true", help="print the marker as JSON")


def marker(args: argparse.Namespace) -> int:
    """Set a marker that charts show; print its id."""
    with Client(args.url) as tenfour:
        made = tenfour.markers.create(
            args.name,
            kind=args.kind,
            at=args.at,
            link=args.link,
            text=args.text,
            idempotency_key=args.key,
        )
    say(pretty(made.raw) if args.json else made.id)
    return OK
