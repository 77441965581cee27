"""Calls about a project's policies; each function turns arguments into a Call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tenfour.api.calls import given
from tenfour.http.core import Call
from tenfour.record_models import Policies

if TYPE_CHECKING:
    from collections.abc import Sequence

PATH = "/v1/policies"
Scope = Literal["off", "plans", "all"]
Evidence = Literal["record", "ask", "require"]


def get() -> Call[Policies]:
    """Get the project's policies."""
    return Call("GET", PATH, Policies.read)


def change(
    version: int,
    *,
    ask_on_same_failure: Scope | None = None,
    ask_at_once: Scope | None = None,
    obey_waits: Scope | None = None,
    evidence: Evidence | None = None,
    exclusive_files: Scope | None = None,
    reason_verbs: Sequence[str] | None = None,
    search_keys: Sequence[str] | None = None,
    reason: str | None = None,
) -> Call[Policies]:
    """Change policies; refused unless `version` is the current one.

    Each is off, plans or all. `evidence` is what a task needs before it is done: record, ask, or
    require. `exclusive_files` says of which tasks no two with the same files run at once, and
    `reason_verbs` for which verbs people must give a reason, such as `task.abort`. `search_keys`
    are the keys that tasks are searched by, such as `payload.order`.
    """
    changes = {
        "ask_on_same_failure": ask_on_same_failure,
        "ask_at_once": ask_at_once,
        "obey_waits": obey_waits,
        "evidence": evidence,
        "exclusive_files": exclusive_files,
        "reason_verbs": reason_verbs,
        "search_keys": search_keys,
        "reason": reason,
    }
    headers = {"If-Match": f'"v{version}"'}
    return Call("PATCH", PATH, Policies.read, given(changes), headers=headers)
