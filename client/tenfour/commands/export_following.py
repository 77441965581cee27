"""An export that stays current: state files are replaced, logs grow by what is new."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from tenfour.api import calls
from tenfour.client import Client
from tenfour.commands import export_files
from tenfour.commands.terminal import complain, say, wrong_usage
from tenfour.http.problems import TenfourError

# where the documents have always been, below the folder
LOGS = {"retry.log": "logs/retry.log", "retry.jsonl": "logs/retry.jsonl"}
STATES = {"retry-state.json": "state/retry-state.json", "state.md": "STATE.md"}
RECORDS = {"failure-records.yaml": "state/failure-records.yaml"}
SUMMARY = {"summary": "SUMMARY.md"}
AGAIN_S, LONGEST_S, SHORTEST_S = 5.0, 60.0, 0.5


def follow_documents(client: Client, folder: Path, plan: str | None) -> NoReturn:
    """Keep the files of a folder current until interrupted; outlast a server's absence."""
    me = client.me()
    pause, has_records = max(me.poll_every_s, SHORTEST_S), False
    with hold_folder(folder):
        project = me.project.get("name")
        scope = f"plan {plan} of project {project}" if plan else f"project {project}"
        logs = {name: FollowedLog(folder / path, scope) for name, path in LOGS.items()}
        states = STATES | (SUMMARY if plan else {})
        while True:
            try:
                grown = [log.catch_up(client, name, plan) for name, log in logs.items()]
                for name, path in states.items():
                    replace_changed(folder / path, client.document(name, plan=plan))
                if any(grown) or not has_records:
                    for name, path in RECORDS.items():
                        replace_changed(folder / path, client.document(name, plan=plan))
                    has_records = True
            except TenfourError as error:
                if not error.retryable:
                    raise
                complain(error)
                time.sleep(min(error.retry_after_s or AGAIN_S, LONGEST_S))
            else:
                time.sleep(pause)


def replace_changed(path: Path, text: str) -> None:
    """Replace a file, and print its name, unless it has this text already."""
    if not path.exists() or path.read_bytes() != text.encode():
        is_new = not path.exists()
        export_files.replace_file(path, text)
        if is_new:
            say(str(path))


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Keep other followers out of a folder."""
    import fcntl

    with export_files.refusing_unwritable(folder):
        export_files.make_folder(folder)
        lock = os.open(folder / ".follow.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise wrong_usage(f"{folder} is followed by another process already.") from error
        yield
    finally:
        os.close(lock)


@dataclass(frozen=True)
class Position:
    """A position in a log: `cursor`, in the server and plan that are its `scope`.

    `pending` is what is being added to the file, whose size was `size` before.
    """

    scope: str
    cursor: str = ""
    size: int = 0
    pending: str = ""


class FollowedLog:
    """A log that only grows. Its position is stored beside it before and after it grows.

    A process that was killed in between has added a part of `pending`, whose length the file's
    size tells, so that the next one adds the rest.
    """

    def __init__(self, path: Path, scope: str) -> None:
        self._path = path
        self._place = path.with_name(f".{path.name}.position")
        self._position = self._read(scope)
        if self._position.pending:
            self._grow()

    def catch_up(self, client: Client, name: str, plan: str | None) -> bool:
        """Add what is new, as far as it is there; return whether anything was."""
        grown, has_more = False, True
        while has_more:
            piece = client.perform(calls.log_piece(name, self._position.cursor, plan=plan))
            has_more = piece.has_more
            if piece.text:
                self._store(piece.cursor, pending=piece.text)
                self._grow()
                grown = True
            elif piece.cursor != self._position.cursor:
                self._store(piece.cursor)
        if not self._path.exists():
            export_files.append_file(self._path, b"")
        return grown

    def _read(self, scope: str) -> Position:
        if not self._place.exists():
            if self._path.exists() and self._path.stat().st_size:
                raise wrong_usage(
                    f"{self._path} exists, and no follower has written it.",
                    "Move it away, or name another folder.",
                )
            return Position(scope)
        try:
            position = Position(**json.loads(self._place.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise wrong_usage(f"{self._place} can't be read.", "Move both files away.") from error
        if position.scope != scope:
            raise wrong_usage(
                f"{self._path} is of {position.scope}, not of {scope}.", "Name another folder."
            )
        return position

    def _store(self, cursor: str, *, pending: str = "") -> None:
        size = self._path.stat().st_size if self._path.exists() else 0
        self._position = Position(self._position.scope, cursor, size, pending)
        export_files.replace_file(self._place, json.dumps(asdict(self._position)))

    def _grow(self) -> None:
        data = self._position.pending.encode()
        size = self._path.stat().st_size if self._path.exists() else 0
        # A file that is shorter than it was has been rotated.
        written = max(0, size - self._position.size)
        if written < len(data):
            export_files.append_file(self._path, data[written:])
        self._store(self._position.cursor)
