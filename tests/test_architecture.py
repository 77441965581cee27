"""The house holds: imports, one writer per rule, settings and names that are documented."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from config.celery import app
from retries import sweeps

ROOT = Path(settings.BASE_DIR)
PACKAGES = ("config", "dashboard", "retries", "ledger")


def sources() -> list[Path]:
    return [
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts
    ]


def names(pattern: str, *, flags: int = re.I) -> set[str]:
    """The files in which a pattern stands."""
    return {
        str(path.relative_to(ROOT))
        for path in sources()
        if re.search(pattern, path.read_text(), flags)
    }


def test_imports_point_one_way() -> None:
    tool = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_module_writes_events() -> None:
    assert names(r"insert into ledger_event") == {"ledger/journal.py"}
    assert not names(r"\bEvent\.objects\.(create|bulk_create|get_or_create)", flags=0)
    assert not names(r"\bEvent\((?!models\.Model)[a-z_]+=", flags=0)


def test_one_module_writes_states() -> None:
    assert names(r"set state =") == {"ledger/moves.py", "retries/failures/grouping.py"}
    assert names(r"(update|insert into) retries_(failurepattern|grouped)") == {
        "retries/failures/grouping.py"
    }
    # small machines whose one writer is the module of their verbs
    writers = {"retries/escalations/lifecycle.py"}
    assigned = set()
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(each, ast.Attribute) and each.attr == "state" for each in targets):
                assigned.add(path)
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("update", "create", "get_or_create", "update_or_create")
                and any(keyword.arg == "state" for keyword in node.keywords)
            ):
                assigned.add(path)
    assert {str(path.relative_to(ROOT)) for path in assigned} == writers


def test_one_module_writes_breakers() -> None:
    assert not names(r"(update|insert into) ledger_breaker") - {"retries/breaker.py"}
    assert not names(r"\bBreaker\.objects\.(create|bulk_create|get_or_create)", flags=0) - {
        "retries/breaker.py"
    }


def test_one_function_runs_sql() -> None:
    assert names(r"psycopg\.(Raw)?Cursor\b", flags=0) == {"ledger/sql.py"}


def test_every_clock_entry_has_a_sweep_and_a_job() -> None:
    import retries.jobs  # noqa: F401 - registers the job

    assert set(app.conf.beat_schedule) <= set(sweeps.ENTRIES)
    assert {entry["task"] for entry in app.conf.beat_schedule.values()} <= set(app.tasks)


def test_settings_and_their_page_are_equal() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    documented = set(re.findall(r"`((?:TENFOUR_|DATABASE_|REDIS_)[A-Z_]+)`", text))
    code = "\n".join(path.read_text() for path in sources())
    reading = r"(?:environ(?:\.get)?[(\[]|flag\(|secret\(|env\.list\()\s*\"([A-Z_]+)\""
    read = {
        name for name in re.findall(reading, code) if name.startswith(("TENFOUR", "DATAB", "REDIS"))
    }
    numbers = set(re.findall(r'number\(\s*"([A-Z_]+)"', code))
    known = {name.removesuffix("_FILE") for name in read} | {f"TENFOUR_{name}" for name in numbers}
    # what `make up` tells its own children
    internal = {"TENFOUR_LOCAL_URL", "TENFOUR_GATE", "TENFOUR_BIND"}
    assert {name.removesuffix("_FILE") for name in documented} == known - internal
    for name, value in re.findall(r"`TENFOUR_([A-Z_]+)` \| ([0-9]+) \|", text):
        if name in settings.TENFOUR:
            assert settings.TENFOUR[name] == int(value), name


@pytest.mark.parametrize("pattern", [r"localhost:\d{4}/simple", r"pypi\.", r"registry\.npm"])
def test_nothing_names_a_package_registry(pattern: str) -> None:
    done = subprocess.run(
        ["git", "grep", "-nIE", pattern, "--", ":!tests/test_architecture.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == ""
