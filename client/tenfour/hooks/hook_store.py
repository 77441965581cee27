"""The files of a hook: its session's attempt, and events that wait for the server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from tenfour.setup.connections import write_private

# Beyond these, events are dropped: a server that is down for days must not fill a disk.
MOST_STORED = 1000
SESSION_DAYS = 30
MOST_REPORTED = 200
AWAY_S = 15.0
# A step of the agent that is no news asks at most this often what waits for it.
ASK_EVERY_S = 2.0


# The shells of Claude Code and Codex have their session's id.
SESSIONS = ("CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID")


def find_held_attempt(folder: Path, environ: Mapping[str, str], *, url: str, token: str) -> str:
    """Return the attempt that this shell's `tenfour run` or agent session holds; else empty."""
    if held := environ.get("TENFOUR_ATTEMPT"):
        return held
    store = HookStore(folder, url=url, token=token)
    found = (store.session(id).get("attempt") for name in SESSIONS if (id := environ.get(name)))
    return next((str(attempt) for attempt in found if attempt), "")


class HookStore:
    """The files of one agent's hooks: they belong to a server and a token."""

    def __init__(self, folder: Path, *, url: str, token: str) -> None:
        owner = sha256(f"{url}\n{token}".encode()).hexdigest()[:16]
        self.folder = folder / "hooks" / owner

    # ---- the session

    def session(self, id: str) -> dict[str, Any]:
        """Return the stored facts of the session's attempt; empty without one."""
        found = _read(self._session_file(id))
        return found if isinstance(found, dict) else {}

    def save_session(self, id: str, attempt: Mapping[str, Any]) -> None:
        _write(self._session_file(id), attempt)

    def forget_session(self, id: str) -> None:
        with suppress(OSError):
            self._session_file(id).unlink()

    def _session_file(self, id: str) -> Path:
        return self.folder / "sessions" / f"{sha256(id.encode()).hexdigest()[:32]}.json"

    # ---- calls without a hook of their own that were reported

    def reported_calls(self, session: str) -> list[str]:
        found = _read(self._reported_file(session))
        return [str(id) for id in found] if isinstance(found, list) else []

    def note_reported(self, session: str, calls: list[str]) -> None:
        _write(
            self._reported_file(session), [*self.reported_calls(session), *calls][-MOST_REPORTED:]
        )

    def _reported_file(self, session: str) -> Path:
        return self.folder / "told" / self._session_file(session).name

    # ---- events for later

    def add_event(self, event: Mapping[str, Any]) -> None:
        """Store an event until the server is back."""
        kept = self.folder / "kept"
        if len(_names(kept)) < MOST_STORED:
            _write(kept / f"{time.time_ns():020}-{os.getpid()}.json", event)

    def list_stored(self) -> Iterator[tuple[Path, Any, int]]:
        """Yield each stored event with its file and its age in seconds, oldest first."""
        for name in _names(self.folder / "kept"):
            path = self.folder / "kept" / name
            stored_ns = int(name[:20]) if name[:20].isdecimal() else time.time_ns()
            yield path, _read(path), max(0, (time.time_ns() - stored_ns) // 10**9)

    # ---- a server that does not answer

    def is_away(self) -> bool:
        """Return whether the server let a call time out a few seconds ago."""
        return self._is_younger("away", AWAY_S)

    def note_away(self) -> None:
        _write(self.folder / "away", {})

    # ---- what waits for the agent

    def has_asked(self) -> bool:
        """Return whether an event has just reached the server, whose answer has what waits."""
        return self._is_younger("asked", ASK_EVERY_S)

    def note_asked(self) -> None:
        _write(self.folder / "asked", {})

    def has_told(self, limits: Mapping[str, Any], seconds: float) -> bool:
        """Return whether the status line told these limits last, or any in the last seconds."""
        name = "limits-told"
        return self._is_younger(name, seconds) or _read(self.folder / name) == limits

    def note_told(self, limits: Mapping[str, Any]) -> None:
        _write(self.folder / "limits-told", limits)

    def _is_younger(self, name: str, seconds: float) -> bool:
        with suppress(OSError):
            return 0 <= time.time() - (self.folder / name).stat().st_mtime < seconds
        return False


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    return []


def _read(path: Path) -> Any:
    """Return the JSON in a file; None without a file, or if it holds something else."""
    with suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    return None


def _write(path: Path, value: Any) -> None:
    """Write JSON that only this user can read, in one step."""
    write_private(path, json.dumps(value))
