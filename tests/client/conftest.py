"""The command as a process, and a faulty line to put in between."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.local.client_wheel import build_wheel
from tests.client.command import Ran, run_command
from tests.client.faulty import FaultyLine
from tests.client.model_server import ModelServer
from tests.client.shelves import Shelves
from tests.serving import Tenfour


@pytest.fixture
def line(tenfour_server: Tenfour) -> Iterator[FaultyLine]:
    with FaultyLine(tenfour_server.url) as line:
        yield line


@pytest.fixture
def shelves(tmp_path: Path) -> Shelves:
    return Shelves(tmp_path)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


Run = Callable[..., Ran]


@pytest.fixture
def run() -> Run:
    """Runs the command `tenfour` as a process of its own."""
    return run_command


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's wheel, as an instance serves it."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


NO_JQ = "NO JQ: the seed document's jq line was not run, because there is no jq on this machine."


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if any("test_export" in report.nodeid for report in skipped):
        terminalreporter.write_line(NO_JQ, red=True, bold=True)
    for report in skipped:
        if "test_interpreters" in report.nodeid:
            reason = report.longrepr[2].removeprefix("Skipped: ")
            terminalreporter.write_line(reason, red=True, bold=True)
