"""The command as a process, and a faulty line to put in between."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.client.faulty import FaultyLine
from tests.serving import Tenfour, environment


@pytest.fixture
def line(tenfour_server: Tenfour) -> Iterator[FaultyLine]:
    with FaultyLine(tenfour_server.url) as line:
        yield line


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run() -> Run:
    """Runs the command `tenfour` as a process of its own."""

    def run(*args: str, stdin: str = "", env: dict[str, str] | None = None) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "tenfour", *args],
            input=stdin.encode(),
            capture_output=True,
            timeout=30,
            env=environment(env or {}),
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


NO_JQ = "NO JQ: the seed document's jq line was not run, because there is no jq on this machine."


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if any("test_export" in report.nodeid for report in skipped):
        terminalreporter.write_line(NO_JQ, red=True, bold=True)
