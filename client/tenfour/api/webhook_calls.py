"""Calls about webhooks, which reach programs; each function turns arguments into a Call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page, text_of_time
from tenfour.record_models import Delivery, Webhook

PATH = "/v1/webhooks"


def webhooks() -> Call[Page[Webhook]]:
    """List the project's webhooks, newest first."""
    return Call("GET", PATH, page_of(Webhook.read), params={"limit": str(PAGE)})


def get(id: str) -> Call[Webhook]:
    """Get one webhook, without its secret."""
    return Call("GET", _path(id), Webhook.read)


def create(
    name: str, url: str, *, events: Sequence[str] | None = None, include_details: bool | None = None
) -> Call[Webhook]:
    """Create a webhook for events such as task.failed or task.*, or for all without `events`.

    Its `secret` is in this answer only.
    """
    options = {"events": events and list(events), "include_details": include_details}
    return Call("POST", PATH, Webhook.read, {"name": name, "url": url, **given(options)})


def change(id: str, version: int, **changes: Any) -> Call[Webhook]:
    """Change `name`, `url`, `events` or `include_details`; `version` must be the current one."""
    headers = {"If-Match": f'"v{version}"'}
    return Call("PATCH", _path(id), Webhook.read, changes, headers=headers)


def enable(id: str) -> Call[Webhook]:
    """Switch on a disabled webhook."""
    return Call("POST", f"{_path(id)}/enable", Webhook.read, {})


def disable(id: str) -> Call[Webhook]:
    """Switch off a webhook: it gets nothing until it is enabled."""
    return Call("POST", f"{_path(id)}/disable", Webhook.read, {})


def delete(id: str) -> Call[Webhook]:
    """Delete a webhook."""
    return Call("DELETE", _path(id), Webhook.read)


def test(id: str) -> Call[Delivery]:
    """Send a test message; returns its delivery, which says whether it arrived."""
    return Call("POST", f"{_path(id)}/test", Delivery.read, {})


def rotate(id: str, *, overlap_hours: int | None = None) -> Call[Webhook]:
    """Replace a webhook's secret; the old one stays valid for `overlap_hours`."""
    body = given({"overlap_hours": overlap_hours})
    return Call("POST", f"{_path(id)}/rotate", Webhook.read, body)


def redeliver(
    id: str, since: datetime | str, until: datetime | str, *, undelivered_only: bool | None = None
) -> Call[int]:
    """Send the deliveries of a span of time again, oldest first; returns how many."""
    body = {
        "since": text_of_time(since),
        "until": text_of_time(until),
        **given({"undelivered_only": undelivered_only}),
    }
    return Call("POST", f"{_path(id)}/redeliver", lambda data: int(data["redelivered"]), body)


def _path(id: str) -> str:
    return f"{PATH}/{part(id)}"
