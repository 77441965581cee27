"""Calls about plans; each function turns arguments into a Call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from tenfour.api.calls import PAGE, given, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page, text_of_time
from tenfour.models import ImportedPlan, Plan, PlanForecast, PlanWithTasks

if TYPE_CHECKING:
    from typing_extensions import Unpack

Mode = Literal["create", "merge", "replace"]

# by file extension; the server inspects anything else
MEDIA = {
    ".json": "application/json",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".xml": "application/xml",
    ".md": "text/markdown",
}
ANY = "text/plain"


class ImportOptions(TypedDict, total=False):
    """Options of an import; the server chooses what is missing."""

    mode: Mode | None
    # the default agent, for tasks that name none
    agent: str | None
    # the plan's ref, if the file names none
    ref: str | None
    dry_run: bool | None
    register: bool | None
    allow_missing_needs: bool | None
    # of a tasks.json of Task Master
    tag: str | None
    # which task of the file is which stored one: "task-2=task-1,task-3=new"
    pairs: str | None
    # which boxes the answer says to tick: of tasks that are done, or only proven ones
    ticks: Literal["done", "proven"] | None


def import_file(
    path: str | PathLike[str],
    *,
    idempotency_key: str | None = None,
    **options: Unpack[ImportOptions],
) -> Call[ImportedPlan]:
    """Import the plan in a file; options as in `import_text`."""
    file = Path(path)
    text = file.read_text(encoding="utf-8")
    return import_text(text, media=media_of(file), idempotency_key=idempotency_key, **options)


def media_of(file: Path) -> str:
    """Return the media type of a plan's file, by its extension."""
    return MEDIA.get(file.suffix.lower(), ANY)


def import_text(
    text: str,
    *,
    media: str = ANY,
    idempotency_key: str | None = None,
    **options: Unpack[ImportOptions],
) -> Call[ImportedPlan]:
    """Import a plan, completely or not at all; the same plan again changes nothing.

    Options: mode (what to do with a changed plan: merge or replace), agent (the
    default, for tasks that name none), ref (of a plan that names none),
    dry_run, register, allow_missing_needs, pairs (of tasks that a merge can't tell).
    """
    params = {name: _query(value) for name, value in given(options).items()}
    return Call("POST", "/v1/plans", ImportedPlan.read, text, params, idempotency_key, media)


def create(
    plan: Mapping[str, Any], *, idempotency_key: str | None = None, **options: Unpack[ImportOptions]
) -> Call[ImportedPlan]:
    """Import a plan from a mapping; options as in `import_text`."""
    text = json.dumps(plan, allow_nan=False)
    return import_text(text, media=MEDIA[".json"], idempotency_key=idempotency_key, **options)


def get(id: str) -> Call[PlanWithTasks]:
    """Get one plan with its tasks."""
    return Call("GET", f"/v1/plans/{part(id)}", PlanWithTasks.read)


def forecast(id: str) -> Call[PlanForecast]:
    """Get when a plan will be done and what it will cost, with intervals that hold 80%."""
    return Call("GET", f"{_path(id)}/forecast", PlanForecast.read)


def plans(
    *, state: str | Iterable[str] | None = None, ref: str | None = None, q: str | None = None
) -> Call[Page[Plan]]:
    """List plans, newest first; `state` is one state or several, `q` a part of the title."""
    states = state if state is None or isinstance(state, str) else ",".join(state)
    params = given({"state": states, "ref": ref, "q": q, "limit": str(PAGE)})
    return Call("GET", "/v1/plans", page_of(Plan.read), params=params)


def rename(id: str, title: str, *, version: int) -> Call[Plan]:
    """Change a plan's title; refused if the plan has changed since `version` was read."""
    headers = {"If-Match": f'"v{version}"'}
    return Call("PATCH", _path(id), Plan.read, {"title": title}, headers=headers)


def change(
    id: str,
    *,
    version: int,
    not_before: datetime | str | None = None,
    exclusive_files: bool | None = None,
) -> Call[Plan]:
    """Change when a plan's tasks may start, and whether the same files keep them apart.

    Refused if the plan has changed since `version` was read.
    """
    at = not_before and text_of_time(not_before)
    changes = given({"not_before": at, "exclusive_files": exclusive_files})
    headers = {"If-Match": f'"v{version}"'}
    return Call("PATCH", _path(id), Plan.read, changes, headers=headers)


def pause(id: str, *, reason: str | None = None) -> Call[Plan]:
    """Start no further tasks of a plan; running ones continue."""
    return Call("POST", f"{_path(id)}/pause", Plan.read, given({"reason": reason}))


def resume(id: str, *, reason: str | None = None) -> Call[Plan]:
    """Start a paused plan's tasks again."""
    return Call("POST", f"{_path(id)}/resume", Plan.read, given({"reason": reason}))


def abort(id: str, *, reason: str | None = None) -> Call[Plan]:
    """Stop a plan: running tasks are told to stop, others are aborted, finished ones stay."""
    return Call("POST", f"{_path(id)}/abort", Plan.read, given({"reason": reason}))


def confirm(id: str, commands: Mapping[str, str]) -> Call[PlanWithTasks]:
    """Confirm commands that were found in prose, by their tasks' refs; needs an operator's token.

    Each must equal its task's `proposed_command`; all are confirmed or none.
    """
    body = {"commands": dict(commands)}
    return Call("POST", f"{_path(id)}/confirm", PlanWithTasks.read, body)


def restart(id: str, *, carry_over: datetime | str | None = None) -> Call[Plan]:
    """Run an aborted or completed plan again: unfinished tasks start over.

    Tasks that started at or after `carry_over` keep their attempts and failures.
    """
    since = carry_over.isoformat() if isinstance(carry_over, datetime) else carry_over
    body: Mapping[str, Any] = given({"carry_over": since})
    return Call("POST", f"{_path(id)}/restart", Plan.read, body)


def _path(id: str) -> str:
    return f"/v1/plans/{part(id)}"


def _query(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
