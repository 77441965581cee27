"""Calls about sessions, agents' conversations; each function turns arguments into a Call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tenfour.api.calls import PAGE, given, json_object, page_of, part
from tenfour.http.core import Call
from tenfour.http.values import Page
from tenfour.record_models import (
    ImportedSession,
    Message,
    Session,
    SessionStatus,
    SessionTask,
    StoredMessages,
)

PATH = "/v1/sessions"
Tracker = Literal["todo", "llm", "none"]
Messages = Sequence[Mapping[str, Any]]


def sessions(*, agent: str | None = None) -> Call[Page[Session]]:
    """List sessions, newest first."""
    params = given({"agent": agent, "limit": str(PAGE)})
    return Call("GET", PATH, page_of(Session.read), params=params)


def get(id: str) -> Call[Session]:
    """Get one session."""
    return Call("GET", _path(id), Session.read)


def create(
    *,
    agent: str | None = None,
    external_id: str | None = None,
    title: str | None = None,
    tracker: Tracker | None = None,
    metadata: Mapping[str, Any] | None = None,
    disable_task_tracking: bool | None = None,
) -> Call[Session]:
    """Create a session; a known `external_id` returns the session that it belongs to."""
    options = {
        "agent": agent,
        "external_id": external_id,
        "title": title,
        "tracker": tracker,
        "metadata": metadata,
        "disable_task_tracking": disable_task_tracking,
    }
    return Call("POST", PATH, Session.read, given(options))


def store_messages(
    id: str, messages: Messages, *, attempt: str | None = None, idempotency_key: str | None = None
) -> Call[StoredMessages]:
    """Store up to 100 messages in the form of OpenAI or Anthropic: `role` and `content`."""
    body = {"messages": [dict(each) for each in messages], **given({"attempt": attempt})}
    path = f"{_path(id)}/messages"
    return Call("POST", path, StoredMessages.read, body, idempotency_key=idempotency_key)


def messages(id: str, *, state: str | None = None) -> Call[Page[Message]]:
    """List a session's messages, oldest first."""
    params = given({"state": state, "limit": str(PAGE)})
    return Call("GET", f"{_path(id)}/messages", page_of(Message.read), params=params)


def import_lines(
    lines: str,
    *,
    agent: str | None = None,
    external_id: str | None = None,
    tracker: Tracker | None = None,
    attempt: str | None = None,
    format: str | None = None,
    first_line: int | None = None,
) -> Call[ImportedSession]:
    """Import whole lines of a transcript of Claude Code or Codex, without their secrets.

    One call takes up to 8 MiB; `first_line` is the number of the first of these lines.
    """
    params = given(
        {
            "agent": agent,
            "external_id": external_id,
            "tracker": tracker,
            "attempt": attempt,
            "format": format,
            "first_line": None if first_line is None else str(first_line),
        }
    )
    # the forms of secrets take long to compile, and few programs send transcripts
    from tenfour.sessions import transcripts

    body = transcripts.mask_lines(lines.encode(), os.environ)
    return Call(
        "POST", transcripts.PATH, ImportedSession.read, body, params, media=transcripts.MEDIA
    )


def tasks(id: str) -> Call[tuple[SessionTask, ...]]:
    """List the to-dos that were found in a session, in their order."""
    return Call("GET", f"{_path(id)}/tasks", lambda data: SessionTask.read_all(data["data"]))


def link_task(
    id: str,
    order: int,
    *,
    task: str | None = None,
    agent: str | None = None,
    type: str | None = None,
    title: str | None = None,
    priority: int | None = None,
    idempotency_key: str | None = None,
) -> Call[SessionTask]:
    """Link a to-do to a task, or without `task` enqueue a new one for it."""
    options = {"task": task, "agent": agent, "type": type, "title": title, "priority": priority}
    path = f"{_path(id)}/tasks/{order}/task"
    return Call("POST", path, SessionTask.read, given(options), idempotency_key=idempotency_key)


def status(id: str) -> Call[SessionStatus]:
    """Count a session's messages by state."""
    return Call("GET", f"{_path(id)}/status", SessionStatus.read)


def flush(id: str) -> Call[int]:
    """Process a session's waiting messages at once; returns how many there were."""
    return Call("POST", f"{_path(id)}/flush", lambda data: int(data["processed"]), {})


def retry(id: str, *, tracker: Tracker | None = None) -> Call[int]:
    """Process the messages of failed batches again; returns how many there are."""
    body = given({"tracker": tracker})
    return Call("POST", f"{_path(id)}/retry", lambda data: int(data["returned"]), body)


def tools() -> Call[tuple[Mapping[str, Any], ...]]:
    """List the tools that a tracker can call, with their arguments as JSON Schema."""
    return Call("GET", f"{PATH}/tools", lambda data: tuple(map(json_object, data["data"])))


def call_tools(
    id: str,
    tool_calls: Messages,
    *,
    first_message: int | None = None,
    idempotency_key: str | None = None,
) -> Call[tuple[Mapping[str, Any], ...]]:
    """Call a tracker's tools on a session; returns an answer for each call."""
    calls = [dict(each) for each in tool_calls]
    body = {"calls": calls, **given({"first_message": first_message})}
    return Call(
        "POST",
        f"{_path(id)}/tool-calls",
        lambda data: tuple(map(json_object, data["answers"])),
        body,
        idempotency_key=idempotency_key,
    )


def _path(id: str) -> str:
    return f"{PATH}/{part(id)}"
