"""`tenfour token`: list, show, create, rotate, revoke."""

from __future__ import annotations

import argparse

from tenfour.api.calls import json_object
from tenfour.client import Client
from tenfour.commands.terminal import OK, pretty, say
from tenfour.http.core import Call
from tenfour.nouns.noun import Noun, Parser, Verb
from tenfour.nouns.output.columns import Column, Row, identity, plain, time, whole
from tenfour.nouns.output.record import Layout
from tenfour.nouns.reading import add_json, make_action, make_list, make_show
from tenfour.nouns.rows import Kind, act

KIND = Kind("/v1/tokens", "token", "tokens", title="name", page="/settings/tokens/")
STATE = Column("state", lambda row, _: "revoked" if row["revoked_at"] else "active", "state")
COLUMNS = (
    identity(),
    STATE,
    plain("kind"),
    plain("name", stretch=True),
    plain("agent"),
    plain("prefix"),
    time("last_used_at"),
    time("expires_at"),
)
LAYOUT = Layout(
    plain("name"),
    (
        STATE,
        plain("kind"),
        plain("agent"),
        plain("account"),
        plain("prefix"),
        plain("scopes"),
        plain("created_by", "created by"),
        time("created_at"),
        time("last_used_at"),
        time("expires_at"),
        time("revoked_at"),
        whole(),
    ),
)


def add_create_arguments(parser: Parser) -> None:
    kinds = ["agent", "orchestrator", "operator", "reader"]
    parser.add_argument("--kind", choices=kinds, required=True, help="what the token may do")
    parser.add_argument("--agent", metavar="NAME", help="the token's agent, with --kind agent")
    parser.add_argument("--name", metavar="TEXT", help="a name for people")
    parser.add_argument(
        "--account", metavar="NAME", help="what the agent's calls with it are billed to"
    )
    parser.add_argument(
        "--scopes", metavar="SCOPES", help="some of the kind's, separated by commas; default: all"
    )
    parser.add_argument("--days", type=int, metavar="N", help="how long it is valid")
    parser.add_argument("--register", action="store_true", help="register the agent if unknown")
    add_json(parser, "print the token and its secret as JSON")


def create(args: argparse.Namespace) -> int:
    """Create a token; print its secret, which is shown once."""
    body = {
        "kind": args.kind,
        "agent": args.agent,
        "name": args.name,
        "account": args.account,
        "scopes": args.scopes and [each.strip() for each in args.scopes.split(",")],
        "expires_in_days": args.days,
        "register": args.register or None,
    }
    with Client(args.url) as client:
        row = act(client, KIND.path, body)
    say(pretty(row) if args.json else str(row["secret"]))
    return OK


def add_overlap(parser: Parser) -> None:
    parser.add_argument(
        "--overlap-hours", type=int, metavar="N", help="how long the old secret stays valid"
    )


def revoke(client: Client, id: str, args: argparse.Namespace) -> Row:
    return client.perform(Call("DELETE", KIND.path_of(id), json_object))


NOUN = Noun(
    "token",
    "Tokens: who may call the API, and what each may do.",
    {
        "list": make_list(KIND, COLUMNS, "tokens:write"),
        "show": make_show(KIND, LAYOUT, "tokens:write"),
        "create": Verb(
            "Create a token; prints its secret, which is shown once.",
            "tokens:write",
            create,
            add_create_arguments,
        ),
        "rotate": make_action(
            KIND,
            "Replace a token with a new one; prints the new secret.",
            "tokens:write",
            lambda client, id, args: act(
                client, KIND.path_of(id, "rotate"), {"overlap_hours": args.overlap_hours}
            ),
            add=add_overlap,
            say_done=lambda row: str(row["secret"]),
        ),
        "revoke": make_action(
            KIND,
            "Revoke a token at once.",
            "tokens:write",
            revoke,
            say_done=lambda row: f"{row['id']} revoked",
            question="Revoke the token {id}?",
        ),
    },
)
