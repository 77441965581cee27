"""An output of 4 MiB: only what is stored is redacted, and no half of a secret is stored."""

import hashlib
import json
import time
import tracemalloc

import pytest

from retries.attempts.report_fields import (
    NOT_DIGESTED,
    OUTPUT_BYTES,
    Report,
    clean_output,
    clean_report,
    digest_of,
)
from retries.failures.error_sets import read_errors
from retries.failures.outputs.text_lines import TextLines
from tests.ledger.gitleaks_rules import ALNUM, join

MIB = 1024 * 1024
LINE = "the token of test 12 of src/app.ts: expected 5 to be 6\n"


def test_a_long_output_costs_little() -> None:
    output = LINE * (4 * MIB // len(LINE))
    before = time.process_time()
    stored = clean_output(output)
    assert time.process_time() - before < 1  # `bench context` measures it
    assert len(stored.encode()) <= OUTPUT_BYTES and stored.startswith(LINE)
    assert all(
        line + "\n" == LINE or "left out" in line or not line for line in stored.splitlines()
    )


@pytest.mark.parametrize("unit", [LINE, "\n", "ab\n", "password:\n", "‹", f"{'x' * 79}\n"])
def test_a_long_output_takes_little_memory(unit: str) -> None:
    """Of many short lines, and of letters beyond ASCII, a copy would take much more."""
    size = len(unit.encode())
    report = Report(status="failure", details=unit * (4 * MIB // size))
    tracemalloc.start()
    clean_report(report)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40 * 10**6


def test_a_long_text_has_the_digest_of_its_json() -> None:
    """However it is encoded, so that a report is known again after an update."""
    for text in ("", '“\ud83d\ude00"\\\x00' * 40_000, "😀é" * 70_000):
        values = {"b": text, "a": [text[:9], None], "c": {}}
        report = Report(status="failure", details=text, verification=values, result=[text[:5]])
        names = [name for name in Report.__slots__ if name not in NOT_DIGESTED]
        fields = [getattr(report, name) for name in names]
        expected = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).digest()
        assert digest_of(report) == expected


@pytest.mark.parametrize("text", ["", "\n", "a", "a\n", "\na\n\nb", "ab\n" * 70_000, "é" * 70_000])
def test_the_lines_of_a_text_are_those_of_its_list(text: str) -> None:
    lines, expected = TextLines(text), text.split("\n")
    assert list(lines) == expected and len(lines) == len(expected)
    assert lines[-1] == expected[-1] and lines[1:3] == expected[1:3]
    assert lines.start_of(len(expected)) == len(text) + 1
    for number in range(0, len(expected), 997):
        assert lines.number_at(lines.start_of(number)) == number
    with pytest.raises(IndexError):
        lines[len(expected)]


@pytest.mark.parametrize("shift", range(0, 400, 25))
def test_no_half_of_a_secret_is_stored(shift: int) -> None:
    secret = join("-----BEGIN RSA ", "PRIVATE KEY-----\n") + ALNUM[:64] + "\n"
    secret += ALNUM[:64] + join("\n-----END RSA ", "PRIVATE KEY-----\n")
    stored = clean_output("x" * shift + secret * (MIB // len(secret)))
    assert ALNUM[:20] not in stored and len(stored.encode()) <= OUTPUT_BYTES


def test_a_stored_output_names_each_failing_test() -> None:
    """Of 120 functions with 20 parameters each, and the messages of all in between."""
    names = [f"t/test_a{n % 7}.py::test_{'x' * 20}_{n}" for n in range(120)]
    rows = [f"FAILED {name}[{k}] - {'E' * 90}" for name in names for k in range(20)]
    errors = ["E       AssertionError: assert 1 == 2"] * 2_000
    output = "\n".join([*errors, *rows, "2400 failed in 3.1s"])
    stored = clean_output(output)
    assert len(output) > 4 * OUTPUT_BYTES >= 4 * len(stored.encode())
    found = read_errors((stored,), "", "").errors.values()
    assert {each.place.partition("[")[0] for each in found} == set(names)
