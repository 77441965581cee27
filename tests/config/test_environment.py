"""Unknown variables with our prefix are named, with the nearest known one."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings
from django.core.checks import run_checks

from config.environment import KNOWN, TESTS, unknown_variables
from config.local.places import PROJECT
from tests.serving import environment

ROOT = Path(settings.BASE_DIR)
NAME = re.compile(r"\bTENFOUR_[A-Z_]+\b")


def constants(path: Path) -> set[str]:
    """Every string constant of a module that could be the name of a variable of ours."""
    text = path.read_text()
    return {
        node.value
        for node in ast.walk(ast.parse(text if "TENFOUR_" in text else ""))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("TENFOUR_")
        and node.value.isupper()
        and not node.value.endswith("_")
    }


@cache
def read_in_code() -> set[str]:
    """Every variable that the code names, those included that settings read by a short name."""
    folders = ("config", "ledger", "retries", "dashboard", "client/tenfour", "examples")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    paths = [path for path in paths if path.name != "environment.py"]
    tree = ast.parse((ROOT / "config" / "settings.py").read_text())
    numbers = {
        f"TENFOUR_{node.args[0].value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "number"
        and isinstance(node.args[0], ast.Constant)
    }
    return set.union(numbers, *map(constants, paths)) - {"TENFOUR_URL_TOKEN"}


def test_every_variable_that_the_code_reads_is_known() -> None:
    assert read_in_code() <= KNOWN


def test_every_variable_that_a_script_sets_is_known() -> None:
    """An unknown one would fail `check --deploy`, and with it the run of all checks."""
    scripts = [ROOT / ".ci" / "run", ROOT / "Makefile", ROOT / "tests" / "services.py"]
    named = {name for path in scripts for name in NAME.findall(path.read_text())}
    assert "TENFOUR_REQUIRE_BROWSER" in named and named <= KNOWN


def test_no_name_is_known_that_nothing_reads() -> None:
    tests = {f"TENFOUR_{name}" for name in TESTS}
    files = {
        "TENFOUR_SECRET_KEY_FILE",
        "TENFOUR_LLM_KEY_FILE",
        "TENFOUR_OIDC_SECRET_FILE",
    }  # read as the name of a setting with a suffix
    assert KNOWN - tests - files <= read_in_code()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("TENFOUR_PROT", "Did you mean TENFOUR_PORT?"),
        ("TENFOUR_TASK_MAX_ATEMPTS", "Did you mean TENFOUR_TASK_MAX_ATTEMPTS?"),
        ("TENFOUR_XYLOPHONES_QUUX", "docs/settings.md lists all settings."),
    ],
)
def test_the_nearest_name_is_suggested(name: str, words: str) -> None:
    assert unknown_variables([name, "PATH", "TENFOUR_PORT"]) == [
        f"{name} is not a setting of Tenfour. {words}"
    ]


def test_a_check_of_django_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOUR_PROT", "1")
    found = [message for message in run_checks() if message.id == "tenfour.W001"]
    assert [message.msg for message in found] == [
        "TENFOUR_PROT is not a setting of Tenfour. Did you mean TENFOUR_PORT?"
    ]


def test_the_start_names_it() -> None:
    """A start that is refused for another reason has named the variable before."""
    done = subprocess.run(
        [sys.executable, "-m", "config.local.up"],
        cwd=PROJECT,
        env=environment({"TENFOUR_PROT": "1", "DATABASE_URL": "postgres://x"}),
        capture_output=True,
        text=True,
    )
    assert "Did you mean TENFOUR_PORT?" in done.stderr
    assert "Only DATABASE_URL is set" in done.stderr and done.returncode == 1
