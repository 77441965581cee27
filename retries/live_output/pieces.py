"""Cut a program's output into pieces, so that no secret is split between two of them.

The newest piece is open: it holds the last kilobytes, with a line or a key that is not complete.
A client sends it again with what follows, so a secret is seen whole. What a client sends without
that is stored without the rest of a line or a secret that the piece before it began.
"""

import re
from typing import NamedTuple

from ledger.secrets.forms import LONGEST_SECRET
from ledger.secrets.redaction import MASK, redact_output

PIECE_BYTES = 65_536  # of one call
STORED_BYTES = 2 * PIECE_BYTES  # masks may be longer than what they hide
OPEN_BYTES = 4096  # at the end of the output
MOST_OPEN_BYTES = PIECE_BYTES // 2  # A larger piece is not sent again.
TRIES = 4
# a secret of several lines is not longer
TAIL_LINES, MOST_LINES = 4, 66
KEY_LENGTH = 16_384
KEY_MASK = MASK.format("private_key")
LONG_LINE, CUT_LINE = "[… rest of a long line]", "[…]"
KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,48}-----[ \t\r]*+\n?")
# lines of a key or a secret whose begin is not known, which an output may go on with
REST_OF_KEY = re.compile(r"(?:[A-Za-z0-9+/=]{16,}+[ \t\r]*+(?:\n|\Z))++")
ENDS_MASKED = re.compile(r"\[redacted:\w{1,32}\]\s{0,8}\Z")
REST_OF_BLOCK = re.compile(r"(?:[ \t]++[^\n]*+(?:\n|\Z))++")


class Piece(NamedTuple):
    """A part of an output; `size` are its bytes as they were printed, `text` what is stored."""

    at: int
    size: int
    text: str

    @property
    def end(self) -> int:
        return self.at + self.size


def add_to_pieces(stored: list[Piece], at: int, data: bytes) -> list[Piece]:
    """Return the pieces that are new or change; `stored` are the newest two, the newest first."""
    last, before_last = (*stored, Piece(0, 0, ""), Piece(0, 0, ""))[:2]
    if at + len(data) <= last.end:
        return []
    # The open piece comes again, with what follows it; otherwise it stays as it is.
    is_resent = 0 < last.size <= MOST_OPEN_BYTES and at <= last.at
    before, start = (before_last, last.at) if is_resent else (last, max(at, last.end))
    size, is_gap = at + len(data) - start, start > before.end
    raw = drop_rest(before.text, data[-size:].decode(errors="ignore"), is_gap=is_gap)
    added = cut_pieces(start, raw, size=size)
    if is_resent or not last.size:
        return added
    closed = last._replace(text=close_piece(last.text, is_cut=not raw and not is_gap))
    if not is_gap and (not raw or (last.size < OPEN_BYTES and len(added) == 1)):
        text = closed.text + (added[0].text if raw else "")
        return [Piece(last.at, last.size + size, text)]
    return added if closed.text == last.text else [closed, *added]


def cut_pieces(at: int, raw: str, *, size: int) -> list[Piece]:
    """Return an output of `size` bytes as one open piece, or as a settled and an open one."""
    cut = find_settled(raw)
    rest = Piece(at + size - count_bytes(raw[cut:]), count_bytes(raw[cut:]), store_open(raw[cut:]))
    if not cut:
        return [Piece(at, size, rest.text)]
    return [Piece(at, size - rest.size, limit(redact_output(raw[:cut]))), rest]


def find_settled(raw: str) -> int:
    """Return where the open end of an output begins: at a line, and within no secret."""
    if len(raw) < 2 * OPEN_BYTES:
        return 0
    cut = raw.rfind("\n", 0, len(raw) - OPEN_BYTES) + 1
    if (begin := find_open_key(raw)) is not None:
        cut = min(cut, find_line(raw, begin))
    for _ in range(TRIES):
        # an indented line may belong to a secret that begins far above
        while cut and raw[cut] in " \t":
            cut = find_line(raw, cut - 1)
        if cut and (begin := find_open_key(raw[:cut])) is not None:
            cut = find_line(raw, begin)
        # A secret of several lines is short, so only what is near the cut is compared.
        before, after = raw[max(0, cut - OPEN_BYTES) : cut], raw[cut : cut + OPEN_BYTES]
        if redact_output(before) + redact_output(after) == redact_output(before + after):
            return cut
        cut = find_line(raw, max(0, cut - OPEN_BYTES))
    return 0


def find_line(raw: str, place: int) -> int:
    return raw.rfind("\n", 0, place) + 1


def find_open_key(raw: str) -> int | None:
    *_, begun = (None, *KEY_BEGIN.finditer(raw, max(0, len(raw) - KEY_LENGTH)))
    return begun.start() if begun and "-----" not in raw[begun.end() :] else None


def store_open(raw: str) -> str:
    begin = find_open_key(raw)
    text = raw if begin is None else raw[:begin] + KEY_MASK
    if not raw:
        return CUT_LINE
    if "\n" not in raw and len(raw) >= MOST_OPEN_BYTES:
        # A secret that goes on in the next piece is not longer than what is left out here.
        return f"{limit(redact_output(text)[:-LONGEST_SECRET])} {LONG_LINE}"
    return limit(redact_output(text))


def drop_rest(before: str, raw: str, *, is_gap: bool) -> str:
    """Return an output without the rest of what the stored text before it has begun.

    After a gap, that may be any line or key.
    """
    is_cut, in_key = is_gap or is_mid_line(before), before.endswith(KEY_MASK)
    if is_cut:
        _, _, raw = raw.partition("\n")
    dashes = raw.find("-----", 0, KEY_LENGTH)
    if (is_cut or in_key) and (ended := KEY_END.match(raw, max(0, dashes))):
        return raw[ended.end() :]
    if in_key and not is_gap:
        return raw[dashes if dashes >= 0 else KEY_LENGTH :]
    if is_cut and (found := REST_OF_KEY.match(raw)):
        raw = raw[found.end() :]
    if (is_cut or ENDS_MASKED.search(before[-64:])) and (found := REST_OF_BLOCK.match(raw)):
        raw = raw[found.end() :]
    # a name in the lines before, and its secret in the first lines of this output
    tail = "" if is_cut else "".join(before[-OPEN_BYTES:].splitlines(keepends=True)[-TAIL_LINES:])
    for _ in range(MOST_LINES if tail else 0):
        head = raw[:OPEN_BYTES]
        if redact_output(tail + head) == redact_output(tail) + redact_output(head):
            break
        _, _, raw = raw.partition("\n")
    return raw


def is_mid_line(text: str) -> bool:
    return bool(text) and not text.endswith(("\n", KEY_MASK))


def close_piece(text: str, *, is_cut: bool = False) -> str:
    """Return the text of a piece that is not sent again, without an incomplete line.

    That line may hold half a secret. `is_cut` says that its end has not come yet.
    """
    if text.endswith(KEY_MASK):
        return text
    whole = f"{text}\n" if text.endswith(LONG_LINE) else text[: text.rfind("\n") + 1]
    return f"{whole}{CUT_LINE}" if is_cut else whole


def limit(text: str) -> str:
    return text.encode(errors="replace")[:STORED_BYTES].decode(errors="ignore")


def count_bytes(text: str) -> int:
    return len(text.encode(errors="replace"))
