"""The calls about plans, one function each: arguments in, a Call out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from tenfour.calls import PAGE, given, page_of, part
from tenfour.core import Call, new_key
from tenfour.models import ImportedPlan, Page, Plan, PlanWithTasks

Mode = Literal["create", "merge", "replace"]

# by the end of a file's name; anything else is looked at by the server
MEDIA = {
    ".json": "application/json",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".xml": "application/xml",
    ".md": "text/markdown",
}
ANY = "text/plain"


class ImportOptions(TypedDict, total=False):
    """How a plan is imported; the rest is left to the server."""

    mode: Mode | None
    # for the tasks for which the file names none
    agent: str | None
    dry_run: bool | None
    register: bool | None
    allow_missing_needs: bool | None


def import_file(
    path: str | PathLike[str],
    *,
    idempotency_key: str | None = None,
    **options: Unpack[ImportOptions],
) -> Call[ImportedPlan]:
    """Imports the plan in a file; options as of `import_text`."""
    file = Path(path)
    media = MEDIA.get(file.suffix.lower(), ANY)
    text = file.read_text(encoding="utf-8")
    return import_text(text, media=media, idempotency_key=idempotency_key, **options)


def import_text(
    text: str,
    *,
    media: str = ANY,
    idempotency_key: str | None = None,
    **options: Unpack[ImportOptions],
) -> Call[ImportedPlan]:
    """Imports a plan, all of it or nothing; the same plan again changes nothing.

    Options: mode (what to do with a changed plan: merge or replace), agent (for tasks for which
    the file names none), dry_run, register, allow_missing_needs.
    """
    params = {name: _query(value) for name, value in given(options).items()}
    key = idempotency_key or new_key()
    return Call("POST", "/v1/plans", ImportedPlan.read, text, params, key, media)


def create(
    plan: Mapping[str, Any],
    *,
    idempotency_key: str | None = None,
    **options: Unpack[ImportOptions],
) -> Call[ImportedPlan]:
    """Imports a plan that is at hand as a value; options as of `import_text`."""
    text = json.dumps(plan, allow_nan=False)
    return import_text(text, media=MEDIA[".json"], idempotency_key=idempotency_key, **options)


def get(id: str) -> Call[PlanWithTasks]:
    """One plan with its tasks as they are now."""
    return Call("GET", f"/v1/plans/{part(id)}", PlanWithTasks.read)


def plans(
    *, state: str | Iterable[str] | None = None, ref: str | None = None, q: str | None = None
) -> Call[Page[Plan]]:
    """Plans, newest first; `state` is one state or several, `q` a part of the title."""
    states = state if state is None or isinstance(state, str) else ",".join(state)
    params = given({"state": states, "ref": ref, "q": q, "limit": str(PAGE)})
    return Call("GET", "/v1/plans", page_of(Plan.read), params=params)


def rename(id: str, title: str, *, version: int) -> Call[Plan]:
    """Gives a plan another title; refused where it has changed since `version` was read."""
    headers = {"If-Match": f'"v{version}"'}
    return Call("PATCH", _path(id), Plan.read, {"title": title}, headers=headers)


def pause(id: str, *, reason: str | None = None) -> Call[Plan]:
    """Lets no more of its tasks begin; what runs goes on."""
    return Call("POST", f"{_path(id)}/pause", Plan.read, given({"reason": reason}))


def resume(id: str, *, reason: str | None = None) -> Call[Plan]:
    """Lets its tasks begin again."""
    return Call("POST", f"{_path(id)}/resume", Plan.read, given({"reason": reason}))


def abort(id: str, *, reason: str | None = None) -> Call[Plan]:
    """Stops a plan: what runs is told so, the rest is aborted, what is done stays done."""
    return Call("POST", f"{_path(id)}/abort", Plan.read, given({"reason": reason}))


def confirm(id: str, commands: Mapping[str, str]) -> Call[PlanWithTasks]:
    """Has commands run that were found in prose, by the refs of their tasks: a person's token.

    Each is named as its task's `proposed_command` shows it; all or none.
    """
    body = {"commands": dict(commands)}
    return Call("POST", f"{_path(id)}/confirm", PlanWithTasks.read, body)


def restart(id: str, *, carry_over: datetime | str | None = None) -> Call[Plan]:
    """Runs an aborted or completed plan once more: what is not done begins anew.

    What was begun at or after `carry_over` goes on with its attempts and failures.
    """
    since = carry_over.isoformat() if isinstance(carry_over, datetime) else carry_over
    body: Mapping[str, Any] = given({"carry_over": since})
    return Call("POST", f"{_path(id)}/restart", Plan.read, body)


def _path(id: str) -> str:
    return f"/v1/plans/{part(id)}"


def _query(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
