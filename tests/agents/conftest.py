"""The real agents at a live server; without their programs these tests skip, loudly, or fail."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.agents.command_lines import AGENTS, Agent, find_binary
from tests.agents.network import Network, Relay
from tests.agents.scripted_model import ScriptedModel
from tests.serving import Tenfour

MISSING = (
    "NO AGENTS: tests/agents needs the programs claude and codex (TENFOUR_CLAUDE, TENFOUR_CODEX or "
    "PATH; see docs/hooks.md), and skips what it can't run."
)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if any("tests/agents" in report.nodeid for report in skipped):
        terminalreporter.write_line(MISSING, red=True, bold=True)


def require_binary(name: str) -> str:
    """Return the agent's program; skip the test without it, or fail where it must be there."""
    binary = find_binary(name)
    if binary is None:
        if os.environ.get("TENFOUR_REQUIRE_AGENTS") == "1":
            pytest.fail(MISSING, pytrace=False)
        pytest.skip(MISSING)
    return binary


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def model(network: Network) -> Iterator[ScriptedModel]:
    model = ScriptedModel(network.listen())
    yield model
    model.close()


@pytest.fixture
def relay(network: Network, tenfour_server: Tenfour) -> Iterator[Relay]:
    """The way from the agents' network to Tenfour; while it is closed, Tenfour is down."""
    port = urlsplit(tenfour_server.url).port
    assert port
    relay = Relay(network, port)
    yield relay
    relay.close()


MakeAgent = Callable[[str], Agent]


@pytest.fixture
def make_cli(network: Network, model: ScriptedModel, tmp_path: Path) -> MakeAgent:
    """`make_cli("claude")`: a coding agent with an empty home and work folder."""

    def make(name: str) -> Agent:
        binary = require_binary(name)
        home, work = tmp_path / name / "home", tmp_path / name / "app"
        return AGENTS[name](binary, network, model, home, work)

    return make
