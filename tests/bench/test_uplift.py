"""`bench.uplift` with a small library, and a command in place of an agent."""

import os
import sys
from pathlib import Path

import pytest

from bench.seeded_bugs import Library, SeededBug, find_mutations
from bench.servers import Sandbox
from bench.uplift import Trial, describe_plan, describe_result, run
from tests.bench.test_quick_suites import sandbox as sandbox

# Fixes the bug if the prompt names the failing test.
FIXER = """import pathlib, sys
if "test_total" in sys.stdin.read():
    path = pathlib.Path("shop/cart.py")
    path.write_text(path.read_text().replace("2", "1"))
"""
OUTPUT = "E       assert 3 == 2\nFAILED tests/test_cart.py::test_total - assert 3 == 2\n"
CODE = "def total(prices):\n    return sum(prices) + 1\n"
TEST = "from shop.cart import total\n\ndef test_total():\n    assert total([1]) == 2\n"


@pytest.mark.parametrize(
    ("agent", "has_passed"),
    [([sys.executable, "-c", FIXER], True), (["sleep", str(10**6 + os.getpid())], False)],
    ids=["fixes", "hangs"],
)
def test_an_agent_is_run_once_for_each_bug(
    sandbox: Sandbox, tmp_path: Path, agent: list[str], has_passed: bool
) -> None:
    library, folder = Library("shop", "1.0", "", "shop", "tests"), tmp_path / "shop-1.0"
    for name, text in (("shop/cart.py", CODE), ("tests/test_cart.py", TEST)):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    [mutation] = [
        each for each in find_mutations("shop/cart.py", CODE.encode()) if each.text == "2"
    ]
    bug = SeededBug(library.title, mutation, [OUTPUT], "")
    said: list[str] = []
    trial = Trial(agent, 60 if has_passed else 0.2, Path(sys.executable))
    counts = run(sandbox, [(library, folder, bug)] * 2, trial, "nothing", said.append)
    assert counts.total() == len(said) == 2
    assert {each for _, each in counts} == {has_passed}
    assert {side for side, _ in counts} <= {"with", "without"}


def test_the_rules_and_the_result_are_sentences() -> None:
    assert describe_plan(10_000, "known")[2].endswith(
        ": 10 points or more are found in four of five such runs."
    )
    assert "; 40 need " in describe_plan(4, "standing")[2]
    sides = {("with", True): 56, ("with", False): 14, ("without", True): 48, ("without", False): 32}
    assert describe_result(sides)[-1] == "with minus without: 20.0 points, 95% from 5.2 to 33.4"
    few = describe_result({("with", True): 1, ("default", True): 2})
    assert few[1:] == ["without: 0 of 0 fixed", "neither: 2 whose contexts have no such element"]
