"""The real agents, connected by the lines of the page in a fresh environment."""

import json
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from pytest_django import Settings

from ledger.models import Instruction, Token
from tests.agents.command_lines import Agent
from tests.agents.conftest import MakeAgent
from tests.agents.network import Relay
from tests.agents.scripted_model import Request, Say, ScriptedModel, Step
from tests.connect_page import ConnectPage, environment_of, make_venv
from tests.serving import Tenfour

pytestmark = pytest.mark.django_db(transaction=True)

Script = Generator[Step, Request, None]
FIRST = "Run `git status` and say in one line what you found."


@pytest.fixture
def page(relay: Relay, tenfour_server: Tenfour, settings: Settings) -> ConnectPage:
    return ConnectPage(relay.url, tenfour_server.project, settings)


@pytest.fixture
def run_lines(tmp_path: Path) -> Callable[[Agent, str], str]:
    """Run lines where an agent runs, in a new virtual environment.

    There is no package index in the agents' network: what the client needs is there already.
    """
    commands = make_venv(tmp_path / "venv")
    subprocess.run([commands / "pip", "install", "--quiet", "httpx2"], check=True)

    def run(agent: Agent, lines: str) -> str:
        (commands / agent.name).symlink_to(Path(agent.binary).resolve())
        subprocess.run(["git", "init", "--quiet", str(agent.work)], check=True)
        environ = agent.environment() | environment_of(commands, agent.home)
        agent.env["PATH"] = environ["PATH"]
        done = agent.network.do(
            subprocess.run,
            ["sh", "-ec", lines],
            cwd=agent.work,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return str(done.stdout)

    return run


def assert_acknowledged(hook: str | None) -> None:
    sent, token = Instruction.objects.get(), Token.objects.get()
    assert (sent.state, sent.deliveries) == ("acknowledged", 1)
    assert token.first_call is not None
    assert (token.first_hook or {}).get("what") == hook


def test_the_lines_of_claude_code(
    page: ConnectPage, make_cli: MakeAgent, model: ScriptedModel, run_lines: Callable[..., str]
) -> None:
    agent = make_cli("claude")

    def script(request: Request) -> Script:
        assert FIRST in request.newest
        yield agent.shell("git status")
        yield Say("A new repository.")

    model.play(script)
    assert "A new repository." in run_lines(agent, page.lines("claude"))
    assert_acknowledged("SessionStart")


def test_the_lines_of_codex(
    page: ConnectPage, make_cli: MakeAgent, model: ScriptedModel, run_lines: Callable[..., str]
) -> None:
    """A person trusts the hooks in the last line's window; here a flag says so."""
    agent = make_cli("codex")
    *lines, last = page.lines("codex").splitlines()
    assert last.startswith('codex "Follow your instructions."')

    def script(request: Request) -> Script:
        assert FIRST in request.newest
        yield agent.shell("git status")
        yield Say("A new repository.")

    model.play(script)
    run_lines(agent, "\n".join(lines))
    assert agent.run("Follow your instructions.").code == 0
    assert_acknowledged("SessionStart")


def test_the_lines_of_mcp(
    page: ConnectPage, make_cli: MakeAgent, model: ScriptedModel, run_lines: Callable[..., str]
) -> None:
    agent = make_cli("claude")

    def script(request: Request) -> Script:
        request = yield agent.call_mcp("get_instructions")
        assert FIRST in request.newest
        yield agent.shell("git status")
        yield agent.call_mcp("ack_instruction", note="clean")
        yield Say("Clean.")

    model.play(script)
    assert "Clean." in run_lines(agent, page.lines("mcp"))
    assert_acknowledged(None)


def test_the_hooks_over_http(
    page: ConnectPage, make_cli: MakeAgent, model: ScriptedModel, run_lines: Callable[..., str]
) -> None:
    """Nothing is installed: the file of the fold, and the token in the environment."""
    agent = make_cli("claude")
    hooks = json.loads(page.lines_of_any_length("http"))
    (agent.work / ".claude").mkdir()
    (agent.work / ".claude" / "settings.json").write_text(json.dumps(hooks))

    def script(request: Request) -> Script:
        assert FIRST in request.newest
        yield agent.shell("git status")
        yield Say("Clean.")

    model.play(script)
    _, export, *_, last = page.lines("claude").splitlines()
    run_lines(agent, f"{export}\n{last}")
    assert_acknowledged("UserPromptSubmit")


def test_the_prompt(
    page: ConnectPage, make_cli: MakeAgent, model: ScriptedModel, relay: Relay
) -> None:
    agent = make_cli("claude")
    prompt, id = page.lines("prompt"), Instruction.objects.get().pk

    def script(request: Request) -> Script:
        assert prompt in request.newest
        token = prompt.split("your token is ")[1].split(".\n")[0]
        call = f'curl -fsS -H "Authorization: Bearer {token}" {relay.url}/v1'
        request = yield agent.shell(f"{call}/guide")
        assert "How an agent works with Tenfour" in request.newest
        request = yield agent.shell(f"{call}/instructions/pull -X POST")
        assert "Run `git status`" in request.newest
        yield agent.shell(f"{call}/instructions/{id}/ack -X POST")
        yield Say("Clean.")

    model.play(script)
    assert agent.run(prompt).code == 0
    assert_acknowledged(None)
