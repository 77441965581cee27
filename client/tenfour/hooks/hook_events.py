"""Events of coding agents: the parts that Tenfour needs and that leave this machine (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tenfour.redaction.masking import masked

# The agent's program asks whether a call may run.
PERMISSION = "PermissionRequest"
# An MCP server asks a person (Claude Code).
ELICITATION = "Elicitation"
ASKING = (PERMISSION, ELICITATION)
# How long an answer is waited for: below the 600 seconds that both programs give a hook.
WAIT_S = 590
# The events that the server has rules for; others are ignored here already.
EVENTS = {
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    PERMISSION,
    ELICITATION,
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStop",
    "Stop",
    "StopFailure",
    "Notification",
    "SessionEnd",
}
# They only ask, or say that the session lives.
QUESTIONS = {"PreToolUse", "SubagentStop"}
TOOL_EVENTS = {"PostToolUse", "PostToolUseFailure"}
SHELL = "Bash"
# Tools that run commands or change files: their calls are always reported.
TOOLS = {SHELL, "apply_patch", "Write", "Edit", "MultiEdit", "NotebookEdit"}
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
    "tool_use_id": 128,
    "agent_id": 128,
}
# What a shell call's response says about its end; its output stays here.
ENDINGS = ("interrupted", "backgroundTaskId", "returnCodeInterpretation")
# Claude Code tells its model as a prompt that background work has ended.
NOTICE = "<task-notification>"
MOST_BACKGROUND = 50
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
        if given.get("run_in_background") is True:
            found["tool_input"]["run_in_background"] = True
    response = event.get("tool_response")
    if isinstance(response, Mapping):
        # Only Claude Code sends an object. Of its texts, only whether there is one is sent.
        found["tool_response"] = {name: True for name in ENDINGS if response.get(name)}
    if event.get("is_interrupt") is True:
        found["is_interrupt"] = True
    if isinstance(event.get("duration_ms"), (int, float)):
        found["duration_ms"] = event["duration_ms"]
    tasks = event.get("background_tasks")
    if isinstance(tasks, list):
        found["background_tasks"] = [*_reduce_tasks(tasks[:MOST_BACKGROUND])]
    prompt = event.get("prompt")
    if isinstance(prompt, str) and prompt.startswith(NOTICE):
        found["prompt"] = masked(prompt[:4000], environ)
    return found


def _reduce_tasks(tasks: list[Any]) -> Iterator[dict[str, str]]:
    """Yield the type and the status of subagents and commands that run in the background."""
    for task in tasks:
        if isinstance(task, Mapping):
            yield {
                name: value[:64]
                for name in ("type", "status")
                if isinstance(value := task.get(name), str)
            }


def _shorten(text: str, is_patch: bool) -> str:
    """Return a command; of a patch only the lines that name files."""
    if is_patch:
        lines = (line for line in text.splitlines() if line.startswith(PATCH_MARK))
        text = "\n".join(lines)
    return text[:COMMAND_LENGTH]


def has_news(event: Mapping[str, Any]) -> bool:
    """Return whether an event must reach the server; others only ask what waits for the agent."""
    name = event.get("hook_event_name")
    if name in QUESTIONS:
        return False
    return name not in TOOL_EVENTS or event.get("tool_name") in TOOLS
