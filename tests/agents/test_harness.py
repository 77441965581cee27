"""The harness itself: both agents run on loopback alone and do what the script says."""

import json
import os
import shlex
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.agents.command_lines import AGENTS, VERSIONS, Agent
from tests.agents.conftest import MakeAgent
from tests.agents.network import Network, Relay
from tests.agents.scripted_model import Request, Say, ScriptedModel, Step
from tests.agents.shapes import record, recorded, shape_of
from tests.docs.pages import ROOT
from tests.waiting import PATIENCE_S

SESSION = ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]
TOOLS = ["PreToolUse", "PostToolUse"]
FAILED = {"claude": "PostToolUseFailure", "codex": "PostToolUse"}
EVENTS = [*SESSION, *TOOLS, "PostToolUseFailure"]


def record_hooks(agent: Agent, log: Path) -> None:
    """Have the agent write each event that its hooks get as one line."""
    write = "python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)))'"
    command = f"{write} >> {shlex.quote(str(log))}"
    hook = {"type": "command", "command": command, "timeout": 10}
    hooks = {"hooks": {event: [{"hooks": [hook]}] for event in EVENTS}}
    agent.hooks_file.parent.mkdir(parents=True, exist_ok=True)
    agent.hooks_file.write_text(json.dumps(hooks))


@pytest.mark.parametrize("name", VERSIONS)
def test_an_agent_runs_what_the_script_decides_and_tells_its_hooks(
    name: str, make_cli: MakeAgent, model: ScriptedModel, tmp_path: Path
) -> None:
    agent, log = make_cli(name), tmp_path / "events"
    record_hooks(agent, log)

    def script(request: Request) -> Generator[Step, Request, None]:
        assert "Count the lines" in request.newest
        request = yield agent.shell("echo $((6 * 7)); exit 3")
        yield agent.write_file("src/answer.txt", f"{'42' in request.newest}\n")
        yield Say("Counted.")

    model.play(script)
    ended = agent.run("Count the lines")
    assert ended.code == 0, ended
    assert "Counted." in ended.out
    assert Path(agent.work, "src/answer.txt").read_text() == "True\n"

    events = [json.loads(line) for line in log.read_text().splitlines()]
    names = [event["hook_event_name"] for event in events]
    assert names == [*SESSION[:2], "PreToolUse", FAILED[agent.name], *TOOLS, *SESSION[2:]]
    assert {event["session_id"] for event in events} == {events[0]["session_id"]}
    assert {event["cwd"] for event in events} == {str(agent.work)}
    assert_tool_events(agent.name, events[3], events[5])
    if name in AGENTS:
        assert_shape(name, events)


def assert_shape(name: str, events: list[dict[str, Any]]) -> None:
    """Assert that the events have the recorded fields, or record them for who compares them."""
    lines = shape_of(events)
    if folder := os.environ.get("TENFOUR_AGENT_SHAPES"):
        record(name, lines, Path(folder))
    else:
        assert lines == recorded(name)


def test_the_docs_name_the_versions_that_are_tested() -> None:
    docs = (ROOT / "docs" / "hooks.md").read_text()
    for line in (Path(__file__).parent / "versions").read_text().splitlines():
        which, claude, codex = line.split()
        row = " | ".join([which, claude.rpartition("@")[2], codex.rpartition("@")[2]])
        assert f"| {row} |" in docs


def assert_tool_events(name: str, failed: dict[str, Any], written: dict[str, Any]) -> None:
    """Assert what the rules of `retries.agent_hooks` read: see docs/hooks.md."""
    assert failed["tool_name"] == "Bash"
    assert failed["tool_input"]["command"] == "echo $((6 * 7)); exit 3"
    if name == "claude":
        assert failed["error"] == "Exit code 3\n42"
        assert written["tool_name"] == "Write"
        assert written["tool_input"]["file_path"].endswith("/src/answer.txt")
    else:
        assert failed["tool_response"] == "42\n"
        assert written["tool_name"] == "apply_patch"
        assert "*** Add File: src/answer.txt\n" in written["tool_input"]["command"]


def test_a_session_is_continued_with_another_prompt(
    make_cli: MakeAgent, model: ScriptedModel
) -> None:
    for name in AGENTS:
        agent = make_cli(name)
        agent.run("Remember the number 4711")
        agent.run("And now?", resume=True)
        last = model.main_requests()[-1]
        assert "Remember the number 4711" in last.text, name
        assert "And now?" in last.newest, name


def test_the_relay_leads_to_tenfour_until_it_is_closed(network: Network, relay: Relay) -> None:
    def answers() -> bool:
        with urlopen(f"{relay.url}/healthz", timeout=PATIENCE_S) as response:
            return bool(response.status == 200)

    assert network.do(answers)
    relay.close()
    with pytest.raises(OSError):
        network.do(answers)
    relay.open()
    assert network.do(answers)


def test_nothing_leaves_the_network(network: Network) -> None:
    if not network.is_isolated:
        pytest.skip("This user may not make a network namespace.")

    def names() -> list[str]:
        return [name for _, name in socket.if_nameindex()]

    assert network.do(names) == ["lo"]
    with pytest.raises(OSError):
        network.do(socket.create_connection, ("192.0.2.1", 80), timeout=5)
