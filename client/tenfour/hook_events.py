"""Events of coding agents: the parts that Tenfour needs and that leave this machine (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenfour.redaction import masked

# The events that the server has rules for; others are ignored here already.
EVENTS = {
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "Notification",
    "SessionEnd",
}
TOOL_EVENTS = {"PostToolUse", "PostToolUseFailure"}
# Tools that run commands or change files: only these are reported.
TOOLS = {"Bash", "apply_patch", "Write", "Edit", "MultiEdit", "NotebookEdit"}
GIVEN = ("command", "file_path", "notebook_path", "path")
LENGTHS = {
    "hook_event_name": 64,
    "session_id": 128,
    "cwd": 1024,
    "tool_name": 128,
    "error": 2000,
    "last_assistant_message": 2000,
    "source": 64,
    "message": 2000,
    "notification_type": 64,
}
COMMAND_LENGTH = 16_000
PATCH_MARK = "*** "


def reduce_event(event: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that the server reads, without this machine's secrets.

    Contents of files and outputs of commands stay here.
    """
    found: dict[str, Any] = {
        name: masked(value[:length], environ)
        for name, length in LENGTHS.items()
        if isinstance(value := event.get(name), str)
    }
    given = event.get("tool_input")
    if isinstance(given, Mapping):
        is_patch = found.get("tool_name") == "apply_patch"
        found["tool_input"] = {
            name: masked(_shorten(value, is_patch), environ)
            for name in GIVEN
            if isinstance(value := given.get(name), str)
        }
    if isinstance(event.get("tool_response"), Mapping):
        # Only Claude Code sends an object, and only for a command that exits with 0.
        found["tool_response"] = {}
    return found


def _shorten(text: str, is_patch: bool) -> str:
    """Return a command; of a patch only the lines that name files."""
    if is_patch:
        lines = (line for line in text.splitlines() if line.startswith(PATCH_MARK))
        text = "\n".join(lines)
    return text[:COMMAND_LENGTH]


def is_reported(event: Mapping[str, Any]) -> bool:
    """Return whether an event must reach the server."""
    if event.get("hook_event_name") in TOOL_EVENTS:
        return event.get("tool_name") in TOOLS
    return event.get("hook_event_name") in EVENTS
