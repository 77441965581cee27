"""Claude Code and Codex do whole tasks through the tools of `/mcp` alone, set up as docs/mcp.md says."""

import json
import re
import sys
from collections.abc import Callable, Generator, Iterator

import pytest

from ledger.models import Attempt, Instruction
from tests.agents.command_lines import Agent
from tests.agents.conftest import MakeAgent
from tests.agents.network import Relay
from tests.agents.scripted_model import Request, Say, ScriptedModel, Step
from tests.config.mcp.calls import Mcp
from tests.config.mcp.conftest import lead as lead
from tests.config.mcp.conftest import mcp as mcp
from tests.docs.pages import ROOT, blocks
from tests.serving import Tenfour
from tests.waiting import PATIENCE_S

PLAN = """---
phase: 03-ids
plan: 01
agent: coder
---
<task type="auto">
  <name>Refuse blank ids</name>
  <action>Write src/ids.py</action>
  <verify><automated>make test</automated></verify>
</task>
"""
MAKEFILE = (
    "test:\n\t@grep -q strip src/ids.py || { echo 'FAIL: a blank id is accepted'; exit 1; }\n"
)
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


MODERN = "2026-07-28"
# Each agent with the version that it speaks; Codex speaks the newest one with a feature of its own.
VERSIONS = [
    ("claude", MODERN),
    ("claude-older", "2025-11-25"),
    ("codex", "2025-06-18"),
    ("codex-older", "2025-06-18"),
    ("codex", MODERN),
]


@pytest.fixture(params=VERSIONS, ids="-".join)
def agent(
    request: pytest.FixtureRequest, make_cli: MakeAgent, relay: Relay, tenfour_server: Tenfour
) -> Iterator[Agent]:
    """An agent with Tenfour as its only MCP server, and a project with a failing check."""
    name, version = request.param
    agent = make_cli(name)
    snippets = {block.language: block.text for block in blocks(ROOT / "docs" / "mcp.md")}
    if agent.name == "claude":
        (agent.work / ".mcp.json").write_text(with_address(snippets["json"], relay))
    else:
        config = agent.home / ".codex" / "config.toml"
        features = "[features]\nmcp_2026_07_28 = true\n" if version == MODERN else ""
        more = with_address(snippets["toml"], relay) + features
        config.write_text(f"{config.read_text()}\n{more}")
    agent.env["TENFOUR_TOKEN"] = tenfour_server.token("agent", "coder")
    (agent.work / "Makefile").write_text(MAKEFILE)
    yield agent
    versions = re.findall(rb"^mcp-protocol-version: (\S+)", relay.sent, re.I | re.M)
    assert set(versions) == {version.encode()}


def with_address(snippet: str, relay: Relay) -> str:
    assert "http://127.0.0.1:8000" in snippet
    return snippet.replace("http://127.0.0.1:8000", relay.url)


def test_a_task_whose_first_try_fails(agent: Agent, model: ScriptedModel, lead: Mcp) -> None:
    """Proof 3: the verify command fails, the retry context comes with the reply, and it passes."""
    lead.done("import_plan", content=PLAN)
    lead.done("send_instruction", agent="coder", content="Read the style guide first.")

    def script(request: Request) -> Generator[Step, Request, None]:
        request = yield agent.call_mcp("get_instructions")
        assert "Read the style guide first." in request.newest
        request = yield agent.call_mcp("ack_instruction", note="read")
        assert "Acknowledged" in request.newest

        request = yield agent.call_mcp("claim_task")
        assert "Write src/ids.py" in request.newest and "make test" in request.newest
        attempt = newest_attempt(request)
        yield agent.write_file("src/ids.py", "id = text\n")
        request = yield agent.call_mcp("heartbeat", attempt=attempt, message="testing")
        assert "Continue" in request.newest
        request = yield agent.shell("make test")
        assert "a blank id is accepted" in request.newest
        request = yield agent.call_mcp(
            "report_result",
            attempt=attempt,
            status="success",
            summary="wrote src/ids.py",
            exit_code=2,
            output="FAIL: a blank id is accepted",
            suggested_fix="strip the text",
        )
        assert "<retry_context" in request.newest
        assert "a blank id is accepted" in request.newest
        second = newest_attempt(request)
        assert second != attempt
        request = yield agent.shell("echo 'id = text.strip()' > src/ids.py && make test && echo ok")
        assert "ok" in request.newest
        request = yield agent.call_mcp(
            "report_result", attempt=second, status="success", exit_code=0, output="ok"
        )
        assert "The task is done" in request.newest
        request = yield agent.call_mcp("claim_task")
        assert "There is no task" in request.newest
        yield Say("All tasks are done.")

    model.play(script)
    ended = agent.run("Work on your Tenfour tasks")
    assert ended.code == 0 and "All tasks are done." in ended.out, ended
    assert Instruction.objects.get().note == "read"
    first, second = Attempt.objects.order_by("number")
    assert (first.outcome, second.outcome) == ("failure", "success")
    assert first.failure.type == "verification_failed"
    assert first.failure.suggested_fix == "strip the text"
    assert first.failure.verification["output"] == "FAIL: a blank id is accepted"
    # What the second one was told.
    assert first.context_chars is None and second.context_chars
    assert first.heartbeats == 1


def test_a_question_and_its_answer(
    agent: Agent, model: ScriptedModel, lead: Mcp, mcp: Callable[..., Mcp]
) -> None:
    """The agent asks a person, reads the answer, and continues with it; it can't answer itself."""
    lead.done("import_plan", content=PLAN)
    person = mcp("operator")

    def script(request: Request) -> Generator[Step, Request, None]:
        request = yield agent.call_mcp("claim_task")
        request = yield agent.call_mcp(
            "ask_human",
            attempt=newest_attempt(request),
            question="May ids be blank?",
            options=["yes", "no"],
        )
        (id,) = re.findall(f"get_escalation with id ({ID.pattern})", request.newest)
        request = yield agent.call_mcp("get_escalation", id=id)
        assert "No answer yet" in request.newest
        answered = person.http.post(
            f"/v1/escalations/{id}/resolve",
            headers=person.headers,
            json={"text": "answer: no, never"},
        )
        assert answered.status_code == 200, answered.text
        request = yield agent.call_mcp("get_escalation", id=id)
        assert "no, never" in request.newest
        request = yield agent.call_mcp("claim_task")
        assert "no, never" in request.newest
        request = yield agent.call_mcp(
            "report_result", attempt=newest_attempt(request), status="success", exit_code=0
        )
        assert "The task is done" in request.newest
        yield Say("Done.")

    model.play(script)
    ended = agent.run("Work on your Tenfour tasks")
    assert ended.code == 0, ended
    assert list(Attempt.objects.order_by("number").values_list("outcome", flat=True)) == [
        "escalated",
        "success",
    ]
    tools = {tool["name"] for tool in model.main_requests()[0].body["tools"] if "name" in tool}
    assert not [name for name in tools if "resolve" in name or "answer" in name]


def newest_attempt(request: Request) -> str:
    """Return the attempt's id that the last tool named."""
    found = re.findall(rf"(?:report_result with attempt )({ID.pattern})", request.newest)
    assert found, request.newest
    return str(found[-1])


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_the_bridge_for_agents_that_start_a_program(
    name: str,
    make_cli: MakeAgent,
    relay: Relay,
    tenfour_server: Tenfour,
    model: ScriptedModel,
    lead: Mcp,
) -> None:
    """`tenfour mcp` on stdin and stdout, instead of the address."""
    agent = make_cli(name)
    access = {"TENFOUR_URL": relay.url, "TENFOUR_TOKEN": tenfour_server.token("agent", "coder")}
    server = {"command": sys.executable, "args": ["-m", "tenfour", "mcp"], "env": access}
    if name == "claude":
        (agent.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"tenfour": server}}))
    else:
        config = agent.home / ".codex" / "config.toml"
        lines = [f"{key} = {json.dumps(server[key])}" for key in ("command", "args")]
        env = [f"{key} = {json.dumps(value)}" for key, value in access.items()]
        lines += [
            f"startup_timeout_sec = {PATIENCE_S}",
            "required = true",
        ]  # else it begins without
        table = ["[mcp_servers.tenfour]", *lines, "[mcp_servers.tenfour.env]", *env]
        config.write_text("\n".join([config.read_text(), *table, ""]))
    lead.done("send_instruction", agent="coder", content="Read the style guide first.")

    def script(request: Request) -> Generator[Step, Request, None]:
        request = yield agent.call_mcp("get_instructions")
        assert "Read the style guide first." in request.newest
        yield agent.call_mcp("ack_instruction", note="read")
        yield Say("Read.")

    model.play(script)
    ended = agent.run("Follow your instructions")
    assert ended.code == 0 and "Read." in ended.out, ended
    assert Instruction.objects.get().note == "read"
