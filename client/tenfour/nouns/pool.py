"""`tenfour pool`: list, show, create, add, remove, pause, resume, change, delete."""

from __future__ import annotations

import argparse

from tenfour.api import pool_calls
from tenfour.client import Client
from tenfour.nouns.noun import Noun, Parser, Verb
from tenfour.nouns.output.columns import Column, Row, computed, identity, plain, time, whole
from tenfour.nouns.output.record import Layout
from tenfour.nouns.reading import (
    add_json,
    create_row,
    make_action,
    make_list,
    make_pauses,
    make_show,
)
from tenfour.nouns.rows import Kind, change

KIND = Kind("/v1/pools", "pool", "pools", names="path", title="name", page="/agents/pools/{id}/")
RETRY_ON = ["any", "same", "other"]


def describe_members(row: Row) -> str:
    """Return such as "2 of 3 have room"."""
    members = row["members"]
    free = sum(not each["hold"] for each in members)
    return f"{free} of {len(members)} have room" if members else "none"


def list_members(row: Row) -> str:
    """Return the members, each with what holds it back."""
    named = (
        f"{each['agent']} ({each['hold'].replace('_', ' ')})" if each["hold"] else each["agent"]
        for each in row["members"]
    )
    return ", ".join(named)


STATE = Column("state", lambda row, _: "paused" if row["paused"] else "active", "state")
COLUMNS = (
    plain("name", "pool", style="bold", stretch=True),
    STATE,
    computed("members", describe_members),
    plain("queued"),
    plain("retries"),
    plain("running"),
    time("oldest_at", "oldest"),
    identity(),
)
LAYOUT = Layout(
    plain("name", "pool"),
    (
        STATE,
        computed("members", list_members),
        plain("retry_on", "retry on"),
        plain("queued"),
        plain("retries"),
        plain("running"),
        plain("done", "done in 24 h"),
        time("oldest_at", "oldest waits since"),
        time("created_at"),
        whole(),
    ),
    (),
)


def describe_pool(row: Row) -> str:
    return f"{row['name']} {'paused' if row['paused'] else 'active'}, {describe_members(row)}"


def add_retry_on(parser: Parser, *, required: bool = False) -> None:
    parser.add_argument(
        "--retry-on",
        choices=RETRY_ON,
        required=required,
        help="the members that retry a task, unless the task says otherwise",
    )


def add_create_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    add_agents(parser)
    add_retry_on(parser)
    add_json(parser, "print the pool as JSON")


def add_agents(parser: Parser, *, number: str = "*") -> None:
    parser.add_argument("agents", metavar="AGENT", nargs=number, help="the name of an agent")


def create(args: argparse.Namespace) -> int:
    """Create a pool and print its name and id."""
    body = {"name": args.name, "members": args.agents, "retry_on": args.retry_on}
    return create_row(args, KIND, body)


def add_move_to(parser: Parser) -> None:
    parser.add_argument("--move-to", metavar="NAME", help="the agent or pool that gets its tasks")


def delete(client: Client, id: str, args: argparse.Namespace) -> Row:
    return {"moved": client.perform(pool_calls.remove(id, move_to=args.move_to))}


NOUN = Noun(
    "pool",
    "Pools: names that tasks are sent to instead of one agent; members claim them.",
    {
        "list": make_list(KIND, COLUMNS, "agents:read"),
        "show": make_show(KIND, LAYOUT, "agents:read"),
        "create": Verb(
            "Create a pool of agents.",
            "agents:write",
            create,
            add_create_arguments,
            example="tenfour pool create reviewers coder tester",
        ),
        "add": make_action(
            KIND,
            "Add agents to a pool.",
            "agents:write",
            lambda client, id, args: change(client, KIND, id, add=args.agents),
            add=lambda parser: add_agents(parser, number="+"),
            say_done=describe_pool,
        ),
        "remove": make_action(
            KIND,
            "Remove agents from a pool; running attempts continue.",
            "agents:write",
            lambda client, id, args: change(client, KIND, id, remove=args.agents),
            add=lambda parser: add_agents(parser, number="+"),
            say_done=describe_pool,
        ),
        **make_pauses(
            KIND,
            "agents:write",
            describe_pool,
            pause="Hand out no task of a pool; running attempts continue.",
            resume="Hand out the tasks of a paused pool again.",
        ),
        "change": make_action(
            KIND,
            "Change which members retry the tasks that are sent to a pool from now on.",
            "agents:write",
            lambda client, id, args: change(client, KIND, id, retry_on=args.retry_on),
            add=lambda parser: add_retry_on(parser, required=True),
            say_done=describe_pool,
        ),
        "delete": make_action(
            KIND,
            "Delete a pool; prints how many open tasks went elsewhere.",
            "agents:write",
            delete,
            add=add_move_to,
            say_done=lambda row: f"{row['moved']} moved",
            question="Delete the pool {id}?",
        ),
    },
)
