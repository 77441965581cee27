"""Calls about standing instructions; each function turns arguments into a Call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from tenfour.api.calls import PAGE, Expect, OnFailed, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.record_models import Hold, StandingInstruction, Trial

OncePer = Literal["trigger", "session", "attempt", "day"]
PATH = "/v1/standing-instructions"


def rules(
    *, state: str | Iterable[str] | None = None, agent: str | None = None
) -> Call[Page[StandingInstruction]]:
    """List rules, newest first; `state` is active, paused, draft or retired, or several."""
    states = state if state is None or isinstance(state, str) else ",".join(state)
    params = given({"state": states, "agent": agent, "limit": str(PAGE)})
    return Call("GET", PATH, page_of(StandingInstruction.read), params=params)


def get(id: str) -> Call[StandingInstruction]:
    """Get one rule."""
    return Call("GET", _path(id), StandingInstruction.read)


def create(
    on: Mapping[str, Any],
    content: str,
    *,
    expect: Expect | None = None,
    max_retries: int | None = None,
    on_failed: OnFailed | None = None,
    agent: str | None = None,
    once_per: OncePer | None = None,
    hold_stop: bool | None = None,
    paused: bool | None = None,
    idempotency_key: str | None = None,
) -> Call[StandingInstruction]:
    """Create a rule; `on` says when, such as {"event": "signal", "type": "fs_write"}.

    With `paused` it is a draft, which sends nothing until it is resumed.
    """
    options = {
        "expect": {"type": expect} if isinstance(expect, str) else expect,
        "max_retries": max_retries,
        "on_failed": on_failed,
        "agent": agent,
        "once_per": once_per,
        "hold_stop": hold_stop,
        "paused": paused,
    }
    body = {"on": on, "content": content, **given(options)}
    return Call("POST", PATH, StandingInstruction.read, body, idempotency_key=idempotency_key)


def change(id: str, version: int, **changes: Any) -> Call[StandingInstruction]:
    """Change what a rule says; refused unless `version` is its current one."""
    headers = {"If-Match": f'"v{version}"'}
    return Call("PATCH", _path(id), StandingInstruction.read, changes, headers=headers)


def pause(id: str) -> Call[StandingInstruction]:
    """Pause a rule: it sends nothing, and what it has sent stays open."""
    return Call("POST", f"{_path(id)}/pause", StandingInstruction.read, {})


def resume(id: str) -> Call[StandingInstruction]:
    """Switch on a paused rule or a draft."""
    return Call("POST", f"{_path(id)}/resume", StandingInstruction.read, {})


def retire(id: str, *, reason: str | None = None) -> Call[StandingInstruction]:
    """Retire a rule: it ends permanently, and its record stays."""
    params = given({"reason": reason})
    return Call("DELETE", _path(id), StandingInstruction.read, params=params)


def try_saved(
    id: str, type: str, data: Mapping[str, Any] | None = None, *, event: str = "signal"
) -> Call[Trial]:
    """Try a rule on a sample; nothing is sent and nothing is stored."""
    body = {"event": event, "type": type, "data": data or {}}
    return Call("POST", f"{_path(id)}/try", Trial.read, body)


def hold(session: str = "") -> Call[Hold]:
    """Ask whether the agent may stop; each answer that holds it counts."""
    return Call("POST", f"{PATH}/hold", Hold.read, {"session": session})


def _path(id: str) -> str:
    return f"{PATH}/{part(id)}"
