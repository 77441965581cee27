"""Calls about markers: deploys and other changes on charts of time; each returns a Call."""

from __future__ import annotations

from datetime import datetime

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page, text_of_time
from tenfour.record_models import Marker

PATH = "/v1/markers"


def markers(
    *,
    kind: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
) -> Call[Page[Marker]]:
    """List markers, the last set first."""
    params = {
        "kind": kind,
        "since": since and text_of_time(since),
        "until": until and text_of_time(until),
        "limit": str(PAGE),
    }
    return Call("GET", PATH, page_of(Marker.read), params=given(params))


def create(
    name: str,
    *,
    kind: str | None = None,
    at: datetime | str | None = None,
    link: str | None = None,
    text: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Marker]:
    """Set a marker, such as a deploy, now or at another time."""
    options = {"kind": kind, "at": at and text_of_time(at), "link": link, "text": text}
    body = {"name": name, **given(options)}
    return Call("POST", PATH, Marker.read, body, idempotency_key=idempotency_key)


def delete(id: str) -> Call[Marker]:
    """Delete a marker that was set by mistake."""
    return Call("DELETE", f"{PATH}/{part(id)}", Marker.read)
