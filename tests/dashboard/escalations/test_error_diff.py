"""The difference between the errors of two attempts."""

from dashboard.escalations.error_diff import Diff, diff
from retries.failures.error_sets import read_errors


def compare(before: str, after: str) -> Diff:
    return diff(read_errors((before,), "", ""), read_errors((after,), "", ""))


def test_errors_that_are_gone_remain_and_are_new() -> None:
    found = compare(
        "a.ts(10,5): error TS2304: Cannot find name 'x'.\nb.ts(3,1): error TS2339: No 'y' on Z.",
        "a.ts(14,5): error TS2304: Cannot find name 'x'.\nd.ts(1,1): error TS2554: Expected 2.",
    )
    assert [(line.sign, line.text) for line in found.lines] == [
        (" ", "a.ts: error TS2304: Cannot find name 'x'."),
        ("−", "b.ts: error TS2339: No 'y' on Z."),
        ("+", "d.ts: error TS2554: Expected 2."),
    ]
    assert found.summary == "1 error gone, 1 new, 1 the same"


def test_a_test_that_fails_with_another_message_is_changed() -> None:
    found = compare("FAILED a.py::test_b - ValueError: x", "FAILED a.py::test_b - KeyError: y")
    assert [(line.sign, line.text) for line in found.lines] == [
        ("−", "a.py::test_b: ValueError: x"),
        ("+", "a.py::test_b: KeyError: y"),
    ]
    assert found.summary == "1 error changed"


def test_line_numbers_and_durations_are_no_difference() -> None:
    before, after = (f"a.c:{n}:5: error: no x after {n}ms" for n in (3, 77))
    assert compare(before, after).summary == "the same error"


def test_lines_and_their_number_are_limited() -> None:
    told = "\n".join(f"<b>{n}.c:1:1: error: {'x' * 500}{n}" for n in range(190))
    lines = compare("", told.replace("<b>", "b")).lines
    assert len(lines) == 51 and lines[-1].text == "140 more"
    assert max(len(line.text) for line in lines) <= 300
