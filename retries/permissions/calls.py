"""A tool call of a coding agent for which its program asks permission (pure)."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Claude Code and Codex name the tool Bash; Codex's own names are older.
SHELL_TOOLS = frozenset({"Bash", "shell", "exec_command", "local_shell", "shell_command"})
COMMAND_KEYS = ("command", "cmd")
SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
SCRIPT_OPTIONS = frozenset({"-c", "-lc"})

PATH_KEYS = ("file_path", "notebook_path", "path")
PATCH_TOOLS = frozenset({"apply_patch"})
PATCH_KEYS = ("command", "input", "patch")
PATCH_HEADINGS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
PATCH_MARKS = ("*** Begin Patch", "*** End Patch", "*** End of File")
# These search the folder itself where the call names no path.
SEARCH_TOOLS = frozenset({"Glob", "Grep", "LS"})
EDIT_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"} | PATCH_TOOLS)
FILE_TOOLS = frozenset({"Read", "NotebookRead"} | EDIT_TOOLS | SEARCH_TOOLS)
URL_TOOLS = frozenset({"WebFetch"})

TITLE_LENGTH = 200


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool with its input as the hook sent it.

    `folder` is the absolute folder that the agent was started in. It limits what a rule can allow,
    so it must not be a folder that the agent itself changed to with `cd`.
    """

    tool: str
    input: Mapping[str, Any]
    folder: str

    @property
    def command(self) -> str | None:
        if self.tool not in SHELL_TOOLS:
            return None
        found = [self.input[key] for key in COMMAND_KEYS if key in self.input]
        # Which of two the agent's program would run is not known.
        return join_words(found[0]) if len(found) == 1 else None

    @property
    def paths(self) -> tuple[str, ...]:
        if self.tool in PATCH_TOOLS:
            return tuple(list_patched_files(self.patch))
        if self.tool not in FILE_TOOLS:
            return ()
        found = tuple(str(self.input[key]) for key in PATH_KEYS if self.input.get(key))
        return found or ((self.folder,) if self.tool in SEARCH_TOOLS else ())

    @property
    def patch(self) -> str:
        found = [self.input[key] for key in PATCH_KEYS if isinstance(self.input.get(key), str)]
        return "\n".join(found)

    @property
    def url(self) -> str | None:
        url = self.input.get("url") if self.tool in URL_TOOLS else None
        return url if isinstance(url, str) else None

    @property
    def title(self) -> str:
        if self.command is not None:
            text = next(filter(str.strip, self.command.splitlines()), self.tool)
        elif self.paths:
            text = f"{self.tool} {', '.join(map(self.shorten_path, self.paths))}"
        elif self.url is not None:
            text = f"{self.tool} {self.url}"
        else:
            values = ", ".join(f"{key}: {value}" for key, value in self.input.items())
            text = f"{self.tool} {values}"
        text = " ".join(text.split())
        return text if len(text) <= TITLE_LENGTH else f"{text[: TITLE_LENGTH - 1].rstrip()}…"

    def shorten_path(self, path: str) -> str:
        return path.removeprefix(f"{self.folder.rstrip('/')}/")


def join_words(command: Any) -> str | None:
    """Return a command as a shell line, given as text or as a list of words.

    >>> join_words(["bash", "-lc", "npm test"]), join_words(["git", "commit", "-m", "a b"])
    ('npm test', "git commit -m 'a b'")
    """
    if isinstance(command, str):
        return command
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        return None
    is_script = len(command) == 3 and command[1] in SCRIPT_OPTIONS
    if is_script and command[0].rpartition("/")[2] in SHELLS:
        return str(command[2])
    return shlex.join(command)


def list_patched_files(patch: str) -> Iterator[str]:
    for line in patch.splitlines():
        for heading in PATCH_HEADINGS:
            if line.strip().startswith(heading):
                yield line.strip().removeprefix(heading).strip()


def is_known_patch(patch: str) -> bool:
    """Return whether every heading of a patch is one whose file is listed."""
    headings = [line.strip() for line in patch.splitlines() if line.strip().startswith("***")]
    return bool(headings) and all(
        line.startswith(PATCH_HEADINGS) or line in PATCH_MARKS for line in headings
    )
