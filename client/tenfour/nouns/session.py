"""`tenfour session`: list, show, import, flush and retry."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tenfour.client import Client
from tenfour.commands.display import Screen, clean, one_line
from tenfour.commands.terminal import OK, note, pretty, say, wrong_usage
from tenfour.nouns.noun import Noun, Parser, Verb
from tenfour.nouns.output.columns import Row, computed, identity, plain, state, time, whole
from tenfour.nouns.output.record import Layout
from tenfour.nouns.output.table import render_table
from tenfour.nouns.reading import Filter, add_json, make_action, make_list, make_show
from tenfour.nouns.rows import Kind, act, get
from tenfour.sessions.transcripts import describe_skipped, import_part, read_parts

KIND = Kind("/v1/sessions", "session", "sessions", page="/sessions/{id}/")


def _counts(row: Row, name: str) -> str:
    return ", ".join(f"{count} {state}" for state, count in row[name].items() if count)


COLUMNS = (
    identity(),
    plain("title", stretch=True),
    plain("agent"),
    computed("messages", lambda row: str(sum(row["messages"].values()))),
    computed("waiting", lambda row: str(row["messages"]["pending"] + row["messages"]["running"])),
    computed("to-dos", lambda row: f"{row['tasks']['success']} of {sum(row['tasks'].values())}"),
    time("last_message_at", "last message"),
)
LAYOUT = Layout(
    plain("title"),
    (
        plain("agent"),
        plain("tracker"),
        computed("messages", lambda row: _counts(row, "messages")),
        computed("to-dos", lambda row: _counts(row, "tasks")),
        plain("last_outcome", "last batch"),
        plain("external_id", "external id"),
        time("created_at", "created"),
        time("last_message_at", "last message"),
        whole(),
    ),
    (),
)
TASK_COLUMNS = (plain("order", "no."), state(), plain("description", stretch=True))


def describe_tasks(client: Client, row: Row, screen: Screen) -> Iterator[str]:
    """Yield the lines of a session's to-dos."""
    rows = get(client, KIND.path_of(row["id"], "tasks"))["data"]
    if rows:
        yield from ("", screen.paint("To-dos", "bold")) if screen.tty else ("-- to-dos",)
        yield from render_table(TASK_COLUMNS, rows, screen)


def add_import_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a transcript of Claude Code or Codex")
    parser.add_argument(
        "--agent", metavar="NAME", help="the session's agent; by default the token's own"
    )
    parser.add_argument(
        "--tracker", choices=["todo", "llm", "none"], help="what finds to-dos in the messages"
    )
    parser.add_argument("--attempt", metavar="ID", help="the attempt that the messages belong to")
    parser.add_argument(
        "--external-id", metavar="ID", help="the session's id; by default the one in the file"
    )
    add_json(parser, "print the response as JSON")


def import_file(args: argparse.Namespace) -> int:
    """Import a transcript; print how many messages are new, and the session's id."""
    done: Mapping[str, Any] = {}
    added = skipped = 0
    skipped_lines: list[Mapping[str, Any]] = []
    with Client(args.url) as client:
        try:
            for part in read_parts(Path(args.file)):
                # Only the first part says which session the lines belong to.
                known = {
                    "agent": args.agent,
                    "tracker": args.tracker,
                    "attempt": args.attempt,
                    "external_id": done["session"]["external_id"] if done else args.external_id,
                    "format": done.get("format"),
                }
                done = client.perform(import_part(part, os.environ, **known))
                added += done["added"]
                skipped += done["skipped"]
                skipped_lines += done["skipped_lines"]
        except OSError as error:
            raise wrong_usage(f"{args.file} can't be read: {error.strerror}.") from error
    if not done:
        raise wrong_usage(f"{args.file} is empty.", "Import the agent's transcript file.")
    whole = {**done, "added": added, "skipped": skipped, "skipped_lines": skipped_lines}
    if args.json:
        say(pretty(whole))
        return OK
    session = done["session"]
    note(f"{describe_added(added)} in the session {one_line(session['title'])!r}")
    if text := describe_skipped(whole):
        note(text)
    if done["cut_line"]:
        note(
            f"Line {done['cut_line']} is incomplete and was left out; import the file again later."
        )
    say(clean(session["id"]))
    return OK


def describe_added(added: int) -> str:
    """Return how many messages are new.

    >>> describe_added(0), describe_added(1), describe_added(2)
    ('no new message', '1 new message', '2 new messages')
    """
    return f"{added or 'no'} new message{'s' if added > 1 else ''}"


def describe_flush(row: Row) -> str:
    return f"{row['processed']} processed"


def add_retry_arguments(parser: Parser) -> None:
    parser.add_argument("--tracker", choices=("todo", "llm"), help="the tracker from now on")


def retry(client: Client, id: str, args: argparse.Namespace) -> Row:
    body = {"tracker": args.tracker} if args.tracker else {}
    return act(client, KIND.path_of(id, "retry"), body)


NOUN = Noun(
    "session",
    "Sessions: agents' conversations, and the to-dos found in them.",
    {
        "list": make_list(
            KIND, COLUMNS, "sessions:read", Filter("agent", "NAME", "the agent's name")
        ),
        "show": make_show(KIND, LAYOUT, "sessions:read", more=describe_tasks),
        "import": Verb(
            "Import a coding agent's transcript; repeat this when it has grown.",
            "sessions:write",
            import_file,
            add_import_arguments,
            example="tenfour session import transcript.jsonl",
        ),
        "flush": make_action(
            KIND,
            "Process a session's waiting messages at once.",
            "sessions:write",
            lambda client, id, args: act(client, KIND.path_of(id, "flush")),
            say_done=describe_flush,
        ),
        "retry": make_action(
            KIND,
            "Process the messages of failed batches again.",
            "sessions:write",
            retry,
            add=add_retry_arguments,
            say_done=lambda row: f"{row['returned']} returned to the buffer",
        ),
    },
)
