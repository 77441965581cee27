"""Calls about agents; each function turns arguments into a Call. `id` is an agent's id or name."""

from __future__ import annotations

from typing import Any

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.models import Account, Agent


def agents() -> Call[Page[Agent]]:
    """List the project's agents, newest first."""
    return Call("GET", "/v1/agents", page_of(Agent.read), params={"limit": str(PAGE)})


def get(id: str) -> Call[Agent]:
    """Get one agent, with its breaker and its counts."""
    return Call("GET", _path(id), Agent.read)


def register(name: str) -> Call[Agent]:
    """Register an agent; the existing one is returned if there is one."""
    return Call("POST", "/v1/agents", Agent.read, {"name": name})


def change(id: str, **changes: Any) -> Call[Agent]:
    """Change `paused`, `concurrency` (None for no limit), `account` or `system_text`."""
    return Call("PATCH", _path(id), Agent.read, changes)


def accounts() -> Call[Page[Account]]:
    """List the accounts that agents' calls are billed to, with their limits, newest first."""
    return Call("GET", "/v1/accounts", page_of(Account.read), params={"limit": str(PAGE)})


def trip_breaker(id: str, *, reason: str | None = None) -> Call[Agent]:
    """Open the agent's breaker: it gets no tasks until the breaker lets a probe through."""
    return Call("POST", f"{_path(id)}/breaker/trip", Agent.read, given({"reason": reason}))


def keep_breaker_open(id: str, *, reason: str | None = None) -> Call[Agent]:
    """Keep the agent's open breaker open until a person closes it or has it tested."""
    return Call("POST", f"{_path(id)}/breaker/keep-open", Agent.read, given({"reason": reason}))


def reset_breaker(id: str) -> Call[Agent]:
    """Close the agent's breaker and clear its failure count."""
    return Call("POST", f"{_path(id)}/breaker/reset", Agent.read, {})


def reset(id: str, *, reason: str | None = None) -> Call[int]:
    """Cancel the agent's unsettled instructions; returns how many there were."""
    return Call("POST", f"{_path(id)}/reset", _cancelled, given({"reason": reason}))


def _path(id: str) -> str:
    return f"/v1/agents/{part(id)}"


def _cancelled(answer: Any) -> int:
    return int(answer["cancelled"])
