"""`tenfour mcp -- COMMAND`: what an MCP server asks a person is asked in Tenfour first."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as Agent
from mcp import StdioServerParameters, stdio_client
from mcp_types import ElicitResult
from tenfour import Client

from retries.models import PermissionRequest
from tests.client.conftest import Run
from tests.client.test_permissions import answering
from tests.loops import run_coroutine
from tests.serving import Tenfour, environment

pytestmark = pytest.mark.django_db(transaction=True)

SERVER = Path(__file__).with_name("form_server.py")
MODES = [("2025-11-25", "legacy"), ("2026-07-28", "2026-07-28")]
FORM = {"region": "eu-1", "copies": 2}


@pytest.fixture
def operator(tenfour_server: Tenfour) -> Iterator[Client]:
    with tenfour_server.client("operator") as client:
        yield client


@pytest.fixture
def env(producer: Client, tenfour_server: Tenfour) -> dict[str, str]:
    producer.tasks.enqueue("coder", "code", register=True)
    return {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
    }


def deploy(env: dict[str, str], mode: Any, *, wait_s: int = 60) -> tuple[str, list[str]]:
    """Call the server's tool through the relay; return its text and what the agent was asked."""
    relay = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tenfour", "mcp", "--wait", str(wait_s), "--", sys.executable, str(SERVER)],
        env=environment(env),
    )
    asked: list[str] = []

    async def answer(_: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"region": "local"})

    async def work() -> str:
        async with Agent(stdio_client(relay), mode=mode, elicitation_callback=answer) as agent:
            return str((await agent.call_tool("deploy", {})).content[0].text)  # type: ignore[union-attr]

    return run_coroutine(work()), asked


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_a_persons_answer_reaches_the_server(
    env: dict[str, str], operator: Client, version: str, mode: Any
) -> None:
    join = answering(operator, action="allow", response=FORM)
    assert deploy(env, mode) == ("deployed 2 to eu-1", [])
    join()
    request = PermissionRequest.objects.get()
    assert (request.tool, request.state) == ("Elicitation", "allowed") and request.taken_at
    assert request.input["message"] == "Where to?" and request.asked_by == "deploys"
    assert request.input["mcp_server_name"] == "deploys" and request.when_silent == "terminal_asks"


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_a_denial_declines_the_form(
    env: dict[str, str], operator: Client, version: str, mode: Any
) -> None:
    join = answering(operator, action="deny", instruction="Not today.")
    assert deploy(env, mode) == ("not deployed: decline", [])
    join()


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_without_an_answer_the_agents_program_asks(
    env: dict[str, str], version: str, mode: Any
) -> None:
    assert deploy(env, mode, wait_s=1) == ("deployed 1 to local", ["Where to?"])
    assert PermissionRequest.objects.get().state == "withdrawn"
    away = env | {"TENFOUR_URL": "http://127.0.0.1:1"}
    assert deploy(away, mode, wait_s=2) == ("deployed 1 to local", ["Where to?"])


def test_a_program_that_takes_its_question_back_withdraws_it(
    env: dict[str, str], run: Run, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ran = run("mcp", "--", sys.executable, str(program), stdin="hello\n", env=env)
    assert (ran.status, ran.out.splitlines()) == (3, ["hello", CANCEL])
    assert PermissionRequest.objects.get().state == "withdrawn"


CANCEL = json.dumps({"method": "serverRequest/resolved", "params": {"requestId": 7}})
# asks about a command, waits until people are asked, and answers itself
PROGRAM = f"""
import os, sys, time
print(sys.stdin.readline(), end="", flush=True)
params = '{{"threadId": "t1", "itemId": "i1", "command": "make deploy", "cwd": "/srv/app"}}'
print('{{"id": 7, "method": "item/commandExecution/requestApproval", "params": ' + params + '}}', flush=True)
time.sleep(3)
print('{CANCEL}', flush=True)
time.sleep(1.5)
sys.exit(3)
"""


def test_only_what_people_can_judge_is_asked(env: dict[str, str], run: Run, tmp_path: Path) -> None:
    """A grant beside a command, a change that is not known, and an address are passed on."""
    command = {"threadId": "t", "itemId": "i", "command": "make", "cwd": "/srv"}
    lines = [
        ask(
            "item/commandExecution/requestApproval",
            command | {"networkApprovalContext": {"host": "a"}},
        ),
        ask("item/commandExecution/requestApproval", command | {"kind": "writeStdin"}),
        ask("item/fileChange/requestApproval", {"itemId": "unknown"}),
        ask("elicitation/create", {"mode": "url", "message": "m", "url": "https://a.example"}),
        ask("sampling/createMessage", {}),
        "not json",
    ]
    program = tmp_path / "program.py"
    program.write_text(f"print({chr(10).join(lines)!r})")
    ran = run("mcp", "--", sys.executable, str(program), env=env)
    assert (ran.status, ran.out.splitlines()) == (0, lines)
    assert not PermissionRequest.objects.exists()


def ask(method: str, params: dict[str, Any]) -> str:
    return json.dumps({"id": 1, "method": method, "params": params})


def test_a_command_that_is_not_there_is_named(env: dict[str, str], run: Run) -> None:
    ran = run("mcp", "--", "no-such-program", env=env)
    assert ran.status == 127 and "no-such-program: No such file" in ran.err
