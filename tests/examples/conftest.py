"""The examples as processes of their own, with the real langgraph in a virtual environment."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tenfour import Client

from tests.serving import ROOT, Tenfour

# It runs in the environment that has langgraph.
collect_ignore = ["langgraph_stories.py"]

UV = ROOT / ".venv" / "bin" / "uv"
LANGGRAPH = "langgraph==1.2.*"
MISSING = (
    f"NO LANGGRAPH: {LANGGRAPH} could not be installed, so tenfour.langgraph was not tried with "
    "the real package."
)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if any("tests/examples" in report.nodeid for report in skipped):
        terminalreporter.write_line(MISSING, red=True, bold=True)


@pytest.fixture(scope="session")
def langgraph_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a virtual environment with langgraph.

    Not a dependency of the tests: it would add 38 packages to their lock.
    """
    folder = tmp_path_factory.mktemp("langgraph")
    python = folder / "bin" / "python"
    env = os.environ | {"UV_CACHE_DIR": str(ROOT / ".venv" / ".cache"), "UV_SYSTEM_CERTS": "1"}
    for words in (
        ["venv", "--quiet", "--python", sys.executable, str(folder)],
        ["pip", "install", "--quiet", "--python", str(python), LANGGRAPH, "httpx2>=2.14"],
    ):
        done = subprocess.run([UV, *words], env=env, capture_output=True, text=True)
        if done.returncode:
            if os.environ.get("TENFOUR_REQUIRE_LANGGRAPH") == "1":
                pytest.fail(f"{MISSING}\n{done.stderr}", pytrace=False)
            pytest.skip(MISSING)
    return python


@pytest.fixture
def operator(tenfour_server: Tenfour) -> Iterator[Client]:
    with tenfour_server.client("operator") as client:
        yield client
