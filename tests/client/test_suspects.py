"""The most suspicious lines of a failing check, in coverage files of several forms."""

import json
from pathlib import Path
from typing import Any

import pytest
from tenfour.checks.suspects import list_suspects

OUTPUT = """F.                                                  [100%]
    def total(rows):
>       return sum(rows) - 1
shop/cart.py:7: AssertionError
FAILED tests/test_cart.py::TestCart::test_total[1-2] - assert 2 == 3
1 failed, 2 passed
"""
FAILING, PASSING = "tests.test_cart.TestCart.test_total", "tests.test_cart.TestCart.test_empty"
LCOV = """TN:test_total
SF:shop/cart.py
DA:3,1
DA:7,2
DA:9,0
end_of_record
TN:test_empty
SF:shop/cart.py
DA:3,5
end_of_record
"""


def write_json(folder: Path, contexts: dict[str, dict[int, list[str]]]) -> str:
    files: dict[str, Any] = {
        name: {
            "contexts": {str(line): tests for line, tests in lines.items()},
            "functions": {"": {"executed_lines": [1]}, "total": {"executed_lines": [7]}},
        }
        for name, lines in contexts.items()
    }
    path = folder / "coverage.json"
    path.write_text(json.dumps({"files": files}))
    return str(path)


def test_lines_of_failing_tests_alone_come_first(tmp_path: Path) -> None:
    file = write_json(
        tmp_path,
        {
            "shop/cart.py": {1: [""], 3: [FAILING, PASSING], 7: [FAILING], 9: [PASSING]},
            "shop/tax.py": {7: [FAILING, PASSING], 8: [FAILING]},
            "tests/test_cart.py": {30: [FAILING]},
        },
    )
    found = list_suspects(file, OUTPUT)
    assert [(each["path"], each["line"], each["score"]) for each in found] == [
        ("shop/cart.py", 7, 1.0),  # a trace names it
        ("shop/tax.py", 8, 1.0),
        ("shop/cart.py", 3, 0.71),
        ("shop/tax.py", 7, 0.71),
    ]
    assert [each["function"] for each in found[:2]] == ["total", ""]


def test_the_contexts_of_a_plugin_and_of_many_lines(tmp_path: Path) -> None:
    name = "tests/test_cart.py::TestCart::test_total[1-2]|run"
    lines = {line: [name] for line in range(1, 40)}
    file = write_json(tmp_path, {"shop/cart.py": lines | {50: [PASSING]}})
    found = list_suspects(file, OUTPUT)
    assert len(found) == 10 and found[0]["line"] == 7


def test_a_tracefile_names_its_tests(tmp_path: Path) -> None:
    file = tmp_path / "lcov.info"
    file.write_text(LCOV)
    for output in (OUTPUT, "--- FAIL: test_total (0.00s)", "FAIL: test_total (a.B.test_total)"):
        found = list_suspects(str(file), output)
        assert [(each["line"], each["score"]) for each in found] == [(7, 1.0), (3, 0.71)]


@pytest.mark.parametrize(
    ("text", "output", "why"),
    [
        ("{}", OUTPUT, "which test ran which line"),
        ("SF:a.py\nDA:1,1\n", OUTPUT, "which test ran which line"),
        (LCOV, "1 failed", "none of the failing tests"),
        ("{", OUTPUT, "property name"),
    ],
)
def test_a_file_that_names_no_lines_says_why(
    tmp_path: Path, text: str, output: str, why: str
) -> None:
    file = tmp_path / "coverage"
    file.write_text(text)
    with pytest.raises(ValueError, match=why):
        list_suspects(str(file), output)
