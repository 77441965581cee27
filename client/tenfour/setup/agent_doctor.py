"""The checks of `tenfour doctor` about Claude Code and Codex: hooks, MCP, trust, kept events."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tenfour.client import Client
from tenfour.hooks.hook_events import PERMISSION
from tenfour.hooks.hook_store import HookStore
from tenfour.http.core import Call
from tenfour.http.problems import TenfourError
from tenfour.settings import Settings
from tenfour.setup.agent_files import (
    EVENTS,
    HTTP_EVENTS,
    HTTP_PATH,
    Unreadable,
    find_mcp_json,
    find_waits,
    has_mcp_toml,
    our_events,
    our_programs,
)
from tenfour.setup.connections import state_folder
from tenfour.setup.findings import Finding
from tenfour.setup.init import Place, place_of

TITLES = {"claude": "Claude Code", "codex": "Codex"}


def examine_agents(client: Client, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check each agent that `tenfour init` has connected, for this folder and for all."""
    given, asks = client.settings, False
    for agent in EVENTS:
        for home in (False, True):
            with suppress(RuntimeError):  # there is no home folder
                place = place_of(agent, home=home)
                yield from examine_place(place, given, environ)
                asks = asks or f'"{PERMISSION}"' in read(place.hooks)
    if asks:
        yield examine_answers(client)
    waiting = sum(
        1 for _ in HookStore(state_folder(environ), url=given.url, token=given.token).list_stored()
    )
    if waiting:
        yield Finding(
            "warn", f"{waiting} events of hooks wait for the server.", "The next hook sends them."
        )


def examine_place(place: Place, given: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check the files of one agent; nothing where Tenfour is not in them."""
    title = f"{TITLES[place.agent]} ({'all folders' if place.folder is None else 'this folder'})"
    again = f"Run: tenfour init --agent {place.agent}{'' if place.folder else ' --home'}"
    try:
        hooks, mcp = read(place.hooks), read(place.mcp)
        found, programs = our_events(hooks), our_programs(hooks)
        entry = find_mcp_toml(mcp) if place.agent == "codex" else find_mcp_json(mcp)
    except Unreadable as error:
        yield Finding("fail", f"{title}: {place.hooks} or {place.mcp} can't be read. {error}")
        return
    if not found and entry is None:
        return
    wanted = HTTP_EVENTS if HTTP_PATH in hooks else EVENTS[place.agent]
    if missing := [event for event in wanted if event not in found]:
        yield Finding("warn", f"{title}: hooks are missing for {', '.join(missing)}.", again)
    else:
        yield Finding("ok", f"{title}: hooks in {place.hooks}")
    if wrong := describe_wrong_entry(entry, given.url):
        yield Finding("warn", f"{title}: the MCP entry in {place.mcp} {wrong}.", again)
    else:
        yield Finding("ok", f"{title}: MCP entry in {place.mcp}")
    if entry and "command" in entry:
        programs.add(str(entry["command"]))
    for program in sorted(programs):
        if not shutil.which(program, path=environ.get("PATH")):
            where = "does not exist" if "/" in program else "is not on PATH"
            yield Finding(
                "fail",
                f"{title}: the command '{program}' {where}.",
                f"Hooks can't run. Install the client where the agent finds it. {again}",
            )
    if PERMISSION in found:
        yield from examine_permissions(place, title, hooks, f"{again} --permissions")
    yield from examine_trust(place, title, hooks, environ)


def examine_permissions(place: Place, title: str, hooks: str, again: str) -> Iterator[Finding]:
    """Check the hook that asks people about calls: it must end before its program ends it."""
    for wait_s, timeout_s in find_waits(hooks):
        if timeout_s <= wait_s:
            yield Finding(
                "warn",
                f"{title}: an answer is waited for {wait_s:g} s, and the hook may run {timeout_s:g}"
                " s.",
                f"A late answer would get lost. {again}",
            )
            return
    note = " `codex exec` never asks; only Codex at a terminal does." * (place.agent == "codex")
    yield Finding("ok", f"{title}: people are asked about calls.{note}")


def examine_answers(client: Client) -> Finding:
    """Check that the server answers requests about calls."""
    try:
        client.perform(Call("GET", "/v1/permissions", dict, params={"limit": "1"}))
    except TenfourError as error:
        advice = error.hint or "Without an answer, the agent's own program decides."
        return Finding("warn", f"Permission requests: {error.sentence}", advice)
    return Finding("ok", "Server answers permission requests")


def find_mcp_toml(text: str) -> Mapping[str, Any] | None:
    """Return our entry in Codex's config.toml, or the whole text as its URL if it can't be read."""
    if not has_mcp_toml(text):
        return None
    servers = (read_toml(text) or {}).get("mcp_servers", {})
    entry: Mapping[str, Any] = servers.get("tenfour", {"url": text})
    return entry


def describe_wrong_entry(entry: Mapping[str, Any] | None, url: str) -> str:
    """Return what is wrong with an MCP entry; empty for a right one."""
    if entry is None:
        return "is missing"
    if "command" not in entry and f"{url}/mcp" not in str(entry.get("url")):
        return "belongs to another server"
    if "headersHelper" in entry:
        return "has a headersHelper, which `claude -p` does not run in a folder that is not trusted"
    return ""


def examine_trust(
    place: Place, title: str, hooks: str, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Check the steps of the agent's user: trust the hooks, and set the token's variable."""
    needs_token = place.agent == "codex" or HTTP_PATH in hooks
    if needs_token and not environ.get("TENFOUR_TOKEN"):
        yield Finding(
            "warn",
            f"{title}: TENFOUR_TOKEN is not set here.",
            "Set it where the agent starts, which reads the token from it.",
        )
    if place.agent != "codex":
        if '"disableAllHooks": true' in hooks:
            yield Finding("fail", f"{title}: 'disableAllHooks' is set, so no hook runs.")
        known = read_json(place_of("claude", home=True).mcp).get("projects")
        if place.folder and not is_trusted(place.folder, known, "hasTrustDialogAccepted", True):
            yield Finding(
                "warn",
                f"{title}: Claude Code does not trust the folder yet.",
                "Start claude here once and say that you trust it.",
            )
        return
    state = read(place_of("codex", home=True).mcp)
    config = read_toml(state)
    known = config and config.get("projects")
    if (
        config is not None
        and place.folder
        and not is_trusted(place.folder, known, "trust_level", "trusted")
    ):
        yield Finding(
            "warn",
            f"{title}: Codex does not trust the folder, so it does not read {place.hooks.parent}.",
            "Start codex here once and say that you trust it.",
        )
    events = (re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower() for event in our_events(hooks))
    if all(
        f"[hooks.state.{json.dumps(f'{place.hooks}:{event}:')[:-1]}" in state for event in events
    ):
        yield Finding("ok", f"{title}: the hooks are trusted")
    else:
        yield Finding(
            "warn",
            f"{title}: the hooks are not trusted, so Codex does not run them.",
            'Start codex here and choose "Trust all and continue", or type /hooks.',
        )


def read(path: Path) -> str:
    """Return a file's text; empty where it can't be read."""
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8")
    return ""


def is_trusted(folder: Path, known: Any, name: str, wanted: Any) -> bool:
    """Return whether an agent's user trusts a folder, or one above it."""
    projects = known if isinstance(known, dict) else {}
    each = (projects.get(str(one)) for one in (folder, *folder.parents))
    return any(isinstance(project, dict) and project.get(name) == wanted for project in each)


def read_json(path: Path) -> Mapping[str, Any]:
    with suppress(ValueError):
        found = json.loads(read(path))
        return found if isinstance(found, dict) else {}
    return {}


def read_toml(text: str) -> Mapping[str, Any] | None:
    """Return the values of TOML; None for a damaged file, and with Python 3.10."""
    try:
        import tomllib
    except ImportError:
        return None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
