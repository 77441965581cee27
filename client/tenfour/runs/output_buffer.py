"""A command's output in bounded memory: head, tail, and the telling lines between them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

# Together less than the 4 MiB of a report, as newlines and quotes take two bytes in JSON.
HEAD_BYTES = 800_000
TAIL_BYTES = 2_200_000
TELLING_BYTES = 200_000
LIMIT_BYTES = 3_400_000
LINE_BYTES = 4096
# Words in lower case. A search for each is faster than one regular expression for all.
TELLING = (b"error", b"fail", b"exception", b"traceback", b"panic", b"fatal", b"assert", b"denied")
WORD_LENGTH = 4096
WORD_CUT = re.compile(r"\A\S{1,4096}")


@dataclass
class OutputBuffer:
    """The first and the last bytes of an output of any length, and telling lines of the rest."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    telling: bytearray = field(default_factory=bytearray)
    size: int = 0
    left_out: int = 0
    is_mid_line: bool = False
    lock: Lock = field(default_factory=Lock)
    # gets all of it as it comes
    on_add: Callable[[bytes], None] | None = None

    def add(self, data: bytes) -> None:
        if self.on_add:
            self.on_add(data)
        with self.lock:
            self.size += len(data)
            room = HEAD_BYTES - len(self.head)
            self.head += data[:room]
            self.tail += data[max(room, 0) :]
            # Not at each call, because it moves all stored bytes.
            if len(self.tail) > TAIL_BYTES * 5 // 4:
                self._shorten_tail()

    def text(self) -> str:
        """Return the stored output as text; a note stands for each omission."""
        with self.lock:
            if len(self.tail) > TAIL_BYTES:
                self._shorten_tail()
            head, telling, tail = bytes(self.head), bytes(self.telling), bytes(self.tail)
            left_out = self.left_out
        if not left_out:
            return fit((head + tail).decode(errors="replace"))
        # Whole words only: half a secret could not be recognized.
        start = drop_last_word(head.decode(errors="replace"))
        end = WORD_CUT.sub("", tail.decode(errors="replace"))
        if not telling:
            return fit(f"{start}\n[… about {left_out} bytes left out]\n{end}")
        lines = telling.decode(errors="replace")
        return fit(
            f"{start}\n[… about {left_out} bytes left out; lines of them that tell of errors:]\n"
            f"{lines}[…]\n{end}"
        )

    def last(self, limit: int) -> str:
        """Return about the last `limit` bytes, from the start of a word on."""
        with self.lock:
            end = bytes(self.tail[-limit:])
            if len(end) < limit:
                end = bytes(self.head[len(end) - limit :]) + end
            is_cut = self.size > len(end)
        text = end.decode(errors="replace")
        return WORD_CUT.sub("", text) if is_cut else text

    def _shorten_tail(self) -> None:
        excess = len(self.tail) - TAIL_BYTES
        # At the end of a line, if there is one near.
        excess = self.tail.rfind(b"\n", max(0, excess - LINE_BYTES), excess) + 1 or excess
        self.left_out += excess
        if len(self.telling) < TELLING_BYTES:
            self._store_telling_lines(bytes(self.tail[:excess]))
        self.is_mid_line = self.tail[excess - 1] != ord("\n")
        del self.tail[:excess]

    def _store_telling_lines(self, data: bytes) -> None:
        lower = data.lower()
        # The rest of a line whose start is gone is dropped, for the same reason as half a word.
        at = data.find(b"\n") + 1 if self.is_mid_line or not self.telling else 0
        nearest = {word: lower.find(word) for word in TELLING}
        while len(self.telling) < TELLING_BYTES:
            for word, found in nearest.items():
                if 0 <= found < at:
                    nearest[word] = lower.find(word, at)
            hits = [found for found in nearest.values() if found >= 0]
            if not hits:
                return
            start = data.rfind(b"\n", at, min(hits)) + 1 or at
            end = data.find(b"\n", min(hits))
            at = len(data) if end < 0 else end + 1
            if at - start <= LINE_BYTES:
                self.telling += data[start:at].rstrip(b"\n") + b"\n"


def drop_last_word(text: str) -> str:
    """Return the text without the word that it ends in, which may be cut."""
    end = text[-WORD_LENGTH:]
    return text if not end or end[-1].isspace() else text[: -len(end.rsplit(None, 1)[-1])]


def fit(text: str) -> str:
    """Return the text cut to what a report can hold: a byte that is not UTF-8 takes three."""
    if len(text) <= LIMIT_BYTES // 4 or len(text.encode()) <= LIMIT_BYTES:
        return text
    return cut_middle(text, LIMIT_BYTES // 4)


def cut_middle(text: str, length: int) -> str:
    """Return the start and the end of a text, with about `length` characters."""
    start, end = text[: length // 4], text[-(length * 3 // 4) :]
    return f"{drop_last_word(start)}\n[…]\n{WORD_CUT.sub('', end)}"
