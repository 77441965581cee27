"""`tenfour mcp -- COMMAND`: what an MCP server asks a person is asked in Tenfour first."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from mcp import Client as McpClient
from mcp import StdioServerParameters, stdio_client
from mcp_types import ElicitResult
from tenfour import Client

from ledger.models import Agent
from retries.models import PermissionRequest
from tests.client.command import Ran
from tests.client.conftest import Run
from tests.client.test_permissions import answering
from tests.loops import run_coroutine
from tests.retries.permissions.asking import make_rule
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
        async with McpClient(stdio_client(relay), mode=mode, elicitation_callback=answer) as agent:
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


THREAD = {"method": "thread/started", "params": {"thread": {"id": "t1", "cwd": "/srv/app"}}}
CALL = {"threadId": "t1", "itemId": "i1", "command": "make deploy", "cwd": "/srv/app"}
COMMAND, CHANGE = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"


def ask(method: str, params: dict[str, Any], id: int = 7) -> dict[str, Any]:
    return {"id": id, "method": method, "params": params}


@pytest.fixture
def relay(env: dict[str, str], run: Run, tmp_path: Path) -> Callable[..., Ran]:
    """Run a program that prints these messages, with pauses where there is a number."""

    def relay(*messages: Any) -> Ran:
        texts = [json.dumps(each) if isinstance(each, dict) else each for each in messages]
        program = tmp_path / "program.py"
        program.write_text(
            f"import sys, time\nfor each in {texts!r}:\n"
            "    time.sleep(each) if isinstance(each, float) else print(each, flush=True)\n"
            "print('after', sys.stdin.read(), flush=True)\nsys.exit(3)\n"
        )
        return run("mcp", "--", sys.executable, str(program), env=env)

    return relay


def test_a_program_that_takes_its_question_back_withdraws_it(relay: Callable[..., Ran]) -> None:
    back = {"method": "serverRequest/resolved", "params": {"requestId": 7}}
    ran = relay(THREAD, ask(COMMAND, CALL), 3.0, back, 1.5)
    assert ran.status == 3
    assert ran.out.splitlines() == [json.dumps(THREAD), json.dumps(back), "after "]
    request = PermissionRequest.objects.get()
    assert request.state == "withdrawn"
    assert (request.title, request.folder, request.session) == ("make deploy", "/srv/app", "t1")


def test_only_what_people_can_judge_is_asked(relay: Callable[..., Ran]) -> None:
    """The rest passes on as it is, and so does what is malformed."""
    form = {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}
    update = {"path": "a.txt", "kind": {"type": "update"}}
    started = {"id": "i2", "type": "fileChange", "changes": [update]}
    lines: list[Any] = [
        ask(COMMAND, CALL),  # before its thread
        THREAD,
        ask(COMMAND, CALL | {"networkApprovalContext": {"host": "a"}}),
        ask(COMMAND, CALL | {"kind": "writeStdin"}),
        ask(COMMAND, CALL | {"command": None}),
        ask(CHANGE, {"threadId": "t1", "itemId": "unknown"}),
        {"method": "item/started", "params": {"item": started}},
        ask(CHANGE, {"threadId": "t1", "itemId": "i2"}),  # without its diff
        ask("elicitation/create", {"mode": "url", "message": "m", "url": "https://a.example"}),
        ask("mcpServer/elicitation/request", form | {"_meta": {"codex_approval_kind": "tool"}}),
        ask("sampling/createMessage", {}),
        {"id": 8, "method": [], "params": []},
        {"id": [], "method": "elicitation/create", "params": 3},
        "not json",
        "[1, 2]",
    ]
    ran = relay(*lines)
    shown = [json.dumps(each) if isinstance(each, dict) else each for each in lines]
    assert (ran.status, ran.out.splitlines()) == (3, [*shown, "after "])
    assert not PermissionRequest.objects.exists()


def test_no_rule_allows_a_command_in_another_folder(relay: Callable[..., Ran]) -> None:
    """In the thread's own folder, a rule answers; the words of a shell are read."""
    agent = Agent.objects.get(name="coder")
    make_rule(agent, "make deploy", now=timezone.now())
    wrapped = CALL | {"command": "/bin/bash -lc 'make deploy'"}
    elsewhere = CALL | {"cwd": "/tmp/other", "itemId": "i2"}
    relay(THREAD, ask(COMMAND, wrapped), ask(COMMAND, elsewhere, 8), 3.0)
    allowed = PermissionRequest.objects.get(state="allowed")
    assert allowed.title == "make deploy" and "workdir" not in allowed.input
    asked = PermissionRequest.objects.get(state="withdrawn")
    assert asked.input == {"command": ["make", "deploy"], "workdir": "/tmp/other"}


def test_equal_forms_are_two_questions_and_people_see_the_newest_changes(
    relay: Callable[..., Ran],
) -> None:
    form = {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}
    added = {"path": "a.txt", "kind": {"type": "add"}, "diff": "one\ntwo\n"}
    started = {"id": "i1", "type": "fileChange", "changes": []}
    changed = {"itemId": "i1", "changes": [added]}
    relay(
        THREAD,
        ask("elicitation/create", form),
        ask("elicitation/create", form, 8),
        {"method": "item/started", "params": {"item": started}},
        {"method": "item/fileChange/patchUpdated", "params": changed},
        ask(CHANGE, {"threadId": "t1", "itemId": "i1"}, 9),
        3.0,
    )
    tools = sorted(PermissionRequest.objects.values_list("tool", flat=True))
    assert tools == ["Elicitation", "Elicitation", "apply_patch"]
    patch = PermissionRequest.objects.get(tool="apply_patch").input["patch"]
    assert patch == "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** End Patch"


def test_a_command_that_is_not_there_is_named(env: dict[str, str], run: Run) -> None:
    ran = run("mcp", "--", "no-such-program", env=env)
    assert ran.status == 127 and "no-such-program: No such file" in ran.err
