"""Calls about failure patterns; each function turns arguments into a Call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tenfour.api.calls import PAGE, given, json_object, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.record_models import Pattern, PatternFailure

PATH = "/v1/patterns"


def patterns(
    *, state: str | Iterable[str] | None = None, q: str | None = None, assignee: str | None = None
) -> Call[Page[Pattern]]:
    """List patterns; `state` is open, ignored, resolved or regressed, `q` words in the error."""
    states = state if state is None or isinstance(state, str) else ",".join(state)
    params = given({"state": states, "q": q, "assignee": assignee, "limit": str(PAGE)})
    return Call("GET", PATH, page_of(Pattern.read), params=params)


def get(id: str) -> Call[Pattern]:
    """Get one pattern."""
    return Call("GET", _path(id), Pattern.read)


def failures(id: str) -> Call[Page[PatternFailure]]:
    """List a pattern's failures, newest first."""
    path = f"{_path(id)}/failures"
    return Call("GET", path, page_of(PatternFailure.read), params={"limit": str(PAGE)})


def resolve(id: str, *, note: str | None = None) -> Call[Pattern]:
    """Mark a pattern as fixed; it regresses if it fails again."""
    return Call("POST", f"{_path(id)}/resolve", Pattern.read, given({"note": note}))


def ignore(
    id: str, *, note: str | None = None, until: datetime | str | None = None
) -> Call[Pattern]:
    """Ignore a pattern, permanently or until a time."""
    end = until.isoformat() if isinstance(until, datetime) else until
    return Call("POST", f"{_path(id)}/ignore", Pattern.read, given({"note": note, "until": end}))


def reopen(id: str) -> Call[Pattern]:
    """Open an ignored or resolved pattern again."""
    return Call("POST", f"{_path(id)}/reopen", Pattern.read, {})


def assign(id: str, user: str) -> Call[Pattern]:
    """Assign a pattern to a user, or to no one with an empty name."""
    return Call("POST", f"{_path(id)}/assign", Pattern.read, {"user": user})


def comment(id: str, text: str, *, idempotency_key: str | None = None) -> Call[Pattern]:
    """Add a comment to a pattern's events; a person named as `@name` is notified."""
    path = f"{_path(id)}/comment"
    return Call("POST", path, Pattern.read, {"text": text}, idempotency_key=idempotency_key)


def retry(id: str) -> Call[Mapping[str, Any]]:
    """Retry all tasks that are stuck because of a pattern; returns their ids by what was done."""
    return Call("POST", f"{_path(id)}/retry", json_object, {})


def _path(id: str) -> str:
    return f"{PATH}/{part(id)}"
