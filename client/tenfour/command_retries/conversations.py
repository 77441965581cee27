"""A command agent's memory of each conversation, on disk between requests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tenfour.setup.connections import state_folder, write_private

TURNS, TURN_LENGTH = 20, 2000


@dataclass
class Pending:
    """A command that waits for a confirmation; with a question in Tenfour, if a person is asked."""

    args: list[str]
    task: str = ""
    escalation: str = ""
    url: str = ""


@dataclass
class Conversation:
    """The state of one session."""

    pending: Pending | None = None
    last_command: list[str] | None = None
    last_result: Any = None
    turns: list[dict[str, str]] = field(default_factory=list)

    def add_turn(self, role: str, text: str) -> None:
        self.turns = [*self.turns, {"role": role, "content": text[:TURN_LENGTH]}][-TURNS:]


class Conversations:
    """The sessions in a folder, by default below TENFOUR_STATE, for this user alone."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = Path(folder) if folder else state_folder(os.environ) / "conversations"

    @contextmanager
    def open(self, session: str) -> Iterator[Conversation]:
        """Give the state of a session and store it at the end; others wait until then."""
        import fcntl

        path = self._path(session)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            conversation = self.read(session)
            try:
                yield conversation
            finally:
                self.save(session, conversation)
        finally:
            os.close(lock)

    def read(self, session: str) -> Conversation:
        """Return the state of a session; that of a new one, and a damaged one, is empty."""
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            return read_conversation(json.loads(self._path(session).read_text(encoding="utf-8")))
        return Conversation()

    def save(self, session: str, conversation: Conversation) -> None:
        write_private(self._path(session), json.dumps(asdict(conversation)))

    def _path(self, session: str) -> Path:
        # A session's name may be anything, a path included.
        return self._folder / f"{sha256(session.encode()).hexdigest()[:32]}.json"


def read_conversation(known: Any) -> Conversation:
    """Return a stored state; raises an error of any kind if it is not one."""
    pending = known["pending"]
    turns = [{"role": turn["role"], "content": turn["content"]} for turn in known["turns"]]
    return Conversation(
        pending=None if pending is None else Pending(**pending),
        last_command=known["last_command"],
        last_result=known["last_result"],
        turns=turns,
    )
