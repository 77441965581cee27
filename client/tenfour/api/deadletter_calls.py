"""Calls about dead letters; each function turns arguments into a Call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tenfour.api.calls import PAGE, given, json_object, page_of, part
from tenfour.api.escalation_calls import Dependents
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.record_models import DeadLetter


def dead_letters(
    *,
    state: str | None = None,
    agent: str | None = None,
    type: str | None = None,
    assignee: str | None = None,
) -> Call[Page[DeadLetter]]:
    """List dead letters, newest first; `state` is open, replayed or dismissed."""
    filters = {"state": state, "agent": agent, "type": type, "assignee": assignee}
    params = given({**filters, "limit": str(PAGE)})
    return Call("GET", "/v1/dead-letters", page_of(DeadLetter.read), params=params)


def get(id: str) -> Call[DeadLetter]:
    """Get one dead letter."""
    return Call("GET", _path(id), DeadLetter.read)


def replay(id: str, *, idempotency_key: str | None = None) -> Call[DeadLetter]:
    """Enqueue the task again, as a new task; its id is in `replayed_as`."""
    path = f"{_path(id)}/replay"
    return Call("POST", path, DeadLetter.read, {}, idempotency_key=idempotency_key)


def dismiss(
    id: str,
    *,
    note: str | None = None,
    dependents: Dependents | None = None,
    idempotency_key: str | None = None,
) -> Call[DeadLetter]:
    """Close it without another attempt; `dependents` says what becomes of tasks that need it."""
    body = given({"note": note, "dependents": dependents})
    path = f"{_path(id)}/dismiss"
    return Call("POST", path, DeadLetter.read, body, idempotency_key=idempotency_key)


def assign(id: str, user: str) -> Call[DeadLetter]:
    """Assign a dead letter and its task to a user, or to no one with an empty name."""
    return Call("POST", f"{_path(id)}/assign", DeadLetter.read, {"user": user})


def comment(id: str, text: str, *, idempotency_key: str | None = None) -> Call[DeadLetter]:
    """Add a comment to the task's events; a person named as `@name` is notified."""
    path = f"{_path(id)}/comment"
    return Call("POST", path, DeadLetter.read, {"text": text}, idempotency_key=idempotency_key)


def close_many(
    action: Literal["replay", "dismiss"],
    *,
    ids: Sequence[str] | None = None,
    agent: str | None = None,
    type: str | None = None,
    all: bool | None = None,
    note: str | None = None,
    dependents: Dependents | None = None,
    dry_run: bool | None = None,
) -> Call[Mapping[str, Any]]:
    """Replay or dismiss at most 100: these ids, or the oldest that match; `dry_run` only counts.

    `left` in the response says how many more match: repeat the call to close them.
    """
    options = {
        "ids": None if ids is None else list(ids),
        "agent": agent,
        "type": type,
        "all": all,
        "note": note,
        "dependents": dependents,
        "dry_run": dry_run,
    }
    body = {"action": action, **given(options)}
    return Call("POST", "/v1/dead-letters/bulk", json_object, body)


def _path(id: str) -> str:
    return f"/v1/dead-letters/{part(id)}"
