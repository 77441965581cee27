"""Calls about the journal; each function turns arguments into a Call."""

from __future__ import annotations

from datetime import datetime

from tenfour.api.calls import PAGE, given, page_of
from tenfour.http.core import Call
from tenfour.http.values import Page, text_of_time
from tenfour.record_models import Event


def events(
    *,
    kind: str | None = None,
    subject: str | None = None,
    agent: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
) -> Call[Page[Event]]:
    """List events, newest first; `subject` is the id of an instruction, a task or a plan."""
    params = {
        "kind": kind,
        "subject": subject,
        "agent": agent,
        "since": since and text_of_time(since),
        "until": until and text_of_time(until),
        "limit": str(PAGE),
    }
    return Call("GET", "/v1/events", page_of(Event.read), params=given(params))


def stream(after: str = "") -> Call[Page[Event]]:
    """Get the next events in order, after a `next_cursor`; from the first one without it.

    The page's `next_cursor` is where to read on, later too: no event is missed or read twice.
    """
    params = {"after": after, "limit": str(PAGE)}
    return Call("GET", "/v1/events", page_of(Event.read), params=params)
