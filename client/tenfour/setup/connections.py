"""The file of `tenfour init` with a server's address and token: per folder, for this user alone.

They do not lie in the folder itself: a project from another author must not choose the server
whose tasks run commands here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = "connections.json"
# The key of the connection that holds in all other folders.
EVERYWHERE = "*"
# What a person switches on for a folder: each is a field of a connection.
SWITCHES = ("transcripts", "diffs")


@dataclass(frozen=True)
class Connection:
    url: str
    token: str = field(repr=False)
    # whether hooks hand the agent's transcript on
    transcripts: bool = False
    # whether the diff of a failed attempt is sent
    diffs: bool = False


def connections_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file's path; None for a user without a home folder."""
    if base := environ.get("XDG_CONFIG_HOME"):
        return Path(base) / "tenfour" / FILE
    with suppress(RuntimeError):
        return Path.home() / ".config" / "tenfour" / FILE
    return None


def find_connection(folder: Path, environ: Mapping[str, str]) -> Connection | None:
    """Return the connection of this folder, of the nearest folder above, or of all folders."""
    known = _read(connections_file(environ))
    for key in [*map(str, (folder, *folder.parents)), EVERYWHERE]:
        found = known.get(key)
        if isinstance(found, dict) and found.get("url") and found.get("token"):
            switched = {name: found.get(name) is True for name in SWITCHES}
            return Connection(str(found["url"]), str(found["token"]), **switched)
    return None


def shares_transcripts(url: str, folder: Path, environ: Mapping[str, str]) -> bool:
    """Return whether transcripts may leave this machine: TENFOUR_TRANSCRIPTS, else `init`."""
    if named := environ.get("TENFOUR_TRANSCRIPTS", "").strip().lower():
        return named in {"1", "true", "yes", "on"}
    known = find_connection(folder, environ)
    return known is not None and known.transcripts and known.url == url


def save_connection(
    folder: Path | None, new: Connection | None, environ: Mapping[str, str]
) -> None:
    """Store or, for None, remove the connection of a folder; no folder means all others."""
    path = connections_file(environ)
    if path is None:
        raise OSError("there is no home folder to keep the connection in")
    known = _read(path)
    key = str(folder) if folder else EVERYWHERE
    known.pop(key, None)
    if new:
        switched = {name: True for name in SWITCHES if getattr(new, name)}
        known[key] = {"url": new.url, "token": new.token, **switched}
    if known:
        write_private(path, json.dumps(known, indent=2) + "\n")
    else:
        path.unlink(missing_ok=True)


def _read(path: Path | None) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8")) if path else {}
        return found if isinstance(found, dict) else {}
    return {}


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for state: TENFOUR_STATE, or `tenfour` in the user's state folder."""
    if named := environ.get("TENFOUR_STATE"):
        return Path(named)
    base = environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "tenfour"


def write_private(path: Path, text: str, *, mode: int = 0o600, folder_mode: int = 0o700) -> None:
    """Write a file in one step; by default, new folders and the file are for this user alone.

    The modes hold whatever the umask is, and also where an earlier version wrote the file.
    """
    for folder in (*reversed(path.parent.parents), path.parent):
        if not folder.is_dir():
            folder.mkdir(mode=folder_mode, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        opened = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(opened, "w", encoding="utf-8", newline="") as file:
            os.fchmod(opened, mode)
            file.write(text)
        aside.replace(path)
    except OSError:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
