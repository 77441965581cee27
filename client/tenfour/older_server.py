"""Repeat a call without the fields that an older server refuses (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from tenfour.exchange import Answer, NoAnswer
from tenfour.usage import COUNTS

Body = Mapping[str, Any] | str | None
# An attempt's tokens and cost are in a report's body, in an event of a hook, or in the query.
FIELD = "usage"
PARAMETERS = frozenset((*COUNTS, "cost_usd", "model"))


def leave_out_usage(reply: Answer | NoAnswer, path: str, body: Body) -> tuple[str, Body] | None:
    """Return the path and the body without tokens and cost, if the server does not know them.

    Returns None for any other reply: a value that is wrong is the caller's to correct.
    """
    if isinstance(reply, NoAnswer) or reply.status != 422:
        return None
    pointers = read_pointers(reply)
    place, _, query = path.partition("?")
    named = parse_qsl(query)
    others = [(name, value) for name, value in named if name not in PARAMETERS]
    if len(others) < len(named) and pointers & {f"/{name}" for name in PARAMETERS}:
        return f"{place}?{urlencode(others)}" if others else place, body
    if not isinstance(body, Mapping):
        return None
    if FIELD in body and f"/{FIELD}" in pointers:
        return path, drop_usage(body)
    local = body.get("tenfour")
    if isinstance(local, Mapping) and FIELD in local and f"/tenfour/{FIELD}" in pointers:
        return path, {**body, "tenfour": drop_usage(local)}
    return None


def read_pointers(reply: Answer) -> set[str]:
    """Return the JSON pointers of the values that the server refused."""
    errors = reply.problem().get("errors")
    if not isinstance(errors, list):
        return set()
    return {str(each.get("pointer")) for each in errors if isinstance(each, dict)}


def drop_usage(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != FIELD}
