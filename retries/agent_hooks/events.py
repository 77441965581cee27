"""Hook events of coding agents: what Claude Code and Codex send, read leniently (pure).

Both add fields and events often. So a field that is missing or has another type counts as empty,
and a new one is ignored.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ledger.secrets.redaction import redacted, stripped
from retries.agent_hooks.shell_lines import ShellCommand, read_commands
from retries.agent_hooks.shell_results import CLAUDE, Ending, ShellResult, read_ending

SHELL_TOOL = "Bash"
# the event of an MCP server that asks a person, read as a tool of this name
ELICITATION = "Elicitation"
PATCH_TOOL = "apply_patch"
WRITING_TOOLS = {"Write", "Edit", "MultiEdit", "NotebookEdit"}
PATH_KEYS = ("file_path", "notebook_path", "path")
PATCHED = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.M)
# States of background work that has not ended.
UNFINISHED = {"running", "pending", "queued", "in_progress"}
NOTICE = "<task-notification>"
MOST_NOTICES = 20
# This reads at most TEXT_LENGTH characters.
NOTICE_FIELD = re.compile(r"<(task-id|tool-use-id|status|summary)>([^<]{0,500})</")
# This reads at most TEXT_LENGTH characters.
NOTICE_CODE = re.compile(r"\bexit code (\d{1,3})\b")

MOST_SIGNALS = 20
LINE_LENGTH = 1000
PATH_LENGTH = 1024
TEXT_LENGTH = 4000


@dataclass(frozen=True, slots=True)
class BackgroundTask:
    """A subagent or a command that still runs."""

    type: str
    status: str

    @property
    def is_running(self) -> bool:
        return self.status in UNFINISHED

    @property
    def is_command(self) -> bool:
        return self.type == "shell"


@dataclass(frozen=True, slots=True)
class Notice:
    """The end of background work, with its exit code where it is known."""

    task: str
    call: str
    status: str
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One event of an agent's session."""

    name: str
    # the agent's program, which `tenfour hook` names; only Claude Code sends hooks itself
    program: str = CLAUDE
    session: str = ""
    cwd: str = ""
    tool: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    response: Any = None
    last_message: str = ""
    source: str = ""
    message: str = ""
    # a notification's type, such as permission_prompt; older programs send none
    type: str = ""
    is_interrupted: bool = False
    # the call's id, which a later notice names
    call: str = ""
    # the subagent that makes the call; empty for the session's own agent
    subagent: str = ""
    prompt: str = ""
    # how long the tool ran; None where the program does not say
    duration_ms: int | None = None
    # what still runs when the agent's turn ends
    background: tuple[BackgroundTask, ...] = ()
    # a shell call's exit code in the records of the agent's program
    recorded: int | None = None

    @property
    def has_failed(self) -> bool:
        # Codex does not report a failure.
        return self.name == "PostToolUseFailure"


@dataclass(frozen=True, slots=True)
class ToolSignal:
    """Something that the agent did, as instructions and standing instructions name it."""

    type: str
    data: dict[str, Any]


def read_event(body: Mapping[str, Any], *, recorded: int | None = None) -> HookEvent:
    """Return a hook's event; `recorded` is the exit code that the agent's side has found."""
    if body.get("hook_event_name") == ELICITATION:
        body = {**body, "tool_name": ELICITATION, "tool_input": read_form(body)}
    given = body.get("tool_input")
    return HookEvent(
        name=text_in(body, "hook_event_name"),
        program=text_in(body, "program") or CLAUDE,
        session=text_in(body, "session_id"),
        cwd=text_in(body, "cwd"),
        tool=text_in(body, "tool_name"),
        input=given if isinstance(given, Mapping) else {},
        error=text_in(body, "error"),
        response=body.get("tool_response"),
        last_message=text_in(body, "last_assistant_message"),
        source=text_in(body, "source"),
        message=text_in(body, "message"),
        type=text_in(body, "notification_type"),
        is_interrupted=body.get("is_interrupt") is True,
        call=text_in(body, "tool_use_id"),
        subagent=text_in(body, "agent_id"),
        prompt=text_in(body, "prompt"),
        duration_ms=number_in(body, "duration_ms"),
        background=tuple(read_background(body.get("background_tasks"))),
        recorded=recorded,
    )


def read_form(body: Mapping[str, Any]) -> Any:
    # Only `tenfour hook` sends it as an input.
    names = ("mcp_server_name", "message", "requested_schema")
    return body.get("tool_input") or {name: body[name] for name in names if name in body}


def read_background(given: Any) -> Iterator[BackgroundTask]:
    for each in given if isinstance(given, list) else []:
        if isinstance(each, Mapping):
            yield BackgroundTask(text_in(each, "type"), text_in(each, "status"))


def text_in(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def number_in(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return int(value) if 0 <= value <= 86_400_000 else None


# ---- signals


def signals_of(event: HookEvent, *, folder: str = "") -> list[ToolSignal]:
    """Return the signals about an ended tool call: its commands or its changed files.

    Paths are relative to `folder`, or to the folder that the agent is in.
    """
    if event.tool == SHELL_TOOL:
        found = [command_signal(each) for each in commands_of(event)]
    elif event.has_failed:
        found = []  # a call that failed has changed no file
    else:
        base = folder or event.cwd
        found = [
            ToolSignal("fs_write", {"path": path, "tool": event.tool, "cwd": base})
            for path in paths_of(event)
        ]
    return found[:MOST_SIGNALS]


def command_signal(command: ShellCommand) -> ToolSignal:
    line = redacted(stripped(command.line))[:LINE_LENGTH]
    data = {"command": line.partition(" ")[0], "line": line, "tool": SHELL_TOOL}
    known = {} if command.exit_code is None else {"exit_code": command.exit_code}
    return ToolSignal("fs_command", data | known)


def commands_of(event: HookEvent) -> list[ShellCommand]:
    return read_commands(shell_line(event), ending_of(event).exit_code)


def shell_line(event: HookEvent) -> str:
    return text_in(event.input, "command")


def ending_of(event: HookEvent) -> Ending:
    result = ShellResult(
        event.program,
        has_failed=event.has_failed,
        response=event.response,
        error=event.error,
        is_interrupted=event.is_interrupted,
        is_background=event.input.get("run_in_background") is True,
        recorded=event.recorded,
    )
    return read_ending(result)


def paths_of(event: HookEvent) -> list[str]:
    if event.tool == PATCH_TOOL:
        found = PATCHED.findall(text_in(event.input, "command"))
    elif event.tool in WRITING_TOOLS:
        found = [text_in(event.input, key) for key in PATH_KEYS]
    else:
        found = []
    return list(dict.fromkeys(path.strip() for path in found if 0 < len(path) <= PATH_LENGTH))


# ---- background work


def read_notices(event: HookEvent) -> list[Notice]:
    """Return the background work that a prompt reports as ended; empty for a person's prompt."""
    # Claude Code reports such work to its model as one prompt.
    if not event.prompt.startswith(NOTICE):
        return []
    parts = event.prompt[: MOST_NOTICES * TEXT_LENGTH].split(NOTICE)[1:]
    return [notice for part in parts[:MOST_NOTICES] if (notice := read_notice(part)).call]


def read_notice(text: str) -> Notice:
    # The summary quotes the agent's own words before the exit code. The code of failed work is
    # never 0.
    found = {name: value.strip() for name, value in NOTICE_FIELD.findall(text[:TEXT_LENGTH])}
    codes, status = NOTICE_CODE.findall(found.get("summary", "")), found.get("status", "")
    is_completed = status == "completed"
    code = int(codes[-1]) if codes else 0 if is_completed else None
    is_known = bool(code) or is_completed
    return Notice(
        found.get("task-id", ""), found.get("tool-use-id", ""), status, code if is_known else None
    )
