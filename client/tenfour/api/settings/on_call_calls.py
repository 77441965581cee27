"""Calls about escalation policies and rotas; each function returns a Call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.record_models import EscalationPolicy, Rota

POLICIES, ROTAS = "/v1/escalation-policies", "/v1/rotas"


def policies() -> Call[Page[EscalationPolicy]]:
    """List the project's escalation policies, newest first; `position` is their order."""
    return Call("GET", POLICIES, page_of(EscalationPolicy.read), params={"limit": str(PAGE)})


def get_policy(id: str) -> Call[EscalationPolicy]:
    """Get one escalation policy."""
    return Call("GET", f"{POLICIES}/{part(id)}", EscalationPolicy.read)


def create_policy(
    name: str,
    steps: Sequence[str],
    answer_within_s: int,
    *,
    conditions: str | None = None,
    position: int | None = None,
    enabled: bool | None = None,
) -> Call[EscalationPolicy]:
    """Create a policy; a step is a line such as '0 tell rota:nights' or '60 answer retry'."""
    options = {"conditions": conditions, "position": position, "enabled": enabled}
    body = {"name": name, "steps": list(steps), "answer_within_s": answer_within_s}
    return Call("POST", POLICIES, EscalationPolicy.read, {**body, **given(options)})


def change_policy(id: str, version: int, **changes: Any) -> Call[EscalationPolicy]:
    """Change a policy; refused unless `version` is its current one."""
    headers = {"If-Match": f'"v{version}"'}
    path = f"{POLICIES}/{part(id)}"
    return Call("PATCH", path, EscalationPolicy.read, changes, headers=headers)


def delete_policy(id: str) -> Call[EscalationPolicy]:
    """Delete a policy; its open escalations get another one."""
    return Call("DELETE", f"{POLICIES}/{part(id)}", EscalationPolicy.read)


def rotas() -> Call[Page[Rota]]:
    """List the project's rotas, newest first; `on_call` says who is on call in the next days."""
    return Call("GET", ROTAS, page_of(Rota.read), params={"limit": str(PAGE)})


def get_rota(id: str) -> Call[Rota]:
    """Get one rota."""
    return Call("GET", f"{ROTAS}/{part(id)}", Rota.read)


def create_rota(
    name: str, shifts: Sequence[str], fallback: Sequence[str], *, timezone: str | None = None
) -> Call[Rota]:
    """Create a rota; a shift is a line such as 'mon-fri 18:00-08:00 mara, jon'."""
    body = {"name": name, "shifts": list(shifts), "fallback": list(fallback)}
    return Call("POST", ROTAS, Rota.read, {**body, **given({"timezone": timezone})})


def change_rota(id: str, version: int, **changes: Any) -> Call[Rota]:
    """Change a rota; refused unless `version` is its current one."""
    headers = {"If-Match": f'"v{version}"'}
    return Call("PATCH", f"{ROTAS}/{part(id)}", Rota.read, changes, headers=headers)


def delete_rota(id: str) -> Call[Rota]:
    """Delete a rota that no policy names."""
    return Call("DELETE", f"{ROTAS}/{part(id)}", Rota.read)
