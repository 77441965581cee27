"""The stream of events: the newest ones, then every new one until it is interrupted."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

from tenfour.client import Client
from tenfour.commands.display import Screen, cut, escape_json, find_screen, one_line, width_of
from tenfour.commands.terminal import complain, say
from tenfour.http.problems import TenfourError
from tenfour.http.values import instant
from tenfour.nouns.events.event_columns import COLUMNS
from tenfour.nouns.output.columns import Row
from tenfour.nouns.output.table import render_table
from tenfour.nouns.rows import MOST, fetch_rows, get

PATH = "/v1/events"
AGAIN_S = 5.0
LONGEST_S = 60.0


def follow_events(client: Client, params: Mapping[str, str], *, limit: int, as_json: bool) -> int:
    """Print the newest events, oldest first, then each new one that the filters let through.

    The position is read before the newest events, so that no event is lost in between; one that
    is in both is printed once. An error that can pass, such as a restart, is outlasted.
    """
    pause = client.me().poll_every_s
    position = str(get(client, PATH, after="latest", limit="1").get("next_cursor") or "")
    newest, _ = fetch_rows(client, PATH, params, limit=limit)
    printed = {row["id"] for row in newest}
    _print(newest[::-1], as_json=as_json)
    while True:
        page, wait = _read_or_wait(client, position, pause)
        position = str(page.get("next_cursor") or position)
        new = [row for row in page.get("data", ()) if row["id"] not in printed]
        _print([row for row in new if matches(row, params)], as_json=as_json)
        time.sleep(wait)


def _read_or_wait(client: Client, position: str, pause: float) -> tuple[Row, float]:
    try:
        page = get(client, PATH, after=position, limit=str(MOST))
    except TenfourError as error:
        if not error.retryable:
            raise
        complain(error)
        return {}, min(error.retry_after_s or AGAIN_S, LONGEST_S)
    return page, 0 if page.get("has_more") else max(pause, 0.5)


def matches(row: Row, params: Mapping[str, str]) -> bool:
    """Return whether the filters of a list let an event of the stream through."""
    kinds, agent, subject = (params.get(name) for name in ("kind", "agent", "subject"))
    return (
        (not kinds or row["type"] in kinds.split(","))
        and (not agent or agent in {row["agent"], row["agent_id"]})
        and (not subject or row["subject"] == subject.lower())
    )


def _print(rows: Sequence[Row], *, as_json: bool) -> None:
    screen = find_screen()
    for row in rows:
        if as_json:
            say(escape_json(json.dumps(row, ensure_ascii=False)))
        elif screen.tty:
            say(describe_event(row, screen))
        else:
            say("\n".join(render_table(COLUMNS, [row], screen)))


def describe_event(row: Row, screen: Screen) -> str:
    """Return an event as one line of a terminal, with the local time of day."""
    at = instant(row["at"])
    texts = {column.name: one_line(column.read(row, screen)) for column in COLUMNS}
    parts = [
        (f"{at.astimezone():%H:%M:%S}" if at else "", 8, "dim"),
        (texts["type"], 24, "bold"),
        (texts["agent"], 16, ""),
        (texts["subject"], 8, "dim"),
        (" ".join(filter(None, (texts["move"], texts["details"]))), 0, ""),
    ]
    line, room = [], screen.width
    for text, width, style in parts:
        shown = cut(text, min(room, max(width, width_of(text))))
        line.append(screen.paint(shown, style) + " " * max(0, width - width_of(shown)))
        room -= max(width, width_of(shown)) + 2
        if room <= 0:
            break
    return "  ".join(line).rstrip()
