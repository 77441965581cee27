"""The verbs that several nouns have: list, show, assign, and comment."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenfour.client import Client
from tenfour.commands.display import Screen, clean, find_screen, one_line
from tenfour.commands.terminal import OK, REFUSED, pretty, say, text_of
from tenfour.http.problems import TenfourError
from tenfour.nouns.bulk import add_yes, is_confirmed_on_terminal
from tenfour.nouns.noun import Parser, Verb, choose
from tenfour.nouns.output.columns import Column, Row
from tenfour.nouns.output.json_output import JsonOutput, add_json_output
from tenfour.nouns.output.record import Layout, render_record
from tenfour.nouns.output.table import render_table
from tenfour.nouns.rows import Kind, act, change, fetch_rows, find_id, get

LIMIT = 30  # rows, as gh lists them
More = Callable[[Client, Row, Screen], Iterator[str]]


@dataclass(frozen=True)
class Filter:
    """An option of a list, which is a parameter of the API."""

    name: str
    metavar: str
    help: str
    # the parameter's name, where it differs
    param: str = ""

    @property
    def option(self) -> str:
        return f"--{self.name}"


def make_list(
    kind: Kind, columns: Sequence[Column], scope: str, *filters: Filter, help: str = ""
) -> Verb:
    """Return the verb `list`, with an option for each filter."""

    def add(parser: Parser) -> None:
        for each in filters:
            parser.add_argument(
                each.option, metavar=each.metavar, help=each.help, dest=each.param or each.name
            )
        add_limit(parser)
        add_json_output(parser, f"print the {kind.plural} as a JSON array, as the API has them")

    def run(args: argparse.Namespace) -> int:
        params = choose(args, *(each.param or each.name for each in filters))
        with Client(args.url) as client:
            rows, more = fetch_rows(client, kind.path, params, limit=args.limit)
        print_rows(rows, columns, plural=kind.plural, output=args.json, more=more)
        return OK

    return Verb(help or f"List {kind.plural}, newest first.", scope, run, add)


def print_rows(
    rows: Sequence[Row],
    columns: Sequence[Column],
    *,
    plural: str,
    output: JsonOutput | None = None,
    more: bool = False,
) -> None:
    """Print rows as a table or as JSON; notes about them go to a terminal's stderr."""
    if output:
        output.print(rows)
        return
    screen = find_screen()
    if rows:
        say("\n".join(render_table(columns, rows, screen)))
    if not screen.tty:
        return
    if not rows:
        print(f"No {plural} match.", file=sys.stderr)
    elif more:
        dim = find_screen(sys.stderr).paint("There are more: --limit N shows more.", "dim")
        print(dim, file=sys.stderr)


def make_show(
    kind: Kind, layout: Layout, scope: str, *, more: More | None = None, help: str = ""
) -> Verb:
    """Return the verb `show`; `more` adds lines, such as a task's attempts."""

    def run(args: argparse.Namespace) -> int:
        with Client(args.url) as client:
            row = get(client, kind.path_of(find_id(client, kind, args.id)))
            if args.web:
                open_page(client, kind, row)
                return OK
            if args.json:
                args.json.print(row)
                return OK
            print_record(layout, row)
            for line in more(client, row, find_screen()) if more else ():
                say(line)
        return OK

    def add(parser: Parser) -> None:
        add_id(parser, kind)
        add_web(parser)
        add_json_output(parser, f"print the {kind.name} as JSON, as the API has it")

    return Verb(help or f"Show one {kind.name}.", scope, run, add)


def add_web(parser: Parser) -> None:
    parser.add_argument(
        "--web", action="store_true", help="print the address of its page; a terminal opens it"
    )


def open_page(client: Client, kind: Kind, row: Row) -> None:
    """Print the address of a row's page; on a terminal, a browser opens it, too."""
    inner = row.get(kind.name)
    record = inner if isinstance(inner, dict) else row
    address = client.settings.url + kind.page.format_map(record) if kind.page else record["url"]
    if not address:
        raise TenfourError(f"This {kind.name} has no page.", code="not_found")
    say(address)
    if sys.stdout.isatty():
        import webbrowser

        webbrowser.open(address)


def add_reason(parser: Parser) -> None:
    parser.add_argument("--reason", metavar="TEXT", help="why; stored in the journal")


def print_record(layout: Layout, row: Row) -> None:
    say("\n".join(render_record(layout, row, find_screen())))


def add_id(parser: Parser, kind: Kind, *, many: bool = False) -> None:
    names = {"": "its id", "path": "its name, ref or id", "ref": "its id, or its ref in a plan"}
    about = f"{names[kind.names]}; a short id is enough"
    if many:
        parser.add_argument("ids", metavar="ID", nargs="+", help=about)
    else:
        parser.add_argument("id", metavar="ID", help=about)


def add_limit(parser: Parser) -> None:
    parser.add_argument(
        "--limit", "-L", type=_count, default=LIMIT, metavar="N", help=f"rows to list ({LIMIT})"
    )


def add_json(parser: Parser, about: str) -> None:
    parser.add_argument("--json", action="store_true", help=about)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError("it must be a whole number from 1 on")
    return int(text)


def make_action(
    kind: Kind,
    help: str,
    scope: str,
    act: Callable[[Client, str, argparse.Namespace], Row],
    *,
    add: Callable[[Parser], None] | None = None,
    say_done: Callable[[Row], str] | None = None,
    question: str = "",
    example: str = "",
) -> Verb:
    """Return a verb that changes one row: it prints a line, or with --json the response.

    With a `question`, which may contain `{id}`, it asks on a terminal.
    """

    def add_arguments(parser: Parser) -> None:
        add_id(parser, kind)
        if add:
            add(parser)
        add_yes(parser)
        add_json(parser, "print the response as JSON")

    def run(args: argparse.Namespace) -> int:
        if question and not is_confirmed_on_terminal(args, question.format(id=args.id)):
            return REFUSED
        with Client(args.url) as client:
            row = act(client, find_id(client, kind, args.id), args)
        say(pretty(row) if args.json else clean((say_done or describe_state)(row)))
        return OK

    return Verb(help, scope, run, add_arguments, example=example)


def make_pauses(
    kind: Kind, scope: str, say_done: Callable[[Row], str], *, pause: str, resume: str
) -> dict[str, Verb]:
    """Return the verbs `pause` and `resume` of a row that hands out tasks."""

    def make(help: str, paused: bool) -> Verb:
        return make_action(
            kind,
            help,
            scope,
            lambda client, id, args: change(client, kind, id, paused=paused),
            say_done=say_done,
        )

    return {"pause": make(pause, True), "resume": make(resume, False)}


def create_row(args: argparse.Namespace, kind: Kind, body: Mapping[str, Any]) -> int:
    """Create a row that has a name; print its name and id, or with --json the response."""
    with Client(args.url) as client:
        row = act(client, kind.path, body)
    say(pretty(row) if args.json else f"{row['name']} {row['id']}")
    return OK


def make_assign(kind: Kind) -> Verb:
    def add_user(parser: Parser) -> None:
        parser.add_argument(
            "user", metavar="USER", nargs="?", help="a user's name; without it, no one is assigned"
        )

    return make_action(
        kind,
        f"Assign {with_article(kind.name)} to a user.",
        "escalations:resolve",
        lambda client, id, args: act(client, kind.path_of(id, "assign"), {"user": args.user or ""}),
        add=add_user,
        say_done=lambda row: f"{row['id']} {row['assignee'] or 'unassigned'}",
    )


def make_comment(kind: Kind) -> Verb:
    def add_text(parser: Parser) -> None:
        parser.add_argument("text", metavar="TEXT", help="the comment; - reads it from stdin")

    return make_action(
        kind,
        f"Add a comment to {with_article(kind.name)}; @name notifies a person.",
        "escalations:resolve",
        lambda client, id, args: act(
            client, kind.path_of(id, "comment"), {"text": text_of(args.text)}
        ),
        add=add_text,
    )


def with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def describe_state(row: Row) -> str:
    return one_line(f"{row.get('id')} {row.get('state', '')}")
