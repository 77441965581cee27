"""`tenfour pattern`: list, show, failures, and what people decide about a pattern."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from tenfour.client import Client
from tenfour.commands.display import Screen
from tenfour.commands.terminal import OK
from tenfour.nouns.noun import Noun, Parser, Verb
from tenfour.nouns.output.columns import Row, identity, plain, state, time, whole
from tenfour.nouns.output.json_output import add_json_output
from tenfour.nouns.output.record import Layout
from tenfour.nouns.output.table import render_table
from tenfour.nouns.reading import (
    Filter,
    add_id,
    add_limit,
    make_action,
    make_assign,
    make_comment,
    make_list,
    make_show,
    print_rows,
)
from tenfour.nouns.rows import Kind, act, fetch_rows, find_id

KIND = Kind("/v1/patterns", "pattern", "patterns", title="template", page="/patterns/{id}/")
COLUMNS = (
    identity(),
    state(),
    plain("failures"),
    plain("agents"),
    plain("template", "error", stretch=True),
    time("last_seen_at"),
)
LAYOUT = Layout(
    plain("template", "error"),
    (
        state(),
        plain("failures"),
        plain("agents"),
        plain("stuck"),
        time("first_seen_at"),
        time("last_seen_at"),
        plain("assignee"),
        plain("state_by", "decided by"),
        time("ignored_until", "ignored until"),
        plain("note"),
        whole(),
    ),
    (plain("example"),),
)
FAILURES = (
    identity(),
    plain("type"),
    plain("agent"),
    plain("message", stretch=True),
    identity("task"),
    time("at"),
)
NEWEST = 5


def describe_failures(client: Client, row: Row, screen: Screen) -> Iterator[str]:
    """Yield the lines of a pattern's newest failures."""
    rows, _ = fetch_rows(client, KIND.path_of(row["id"], "failures"), {}, limit=NEWEST)
    if rows:
        yield from ("", screen.paint("Newest failures", "bold")) if screen.tty else ("-- failures",)
        yield from render_table(FAILURES, rows, screen)


def list_failures(args: argparse.Namespace) -> int:
    """Print a pattern's failures, newest first."""
    with Client(args.url) as client:
        path = KIND.path_of(find_id(client, KIND, args.id), "failures")
        rows, more = fetch_rows(client, path, {}, limit=args.limit)
    print_rows(rows, FAILURES, plural="failures", output=args.json, more=more)
    return OK


def add_failures_arguments(parser: Parser) -> None:
    add_id(parser, KIND)
    add_limit(parser)
    add_json_output(parser, "print the failures as a JSON array, as the API has them")


def add_note(parser: Parser) -> None:
    parser.add_argument("--note", metavar="TEXT", help="why")


def add_ignore_arguments(parser: Parser) -> None:
    add_note(parser)
    parser.add_argument("--until", metavar="TIME", help="such as 2026-12-24T12:00:00Z")


def describe_retry(row: Row) -> str:
    counts = (f"{len(row[name])} {name.replace('_', ' ')}" for name in row)
    return ", ".join(counts)


NOUN = Noun(
    "pattern",
    "Patterns: failures with the same cause, grouped by their error.",
    {
        "list": make_list(
            KIND,
            COLUMNS,
            "events:read",
            Filter("state", "STATES", "open, ignored, resolved, regressed"),
            Filter("assignee", "USER", "assigned to this user"),
            Filter("search", "TEXT", "words in the error", "q"),
        ),
        "show": make_show(KIND, LAYOUT, "events:read", more=describe_failures),
        "failures": Verb(
            "List a pattern's failures.", "events:read", list_failures, add_failures_arguments
        ),
        "resolve": make_action(
            KIND,
            "Mark a pattern as fixed; it regresses if it fails again.",
            "escalations:resolve",
            lambda client, id, args: act(client, KIND.path_of(id, "resolve"), {"note": args.note}),
            add=add_note,
        ),
        "ignore": make_action(
            KIND,
            "Ignore a pattern, permanently or until a time.",
            "escalations:resolve",
            lambda client, id, args: act(
                client, KIND.path_of(id, "ignore"), {"note": args.note, "until": args.until}
            ),
            add=add_ignore_arguments,
        ),
        "reopen": make_action(
            KIND,
            "Open an ignored or resolved pattern again.",
            "escalations:resolve",
            lambda client, id, args: act(client, KIND.path_of(id, "reopen")),
        ),
        "assign": make_assign(KIND),
        "comment": make_comment(KIND),
        "retry": make_action(
            KIND,
            "Retry all tasks that are stuck because of a pattern.",
            "escalations:resolve",
            lambda client, id, args: act(client, KIND.path_of(id, "retry")),
            say_done=describe_retry,
        ),
    },
)
