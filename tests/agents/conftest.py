"""The real agents at a live server; without their programs these tests skip, loudly, or fail."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ledger.models import Instruction, Task
from tests.agents.command_lines import AGENTS, OLDER, Agent, find_binary
from tests.agents.network import Network, Relay
from tests.agents.scripted_model import ScriptedModel
from tests.serving import Tenfour
from tests.waiting import PATIENCE_S

MISSING = (
    "NO AGENTS: tests/agents needs the programs claude and codex (TENFOUR_CLAUDE, TENFOUR_CODEX or "
    "PATH, and TENFOUR_CLAUDE_OLDER, TENFOUR_CODEX_OLDER; see docs/hooks.md), and skips what it "
    "can't run."
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
    """`make_cli("claude")`, `make_cli("claude-older")`: an agent with an empty home and work folder."""

    def make(name: str) -> Agent:
        binary = require_binary(name)
        home, work = tmp_path / name / "home", tmp_path / name / "app"
        return AGENTS[name.removesuffix(OLDER)](binary, network, model, home, work)

    return make


Connect = Callable[..., Agent]

MAKEFILE = """\
test:
\t@test -f fixed || { echo "1 failed"; echo "FAIL test_parser: no file named fixed"; exit 1; }
\t@echo "1 passed"
check:
\t@echo checked
"""


@pytest.fixture
def connect(make_cli: MakeAgent, relay: Relay, tenfour_server: Tenfour) -> Connect:
    """`connect("claude")`: a coding agent that `tenfour init` connected as the agent `coder`.

    With `way`, the connection has only its hooks or only its MCP entry. The work folder has tests
    that fail until there is a file named `fixed`.
    """

    def connect(
        name: str,
        *,
        http: bool = False,
        transcripts: bool = False,
        permissions: bool = False,
        way: str = "both",
    ) -> Agent:
        cli = make_cli(name)
        (cli.work / "Makefile").write_text(MAKEFILE)
        token = {"TENFOUR_URL": relay.url, "TENFOUR_TOKEN": tenfour_server.token("agent", "coder")}
        is_codex = cli.name == "codex"
        # Codex reads a project's files only once the project is trusted.
        options = ["--home"] if is_codex else ["--http"] if http else []
        options += ["--transcripts"] if transcripts else []
        options += ["--permissions"] if permissions else []
        init = run_tenfour(cli, "init", "--agent", cli.name, "--yes", *options, env=token)
        assert init.returncode == 0, init.stderr
        if http or is_codex:
            # Hooks over HTTP and Codex's MCP client read the token from the agent's environment.
            cli.env["TENFOUR_TOKEN"] = token["TENFOUR_TOKEN"]
        if way == "hooks":
            cli.remove_mcp()
        elif way == "mcp":
            cli.hooks_file.unlink()
        return cli

    return connect


def run_tenfour(
    cli: Agent, *args: str, env: dict[str, str] | None = None, stdin: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Run the command `tenfour` where the agent runs, as its user would."""
    return cli.network.do(
        subprocess.run,
        ["tenfour", *args],
        cwd=cli.work,
        env=cli.environment() | (env or {}),
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_S,
    )


@pytest.fixture
def task_of(tenfour_server: Tenfour) -> Callable[[], Task]:
    return lambda: Task.objects.get(project=tenfour_server.project)


@pytest.fixture
def instruction_of(tenfour_server: Tenfour) -> Callable[[], Instruction]:
    return lambda: Instruction.objects.get(project=tenfour_server.project)
