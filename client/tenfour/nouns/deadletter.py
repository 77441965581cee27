"""`tenfour dead-letter`: list, show, replay, dismiss, assign, comment."""

from __future__ import annotations

from tenfour.commands.terminal import pretty
from tenfour.nouns.deadletter_closing import make_closing
from tenfour.nouns.noun import Noun
from tenfour.nouns.output.columns import Column, identity, plain, time, whole
from tenfour.nouns.output.record import Layout
from tenfour.nouns.reading import Filter, make_assign, make_comment, make_list, make_show
from tenfour.nouns.rows import Kind

KIND = Kind(
    "/v1/dead-letters",
    "dead letter",
    "dead letters",
    title="error",
    noun="dead-letter",
    page="/dead-letters/{id}/",
)
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
        plain("assignee"),
        plain("closed_by", "closed by"),
        plain("note"),
        time("failed_at"),
        time("closed_at"),
        whole(),
    ),
    (Column("payload", lambda row, _: pretty(row["payload"]) if row["payload"] else ""),),
)


NOUN = Noun(
    "dead-letter",
    "Dead letters: tasks that failed permanently, until a person replays or dismisses them.",
    {
        "list": make_list(
            KIND,
            COLUMNS,
            "tasks:read",
            Filter("state", "STATE", "open, replayed or dismissed"),
            Filter("agent", "NAME", "of this agent"),
            Filter("type", "TYPE", "of tasks of this type"),
            Filter("assignee", "USER", "assigned to this user"),
        ),
        "show": make_show(KIND, LAYOUT, "tasks:read"),
        "replay": make_closing(
            KIND,
            "replay",
            "Enqueue the tasks of dead letters again, as new tasks; prints their ids.",
        ),
        "dismiss": make_closing(KIND, "dismiss", "Close dead letters without another attempt."),
        "assign": make_assign(KIND),
        "comment": make_comment(KIND),
    },
)
