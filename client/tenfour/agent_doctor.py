"""The checks of `tenfour doctor` about Claude Code and Codex: hooks, MCP, trust, kept events."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tenfour.agent_files import (
    EVENTS,
    HTTP_EVENTS,
    HTTP_PATH,
    Unreadable,
    has_mcp_json,
    has_mcp_toml,
    our_events,
)
from tenfour.connections import state_folder
from tenfour.findings import Finding
from tenfour.hook_store import HookStore
from tenfour.init import Place, place_of
from tenfour.settings import Settings

TITLES = {"claude": "Claude Code", "codex": "Codex"}


def examine_agents(given: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check each agent that `tenfour init` has connected, for this folder and for all."""
    for agent in EVENTS:
        for home in (False, True):
            with suppress(RuntimeError):  # there is no home folder
                yield from examine_place(place_of(agent, home=home), given, environ)
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
        found = our_events(hooks)
        has_mcp = has_mcp_toml(mcp) if place.agent == "codex" else has_mcp_json(mcp)
    except Unreadable as error:
        yield Finding("fail", f"{title}: {place.hooks} or {place.mcp} can't be read. {error}")
        return
    if not found and not has_mcp:
        return
    over_http = HTTP_PATH in hooks
    wanted = HTTP_EVENTS if over_http else EVENTS[place.agent]
    if missing := [event for event in wanted if event not in found]:
        yield Finding("warn", f"{title}: hooks are missing for {', '.join(missing)}.", again)
    else:
        yield Finding("ok", f"{title}: hooks in {place.hooks}")
    if has_mcp and f"{given.url}/mcp" in mcp:
        yield Finding("ok", f"{title}: MCP entry in {place.mcp}")
    else:
        text = "belongs to another server" if has_mcp else "is missing"
        yield Finding("warn", f"{title}: the MCP entry in {place.mcp} {text}.", again)
    if found and not over_http and not shutil.which("tenfour"):
        yield Finding(
            "fail",
            f"{title}: the command 'tenfour' is not on PATH.",
            "Hooks can't run. Install the client where the agent finds it.",
        )
    yield from examine_trust(place, title, hooks, environ)


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
        return
    state = read(place_of("codex", home=True).mcp)
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
