"""`tenfour dead-letter`: list, show, replay, dismiss."""

from __future__ import annotations

from tenfour.nouns.columns import Column, Row, identity, plain, time, whole
from tenfour.nouns.noun import Noun, Parser
from tenfour.nouns.reading import Filter, make_action, make_list, make_show
from tenfour.nouns.record import Layout
from tenfour.nouns.rows import Kind, act
from tenfour.terminal import pretty

KIND = Kind("/v1/dead-letters", "dead letter", "dead letters", title="error", noun="dead-letter")
STATE = Column("state", lambda row, _: row["closed_as"] or "open", "state")
COLUMNS = (
    identity(),
    STATE,
    plain("agent"),
    plain("type"),
    plain("error", stretch=True),
    plain("reason"),
    time("failed_at"),
)
LAYOUT = Layout(
    plain("error"),
    (
        STATE,
        plain("agent"),
        plain("type"),
        plain("reason"),
        plain("retry_count", "retries"),
        whole("task"),
        whole("replayed_as", "replayed as"),
        plain("closed_by", "closed by"),
        plain("note"),
        time("failed_at"),
        time("closed_at"),
        whole(),
    ),
    (Column("payload", lambda row, _: pretty(row["payload"]) if row["payload"] else ""),),
)


def add_dismiss_arguments(parser: Parser) -> None:
    parser.add_argument("--note", metavar="TEXT", help="why")
    parser.add_argument(
        "--dependents",
        choices=["continue", "block", "skip"],
        help="what becomes of the tasks that need it",
    )


def describe_closed(row: Row) -> str:
    return f"{row['id']} {row['closed_as'] or 'open'} {row['replayed_as'] or ''}".rstrip()


NOUN = Noun(
    "dead-letter",
    "Dead letters: tasks that failed for good, until a person replays or dismisses them.",
    {
        "list": make_list(
            KIND,
            COLUMNS,
            "tasks:read",
            Filter("state", "STATE", "open, replayed or dismissed"),
            Filter("agent", "NAME", "of this agent"),
            Filter("type", "TYPE", "of tasks of this type"),
        ),
        "show": make_show(KIND, LAYOUT, "tasks:read"),
        "replay": make_action(
            KIND,
            "Enqueue the task again, as a new task; prints its id last.",
            "deadletters:write",
            lambda client, id, args: act(client, KIND.path_of(id, "replay")),
            say_done=describe_closed,
        ),
        "dismiss": make_action(
            KIND,
            "Close a dead letter without another attempt.",
            "deadletters:write",
            lambda client, id, args: act(
                client,
                KIND.path_of(id, "dismiss"),
                {"note": args.note, "dependents": args.dependents},
            ),
            add=add_dismiss_arguments,
            say_done=describe_closed,
        ),
    },
)
