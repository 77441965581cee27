"""Calls about operations, which change many rows in the background; each returns a Call."""

from __future__ import annotations

from collections.abc import Iterable

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.record_models import BulkOperation

PATH = "/v1/operations"


def operations(*, state: str | Iterable[str] | None = None) -> Call[Page[BulkOperation]]:
    """List operations, newest first; `state` is waiting, running, done, stopped or undone."""
    states = state if state is None or isinstance(state, str) else ",".join(state)
    params = given({"state": states, "limit": str(PAGE)})
    return Call("GET", PATH, page_of(BulkOperation.read), params=params)


def get(id: str) -> Call[BulkOperation]:
    """Get one operation, with the reasons why it left rows in `refusals`."""
    return Call("GET", f"{PATH}/{part(id)}", BulkOperation.read)
