"""Calls about pools; each function turns arguments into a Call. `id` is a pool's id or name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.models import Pool

RetryOn = Literal["any", "same", "other"]


def pools() -> Call[Page[Pool]]:
    """List the project's pools, newest first; an agent sees those that it is in."""
    return Call("GET", "/v1/pools", page_of(Pool.read), params={"limit": str(PAGE)})


def get(id: str) -> Call[Pool]:
    """Get one pool with its members and what waits for them."""
    return Call("GET", _path(id), Pool.read)


def create(
    name: str, members: Sequence[str] = (), *, retry_on: RetryOn | None = None
) -> Call[Pool]:
    """Create a pool of these agents."""
    body = given({"name": name, "members": list(members), "retry_on": retry_on})
    return Call("POST", "/v1/pools", Pool.read, body)


def change(
    id: str,
    *,
    paused: bool | None = None,
    retry_on: RetryOn | None = None,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
) -> Call[Pool]:
    """Pause or resume a pool, add or remove members, or set who retries its tasks."""
    body: dict[str, Any] = given({"paused": paused, "retry_on": retry_on})
    body |= {"add": list(add)} if add else {}
    body |= {"remove": list(remove)} if remove else {}
    return Call("PATCH", _path(id), Pool.read, body)


def remove(id: str, *, move_to: str | None = None) -> Call[int]:
    """Remove a pool; its open tasks go to an agent or pool. Returns how many did."""
    return Call("DELETE", _path(id), _moved, params=given({"move_to": move_to}))


def _path(id: str) -> str:
    return f"/v1/pools/{part(id)}"


def _moved(answer: Any) -> int:
    return int(answer["moved"])
