"""A secret does not survive because it is split between two pieces of an output."""

import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.secrets.redaction import redact_output
from retries.live_output import pieces
from retries.live_output.pieces import MOST_OPEN_BYTES, PIECE_BYTES, Piece, add_to_pieces

BODY = [
    "".join(random.Random(at).choices("ABCDEFGHIJKLMNOPabcdefghijk0123456789+/", k=64))
    for at in range(50)
]
KEY = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *BODY, "-----END RSA PRIVATE KEY-----", ""])
PREFIXED = "".join(f"[12:04:0{at % 10}] {line}\n" for at, line in enumerate(KEY.splitlines()))
GITHUB = "ghp_" + "a1B2c3D4" * 5
BLOCK = "password: |\n  hunter2hunter2\n  correcthorse9\n  battery-staple7\n"
XML = "<password>\n  hunter2hunter2\n</password>\n"
SECRETS = (*BODY, GITHUB, "hunter2hunter2", "correcthorse9", "battery-staple7")
NOISE = "".join(f"test {at} ... ok (in {at} ms)\n" for at in range(400))
TEXTS = (KEY, f"token={GITHUB}\n", BLOCK, PREFIXED, XML)


def add(stored: dict[int, Piece], at: int, data: bytes) -> int:
    """Store a piece as `append_output` does; return where to go on from."""
    newest = sorted(stored.values(), reverse=True)
    for piece in add_to_pieces(newest[:2], at, data):
        stored[piece.at] = piece
    last = max(stored.values(), default=Piece(0, 0, ""))
    return last.at if last.size <= MOST_OPEN_BYTES else last.end


def text_of(stored: dict[int, Piece]) -> str:
    return "".join(piece.text for _, piece in sorted(stored.items()))


def leaks(text: str) -> list[str]:
    # also a part of a secret that is long enough to be of use
    return [each for each in SECRETS if each in text or (len(each) > 30 and each[:24] in text)]


def cuts_of(size: int, at: list[int]) -> Iterator[tuple[int, int]]:
    places = sorted({0, size, *(each % (size + 1) for each in at)})
    for first, last in itertools.pairwise(places):
        for start in range(first, last, PIECE_BYTES):
            yield start, min(last, start + PIECE_BYTES)


OUTPUTS = st.tuples(st.integers(0, 9_000), st.sampled_from(TEXTS), st.integers(0, 9_000))
CUTS = st.lists(st.integers(0, 40_000), max_size=12)


@given(OUTPUTS, CUTS)
@settings(max_examples=25)
def test_a_client_that_sends_the_open_end_again_gets_the_whole_output_masked(
    output: tuple[int, str, int], cuts: list[int]
) -> None:
    before, secret, after = output
    whole = NOISE[:before].rpartition("\n")[0] + "\n" + secret + NOISE[:after]
    data, stored, at = whole.encode(), dict[int, Piece](), 0
    for _, end in cuts_of(len(data), cuts):
        at = add(stored, at, data[at : min(end, at + PIECE_BYTES)])
    while at < len(data) and (following := add(stored, at, data[at : at + PIECE_BYTES])) > at:
        at = following
    assert text_of(stored) == redact_output(whole)
    pieces = sorted(stored.values())
    assert [piece.end for piece in pieces] == [*(p.at for p in pieces[1:]), len(data)]


@given(OUTPUTS, CUTS)
@settings(max_examples=60)
def test_no_secret_survives_in_the_pieces_of_another_client(
    output: tuple[int, str, int], cuts: list[int]
) -> None:
    before, secret, after = output
    whole = NOISE[:before] + "\n" + secret + NOISE[:after]
    if secret in (PREFIXED, XML):  # only a client that sends the end again is safe with these
        return
    data, stored = whole.encode(), dict[int, Piece]()
    for start, end in cuts_of(len(data), cuts):
        add(stored, start, data[start:end])
        assert not leaks(text_of({at: p for at, p in stored.items() if p.end <= start}))
    add(stored, len(data), b"\nend\n")
    assert not leaks(text_of(stored))
    assert len(stored) <= len(data) // 2048 + 3


@given(st.integers(0, len(KEY)), st.integers(0, len(KEY)))
def test_no_part_of_a_key_is_left_after_a_gap(first: int, second: int) -> None:
    start, end = sorted((first, second))
    data, stored = (KEY + NOISE).encode(), dict[int, Piece]()
    add(stored, 0, data[:start])
    at = add(stored, end + 1, data[end + 1 : end + 3000])
    add(stored, at, data[at : at + 12_000])
    assert not leaks(text_of(stored)) and "test 9 ... ok" in text_of(stored)


@pytest.mark.parametrize("resends", [True, False])
def test_a_long_line_is_cut_without_half_a_secret(resends: bool) -> None:
    for place in range(40_000, 70_000, 4617):
        line = "x" * (place - 1) + " " + GITHUB + " " + "y" * 90_000 + "\nnext\n"
        data, stored, at = line.encode(), dict[int, Piece](), 0
        while at < len(data):
            following = add(stored, at, data[at : at + 40_000])
            at = following if resends and following > at else min(at + 40_000, len(data))
        text = text_of(stored)
        assert GITHUB[:8] not in text and GITHUB[-8:] not in text, place
        assert "[… rest of a long line]" in text and text.endswith("next\n")


def test_a_repeated_or_overlapping_piece_changes_nothing() -> None:
    data, stored = NOISE.encode(), dict[int, Piece]()
    for start in range(0, len(data), 1000):
        add(stored, start, data[start : start + 1000])
    known = dict(stored)
    for start in range(0, len(data), 700):
        add(stored, start, data[start : start + 1000][: len(data) - start])
    assert stored == known


def test_only_the_beginning_is_compared_with_the_lines_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = "".join(f"  hunter{number}battery\n" for number in range(3000))
    redacted: list[int] = []

    def count(text: str) -> str:
        redacted.append(len(text))
        return redact_output(text)

    monkeypatch.setattr(pieces, "redact_output", count)
    left = pieces.drop_rest("password:\n", lines, is_gap=False)
    assert left.count("\n") == 3000 - pieces.MOST_LINES
    assert max(redacted) <= pieces.OPEN_BYTES + len("password:\n")


def test_an_incomplete_line_grows() -> None:
    stored: dict[int, Piece] = {}
    assert add(stored, 0, b"Install? [y/N] ") == 0
    assert text_of(stored) == "Install? [y/N] "
    add(stored, 0, b"Install? [y/N] y\n 10 %\r 20 %\r")
    assert text_of(stored) == "Install? [y/N] y\n 20 %"
