"""Repeat a call without the fields that an older server refuses (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from tenfour.attempts.usage import COUNTS
from tenfour.http.exchange import Answer, NoAnswer

Body = Mapping[str, Any] | str | None
# Fields of a report, a heartbeat, an event of a hook, and a pull that older servers do not know.
FIELDS = frozenset(
    ("usage", "checks", "tree", "exit_code", "via", "suspects", "cache_write_tokens")
)
# An attempt's tokens and cost can also be in the query.
PARAMETERS = frozenset((*COUNTS, "cost_usd", "model"))


def leave_out_unknown(reply: Answer | NoAnswer, path: str, body: Body) -> tuple[str, Body] | None:
    """Return the path and the body without the fields that the server does not know.

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
    kept = keep_known(body, pointers, "")
    if kept is not None:
        return path, kept
    for name in ("tenfour", "verification", "usage"):
        inner = body.get(name)
        kept = keep_known(inner, pointers, f"/{name}") if isinstance(inner, Mapping) else None
        if kept is not None:
            return path, {**body, name: kept}
    event = body.get("tenfour")
    usage = event.get("usage") if isinstance(event, Mapping) else None
    if isinstance(event, Mapping) and isinstance(usage, Mapping):
        kept = keep_known(usage, pointers, "/tenfour/usage")
        if kept is not None:
            return path, {**body, "tenfour": {**event, "usage": kept}}
    return None


def read_pointers(reply: Answer) -> set[str]:
    """Return the JSON pointers of the values that the server refused."""
    errors = reply.problem().get("errors")
    if not isinstance(errors, list):
        return set()
    return {str(each.get("pointer")) for each in errors if isinstance(each, dict)}


def keep_known(fields: Mapping[str, Any], pointers: set[str], place: str) -> dict[str, Any] | None:
    """Return the fields without those that were refused; None if all of them stay."""
    known = FIELDS - {"exit_code"} if place == "/verification" else FIELDS
    refused = {name for name in known & fields.keys() if f"{place}/{name}" in pointers}
    return {name: fields[name] for name in fields if name not in refused} if refused else None
