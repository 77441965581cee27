"""What MCP servers and `codex app-server` ask people, as tool calls, and the answers they read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenfour.hooks.hook_events import ELICITATION
from tenfour.hooks.permission_hook import INPUT_BYTES, Unsendable, mask_values, read_form
from tenfour.record_models import Permission

FORMS = frozenset({"elicitation/create", "mcpServer/elicitation/request"})
COMMAND, CHANGE = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
# The changes of so many calls are kept until they are asked about.
MOST_CHANGES = 100
NAME_LENGTH = 64
# Since MCP 2026-07-28, a server's name is here; before, without what stands in front of the slash.
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
HEADINGS = {"add": "Add", "delete": "Delete", "update": "Update"}
# A question that also grants one of these grants more than the call.
GRANTS = ("additionalPermissions", "networkApprovalContext", "grantRoot")


@dataclass(frozen=True)
class Question:
    """A call that a program asks about; `build_result` returns what to answer, None for nothing."""

    tool: str
    input: Mapping[str, Any]
    build_result: Callable[[Permission], dict[str, Any] | None]
    folder: str = ""
    session: str = ""
    call_id: str = ""


class Questions:
    """Reads the questions among a program's messages."""

    def __init__(self, environ: Mapping[str, str], *, program: str) -> None:
        self.environ = environ
        self.program = program
        self.changes: dict[str, Any] = {}

    def read(self, message: Mapping[str, Any]) -> Question | None:
        """Return the question in a message, if it is one that Tenfour can ask.

        Raises Unsendable where people could not see all of it.
        """
        params = message.get("params")
        if not isinstance(params, Mapping):
            return None
        method = message.get("method")
        if method == "item/started":
            self.note_changes(params.get("item"))
        if "id" not in message:
            return None
        if method in FORMS:
            return self.read_form(params)
        if method not in (COMMAND, CHANGE) or any(params.get(name) for name in GRANTS):
            return None
        command = params.get("command")
        if method == CHANGE:
            return self.build("apply_patch", self.find_patch(params), params)
        is_command = params.get("kind", "command") == "command" and isinstance(command, str)
        return self.build("Bash", {"command": command}, params) if is_command else None

    def read_form(self, params: Mapping[str, Any]) -> Question:
        form = {
            "mode": params.get("mode", "form"),
            "mcp_server_name": params.get("serverName", self.program),
            "message": params.get("message"),
            "requested_schema": params.get("requestedSchema"),
        }
        return self.build(ELICITATION, read_form(form), params, answer_form)

    def build(
        self,
        tool: str,
        given: Mapping[str, Any],
        params: Mapping[str, Any],
        build_result: Callable[[Permission], dict[str, Any] | None] | None = None,
    ) -> Question:
        masked = mask_values(given, self.environ)
        if len(json.dumps(masked, ensure_ascii=False).encode(errors="replace")) > INPUT_BYTES:
            raise Unsendable(f"it has more than {INPUT_BYTES // 1024} KB.")
        return Question(
            tool,
            masked,
            build_result or decide,
            folder=text_in(params, "cwd"),
            session=text_in(params, "threadId"),
            call_id=text_in(params, "approvalId") or text_in(params, "itemId"),
        )

    def note_name(self, result: Any) -> None:
        """Keep the name that an MCP server gives itself."""
        given = result if isinstance(result, Mapping) else {}
        meta = given.get("_meta")
        info = given.get("serverInfo") or (
            meta.get(SERVER_INFO) if isinstance(meta, dict) else None
        )
        if isinstance(info, Mapping):
            self.program = text_in(info, "name")[:NAME_LENGTH] or self.program

    def note_changes(self, item: Any) -> None:
        """Keep a call's changes: the question about them does not repeat them."""
        if isinstance(item, Mapping) and item.get("type") == "fileChange":
            self.changes[text_in(item, "id")] = item.get("changes")
            if len(self.changes) > MOST_CHANGES:
                del self.changes[next(iter(self.changes))]

    def find_patch(self, params: Mapping[str, Any]) -> dict[str, Any]:
        changes = self.changes.pop(text_in(params, "itemId"), None)
        if not isinstance(changes, list) or not changes:
            raise Unsendable("its changes are not known.")
        return {
            "patch": "\n".join(["*** Begin Patch", *map(write_change, changes), "*** End Patch"])
        }


def write_change(change: Any) -> str:
    """Return a change of one file as Codex's patches write it; raises Unsendable."""
    kind = change.get("kind") if isinstance(change, Mapping) else None
    name = kind.get("type") if isinstance(kind, Mapping) else kind
    if not isinstance(name, str) or name not in HEADINGS or not text_in(change, "path"):
        raise Unsendable("its changes can't be read.")
    lines = [f"*** {HEADINGS[name]} File: {change['path']}"]
    if isinstance(kind, Mapping) and (target := kind.get("move_path")):
        lines.append(f"*** Move to: {target}")
    diff = text_in(change, "diff").rstrip("\n").split("\n")
    # Of a new file, and one that goes, the text itself is given.
    sign = {"add": "+", "delete": "-"}.get(name, "")
    return "\n".join([*lines, *(f"{sign}{line}" for line in diff)])


def decide(found: Permission) -> dict[str, Any] | None:
    """Return the decision about a call of `codex app-server`; a message has no place in it."""
    return None if found.allowed is None else {"decision": "accept" if found.allowed else "decline"}


def answer_form(found: Permission) -> dict[str, Any] | None:
    """Return the answer to an MCP server's form."""
    if found.allowed is None:
        return None
    if not found.allowed:
        return {"action": "decline"}
    changed = (found.answer or {}).get("input")
    given = changed.get("answers") if isinstance(changed, dict) else None
    return {"action": "accept", "content": given if isinstance(given, dict) else {}}


def text_in(values: Mapping[str, Any], name: str) -> str:
    found = values.get(name)
    return found if isinstance(found, str) else ""
