"""Calls about escalations; each function turns arguments into a Call."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.models import Escalation

Action = Literal["retry", "fix", "skip", "abort", "answer", "accept", "allow", "deny"]
Dependents = Literal["continue", "block", "skip"]


def get(id: str) -> Call[Escalation]:
    """Get one escalation, with its answer once there is one."""
    return Call("GET", _path(id), Escalation.read)


def escalations(
    *,
    state: str | None = None,
    reason: str | None = None,
    plan: str | None = None,
    agent: str | None = None,
    assignee: str | None = None,
) -> Call[Page[Escalation]]:
    """List escalations, newest first; `plan` is a plan's ref or id."""
    filters = {
        "state": state,
        "reason": reason,
        "plan": plan,
        "agent": agent,
        "assignee": assignee,
        "limit": str(PAGE),
    }
    return Call("GET", "/v1/escalations", page_of(Escalation.read), params=given(filters))


def resolve(
    id: str,
    text: str | None = None,
    *,
    action: Action | None = None,
    instruction: str | None = None,
    response: Mapping[str, Any] | None = None,
    note: str | None = None,
    dependents: Dependents | None = None,
    version: int | None = None,
    idempotency_key: str | None = None,
) -> Call[Escalation]:
    """Answer an escalation, with one line such as "fix: trim first" or with fields.

    Needs an operator's token. With the `version` you read, a changed escalation is refused.
    """
    fields = {
        "text": text,
        "action": action,
        "instruction": instruction,
        "response": response,
        "note": note,
        "dependents": dependents,
        "version": version,
    }
    path = f"{_path(id)}/resolve"
    return Call("POST", path, _resolved, given(fields), idempotency_key=idempotency_key)


def undo(id: str) -> Call[Escalation]:
    """Take back a retry or a fix while its task has not started; possible for a few seconds."""
    return Call("POST", f"{_path(id)}/undo", Escalation.read, {})


def withdraw(id: str) -> Call[Escalation]:
    """Withdraw a question that no longer needs an answer; its task is queued again."""
    return Call("POST", f"{_path(id)}/withdraw", Escalation.read, {})


def assign(id: str, user: str) -> Call[Escalation]:
    """Assign an escalation to a user, or to no one with an empty name."""
    return Call("POST", f"{_path(id)}/assign", Escalation.read, {"user": user})


def snooze(id: str, until: datetime | str | None) -> Call[Escalation]:
    """Take an escalation out of the inbox until a time, or bring it back with None."""
    end = until.isoformat() if isinstance(until, datetime) else until
    return Call("POST", f"{_path(id)}/snooze", Escalation.read, {"until": end})


def comment(id: str, text: str, *, idempotency_key: str | None = None) -> Call[Escalation]:
    """Add a comment to an escalation."""
    path = f"{_path(id)}/comment"
    return Call("POST", path, Escalation.read, {"text": text}, idempotency_key=idempotency_key)


def _path(id: str) -> str:
    return f"/v1/escalations/{part(id)}"


def _resolved(answer: Any) -> Escalation:
    return Escalation.read(answer["escalation"] | {"warnings": answer.get("warnings", ())})
