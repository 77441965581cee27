"""The block tells at least what a paste of the output's last 4,000 characters does (RTY-2)."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retries.failures.outputs.line_scores import score_line
from retries.failures.outputs.salience_rules import WEAK
from retries.retry_context.block import BUDGET, History, render_retry_context
from tests.retries.retry_context.test_block import failed

PASTED = 4_000
# each an error with the code that its tool shows right after it
ERRORS = (
    "src/a{n}.c:3:5: error: no member x{n}\n   3 | a.x{n} = 1;\n     |   ^~",
    "error[E0308]: mismatched types {n}\n  --> src/m{n}.rs:3:18\n   |\n3  | let x: i32 = s{n};",
    "src/a{n}.ts:10:5 - error TS2304: Cannot find name 'n{n}'.\n\n10     n{n}();\n       ~~",
    "E       assert {n} == 4\nE        +  where {n} = total(3)",
    "  \u25cf sum \u203a adds {n}\n\n    > 4 |   expect(sum({n}, 2)).toBe(3);\n        |  ^",
    "Traceback (most recent call last):\n  File \"a{n}.py\", line 3, in f{n}\n    g{n}()\nKeyError: 'k{n}'",
    "[ERROR] /home/dev/T{n}.java:[27,16] cannot find symbol\n  symbol:   variable R{n}",
)
NOISE = (
    "Downloading package {n} (1.2 MB)",
    "step {n} of the build copied a module",
    "ok {n} - works",
    "",
)
CODE = re.compile(r"\s+\S|[>|^~]|E  |\d+ ?[|:]|\d+ {2}")
LINES = st.lists(
    st.tuples(st.sampled_from((*ERRORS, *NOISE, *NOISE)), st.integers(1, 60)),
    min_size=1,
    max_size=40,
)


def build_output(parts: list[tuple[str, int]]) -> str:
    """Return an output of these parts; noise is repeated as often as its number says."""
    lines = []
    for at, (part, times) in enumerate(parts):
        for n in range(times if part in NOISE else 1):
            lines.append(part.replace("{n}", f"{at}{n}"))
    return "\n".join(lines)


def find_told(output: str) -> list[str]:
    """Return the error lines that a paste shows, each with the code right after it."""
    lines = output[-PASTED:].split("\n")[len(output) > PASTED :]
    told = []
    for number, line in enumerate(lines):
        if line.strip() and score_line(line) >= WEAK:
            told.append(line)
            for after in lines[number + 1 : number + 4]:
                if not CODE.match(after):
                    break
                told.append(after)
    return told


def check_is_no_poorer(outputs: list[str]) -> None:
    failures = [
        failed(n, verification={"command": "check", "exit_code": 1, "output": output})
        for n, output in enumerate(outputs, 1)
    ]
    block = render_retry_context(
        History(failures=failures), attempt=len(outputs) + 1, max_attempts=9
    )
    details = ElementTree.fromstring(block.encode()).findall("*/*/error_details")
    newest = set((details[-1].text or "").split("\n"))
    # The element's text has no spaces at its start and end.
    missing = [
        line
        for line in find_told(outputs[-1])
        if line not in newest and line.rstrip() not in newest
    ]
    assert not missing and len(block) <= BUDGET


@settings(max_examples=60, deadline=None, database=None)
@given(outputs=st.lists(LINES.map(build_output), min_size=1, max_size=3), is_again=st.booleans())
def test_the_block_is_never_poorer_than_a_paste(outputs: list[str], is_again: bool) -> None:
    """At attempts 2, 3, and 4, for outputs of any size, repeated or not."""
    check_is_no_poorer([*outputs[:2], outputs[-1]] if is_again else outputs)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("times", [200, 4_000])
def test_a_long_output_keeps_the_errors_of_its_end(error: str, times: int) -> None:
    noise = [(NOISE[1], times)]
    end = [(NOISE[0], 3), (error, 1), (NOISE[2], 4)] * 6
    output = build_output([*noise, *[(error, 1)] * 300, *noise, *end])
    for attempt in (1, 2, 3):
        check_is_no_poorer([output] * attempt)


def test_an_output_of_12_000_characters_has_no_cut() -> None:
    output = build_output([(NOISE[1], 300), (ERRORS[0], 1)])[-12_000:].lstrip()
    failures = [failed(n, details=output) for n in (1, 2)]
    block = render_retry_context(History(failures=failures), attempt=3, max_attempts=9)
    told = [each.text for each in ElementTree.fromstring(block).findall("*/*/error_details")]
    assert told == ["Same as attempt 2.", output]


def test_noise_at_the_edges_is_left_out() -> None:
    """RTY-17"""
    output = build_output([(NOISE[0], 400), (ERRORS[0], 1), (NOISE[0], 400)])
    block = render_retry_context(
        History(failures=[failed(1, details=output)]), attempt=2, max_attempts=9
    )
    (told,) = ElementTree.fromstring(block).findall("*/*/error_details")
    lines = (told.text or "").split("\n")
    # The lines around the error stay.
    assert sum("Downloading" in line for line in lines) <= 3 + 8 and len(output) > 12_000
    assert any("error: no member" in line for line in lines)


def test_a_longer_output_is_told_in_less_than_half() -> None:
    for count in (100, 160, 400):
        output = build_output([part for error in ERRORS for part in [(error, 1)] * (count // 4)])
        block = render_retry_context(
            History(failures=[failed(1, details=output)]), attempt=2, max_attempts=9
        )
        assert len(output) > 12_000 and len(block) < len(output) / 2 + 500


def test_all_failing_tests_of_a_longer_output_are_named() -> None:
    names = [f"test_case_{n}" for n in range(250)]
    rows = [f"FAILED t/test_a.py::{name}[{k}] - assert 1" for name in names for k in (1, 2)]
    output = "\n".join(rows + ["E       assert 1 == 2"] * 900)
    header = "_" * 20 + " test_case_1[1] " + "_" * 20
    failure = failed(1, details=output, message=f"{header}\nE       assert 1 == 2")
    block = render_retry_context(History(failures=[failure]), attempt=2, max_attempts=9)
    told = ElementTree.fromstring(block).findtext("*/*/failing_tests") or ""
    assert told == f"t/test_a.py: {', '.join(names)}"
