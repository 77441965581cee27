"""`tenfour task`: list, show, create, change, retry, abort, assign, comment, prompt, and more."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from time import sleep
from typing import Any

from tenfour.api.calls import given, json_object, part
from tenfour.client import Client
from tenfour.commands import work
from tenfour.commands.display import Screen, clean, describe_task_state, find_screen
from tenfour.commands.terminal import OK, json_of, pretty, say, wrong_usage
from tenfour.commands.terminal import text_of as read_text
from tenfour.http.core import Call
from tenfour.nouns.noun import Noun, Parser, Verb
from tenfour.nouns.output.columns import (
    Column,
    Row,
    computed,
    identity,
    plain,
    text_of,
    time,
    whole,
)
from tenfour.nouns.output.record import Layout
from tenfour.nouns.output.table import render_table
from tenfour.nouns.reading import (
    Filter,
    add_id,
    add_json,
    make_action,
    make_assign,
    make_comment,
    make_list,
    make_show,
)
from tenfour.nouns.rows import Kind, act, fetch_rows, find_id, get
from tenfour.nouns.settings.budget import read_amount

KIND = Kind("/v1/tasks", "task", "tasks", names="ref", page="/tasks/{id}/")
TYPES = "/v1/task-types"
ATTEMPTS = 10
FOLLOW_EVERY_S = 1.0


def _attempts(row: Row) -> str:
    return f"{row['attempts']} of {row['attempt_limit']}" if row["attempts"] else ""


def _state(row: Row) -> str:
    return describe_task_state(row["state"], row["blocked_reason"], row.get("not_before"))


STATE = Column("state", lambda row, _: _state(row), "state")
COLUMNS = (
    identity(),
    STATE,
    plain("agent"),
    plain("type"),
    plain("ref"),
    plain("title", stretch=True),
    computed("attempts", _attempts),
    time("updated_at"),
)
LAYOUT = Layout(
    computed("title", lambda row: str(row["title"] or row["ref"] or row["type"])),
    (
        STATE,
        plain("agent"),
        plain("pool"),
        plain("retry_on", "retry on"),
        plain("assignee"),
        plain("type"),
        plain("ref"),
        whole("plan"),
        computed("attempts", _attempts),
        plain("priority"),
        plain("needs"),
        time("due_at"),
        plain("not_before", "not before"),
        whole("files_held_by", "files held by"),
        time("created_at"),
        time("started_at"),
        time("completed_at"),
        plain("abort_requested", "abort requested"),
        whole("escalation"),
        whole("replay_of", "replay of"),
        whole("replaced_by", "replaced by"),
        plain("allowed_moves", "possible"),
        whole(),
    ),
    (
        plain("error"),
        Column("payload", lambda row, _: _json_text(row["payload"])),
        Column("result", lambda row, _: _json_text(row["result"])),
    ),
)
ATTEMPT_COLUMNS = (
    plain("number", "attempt"),
    Column("outcome", lambda row, _: text_of(row["outcome"]) or "running", "state"),
    plain("worker_id", "worker"),
    plain("failure.message", "failure", stretch=True),
    time("started_at"),
    time("ended_at"),
    identity(),
)


def _json_text(value: Any) -> str:
    from tenfour.commands.terminal import pretty

    return "" if value is None else value if isinstance(value, str) else pretty(value)


def describe_attempts(client: Client, row: Row, screen: Screen) -> Iterator[str]:
    """Yield the lines of a task's newest attempts."""
    rows, _ = fetch_rows(client, KIND.path_of(row["id"], "attempts"), {}, limit=ATTEMPTS)
    if rows:
        yield from ("", screen.paint("Attempts", "bold")) if screen.tty else ("-- attempts",)
        yield from render_table(ATTEMPT_COLUMNS, rows, screen)


def add_change_arguments(parser: Parser) -> None:
    parser.add_argument("--priority", type=int, metavar="N", help="higher ones go first")
    parser.add_argument("--agent", metavar="NAME", help="assign the task to this agent or pool")
    parser.add_argument("--max-attempts", type=int, metavar="N", help="including the first")
    parser.add_argument("--payload", metavar="JSON", help="the task's data; - reads it from stdin")
    work.add_retry_on(parser)
    work.add_not_before(parser)


def change(client: Client, id: str, args: argparse.Namespace) -> Row:
    """Change a task as it is now; refused if it changes meanwhile."""
    changes = given(
        {
            "priority": args.priority,
            "agent": args.agent,
            "max_attempts": args.max_attempts,
            "payload": args.payload and json_of(read_text(args.payload), what="The payload"),
            "retry_on": args.retry_on,
            "not_before": args.not_before,
        }
    )
    if not changes:
        raise wrong_usage(
            "Nothing to change.",
            "Use --priority, --agent, --max-attempts, --payload, --retry-on, --not-before.",
        )
    version = get(client, KIND.path_of(id))["version"]
    headers = {"If-Match": f'"v{version}"'}
    return client.perform(Call("PATCH", KIND.path_of(id), json_object, changes, headers=headers))


def add_retry_arguments(parser: Parser) -> None:
    parser.add_argument("--payload", metavar="JSON", help="the next attempt's data; - reads stdin")
    parser.add_argument("--agent", metavar="NAME", help="the agent or pool that retries it")
    parser.add_argument("--max-attempts", type=int, metavar="N", help="attempts in a round")
    parser.add_argument(
        "--budget", metavar="AMOUNT", help="what it may use, such as '500000 tokens' or '5 USD'"
    )
    work.add_not_before(parser)
    parser.add_argument("--note", metavar="TEXT", help="why; stored in the journal")


def retry(client: Client, id: str, args: argparse.Namespace) -> Row:
    payload = args.payload and json_of(read_text(args.payload), what="The payload")
    body = {
        "payload": payload,
        "agent": args.agent,
        "max_attempts": args.max_attempts,
        "not_before": args.not_before,
        "budget": args.budget and read_amount(args.budget),
        "note": args.note,
    }
    return act(client, KIND.path_of(id, "retry"), given(body))


def add_type(parser: Parser) -> None:
    parser.add_argument("type", metavar="TYPE", help="such as code or review")


def add_types_arguments(parser: Parser) -> None:
    add_json(parser, "print the paused types as JSON")


def add_pause_arguments(parser: Parser) -> None:
    add_type(parser)
    parser.add_argument("--note", metavar="TEXT", help="why, for the people who see it")


def set_type_paused(args: argparse.Namespace, **changes: Any) -> int:
    """Pause or resume the tasks of a type; say how it is now."""
    path = f"{TYPES}/{part(args.type)}"
    with Client(args.url) as client:
        row: Row = client.perform(Call("PATCH", path, json_object, given(changes)))
    say(f"{row['type']} {'paused' if row['paused'] else 'active'}")
    return OK


def list_types(args: argparse.Namespace) -> int:
    """Print the paused types, one a line."""
    with Client(args.url) as client:
        rows: list[Row] = client.perform(Call("GET", TYPES, json_object))["data"]
    if args.json:
        say(pretty(rows))
    for row in () if args.json else rows:
        note = f": {row['note']}" if row["note"] else ""
        say(clean(f"{row['type']} paused since {row['paused_at']} by {row['paused_by']}{note}"))
    return OK


def add_reason(parser: Parser) -> None:
    parser.add_argument("--reason", metavar="TEXT", help="stored in the journal")


def print_prompt(args: argparse.Namespace) -> int:
    """Print the prompt that the task's next attempt gets."""
    with Client(args.url) as client:
        path = KIND.path_of(find_id(client, KIND, args.id), "prompt")
        text = client.perform(Call("GET", path, str, accept="text/plain"))
    # A model reads the prompt as it is; a terminal must not obey it.
    say(clean(text) if find_screen().tty else text)
    return OK


def add_output_arguments(parser: Parser) -> None:
    add_id(parser, KIND)
    parser.add_argument("--attempt", type=int, metavar="N", help="by default the last one")
    parser.add_argument("--follow", action="store_true", help="until the attempt is over")


def print_output(args: argparse.Namespace) -> int:
    """Print what an attempt has printed, and what it prints until it is over."""
    with Client(args.url) as client:
        id = find_id(client, KIND, args.id)
        known = client.tasks.attempts(id)
        found = next((each for each in known if args.attempt in (None, each.number)), None)
        if found is None:
            raise wrong_usage("The task has no such attempt.", "`tenfour task show` lists them.")
        follow_output(client, found.id, is_followed=args.follow)
    return OK


def follow_output(client: Client, attempt: str, *, is_followed: bool) -> None:
    start, known, is_terminal = 0, "", find_screen().tty
    while True:
        page = client.tasks.output(attempt, start=start)
        texts = [describe_piece(piece) for piece in page.data]
        text = "".join(texts)
        # The last piece comes again. A line of it that has changed is printed again.
        new = text[len(known) :] if text.startswith(known) else f"\n{changed_lines(text, known)}"
        sys.stdout.write(clean(new) if is_terminal else new)
        sys.stdout.flush()
        if page.next == start and not (is_followed and page.is_live):
            return
        if page.next == start:
            sleep(FOLLOW_EVERY_S)
        start, known = page.next, texts[-1] if texts else ""


def changed_lines(text: str, known: str) -> str:
    """Return a text from the first line on that differs from a known one.

    >>> changed_lines("one\\ntwo\\n", "one\\nto")
    'two\\n'
    """
    same = next(at for at in range(len(known)) if text[at : at + 1] != known[at])
    return text[text.rfind("\n", 0, same) + 1 :]


def describe_piece(piece: Mapping[str, Any]) -> str:
    left_out = piece["left_out"]
    return (f"[… {left_out:,} bytes left out]\n" if left_out else "") + str(piece["text"])


NOUN = Noun(
    "task",
    "Tasks: units of work for one agent, attempted until they are done.",
    {
        "list": make_list(
            KIND,
            COLUMNS,
            "tasks:read",
            Filter(
                "state",
                "STATES",
                "queued, running, retry, blocked, escalated, done, failed, skipped, aborted",
            ),
            Filter("agent", "NAME", "of this agent, or in the queue of this pool"),
            Filter("pool", "NAME", "sent to this pool"),
            Filter("type", "TYPE", "such as code or review"),
            Filter("plan", "REF", "of this plan: its ref or id"),
            Filter("ref", "REF", "such as 03-01:task-3"),
            Filter("assignee", "USER", "assigned to this user"),
            Filter("search", "TEXT", "a part of the title", "q"),
            Filter("value", "KEY:VALUE", "a stored value, such as payload.order:1284"),
        ),
        "show": make_show(KIND, LAYOUT, "tasks:read", more=describe_attempts),
        "create": Verb(
            "Enqueue a task for an agent; prints its id.",
            "tasks:create",
            work.enqueue,
            work.add_enqueue_arguments,
        ),
        "change": make_action(
            KIND,
            "Change a task's priority, agent, payload, number of attempts or earliest start.",
            "tasks:write",
            change,
            add=add_change_arguments,
        ),
        "retry": make_action(
            KIND,
            "Retry a task that waits for its retry, failed, or asks whether to retry.",
            "escalations:resolve",
            retry,
            add=add_retry_arguments,
        ),
        "types": Verb(
            "List the paused types of tasks.", "tasks:read", list_types, add_types_arguments
        ),
        "pause-type": Verb(
            "Hand out no task of a type until it is resumed; running attempts continue.",
            "tasks:write",
            lambda args: set_type_paused(args, paused=True, note=args.note),
            add_pause_arguments,
            example="tenfour task pause-type code --note 'the build server is down'",
        ),
        "resume-type": Verb(
            "Hand out the tasks of a paused type again.",
            "tasks:write",
            lambda args: set_type_paused(args, paused=False),
            add_type,
            example="tenfour task resume-type code",
        ),
        "abort": make_action(
            KIND,
            "Abort a task; a running one is told at its next heartbeat.",
            "tasks:write",
            lambda client, id, args: act(
                client, KIND.path_of(id, "abort"), {"reason": args.reason}
            ),
            add=add_reason,
            question="Abort the task {id}?",
        ),
        "unblock": make_action(
            KIND,
            "Queue a task that is blocked by a skipped need.",
            "escalations:resolve",
            lambda client, id, args: act(client, KIND.path_of(id, "unblock")),
        ),
        "assign": make_assign(KIND),
        "comment": make_comment(KIND),
        "prompt": Verb(
            "Print the prompt that the next attempt gets.",
            "tasks:read",
            print_prompt,
            lambda parser: add_id(parser, KIND),
        ),
        "output": Verb(
            "Print what an attempt has printed, while it runs or afterwards.",
            "tasks:read",
            print_output,
            add_output_arguments,
        ),
    },
)
