"""Forms of MCP servers, and what Codex's app server asks, are answered in Tenfour."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tenfour import Client

from retries.models import PermissionRequest
from tests.agents.command_lines import Agent, Codex
from tests.agents.conftest import Connect
from tests.agents.network import end_session
from tests.agents.scripted_model import Request, Say, ScriptedModel, Step, Tool, steps
from tests.agents.test_permissions import operator as operator
from tests.agents.test_permissions import when_asked
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)

SERVER = [sys.executable, str(Path(__file__).parents[1] / "client" / "form_server.py")]
RELAYED = ["tenfour", "mcp", "--", *SERVER]
FORM = {"region": "eu-1", "copies": 2}


def add_server(agent: Agent, command: list[str]) -> None:
    """Add an MCP server that asks a person where to deploy to."""
    program, *args = command
    if agent.name == "claude":
        agent.allowed_tools = "mcp__deploys"  # type: ignore[attr-defined]
        file = agent.work / ".mcp.json"
        servers = json.loads(file.read_text())["mcpServers"]
        servers["deploys"] = {"type": "stdio", "command": program, "args": args}
        file.write_text(json.dumps({"mcpServers": servers}))
    else:
        file = agent.home / ".codex" / "config.toml"
        fields = f"command = {json.dumps(program)}\nargs = {json.dumps(args)}\n"
        # Otherwise, it begins before the server has started.
        fields += f"startup_timeout_sec = {PATIENCE_S}\nrequired = true\n"
        file.write_text(f"{file.read_text()}\n[mcp_servers.deploys]\n{fields}")


def deploy(agent: Agent) -> Tool:
    if agent.name == "claude":
        return Tool("mcp__deploys__deploy", {})
    return Tool("deploy", {}, namespace="mcp__deploys")


@pytest.mark.parametrize(
    ("name", "asks_by"),
    [("claude", "hook"), ("claude", "relay"), ("codex", "relay")],
    ids=["claude-hook", "claude-relay", "codex-relay"],
)
def test_a_persons_answer_reaches_an_mcp_server(
    name: str, asks_by: str, connect: Connect, model: ScriptedModel, operator: Client
) -> None:
    agent, seen = connect(name, permissions=asks_by == "hook"), list[str]()
    add_server(agent, SERVER if asks_by == "hook" else RELAYED)

    def script(_: Request) -> Iterator[Step]:
        request = yield deploy(agent)  # type: ignore[misc]
        seen.append(request.newest)
        yield Say("Done.")

    model.play(script)
    allow: dict[str, Any] = {"action": "allow", "response": FORM}
    join = when_asked(lambda asked: operator.escalations.resolve(str(asked.pk), **allow))
    ended = agent.run("Go")
    assert ended.code == 0, ended.err
    join()
    assert "deployed 2 to eu-1" in seen[0]
    request = PermissionRequest.objects.get()
    assert (request.tool, request.state) == ("Elicitation", "allowed") and request.taken_at


class AppServer:
    """Codex's app server behind `tenfour mcp`, as an editor talks to it."""

    def __init__(self, agent: Codex, *options: str) -> None:
        self.process = agent.network.start(
            ["tenfour", "mcp", *options, "--", agent.binary, "app-server"],
            cwd=agent.work,
            env=agent.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.work = agent.work
        self.asked: list[str] = []
        self.id = 0

    def write(self, **message: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line
        return dict(json.loads(line))

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        end_session(self.process, signal.SIGKILL)
        self.process.wait()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.id += 1
        self.write(id=self.id, method=method, params=params)
        while (message := self.read()).get("id") != self.id or "method" in message:
            pass
        return dict(message["result"])

    def run(self, prompt: str) -> None:
        """Give it a prompt in a new thread; decline what it asks the editor."""
        self.call("initialize", clientInfo={"name": "editor", "version": "1"})
        self.write(method="initialized")
        started = self.call(
            "thread/start", cwd=str(self.work), approvalPolicy="on-request", sandbox="read-only"
        )
        text = {"type": "text", "text": prompt}
        self.call("turn/start", threadId=started["thread"]["id"], input=[text])
        while (message := self.read()).get("method") != "turn/completed":
            if "id" in message and "method" in message:
                self.asked.append(message["method"])
                self.write(id=message["id"], result={"decision": "decline"})


@pytest.fixture
def codex(connect: Connect) -> Codex:
    agent = connect("codex")
    assert isinstance(agent, Codex)
    return agent


@pytest.fixture
def app_server(codex: Codex) -> Iterator[AppServer]:
    with closing(AppServer(codex)) as server:
        yield server


def escalated(agent: Codex, command: str) -> Tool:
    given = {
        "cmd": command,
        "sandbox_permissions": "require_escalated",
        "justification": "It must.",
    }
    return Tool("exec_command", given)


@pytest.mark.parametrize("action", ["allow", "deny"])
def test_a_person_decides_about_a_command_of_the_app_server(
    action: str, codex: Codex, app_server: AppServer, model: ScriptedModel, operator: Client
) -> None:
    model.play(steps(escalated(codex, "touch made"), Say("Done.")))
    join = when_asked(lambda asked: operator.escalations.resolve(str(asked.pk), action=action))
    app_server.run("Go")
    join()
    assert (codex.work / "made").exists() == (action == "allow")
    assert app_server.asked == []
    request = PermissionRequest.objects.get()
    assert (request.tool, request.folder) == ("Bash", str(codex.work)) and request.taken_at
    assert (request.title, request.asked_by) == ("touch made", "codex")


def test_a_person_sees_the_changes_that_the_app_server_asks_about(
    codex: Codex, app_server: AppServer, model: ScriptedModel, operator: Client
) -> None:
    model.play(steps(codex.write_file("notes.txt", "first\n*** second"), Say("Done.")))
    join = when_asked(lambda asked: operator.escalations.resolve(str(asked.pk), action="allow"))
    app_server.run("Go")
    join()
    assert (codex.work / "notes.txt").read_text().startswith("first\n*** second")
    request = PermissionRequest.objects.get()
    assert request.tool == "apply_patch" and "+first\n+*** second" in request.input["patch"]


def test_without_an_answer_the_editor_is_asked(codex: Codex, model: ScriptedModel) -> None:
    model.play(steps(escalated(codex, "touch made"), Say("Done.")))
    with closing(AppServer(codex, "--wait", "1")) as server:
        server.run("Go")
    assert server.asked == ["item/commandExecution/requestApproval"]
    assert not (codex.work / "made").exists()
    assert PermissionRequest.objects.get().state == "withdrawn"
