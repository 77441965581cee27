"""`tenfour agent`: list, show, accounts, register, and what an operator changes."""

from __future__ import annotations

import argparse
from typing import Any

from tenfour.client import Client
from tenfour.commands.terminal import text_of, wrong_usage
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
from tenfour.nouns.rows import Kind, act, change

KIND = Kind("/v1/agents", "agent", "agents", names="path", title="name", page="/agents/{id}/")


def describe_presence(row: Row) -> str:
    """Return the most important thing about an agent in one word."""
    if row["paused"]:
        return "paused"
    if row["breaker"]["state"] != "closed":
        return f"{row['breaker']['state']} breaker"
    return "silent" if row["silent"] else "active" if row["last_seen_at"] else "new"


STATE = Column("state", lambda row, _: describe_presence(row), "state")
COLUMNS = (
    plain("name", "agent", style="bold", stretch=True),
    STATE,
    plain("running"),
    plain("waiting"),
    plain("awaiting_ack"),
    time("last_seen_at"),
    identity(),
)
LAYOUT = Layout(
    plain("name", "agent"),
    (
        STATE,
        plain("running"),
        plain("waiting"),
        plain("awaiting_ack"),
        plain("concurrency"),
        plain("account"),
        time("waits_until", "at limit until"),
        plain("breaker.state", "breaker", style="state"),
        plain("breaker.failures", "failures"),
        plain("breaker.reason", "breaker reason"),
        time("breaker.kept_open_at", "kept open"),
        time("breaker.retry_at", "breaker probe"),
        time("last_seen_at"),
        time("created_at"),
        whole(),
    ),
    (plain("system_text"),),
)


ACCOUNTS = Kind("/v1/accounts", "account", "accounts", noun="agent", title="name")


def describe_window(name: str) -> Column:
    """Return the column of a window of an account: its share that is used, in percent."""

    def read(row: Row) -> str:
        used = next((each["used"] for each in row["limits"] if each["window"] == name), None)
        # A window that is not full is not shown as if it were.
        return "" if used is None else f"{100 if used >= 1 else min(99, round(100 * used))}%"

    return computed(name.replace("_", " "), read)


ACCOUNT_COLUMNS = (
    plain("name", "account", style="bold", stretch=True),
    plain("agents"),
    *map(describe_window, ("five_hours", "week", "credit")),
    time("waits_until", "at limit until"),
)


def register(args: argparse.Namespace) -> int:
    """Register an agent and print its name and id."""
    return create_row(args, KIND, {"name": args.name})


def add_register_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    add_json(parser, "print the agent as JSON")


def change_options(client: Client, id: str, args: argparse.Namespace) -> Row:
    """Change the options that were given."""
    changes: dict[str, Any] = {}
    if args.concurrency is not None:
        changes["concurrency"] = args.concurrency or None
    if args.account is not None:
        changes["account"] = args.account
    if args.system_text is not None:
        changes["system_text"] = text_of(args.system_text)
    if not changes:
        raise wrong_usage("Nothing to change.", "Use --concurrency, --account or --system-text.")
    return change(client, KIND, id, **changes)


def add_change_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--concurrency", type=int, metavar="N", help="attempts at a time; 0 for no limit"
    )
    parser.add_argument(
        "--account", metavar="NAME", help="account that its calls are billed to; empty: its own"
    )
    parser.add_argument(
        "--system-text", metavar="TEXT", help="goes with every prompt; - reads it from stdin"
    )


def add_reason(parser: Parser) -> None:
    parser.add_argument(
        "--reason", metavar="TEXT", help="the reason, for people who look at it later"
    )


def describe_agent(row: Row) -> str:
    return f"{row['name']} {describe_presence(row)}"


def make_breaker_action(action: str, help: str) -> Verb:
    """Return the verb of an action on an agent's breaker that takes a reason."""
    return make_action(
        KIND,
        help,
        "agents:write",
        lambda client, id, args: act(
            client, KIND.path_of(id, "breaker", action), {"reason": args.reason}
        ),
        add=add_reason,
        say_done=describe_agent,
    )


NOUN = Noun(
    "agent",
    "Agents: named workers, with what they run and the state of their breakers.",
    {
        "list": make_list(KIND, COLUMNS, "agents:read", help="List agents."),
        "show": make_show(KIND, LAYOUT, "agents:read"),
        "accounts": make_list(
            ACCOUNTS,
            ACCOUNT_COLUMNS,
            "agents:read",
            help="List the accounts that agents' calls are billed to, with their limits.",
        ),
        "register": Verb("Register an agent.", "agents:write", register, add_register_arguments),
        **make_pauses(
            KIND,
            "agents:write",
            describe_agent,
            pause="Give an agent no new tasks; running attempts continue.",
            resume="Give a paused agent tasks again.",
        ),
        "change": make_action(
            KIND,
            "Change an agent's limit of concurrent attempts, account or system text.",
            "agents:write",
            change_options,
            add=add_change_arguments,
            say_done=describe_agent,
        ),
        "trip": make_breaker_action(
            "trip", "Open an agent's breaker: it gets no tasks until a probe passes."
        ),
        "keep-open": make_breaker_action(
            "keep-open", "Keep an agent's open breaker open until a person closes or probes it."
        ),
        "close": make_action(
            KIND,
            "Close an agent's breaker and clear its failures.",
            "agents:write",
            lambda client, id, args: act(client, KIND.path_of(id, "breaker", "reset")),
            say_done=describe_agent,
        ),
        "reset": make_action(
            KIND,
            "Cancel an agent's unsettled instructions; prints how many.",
            "agents:write",
            lambda client, id, args: act(
                client, KIND.path_of(id, "reset"), {"reason": args.reason}
            ),
            add=add_reason,
            say_done=lambda row: f"{row['cancelled']} cancelled",
            question="Cancel all unsettled instructions of {id}?",
        ),
    },
)
