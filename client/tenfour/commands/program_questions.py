"""The questions of MCP servers and `codex app-server`, as tool calls, and the answers they read."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tenfour.hooks.hook_events import ELICITATION
from tenfour.hooks.permission_hook import INPUT_BYTES, Unsendable, mask_values, read_form
from tenfour.record_models import Permission

FORM, CODEX_FORM = "elicitation/create", "mcpServer/elicitation/request"
# Codex asks with an empty form whether it may call a tool; the call itself is not in the form.
APPROVAL = "codex_approval_kind"
COMMAND, CHANGE = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
# Keep the changes of at most so many calls, and the folders of at most so many threads.
MOST_KEPT = 100
NAME_LENGTH = 64
# Since MCP 2026-07-28, a server's name is here; older servers use the key `serverInfo`.
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
HEADINGS = {"add": "Add", "delete": "Delete", "update": "Update"}
# A question that also grants one of these grants more than the call.
GRANTS = ("additionalPermissions", "networkApprovalContext", "grantRoot")

BuildResult = Callable[[Permission], "dict[str, Any] | None"]


@dataclass(frozen=True)
class Question:
    """A call that a program asks about; `build_result` returns what to answer, None for nothing."""

    tool: str
    input: Mapping[str, Any]
    build_result: BuildResult
    folder: str = ""
    session: str = ""
    call_id: str = ""


class Questions:
    """Reads the questions among a program's messages."""

    def __init__(self, environ: Mapping[str, str], *, program: str) -> None:
        self.environ = environ
        self.program = program
        self.folders: dict[str, str] = {}
        self.changes: dict[str, Any] = {}

    def note(self, message: Mapping[str, Any]) -> None:
        """Keep what later questions do not repeat: names, folders of threads, and changes."""
        params, result = object_in(message, "params"), object_in(message, "result")
        info = object_in(result, "serverInfo") or object_in(object_in(result, "_meta"), SERVER_INFO)
        self.program = text_in(info, "name")[:NAME_LENGTH] or self.program
        thread = object_in(params, "thread") or object_in(result, "thread")
        if id := text_in(thread, "id"):
            keep(self.folders, id, text_in(thread, "cwd"))
        item = object_in(params, "item")
        if message.get("method") == "item/started" and item.get("type") == "fileChange":
            keep(self.changes, text_in(item, "id"), item.get("changes"))
        elif message.get("method") == "item/fileChange/patchUpdated":
            keep(self.changes, text_in(params, "itemId"), params.get("changes"))

    def read(self, message: Mapping[str, Any]) -> Question | None:
        """Return the question in a message, if it is one that Tenfour can ask.

        Raises Unsendable where people could not see all of it.
        """
        method, params = message.get("method"), object_in(message, "params")
        if "id" not in message or any(params.get(name) for name in GRANTS):
            return None
        if method == FORM or (
            method == CODEX_FORM and not object_in(params, "_meta").get(APPROVAL)
        ):
            return self.read_form(params)
        if method == CHANGE:
            return self.build("apply_patch", self.find_patch(params), params)
        if method == COMMAND and params.get("kind", "command") == "command":
            return self.build("Bash", self.read_command(params), params)
        return None

    def read_form(self, params: Mapping[str, Any]) -> Question:
        form = {
            "mode": params.get("mode", "form"),
            "mcp_server_name": params.get("serverName", self.program),
            "message": params.get("message"),
            "requested_schema": params.get("requestedSchema"),
        }
        if not isinstance(form["requested_schema"], dict):
            raise Unsendable("it has no form.")
        given = self.mask(read_form(form))
        # Two equal forms are two questions.
        return Question(
            ELICITATION,
            given,
            answer_form,
            session=text_in(params, "threadId"),
            call_id=uuid4().hex,
        )

    def build(self, tool: str, given: Mapping[str, Any], params: Mapping[str, Any]) -> Question:
        return Question(
            tool,
            self.mask(given),
            decide,
            folder=self.find_folder(params),
            session=text_in(params, "threadId"),
            call_id=text_in(params, "approvalId") or text_in(params, "itemId"),
        )

    def mask(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        masked: Mapping[str, Any] = mask_values(given, self.environ)
        if len(json.dumps(masked, ensure_ascii=False).encode(errors="replace")) > INPUT_BYTES:
            raise Unsendable(f"it has more than {INPUT_BYTES // 1024} KB.")
        return masked

    def find_folder(self, params: Mapping[str, Any]) -> str:
        folder = self.folders.get(text_in(params, "threadId"))
        if not folder:
            raise Unsendable("the folder of its thread is not known.")
        return folder

    def read_command(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the command, with its folder if that is not the thread's: no rule allows that."""
        command = text_in(params, "command")
        if not command.strip():
            raise Unsendable("its command is not known.")
        folder = text_in(params, "cwd")
        more = {} if folder == self.find_folder(params) else {"workdir": folder}
        return {"command": split_words(command), **more}

    def find_patch(self, params: Mapping[str, Any]) -> dict[str, Any]:
        changes = self.changes.pop(text_in(params, "itemId"), None)
        if not isinstance(changes, list) or not changes:
            raise Unsendable("its changes are not known.")
        lines = ["*** Begin Patch", *map(write_change, changes), "*** End Patch"]
        return {"patch": "\n".join(lines)}


def split_words(command: str) -> str | list[str]:
    """Return the words that Codex has joined, such as those of `bash -lc`; else the text as it is.

    >>> split_words("bash -lc 'npm test'"), split_words("npm test | tee x")
    (['bash', '-lc', 'npm test'], 'npm test | tee x')
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words if shlex.join(words) == command else command


def write_change(change: Any) -> str:
    """Return a change of one file as Codex's patches write it; raises Unsendable."""
    given = change if isinstance(change, Mapping) else {}
    kind = object_in(given, "kind")
    name = text_in(kind, "type") or text_in(given, "kind")
    paths = [given.get("path"), *([kind["move_path"]] if kind.get("move_path") else [])]
    is_named = all(isinstance(each, str) and each and each.isprintable() for each in paths)
    diff = given.get("diff")
    if name not in HEADINGS or not is_named or not isinstance(diff, str):
        raise Unsendable("its changes can't be read.")
    lines = [
        f"*** {HEADINGS[name]} File: {paths[0]}",
        *(f"*** Move to: {each}" for each in paths[1:]),
    ]
    # For a new or deleted file, `diff` is the file's text.
    sign = {"add": "+", "delete": "-"}.get(name, "")
    return "\n".join([*lines, *(f"{sign}{line}" for line in diff.rstrip("\n").split("\n"))])


def decide(found: Permission) -> dict[str, Any] | None:
    """Return the decision about a call of `codex app-server`; a message has no place in it."""
    return None if found.allowed is None else {"decision": "accept" if found.allowed else "decline"}


def answer_form(found: Permission) -> dict[str, Any] | None:
    """Return the answer to an MCP server's form."""
    if found.allowed is None:
        return None
    if not found.allowed:
        return {"action": "decline"}
    given = object_in(object_in(found.answer or {}, "input"), "answers")
    return {"action": "accept", "content": dict(given)}


def keep(values: dict[str, Any], name: str, value: Any) -> None:
    values[name] = value
    if len(values) > MOST_KEPT:
        del values[next(iter(values))]


def object_in(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def text_in(values: Mapping[str, Any], name: str) -> str:
    found = values.get(name)
    return found if isinstance(found, str) else ""
