"""Hook events of coding agents: what Claude Code and Codex send, read leniently (pure).

Both add fields and events often. So a field that is missing or has another type counts as empty,
and a new one is ignored.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ledger.redaction import redacted, stripped

SHELL_TOOL = "Bash"
PATCH_TOOL = "apply_patch"
WRITING_TOOLS = {"Write", "Edit", "MultiEdit", "NotebookEdit"}
PATH_KEYS = ("file_path", "notebook_path", "path")
PATCHED = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.M)
EXIT_CODE = re.compile(r"Exit code (\d{1,3})\b")

# The shell's syntax: redirections of streams, and the operators between two commands.
REDIRECTED = re.compile(r"\s*\d*>&\d")
SEPARATORS = ";&|\n"
ASSIGNED = re.compile(r"[A-Za-z_]\w*=")

MOST_SIGNALS = 20
LINE_LENGTH = 1000
PATH_LENGTH = 1024
TEXT_LENGTH = 500


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One event of an agent's session."""

    name: str
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

    @property
    def has_failed(self) -> bool:
        """Return whether a tool call is known to have failed; Codex does not report it."""
        return self.name == "PostToolUseFailure"


@dataclass(frozen=True, slots=True)
class ToolSignal:
    """Something that the agent did, as instructions and standing instructions name it."""

    type: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One command of a shell line, with its exit code where that is known."""

    line: str
    exit_code: int | None = None


def read_event(body: Mapping[str, Any]) -> HookEvent:
    """Return the event that an agent's hook sent."""
    given = body.get("tool_input")
    return HookEvent(
        name=text_in(body, "hook_event_name"),
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
    )


def text_in(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


# ---- signals


def signals_of(event: HookEvent, *, folder: str = "") -> list[ToolSignal]:
    """Return the signals about a tool call that has ended: its commands, or the changed files.

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
    """Return the commands of a shell call, such as two for `cd app && make test`."""
    code = exit_code_of(event)
    parts = list(split_line(text_in(event.input, "command")))
    found: list[ShellCommand] = []
    # The exit code is that of the last command, and of those before it that had to succeed.
    for line, follows in reversed(parts):
        code = code if not follows or (follows == "&&" and code == 0) else None
        if line:
            found.append(ShellCommand(line, code))
    return found[::-1]


def exit_code_of(event: HookEvent) -> int | None:
    """Return the exit code of a shell call; None where the agent's program does not report it.

    Claude Code sends PostToolUse for 0 alone. Codex sends it for every end, without the code: its
    response is a text, where Claude Code's is an object.
    """
    if event.has_failed:
        found = EXIT_CODE.match(event.error)
        return int(found[1]) if found else None
    return 0 if isinstance(event.response, Mapping) else None


def split_line(line: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a shell line with the operator after it.

    >>> list(split_line("cd app && CI=1 make  test 2>&1 | tail -3"))
    [('cd app', '&&'), ('make test', '|'), ('tail -3', '')]
    """
    lexer = shlex.shlex(REDIRECTED.sub("", line), posix=False, punctuation_chars=SEPARATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    words: list[str] = []
    try:
        for token in lexer:
            if token.strip(SEPARATORS):
                words.append(token)
            else:
                yield join_command(words), token.strip("\n") or ";"
                words = []
    except ValueError:  # a quotation without an end, as in some here-documents
        words = line.split()
    yield join_command(words), ""


def join_command(words: list[str]) -> str:
    """Return a command's words without the variables that are set for it."""
    first = next((n for n, word in enumerate(words) if not ASSIGNED.match(word)), len(words))
    return " ".join(words[first:])


def paths_of(event: HookEvent) -> list[str]:
    """Return the files that a tool call has changed."""
    if event.tool == PATCH_TOOL:
        found = PATCHED.findall(text_in(event.input, "command"))
    elif event.tool in WRITING_TOOLS:
        found = [text_in(event.input, key) for key in PATH_KEYS]
    else:
        found = []
    return list(dict.fromkeys(path.strip() for path in found if 0 < len(path) <= PATH_LENGTH))


def has_run(event: HookEvent, command: str) -> ShellCommand | None:
    """Return how the given command ended, if the shell call ran it."""
    wanted = [line for line, _ in split_line(command)]
    ran = commands_of(event)
    lines = [each.line for each in ran]
    for start in range(len(lines) - len(wanted) + 1):
        if lines[start : start + len(wanted)] == wanted:
            return ran[start + len(wanted) - 1]
    return None
