"""Edits to the settings of Claude Code and Codex that add or remove Tenfour (pure).

Everything else in a file stays: the keys of JSON in their order and with their indentation, TOML
as the text that it is.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from tenfour.hooks.hook_events import ASKING, WAIT_S

NAME = "tenfour"
# The command may be a path in quotation marks.
HOOK = re.compile(r"""\btenfour['"]? hook\b""")
HTTP_PATH = "/v1/hooks/agent"
# A check runs inside the Stop hook.
TIMEOUTS_S = {"Stop": 900, "SessionEnd": 3}  # Codex allows no more at its end
TIMEOUT_S = 30
HTTP_TIMEOUT_S = 5
# The hook that `tenfour init --permissions` switches on ends before its program ends it.
PERMISSION_TIMEOUT_S = WAIT_S + 10
HTTP_PERMISSION_TIMEOUT_S = 30
WAIT = re.compile(r"--wait[ =](\d{1,9})\b")
EVENTS = {
    "claude": (
        "SessionStart",
        "UserPromptSubmit",
        "PostToolUse",
        "PostToolUseFailure",
        "SubagentStop",
        "Stop",
        "StopFailure",
        "Notification",
        "SessionEnd",
    ),
    # Codex ends no turn on request, so a call is refused before it begins.
    "codex": (
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "SubagentStop",
        "Stop",
        "SessionEnd",
    ),
}
# Claude Code does not send SessionStart over HTTP.
HTTP_EVENTS = EVENTS["claude"][1:]
INDENT = re.compile(r'^[{\[]\r?\n([ \t]+)["{\[]')
TABLE = re.compile(r"^[ \t]*+\[{1,2}+[ \t]*+([^\]\n]++)\]{1,2}+[ \t]*+(?:#.*)?$", re.M)
OURS = re.compile(r'mcp_servers[ \t]*\.[ \t]*"?tenfour"?[ \t]*(?:\..*)?')


class Unreadable(ValueError):
    """A file in a form that its program does not read."""


def command_hook(agent: str, event: str, program: str = NAME) -> dict[str, Any]:
    """Return the hook that runs `tenfour hook`, by the name or the path of `tenfour`."""
    timeout = TIMEOUTS_S.get(event, TIMEOUT_S)
    command = f"{shlex.quote(program)} hook --agent {agent}"
    if event in ASKING:
        timeout = PERMISSION_TIMEOUT_S
        command += f" --wait {WAIT_S}"
    return {"type": "command", "command": command, "timeout": timeout}


def http_hook(url: str, event: str = "") -> dict[str, Any]:
    """Return the hook that needs no program here; only Claude Code has such hooks."""
    return {
        "type": "http",
        "url": url + HTTP_PATH,
        "timeout": HTTP_PERMISSION_TIMEOUT_S if event in ASKING else HTTP_TIMEOUT_S,
        "headers": {"Authorization": "Bearer $TENFOUR_TOKEN"},
        "allowedEnvVars": ["TENFOUR_TOKEN"],
    }


def with_hooks(text: str, hooks: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a file of hooks with ours, by event, instead of those of ours that it has.

    A hook that is there already keeps its place: Codex trusts a hook by its place and its text.
    """
    old = _object(text)
    value = without_ours(old)
    if not hooks:
        return _dump(value, text)
    before = old.get("hooks", {})
    others = value.get("hooks", {})
    events = {event: others.get(event, []) for event in {**before, **hooks}}
    for event, hook in hooks.items():
        ours = {"hooks": [dict(hook)]}
        found = before.get(event, [])
        kept = [group for group in found if group == ours or group in events[event]]
        events[event] = found if kept == found and ours in found else [*events[event], ours]
    named = {event: groups for event, groups in events.items() if groups or event in others}
    return _dump({**old, "hooks": named}, text)


def without_ours(value: dict[str, Any]) -> dict[str, Any]:
    """Return a file's object without our hooks, and without objects that this leaves empty."""
    events = value.get("hooks")
    if events is None:
        return value
    if not isinstance(events, dict):
        raise Unreadable("'hooks' is not an object.")
    kept = {event: _kept_groups(groups) for event, groups in events.items()}
    left = {event: groups for event, groups in kept.items() if groups or not events[event]}
    if left == events:
        return value
    rest = value | {"hooks": left}
    return rest if left else {name: rest[name] for name in rest if name != "hooks"}


def _kept_groups(groups: Any) -> Any:
    if not isinstance(groups, list):
        return groups
    kept = []
    for group in groups:
        hooks = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(hooks, list):
            kept.append(group)
            continue
        others = [hook for hook in hooks if not is_ours(hook)]
        if others or not hooks:
            kept.append(group | {"hooks": others})
    return kept


def is_ours(hook: Any) -> bool:
    """Return whether a hook calls Tenfour."""
    if not isinstance(hook, dict):
        return False
    command, url = str(hook.get("command", "")), str(hook.get("url", ""))
    return bool(HOOK.search(command)) or url.endswith(HTTP_PATH)


def our_events(text: str) -> set[str]:
    """Return the events for which a file has a hook of ours."""
    return {event for event, _ in _our_hooks(text)}


def find_waits(text: str) -> Iterator[tuple[float, float]]:
    """Yield how long each hook of ours waits for leave, and the time that its program gives it."""
    for event, hook in _our_hooks(text):
        if event in ASKING and "command" in hook:
            waits = WAIT.search(str(hook["command"]))
            timeout = hook.get("timeout", PERMISSION_TIMEOUT_S)
            is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
            yield float(waits[1]) if waits else WAIT_S, float(timeout) if is_number else 0.0


def our_programs(text: str) -> set[str]:
    """Return the names or paths by which a file's hooks of ours call `tenfour`."""
    commands = {str(hook["command"]) for _, hook in _our_hooks(text) if "command" in hook}
    return {_program_of(command) for command in commands}


def _our_hooks(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    events = _object(text).get("hooks")
    for event, groups in events.items() if isinstance(events, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            hooks = group.get("hooks") if isinstance(group, dict) else None
            yield from ((event, hook) for hook in hooks or () if is_ours(hook))


def _program_of(command: str) -> str:
    """Return the word before `hook`.

    >>> _program_of("CI=1 '/a b/tenfour' hook --agent claude")
    '/a b/tenfour'
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return NAME
    return next((one for one, next_ in pairwise(words) if next_ == "hook"), NAME)


# ---- the MCP entry


def with_mcp_json(text: str, server: Mapping[str, Any] | None) -> str:
    """Return Claude Code's file of MCP servers with ours, or for None without it."""
    value = _object(text)
    servers = value.get("mcpServers", {})
    if not isinstance(servers, dict):
        raise Unreadable("'mcpServers' is not an object.")
    others = {name: each for name, each in servers.items() if name != NAME}
    if server is not None:
        value["mcpServers"] = {**servers, NAME: dict(server)}
    elif others or NAME not in servers:
        value = value | ({"mcpServers": others} if "mcpServers" in value else {})
    else:
        del value["mcpServers"]
    return _dump(value, text)


def mcp_program(program: str) -> dict[str, Any]:
    """Return the entry for Claude Code that starts `tenfour mcp`.

    The bridge reads the token from the folder's connection. It also runs in a folder that is not
    trusted, where `claude -p` runs no `headersHelper`.
    """
    return {"type": "stdio", "command": program, "args": ["mcp"]}


def mcp_address(url: str) -> dict[str, Any]:
    """Return the entry for Claude Code that needs no program here."""
    headers = {"Authorization": "Bearer ${TENFOUR_TOKEN}"}
    return {"type": "http", "url": f"{url}/mcp", "headers": headers}


def find_mcp_json(text: str) -> Mapping[str, Any] | None:
    """Return our entry in Claude Code's file of MCP servers."""
    servers = _object(text).get("mcpServers")
    found = servers.get(NAME) if isinstance(servers, dict) else None
    return found if isinstance(found, dict) else None


def with_mcp_toml(text: str, url: str | None) -> str:
    """Return Codex's config.toml with our MCP server, or for None without it."""
    rest = _without_table(text)
    if url is None:
        return rest
    gap = "" if not rest else "\n" if rest.endswith("\n") else "\n\n"
    return (
        f"{rest}{gap}[mcp_servers.{NAME}]\n"
        f"url = {json.dumps(url + '/mcp')}\n"
        'bearer_token_env_var = "TENFOUR_TOKEN"\n'
    )


def has_mcp_toml(text: str) -> bool:
    return any(OURS.fullmatch(found[1]) for found in TABLE.finditer(text))


def _without_table(text: str) -> str:
    """Return TOML without our tables and the empty line in front of each."""
    heads = list(TABLE.finditer(text))
    for number in reversed(range(len(heads))):
        if not OURS.fullmatch(heads[number][1]):
            continue
        start = heads[number].start()
        until = heads[number + 1].start() if number + 1 < len(heads) else len(text)
        # Comments and empty lines behind a table belong to what follows.
        body = text[start:until].splitlines(keepends=True)
        while body and (not body[-1].strip() or body[-1].lstrip().startswith("#")):
            body.pop()
        rest = text[start + len("".join(body)) :]
        before = text[:start]
        text = (before[:-1] if before.endswith("\n\n") else before) + rest
    return text


# ---- JSON


def _object(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"It is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise Unreadable("It is not a JSON object.")
    return value


def _dump(value: Mapping[str, Any], old: str) -> str:
    """Return JSON formatted as the old text is; nothing for an empty object in a new file."""
    if not value and not old.strip("{} \r\n\t"):
        return old
    if old.strip() and _object(old) == value and list(_object(old)) == list(value):
        return old
    if not value:
        return ""
    found = INDENT.match(old.lstrip())
    indent: int | str | None = found[1] if found else 2
    if old.strip() and "\n" not in old.strip():
        indent = None
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text + ("\n" if old.endswith("\n") or not old.strip() else "")
