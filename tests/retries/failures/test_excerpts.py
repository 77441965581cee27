"""A long output keeps the lines that tell the cause, wherever they are."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retries.failures.outputs.excerpts import Selection, shorten

CAUSE = "src/a.c:3:5: error: no member x"
GAP = re.compile(r"^\[\u2026 ([\d,]+) lines? left out \u2026\]$", re.MULTILINE)


@pytest.mark.parametrize("most", [800, 4_000, 65_536])
@pytest.mark.parametrize("share", [0.02, 0.25, 0.5, 0.75, 0.9, 0.99])
def test_the_telling_line_stays_and_every_cut_says_how_many_lines(most: int, share: float) -> None:
    lines = [f"copying module {n} of the tree" for n in range(8000)]
    lines[int(share * 8000)] = CAUSE
    short = shorten("\n".join(lines), most)
    assert len(short) <= most and CAUSE in short
    kept = GAP.sub("", short).split("\n")
    left = sum(int(each.replace(",", "")) for each in GAP.findall(short))
    assert left + sum(1 for line in kept if line) == len(lines)


def test_a_short_text_stays_as_it_is() -> None:
    assert shorten("a\nb", 3) == "a\nb"


def test_a_key_stays_whole_or_goes() -> None:
    key = [
        "-----BEGIN " + "PRIVATE KEY-----",
        *["error: Zm9v"] * 40,
        "-----END " + "PRIVATE KEY-----",
    ]
    text = "\n".join(["start"] * 900 + key + ["end"] * 900)
    for most in (200, 700, 3000):
        short = shorten(text, most)
        assert ("Zm9v" in short) == (key[0] in short) == (key[-1] in short)


def test_the_name_of_a_secret_stays_with_it() -> None:
    text = "\n".join(["x"] * 3000 + ["password:", "  hunter2 error: no", "x"] + ["x"] * 3000)
    assert "password:\n  hunter2" in shorten(text, 300)


def test_a_long_line_keeps_whole_words() -> None:
    line = " ".join(f"word{n}" for n in range(200_000))
    short = shorten(line, 65_536)
    start, mark, end = re.split(r"( \[\u2026 .* \u2026\] )", short)
    assert line.startswith(start + " ") and line.endswith(" " + end) and "left out" in mark


@settings(deadline=None)
@given(st.text(max_size=3000), st.integers(200, 2000))
def test_the_result_fits(text: str, most: int) -> None:
    assert len(shorten(text, most)) <= max(most, 0)


def test_the_code_that_a_runner_marks_stays_with_its_error() -> None:
    code = ">       assert list(merge([5, 3],\n            key=str)) == [\n            3]"
    lines = [f"    step {n}" for n in range(900)] + [code, "E       assert [5] == [3]"]
    text = "\n".join([*lines, *(f"    later {n}" for n in range(60))])
    assert code in shorten(text, 2_000, edges=(0, 0), around=(0, 0), has_pasted=True)


@pytest.mark.parametrize("has_pasted", [False, True])
def test_the_line_that_begins_the_marked_function_stays(has_pasted: bool) -> None:
    entry = [f"    def parse(self{n}):" for n in (1, 2)]
    entry.insert(1, "_" * 30 + " test_other " + "_" * 30)
    entry += [f"        step {n}" for n in range(40)] + [">       run()", "E       KeyError: 'a'"]
    lines = [f"copied {n}" for n in range(900)] + entry + [f"copied {n}" for n in range(200)]
    short = shorten("\n".join(lines), 2_000, edges=(0, 0), around=(0, 0), has_pasted=has_pasted)
    assert "def parse(self2):" in short and "def parse(self1):" not in short


@pytest.mark.parametrize(
    "frame",
    [
        "src/tools/read.py:31: in read_all",
        '  File "read.py", line 3, in f',
        "    at read (a.js:3:1)",
    ],
)
def test_the_frames_that_a_paste_shows_stay(frame: str) -> None:
    lines = [f"copied {n}" for n in range(900)] + [frame, *["copied"] * 90, CAUSE]
    assert frame in shorten("\n".join(lines), 3_000, edges=(0, 0), around=(0, 0), has_pasted=True)


LINES = ("", "a", "password:", "x =", "\\", "y" * 401, "-----BEGIN " + "X KEY-----", "-----END ")


@pytest.mark.parametrize("seed", range(8))
def test_many_lines_are_added_as_single_ones_are(seed: int) -> None:
    """S1.23: the same lines, within the same room"""
    pick = random.Random(seed)
    for _ in range(60):
        pool = pick.choices(LINES, weights=(9, 9, 9, 9, 9, 1, 1, 1), k=4)
        parts = [pick.choice(pool) for _ in range(30) for _ in range(pick.choice((1, 2, 40)))]
        text = "\n".join(line for line in parts for _ in range(pick.choice((1, 1, 60))))
        most = pick.randrange(300, 20_000)
        at_once, one_by_one = (Selection(text, most) for _ in range(2))
        count = len(at_once.lines)
        numbers, telling = range(count)[:: pick.choice((1, -1))], pick.choices(range(count), k=2)
        for each in (at_once, one_by_one):
            each.add(telling, share=0.5)
        at_once.add_edge(numbers, share=1.0)
        one_by_one.add(numbers, share=1.0)
        assert at_once.kept == one_by_one.kept and at_once.size == one_by_one.size
