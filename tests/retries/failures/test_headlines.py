"""The headline of real tools' outputs, alone and within a long log, and their known errors (RTY-7)."""

import random
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bench.failure_outputs import FILLERS, KIB
from retries.failures import known_errors
from retries.failures.outputs.salience import find_headline

CASES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("headlines.toml").read_text())[
    "case"
]
LONG = 64 * KIB
TOOLS = {
    *("gradle", "maven", "pip", "poetry", "composer", "rspec", "pre-commit", "playwright"),
    *("git push", "terraform", "npm", "kubectl"),
}


def identify(case: dict[str, Any]) -> str:
    return f"{case['tool']} {case['telling'][:30]}"


def bury(output: str) -> str:
    """Return an output in the middle of a log of LONG characters."""
    pick = random.Random(7)
    lines = [FILLERS[0](pick) for _ in range(LONG // 40)]
    middle = len(lines) // 2
    return "\n".join([*lines[:middle], output.rstrip("\n"), *lines[middle:]])


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_headline_tells_the_cause(case: dict[str, Any]) -> None:
    assert re.search(case["telling"], str(find_headline(case["output"])))


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_headline_tells_the_cause_within_a_long_log(case: dict[str, Any]) -> None:
    assert re.search(case["telling"], str(find_headline(bury(case["output"]))))


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_known_error_is_right(case: dict[str, Any]) -> None:
    found = known_errors.find(case["output"])
    assert (found and found.error.name) == case.get("known")


def test_each_tool_has_five_outputs() -> None:
    counts = {tool: sum(case["tool"] == tool for case in CASES) for tool in TOOLS}
    assert min(counts.values()) >= 5, counts
