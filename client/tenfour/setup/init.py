"""The command `tenfour init`: connect Claude Code or Codex, and remove the connection."""

from __future__ import annotations

import difflib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tenfour import settings
from tenfour.commands.terminal import OK, REFUSED, note, say, wrong_usage
from tenfour.hooks.hook_events import ASKING, PERMISSION
from tenfour.setup.agent_files import (
    EVENTS,
    HTTP_EVENTS,
    NAME,
    Unreadable,
    command_hook,
    http_hook,
    mcp_address,
    mcp_program,
    with_hooks,
    with_mcp_json,
    with_mcp_toml,
)
from tenfour.setup.connections import (
    SWITCHES,
    Connection,
    find_connection,
    save_connection,
    write_private,
)

if TYPE_CHECKING:
    import argparse

TRUST = """Codex runs hooks only after you trust them. Start `codex` here once and choose
"Trust all and continue", or type /hooks. In automation that has looked at the hooks: codex exec
--dangerously-bypass-hook-trust. The MCP entry reads the token from the variable TENFOUR_TOKEN."""
TRANSCRIPTS = "init: the conversation leaves this machine: tool calls and their output too"
DIFFS = "init: source changes of failed attempts leave this machine, without secrets"
ASK_DIFFS = "Send the source changes of failed attempts, so that the next attempt can read them?"
PERMISSIONS = "init: people see the calls that the agent asks about: commands and file changes too"
NEVER_ASKS = "init: `codex exec` never asks; only Codex at a terminal does"
NEXT = "Check it with: tenfour doctor"


@dataclass(frozen=True)
class Place:
    """The files of one agent in a project's folder, or at home."""

    agent: str
    # None: the home folder, for all projects
    folder: Path | None
    hooks: Path
    mcp: Path


@dataclass(frozen=True)
class Edit:
    """A file as it is and as it will be."""

    path: Path
    old: str
    new: str

    def diff(self) -> str:
        lines = difflib.unified_diff(
            self.old.splitlines(), self.new.splitlines(), str(self.path), str(self.path), n=2
        )
        return "\n".join(line.rstrip("\n") for line in lines)

    def write(self) -> None:
        """Write the file, with the access that it has; remove it if nothing is left in it."""
        # A link to a file that is kept elsewhere stays a link.
        path = self.path.resolve()
        if not self.new.strip():
            path.unlink(missing_ok=True)
            return
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
        write_private(path, self.new, mode=mode)


def add_init_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agent", required=True, choices=sorted(EVENTS), help="the program")
    parser.add_argument(
        "--home", action="store_true", help="connect all projects, not only this folder"
    )
    parser.add_argument(
        "--http",
        action="store_true",
        help="let Claude Code send its hooks over HTTP, without `tenfour hook` and without checks",
    )
    parser.add_argument(
        "--transcripts",
        action="store_true",
        help="hooks send the conversation, without secrets; off by default",
    )
    parser.add_argument(
        "--diffs",
        action="store_true",
        help="send the source changes of failed attempts, without secrets; off by default",
    )
    parser.add_argument(
        "--permissions",
        action="store_true",
        help="ask people in Tenfour what the agent asks at its terminal; off by default",
    )
    parser.add_argument("--remove", action="store_true", help="remove the hooks and the MCP entry")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def init(args: argparse.Namespace) -> int:
    """Show what changes, ask, and write it; exit with 1 where the answer is no."""
    if args.http and args.agent != "claude":
        raise wrong_usage("Only Claude Code has hooks over HTTP.", "Leave out --http.")
    if args.http and args.transcripts:
        raise wrong_usage("Hooks over HTTP can't read the transcript.", "Leave out --http.")
    place = place_of(args.agent, home=args.home)
    connection = None
    if not args.remove:
        # Source leaves the machine only where a person says so.
        args.diffs = args.diffs or (not args.yes and sys.stdin.isatty() and agrees(ASK_DIFFS))
        switched = {name: getattr(args, name) for name in SWITCHES}
        connection = replace(connect(args.url), **switched)
    url = connection.url if connection else None
    edits = [*edits_of(place, url, http=args.http, asks=args.permissions)]
    for edit in edits:
        say(edit.diff())
    verb = "remove" if args.remove else "store"
    note(f"init: {verb} address and token for {place.folder or 'all folders'}")
    if args.transcripts and not args.remove:
        note(TRANSCRIPTS)
    if args.diffs and not args.remove:
        note(DIFFS)
    if args.permissions and not args.remove:
        note(PERMISSIONS)
        if args.agent == "codex":
            note(NEVER_ASKS)
    if not args.yes and not confirm():
        note("init: nothing was changed.")
        return REFUSED
    for edit in edits:
        edit.write()
    save_connection(place.folder, connection, os.environ)
    for edit in edits:
        note(f"init: {'wrote' if edit.new.strip() else 'removed'} {edit.path}")
    if not args.remove:
        note(NEXT)
        if args.agent == "codex":
            note(TRUST)
    return OK


def place_of(agent: str, *, home: bool) -> Place:
    """Return the files that the agent's program reads."""
    base = Path.home() if home else Path.cwd()
    folder = None if home else base
    if agent == "codex":
        files = base / ".codex"
        if home and (named := os.environ.get("CODEX_HOME")):
            files = Path(named)
        return Place(agent, folder, files / "hooks.json", files / "config.toml")
    files = base / ".claude"
    if home and (named := os.environ.get("CLAUDE_CONFIG_DIR")):
        files = base = Path(named)
    mcp = base / (".claude.json" if home else ".mcp.json")
    return Place(agent, folder, files / "settings.json", mcp)


def connect(url: str | None) -> Connection:
    """Return an address and a token that work; raises TenfourError if they do not."""
    from tenfour.client import Client

    known = find_connection(Path.cwd(), os.environ)
    address = url or os.environ.get("TENFOUR_URL") or (known and known.url) or ""
    if not address and sys.stdin.isatty():
        address = input("Address of Tenfour, such as http://127.0.0.1:8000: ")
    secret = os.environ.get("TENFOUR_TOKEN") or os.environ.get("TENFOUR_TOKEN_FILE")
    token = None
    if not secret and not (known and known.url == settings.tidy_url(address)):
        token = ask_for_token()
    with Client(address, token) as client:
        me = client.me()
        if not me.agent:
            raise wrong_usage(
                f"The token belongs to no agent: its kind is {me.kind}.",
                "Create one: .venv/bin/python manage.py token --kind agent --agent NAME",
            )
        note(f"init: the agent is {me.agent}, at {client.settings.url}")
        return Connection(client.settings.url, client.settings.token)


def ask_for_token() -> str | None:
    """Return the token that a person types; None without a terminal."""
    if not sys.stdin.isatty():
        return None
    from getpass import getpass

    return getpass("Token of the agent (it is not shown): ")


def find_program() -> str:
    """Return how agents find `tenfour`: its path in a virtual environment, else its name.

    The environment is not on PATH wherever an agent starts.
    """
    path = Path(sysconfig.get_path("scripts"), NAME)
    return str(path) if sys.prefix != sys.base_prefix and os.access(path, os.X_OK) else NAME


def edits_of(place: Place, url: str | None, *, http: bool, asks: bool = False) -> Iterator[Edit]:
    """Yield the files that change; without an address, Tenfour is taken out of them."""
    hooks, entry = {}, None
    more = (ASKING if place.agent == "claude" else (PERMISSION,)) if asks else ()
    if url is not None and http:
        hooks = {event: http_hook(url, event) for event in (*HTTP_EVENTS, *more)}
        entry = mcp_address(url)
    elif url is not None:
        program, events = find_program(), (*EVENTS[place.agent], *more)
        hooks = {event: command_hook(place.agent, event, program) for event in events}
        entry = mcp_program(program)
    mcp: Callable[[str], str]
    if place.agent == "codex":
        mcp = lambda text: with_mcp_toml(text, url)  # noqa: E731
    else:
        mcp = lambda text: with_mcp_json(text, entry)  # noqa: E731
    for path, change in ((place.hooks, lambda text: with_hooks(text, hooks)), (place.mcp, mcp)):
        old = read_text(path)
        try:
            new = change(old)
            if path.suffix == ".toml":
                check_toml(new)
        except Unreadable as error:
            raise wrong_usage(f"{path} can't be changed. {error}", "Repair it first.") from error
        if new != old:
            yield Edit(path, old, new)


def read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise wrong_usage(f"{path} can't be read: {error}.") from error


def check_toml(text: str) -> None:
    """Raise Unreadable for text that is not TOML, where this Python can tell."""
    try:
        import tomllib
    except ImportError:
        return
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"It is not TOML: {error}.") from error


def confirm() -> bool:
    """Ask a person; without a terminal, nothing is changed."""
    if not sys.stdin.isatty():
        raise wrong_usage("There is no terminal to ask on.", "Add --yes.")
    return agrees("Write this?")


def agrees(question: str) -> bool:
    return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}


def headers(args: argparse.Namespace) -> int:
    """Print the headers of a call, for Claude Code's MCP client."""
    import json

    token = settings.read(args.url).token
    say(json.dumps({"Authorization": f"Bearer {token}"}))
    return OK
