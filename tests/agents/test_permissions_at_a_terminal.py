"""The real agents at a terminal: who answers first, the person there or the one in Tenfour."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tenfour import Client

from retries.models import PermissionRequest
from tests.agents.command_lines import Agent, ClaudeCode
from tests.agents.conftest import Connect
from tests.agents.network import Relay
from tests.agents.scripted_model import Request, Say, ScriptedModel, Step, Tool
from tests.agents.terminals import NO_TMUX, TMUX, Terminal
from tests.agents.test_permissions import connect_asking, find_open, operator, set_wait
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(TMUX is None, reason=NO_TMUX),
]
__all__ = ["operator"]

DIALOGS = {"claude": "Do you want to proceed?", "codex": "Would you like to run"}
BOTH = pytest.mark.parametrize("name", DIALOGS)


def touch(agent: Agent) -> Tool:
    """Return a call that the agent asks about."""
    if isinstance(agent, ClaudeCode):
        return agent.shell("touch made")
    escalated = {"sandbox_permissions": "require_escalated", "justification": "It is needed."}
    return Tool("exec_command", {"cmd": "touch made"} | escalated)


def note_result(step: Tool, seen: list[str]) -> Callable[[Request], Any]:
    def script(_: Request) -> Iterator[Step]:
        request = yield step  # type: ignore[misc]
        seen.append(request.newest)
        yield Say("All done.")

    return script


def state() -> str:
    return str(PermissionRequest.objects.get().state)


@BOTH
def test_an_answer_in_tenfour_reaches_the_terminal(
    name: str, connect: Connect, model: ScriptedModel, operator: Client, tmp_path: Path
) -> None:
    agent, seen = connect_asking(connect, name, way="hooks"), list[str]()
    model.play(note_result(touch(agent), seen))
    with Terminal(agent, "Go", tmp_path) as terminal:
        asked = wait_until(find_open, explain=terminal.screen)
        # Claude Code shows its own dialog meanwhile, Codex only afterwards.
        if name == "claude":
            terminal.wait_for(DIALOGS[name])
        else:
            assert DIALOGS[name] not in terminal.screen()
        assert not (agent.work / "made").exists()
        operator.escalations.resolve(str(asked.pk), action="allow")
        terminal.wait_for("All done.")
    assert (agent.work / "made").exists() and state() == "allowed"
    silent = {"claude": "terminal_waits", "codex": "terminal_asks"}
    assert PermissionRequest.objects.get().when_silent == silent[name]


@BOTH
def test_a_denial_in_tenfour_reaches_the_agent(
    name: str, connect: Connect, model: ScriptedModel, operator: Client, tmp_path: Path
) -> None:
    agent, seen = connect_asking(connect, name, way="hooks"), list[str]()
    model.play(note_result(touch(agent), seen))
    with Terminal(agent, "Go", tmp_path) as terminal:
        asked = wait_until(find_open, explain=terminal.screen)
        operator.escalations.resolve(str(asked.pk), action="deny", instruction="Not this one.")
        terminal.wait_for("All done.")
    assert "Not this one." in "".join(seen) and not (agent.work / "made").exists()


@pytest.mark.parametrize("key", ["Enter", "Escape"])
def test_the_person_at_claude_codes_terminal_may_be_first(
    key: str, connect: Connect, model: ScriptedModel, tmp_path: Path
) -> None:
    agent = connect_asking(connect, "claude", way="hooks")
    model.play(note_result(touch(agent), []))
    with Terminal(agent, "Go", tmp_path) as terminal:
        wait_until(find_open, explain=terminal.screen)
        terminal.wait_for(DIALOGS["claude"])
        terminal.press(key)
        wait_until(lambda: state() != "waiting", explain=terminal.screen)
    assert (agent.work / "made").exists() == (key == "Enter")
    assert state() == ("answered_there" if key == "Enter" else "withdrawn")


@BOTH
@pytest.mark.parametrize("why", ["silence", "outage"])
def test_without_an_answer_the_terminal_decides(
    name: str, why: str, connect: Connect, model: ScriptedModel, relay: Relay, tmp_path: Path
) -> None:
    agent = connect_asking(connect, name, way="hooks")
    set_wait(agent, 3)
    model.play(note_result(touch(agent), []))
    with Terminal(agent, "Go", tmp_path) as terminal:
        wait_until(find_open, explain=terminal.screen)
        if why == "outage":
            relay.break_off()
        terminal.wait_for(DIALOGS[name])
        assert not (agent.work / "made").exists()
        terminal.press("Enter")
        terminal.wait_for("All done.")
    assert (agent.work / "made").exists() and state() != "allowed"


def test_a_question_with_choices_is_answered_in_tenfour(
    connect: Connect, model: ScriptedModel, operator: Client, tmp_path: Path
) -> None:
    agent, seen = connect_asking(connect, "claude", way="hooks"), list[str]()
    options = [{"label": each, "description": each} for each in ("Postgres", "SQLite")]
    question = {"question": "Which one?", "header": "Database", "multiSelect": False}
    ask = Tool("AskUserQuestion", {"questions": [question | {"options": options}]})
    model.play(note_result(ask, seen))
    with Terminal(agent, "Go", tmp_path) as terminal:
        asked = wait_until(find_open, explain=terminal.screen)
        answer = {"Which one?": "SQLite"}
        operator.escalations.resolve(str(asked.pk), action="allow", response=answer)
        terminal.wait_for("All done.")
    assert '"Which one?"="SQLite"' in "".join(seen)
