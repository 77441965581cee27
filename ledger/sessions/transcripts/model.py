"""Define what a reader of transcripts returns, and the errors that name a line (pure)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger.sessions.message_parts import Part
from ledger.values.account_windows import WindowFact


class BadLine(ValueError):
    """A line that can't be read, with the reason."""

    def __init__(self, line: int, detail: str) -> None:
        super().__init__(detail)
        self.line = line
        self.detail = detail


@dataclass(frozen=True, slots=True)
class LineMessage:
    """A message as one line of a transcript has it.

    `identity` is what the agent's program gave the line and nothing else has; it is empty in old
    files, where the content stands for it.
    """

    role: str
    parts: tuple[Part, ...]
    identity: str = ""
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """A message with its line in the file, and a digest that is the same at every import."""

    line: int
    role: str
    parts: tuple[Part, ...]
    digest: bytes
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """The conversation in a file.

    `session` is the id that the agent's program gave the session. `cut_line` is the number of the
    last line if it is incomplete, as in a file that is being written. `skipped` is the number of
    other lines that can't be read, and `bad_lines` are the first of them. `limits` has the newest
    fact about each window of the account.
    """

    format: str
    session: str
    messages: tuple[TranscriptMessage, ...]
    lines: int
    cut_line: int | None = None
    skipped: int = 0
    bad_lines: tuple[BadLine, ...] = ()
    limits: tuple[WindowFact, ...] = ()


def parse_time(value: Any) -> datetime | None:
    """Return the time in a line; None without one that names its offset from UTC."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else None


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""
