"""Calls about notification channels, which reach people; each function returns a Call."""

from __future__ import annotations

from typing import Any, Literal

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.record_models import Channel, Delivery

PATH = "/v1/notification-channels"


def channels() -> Call[Page[Channel]]:
    """List the project's channels, newest first."""
    return Call("GET", PATH, page_of(Channel.read), params={"limit": str(PAGE)})


def get(id: str) -> Call[Channel]:
    """Get one channel."""
    return Call("GET", _path(id), Channel.read)


def create(
    name: str,
    url: str,
    *,
    include_details: bool | None = None,
    digest: Literal["off", "daily", "weekly"] | None = None,
    digest_hour: int | None = None,
    digest_timezone: str | None = None,
) -> Call[Channel]:
    """Create a channel; `url` is an address such as mailtos://, slack:// or ntfys://.

    `digest` says how often it gets what changed, what waits, and what it cost.
    """
    options = {
        "include_details": include_details,
        "digest": digest,
        "digest_hour": digest_hour,
        "digest_timezone": digest_timezone,
    }
    body = {"name": name, "url": url, **given(options)}
    return Call("POST", PATH, Channel.read, body)


def change(id: str, version: int, **changes: Any) -> Call[Channel]:
    """Change `name`, `url`, `include_details` or `digest`, `digest_hour` and `digest_timezone`.

    It is refused unless `version` is the current one.
    """
    headers = {"If-Match": f'"v{version}"'}
    return Call("PATCH", _path(id), Channel.read, changes, headers=headers)


def enable(id: str) -> Call[Channel]:
    """Switch on a disabled channel."""
    return Call("POST", f"{_path(id)}/enable", Channel.read, {})


def disable(id: str) -> Call[Channel]:
    """Switch off a channel: it sends nothing until it is enabled."""
    return Call("POST", f"{_path(id)}/disable", Channel.read, {})


def delete(id: str) -> Call[Channel]:
    """Delete a channel."""
    return Call("DELETE", _path(id), Channel.read)


def test(id: str) -> Call[Delivery]:
    """Send a test message; returns its delivery, which says whether it arrived."""
    return Call("POST", f"{_path(id)}/test", Delivery.read, {})


def _path(id: str) -> str:
    return f"{PATH}/{part(id)}"
