"""Calls about tokens, for a token that may manage them; each function returns a Call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.record_models import Token

if TYPE_CHECKING:
    from collections.abc import Sequence

PATH = "/v1/tokens"
Kind = Literal["agent", "orchestrator", "operator", "reader"]


def tokens() -> Call[Page[Token]]:
    """List the project's tokens, newest first."""
    return Call("GET", PATH, page_of(Token.read), params={"limit": str(PAGE)})


def get(id: str) -> Call[Token]:
    """Get one token, without its secret."""
    return Call("GET", _path(id), Token.read)


def create(
    kind: Kind,
    *,
    agent: str | None = None,
    name: str | None = None,
    account: str | None = None,
    scopes: Sequence[str] | None = None,
    expires_in_days: int | None = None,
    register: bool | None = None,
    idempotency_key: str | None = None,
) -> Call[Token]:
    """Create a token; its `secret` is in this answer only.

    `scopes` are some of its kind's, such as `tasks:read`; without them it has all.
    """
    options = {
        "agent": agent,
        "name": name,
        "account": account,
        "scopes": list(scopes) if scopes else None,
        "expires_in_days": expires_in_days,
        "register": register,
    }
    body = {"kind": kind, **given(options)}
    return Call("POST", PATH, Token.read, body, idempotency_key=idempotency_key)


def rotate(id: str, *, overlap_hours: int | None = None) -> Call[Token]:
    """Replace a token by a new one; the old one stays valid for `overlap_hours`."""
    body = given({"overlap_hours": overlap_hours})
    return Call("POST", f"{_path(id)}/rotate", Token.read, body)


def revoke(id: str) -> Call[Token]:
    """Revoke a token at once."""
    return Call("DELETE", _path(id), Token.read)


def _path(id: str) -> str:
    return f"{PATH}/{part(id)}"
