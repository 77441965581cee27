"""Send what a command prints to its attempt's page while it runs, and never slow it down."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock

from tenfour import tasks
from tenfour.http.core import Core
from tenfour.http.drivers import Exhausted
from tenfour.http.exchange import Steps, Wait
from tenfour.http.problems import TenfourError
from tenfour.redaction.masking import masked, secrets_of

EVERY_S, AWAY_EVERY_S = 1.0, 5.0
PIECE_BYTES = 60_000
CALLS = 2  # at a time
# What is not sent yet, at most; of more, the middle is dropped.
MOST_WAITING, KEPT_BYTES = 1_000_000, 120_000
# A progress bar that no newline ends becomes a line at this length.
LINE_LENGTH = 8_000
# of a secret at the end of what is printed so far
SHORTEST_START = 4
GAP_BYTES = 65_536


class OutputStream:
    """An output on its way to the server; `add` is called by the threads that read the command."""

    def __init__(self, attempt: str, *, core: Core, resumed: bool = False) -> None:
        self.is_refused = False
        self.is_unknown = False
        self._attempt = attempt
        # A call that fails is not repeated: more output has come by then.
        self._core = replace(core, retries=0)
        self._resumed = resumed
        self._lock = Lock()
        self._raw = bytearray()
        self._dropped = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._at = 0
        self._text = ""  # after `_at`, of which the server may have a part
        self._sent = 0  # characters of `_text` that it has
        self._pause = EVERY_S

    def add(self, data: bytes) -> None:
        with self._lock:
            self._raw += data
            if (excess := len(self._raw) - MOST_WAITING) > 0:
                excess += MOST_WAITING - KEPT_BYTES
                del self._raw[:excess]
                self._dropped += excess

    def steps(self) -> Steps[None]:
        """Send what is new about once a second, and the rest at the end."""
        is_ended = False
        while not is_ended and not self.is_refused:
            try:
                yield Wait(self._pause)
            except Exhausted:
                is_ended = True
            is_quiet = self._take()
            self._pause = EVERY_S
            try:
                yield from self._send(is_quiet or is_ended)
            except TenfourError as error:
                # An older server does not know the operation.
                self.is_unknown = error.status == 404
                self.is_refused = self.is_unknown or not error.retryable
                self._pause = min(error.retry_after_s or AWAY_EVERY_S, 60.0)

    def _take(self) -> bool:
        """Read what was printed; return whether nothing was."""
        with self._lock:
            data, dropped = bytes(self._raw), self._dropped
            self._raw.clear()
            self._dropped = 0
        if dropped or len(self._text) > MOST_WAITING:
            self._skip(dropped + len(self._text.encode(errors="replace")))
        # The server stores no NUL.
        text = self._text + self._decoder.decode(data).replace("\0", "")
        start = text.rfind("\n") + 1
        new = max(self._sent, start)
        # Of a progress bar, the last state alone is sent each time.
        if "\r" in text[new:-1]:
            last = text[new:].rstrip("\r").rpartition("\r")[2]
            text = f"{text[:new]}\r{last}" + "\r" * text.endswith("\r")
        if len(text) - start > LINE_LENGTH and "\r" in text[start:]:
            text = "\n".join(text.rsplit("\r", 1))
        self._text = masked(text, os.environ)
        return not data

    def _skip(self, size: int) -> None:
        self._at += size
        self._text, self._sent = "", 0
        self._decoder.reset()

    def _send(self, is_whole: bool) -> Steps[None]:
        if self._resumed:
            # Another process sent the first part: a gap divides them.
            stored = yield from self._core.perform(tasks.send_output(self._attempt, 0, ""))
            self._at, self._resumed = stored + GAP_BYTES if stored else 0, False
        for _ in range(CALLS):
            end = len(self._text) if is_whole else find_end(self._text)
            end -= measure_secret_start(self._text[:end], os.environ)
            piece = cut_piece(self._text[:end])
            if len(piece) <= self._sent:
                return
            call = tasks.send_output(self._attempt, self._at, piece)
            following = yield from self._core.perform(call)
            data = piece.encode(errors="replace")
            known = data[: max(0, following - self._at)].decode(errors="ignore")
            self._text, self._sent = self._text[len(known) :], len(piece) - len(known)
            self._at += len(known.encode(errors="replace"))


def find_end(text: str) -> int:
    """Return the end of the last line; the state of a progress bar is one."""
    return max(text.rfind("\n"), text.rfind("\r")) + 1


def measure_secret_start(text: str, environ: Mapping[str, str]) -> int:
    """Return the length of the beginning of a secret that a text ends in."""
    return max(
        (
            length
            for value in secrets_of(environ)
            for length in range(SHORTEST_START, len(value))
            if text.endswith(value[:length])
        ),
        default=0,
    )


def cut_piece(text: str) -> str:
    """Return the first lines of a text, as many as one call takes."""
    data = text.encode(errors="replace")
    if len(data) <= PIECE_BYTES:
        return text
    start = data[:PIECE_BYTES].decode(errors="ignore")
    return start[: start.rfind("\n") + 1] or start
