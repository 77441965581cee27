"""The benchmarks in short form, as `python -m bench --quick NAME` runs them.

A figure that misses its target is no failure: other work on the machine decides that. The suites
that are not here take minutes, or need programs or data that Tenfour does not include.
"""

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs import require_program
from tests.serving import ROOT
from tests.waiting import PATIENCE_S

# what a suite is allowed to take on a machine that does much else
LIMIT_S = 3 * PATIENCE_S
ROLLING_LIMIT_S = 6 * PATIENCE_S  # it waits for the start of a web server four times
# the number of figures of each suite that is cheap enough
FIGURES = {"client": 5, "retry_timing": 3, "deadletters": 3}
MISSED = 1  # the exit code if a figure missed its target


def run_bench(*arguments: str, limit: float) -> "subprocess.CompletedProcess[str]":
    """Run the command and return what it printed; after the limit it ends with its servers."""
    argv = [sys.executable, "-m", "bench", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            stdout, stderr = process.communicate(timeout=limit)
        except BaseException:
            process.terminate()
            raise
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def measure(
    name: str, folder: Path, limit: float = LIMIT_S
) -> "tuple[list[Any], subprocess.CompletedProcess[str]]":
    """Run one suite in short form; return its figures and what it printed."""
    file = folder / "figures.json"
    done = run_bench("--quick", "--json", str(file), name, limit=limit)
    if skipped := re.search(rf"^{name}: skipped\. (.+)$", done.stderr, re.M):
        pytest.skip(skipped[1])
    assert done.returncode in (0, MISSED) and file.exists(), done.stderr
    return json.loads(file.read_text())["figures"], done


@pytest.mark.timeout(LIMIT_S + PATIENCE_S)
@pytest.mark.parametrize("name", FIGURES)
def test_a_suite_ends_and_measures_every_figure(name: str, tmp_path: Path) -> None:
    figures, done = measure(name, tmp_path)
    assert len(figures) == FIGURES[name], figures
    rows = [row.split(" | ")[0].strip("| ") for row in done.stdout.splitlines()]
    for each in figures:
        assert each["name"] in rows, done.stdout
        assert each["rounds"] and all(math.isfinite(value) for value in each["rounds"]), each


@pytest.mark.timeout(ROLLING_LIMIT_S + PATIENCE_S)
def test_no_request_fails_while_every_process_is_restarted(tmp_path: Path) -> None:
    """With two of each process behind nginx and PgBouncer, in network namespaces if root runs it."""
    for program in ("nginx", "pgbouncer"):
        require_program(program)
    figures, done = measure("rolling", tmp_path, ROLLING_LIMIT_S)
    values = {each["name"].removeprefix("rolling restart: "): each["rounds"] for each in figures}
    said = done.stdout + done.stderr
    assert values["processes restarted"] == [6], said
    assert values["failed requests"] == values["lost or doubled"] == [0], said
    assert values["requests"][0] > 0
