"""The columns of events: of their list, of the stream, and of one event."""

from __future__ import annotations

from tenfour.commands.terminal import pretty
from tenfour.nouns.output.columns import Column, Row, computed, identity, plain, time, whole
from tenfour.nouns.output.record import Layout


def _move(row: Row) -> str:
    return " → ".join(filter(None, (row["from_state"], row["to_state"])))


COLUMNS = (
    time("at"),
    plain("type", style="bold"),
    plain("agent"),
    computed("move", _move),
    plain("actor.name", "by"),
    identity("subject"),
    plain("data", "details", stretch=True),
    identity(),
)
LAYOUT = Layout(
    plain("type", "event"),
    (
        plain("at"),
        plain("agent"),
        plain("subject_type", "about"),
        whole("subject"),
        computed("move", _move),
        plain("actor.type", "by"),
        plain("actor.name", "name"),
        plain("request_id", "request"),
        whole(),
    ),
    (Column("details", lambda row, _: pretty(row["data"]) if row["data"] else ""),),
)
