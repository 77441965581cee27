"""An output of any length in bounded memory."""

import tracemalloc

from tenfour.runs import output_buffer
from tenfour.runs.output_buffer import (
    HEAD_BYTES,
    LIMIT_BYTES,
    TAIL_BYTES,
    TELLING_BYTES,
    OutputBuffer,
)


def test_a_long_output_keeps_its_head_and_its_tail() -> None:
    stored, size = OutputBuffer(), 0
    for number in range(500_000):
        stored.add(b"%08d\n" % number)
        size += 9
    text = stored.text()
    assert text.startswith("00000000\n") and text.endswith("00499999\n")
    assert f"\n[… about {stored.left_out} bytes left out]\n" in text
    assert stored.left_out >= size - HEAD_BYTES - TAIL_BYTES - output_buffer.LINE_BYTES
    # No number is cut in two, as half of a secret would be: it could not be masked.
    numbers = [line for line in text.splitlines() if line.strip("0123456789") == "" and line]
    assert {len(number) for number in numbers} == {8}


def test_a_short_output_is_stored_whole_also_where_a_character_is_cut() -> None:
    short = OutputBuffer()
    for part in ("grö".encode()[:3], "grö".encode()[3:], b"\n"):
        short.add(part)
    assert short.text() == "grö\n" and short.last(4) == "\n"
    assert short.last(100) == "grö\n"


def test_the_last_words_reach_back_into_the_head() -> None:
    stored = OutputBuffer()
    stored.add(b"a" * (HEAD_BYTES - 5) + b" b cd")
    stored.add(b" e\n")
    assert stored.last(9) == " b cd e\n"
    assert stored.last(4) == " e\n"


def test_a_huge_output_takes_little_memory_and_keeps_the_line_that_tells_the_cause() -> None:
    stored = OutputBuffer()
    chunk = b"ok 1 all is well\n" * 3856  # 64 KiB, as a pipe gives it
    tracemalloc.start()
    for number in range(4_000):
        stored.add(chunk)
        if number == 2000:
            stored.add(b"AssertionError: expected 4, got 5\n")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert stored.size > 250_000_000 and peak < 16_000_000
    text = stored.text()
    assert len(text.encode()) <= LIMIT_BYTES
    assert text.count("AssertionError: expected 4, got 5\n") == 1
    assert "lines of them that tell of errors:]\nAssertionError: " in text


def test_telling_lines_are_whole_and_bounded() -> None:
    stored = OutputBuffer()
    line = b"password=" + b"a" * 50 + b" login failed\n"
    for _ in range(100_000):
        stored.add(line * 3)
    text = stored.text()
    start = text.index("tell of errors:]\n") + len("tell of errors:]\n")
    telling = text[start : text.index("[…]\n", start)].splitlines(keepends=True)
    assert TELLING_BYTES <= sum(map(len, telling)) < TELLING_BYTES + len(line)
    assert set(telling) == {line.decode()}


def test_a_line_without_end_and_bytes_that_are_no_text_fit_into_a_report() -> None:
    stored = OutputBuffer()
    for _ in range(200):
        stored.add(b"\xff" * 50_000)
    text = stored.text()
    assert len(text.encode()) <= LIMIT_BYTES and "[…]" in text
    assert not stored.telling
