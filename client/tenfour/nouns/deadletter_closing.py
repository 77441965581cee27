"""Replay or dismiss dead letters: one by its id, several, or all that match a filter."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from tenfour.api.calls import given
from tenfour.client import Client
from tenfour.commands.display import clean
from tenfour.commands.terminal import OK, REFUSED, json_of, note, pretty, say, wrong_usage
from tenfour.nouns.bulk import add_yes, is_confirmed
from tenfour.nouns.noun import Parser, Verb
from tenfour.nouns.output.columns import Row
from tenfour.nouns.reading import add_json
from tenfour.nouns.rows import Kind, act, find_id

MOST = 100  # ids of one call


def make_closing(kind: Kind, action: str, help: str) -> Verb:
    """Return the verb that closes dead letters by `action`."""
    return Verb(
        help,
        "deadletters:write",
        partial(close_rows, kind, action),
        partial(add_arguments, action),
        example=f"tenfour dead-letter {action} --agent coder --type test",
    )


def add_arguments(action: str, parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="*", help="one or several; a short id is enough")
    parser.add_argument("--agent", metavar="NAME", help="all open ones of this agent")
    parser.add_argument("--type", metavar="TYPE", help="all open ones of this type")
    parser.add_argument("--all", action="store_true", help="all open ones of the project")
    add_yes(parser)
    if action == "replay":
        parser.add_argument(
            "--payload", metavar="JSON", help="the new task’s payload, for one dead letter"
        )
    if action == "dismiss":
        parser.add_argument("--note", metavar="TEXT", help="why")
        parser.add_argument(
            "--dependents",
            choices=["continue", "block", "skip"],
            help="what happens to the tasks that need it",
        )
    add_json(parser, "print the response as JSON")


def close_rows(kind: Kind, action: str, args: argparse.Namespace) -> int:
    """Close the selected dead letters; several are counted first and confirmed."""
    is_filter = bool(args.all or args.agent or args.type)
    if bool(args.ids) == is_filter:
        raise wrong_usage(
            "Give ids, or a filter, but not both." if args.ids else "Nothing to close.",
            "Name one or several ids, or use --agent, --type or --all.",
        )
    said = {"note": args.note, "dependents": args.dependents} if action == "dismiss" else {}
    if action == "replay" and args.payload is not None:
        if len(args.ids) != 1:
            raise wrong_usage("--payload is for one dead letter.", "Name one id.")
        said = {"payload": json_of(args.payload, what="The payload")}
    with Client(args.url) as client:
        ids = [find_id(client, kind, text) for text in args.ids]
        if len(ids) == 1:
            row = act(client, kind.path_of(ids[0], action), said)
            say(pretty(row) if args.json else clean(describe_closed(row)))
            return OK
        wanted = {"ids": ids} if ids else choose_filter(args)
        return close_many(client, kind, {"action": action, **wanted, **given(said)}, args)


def choose_filter(args: argparse.Namespace) -> Mapping[str, Any]:
    filters = given({"agent": args.agent, "type": args.type})
    return filters or {"all": True}


def close_many(
    client: Client, kind: Kind, body: Mapping[str, Any], args: argparse.Namespace
) -> int:
    """Count the dead letters, ask, close them, and say which are closed and which are not."""
    path = f"{kind.path}/bulk"
    parts = split_ids(body)
    counted = sum(act(client, path, {**each, "dry_run": True})["matched"] for each in parts)
    plural = kind.name if counted == 1 else kind.plural
    if not counted:
        note(f"No open {kind.plural} match.")
        return OK
    if not is_confirmed(args, f"{body['action'].capitalize()} {counted} {plural}?"):
        return REFUSED
    answers = [answer for each in parts for answer in close_in_turns(client, path, each, counted)]
    done = [id for each in answers for id in each["ids"]]
    # each call for a filter names them again
    not_done = list({row["id"]: row for each in answers for row in each["not_done"]}.values())
    if args.json:
        say(pretty({"ids": done, "not_done": not_done}))
    for id in [] if args.json else done:
        say(id)
    for row in not_done:
        note(f"{row['id']}: {row['reason']}")
    return REFUSED if not_done else OK


def close_in_turns(
    client: Client, path: str, body: Mapping[str, Any], counted: int
) -> Iterator[Row]:
    """Repeat the call until nothing that matches is left; yield each answer.

    Ends after as many as were counted: a replayed task may fail again meanwhile, and would match.
    """
    closed = 0
    while True:
        answer = act(client, path, body)
        closed += answer["changed"]
        yield answer
        # an older server closes all at once, and does not name what is left
        if not (answer.get("left") and answer["changed"] and closed < counted):
            return


def split_ids(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the bodies of as many calls as the server's limit of ids requires."""
    ids = body.get("ids")
    if not ids:
        return [body]
    return [{**body, "ids": ids[at : at + MOST]} for at in range(0, len(ids), MOST)]


def describe_closed(row: Row) -> str:
    return f"{row['id']} {row['closed_as'] or 'open'} {row['replayed_as'] or ''}".rstrip()
