"""The real agents ask people about a call: what they do with an answer, and without one."""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tenfour import Client

from ledger.models import Event
from retries.models import Escalation, PermissionRequest, PermissionRule
from tests.agents.command_lines import Agent, ClaudeCode
from tests.agents.conftest import Connect
from tests.agents.network import Relay
from tests.agents.scripted_model import Request, Say, ScriptedModel, Step, steps
from tests.serving import Tenfour
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operator(tenfour_server: Tenfour) -> Iterator[Client]:
    with tenfour_server.client("operator") as client:
        yield client


def connect_asking(connect: Connect, name: str = "claude", **more: Any) -> Agent:
    """Connect an agent that asks about each call of its shell."""
    agent = connect(name, permissions=True, **more)
    if isinstance(agent, ClaudeCode):
        agent.allowed_tools = "mcp__tenfour"
    return agent


def set_wait(agent: Agent, seconds: int) -> None:
    text = agent.hooks_file.read_text()
    assert "--wait 590" in text
    agent.hooks_file.write_text(text.replace("--wait 590", f"--wait {seconds}"))


def find_open() -> Escalation | None:
    return Escalation.objects.filter(state="open").first()


def when_asked(act: Callable[[Escalation], object]) -> Callable[[], None]:
    """Do something once people are asked, in a thread of its own; return how to wait for it."""
    failures: list[BaseException] = []

    def wait_and_act() -> None:
        from django.db import connection

        try:
            found = wait_until(find_open)
            assert found
            act(found)
        except BaseException as failure:
            failures.append(failure)
        finally:
            connection.close()

    thread = threading.Thread(target=wait_and_act)
    thread.start()

    def join() -> None:
        thread.join()
        assert not failures, failures

    return join


def call_once(agent: Agent, command: str, seen: list[str]) -> Callable[[Request], Any]:
    """Return the script that makes a call, and notes what the agent reads about it."""

    def script(_: Request) -> Iterator[Step]:
        request = yield agent.shell(command)  # type: ignore[misc]
        seen.append(request.newest)
        yield Say("Done.")

    return script


# ---- headless


@pytest.mark.parametrize(("name", "http"), [("claude", False), ("claude", True)])
def test_an_allowed_call_runs(
    name: str, http: bool, connect: Connect, model: ScriptedModel, operator: Client
) -> None:
    agent = connect_asking(connect, name, http=http)
    model.play(call_once(agent, "touch made", []))
    join = when_asked(lambda asked: operator.escalations.resolve(str(asked.pk), action="allow"))
    assert agent.run("Go").code == 0
    join()
    assert (agent.work / "made").exists()
    request = PermissionRequest.objects.get()
    assert (request.state, request.tool, request.folder) == ("allowed", "Bash", str(agent.work))
    assert request.input["command"] == "touch made" and request.taken_at
    assert request.when_silent == ("program_decides" if http else "refuses")


def test_a_denied_call_tells_the_agent_why(
    connect: Connect, model: ScriptedModel, operator: Client
) -> None:
    agent, seen = connect_asking(connect), list[str]()
    model.play(call_once(agent, "touch made", seen))
    deny = {"action": "deny", "instruction": "Write it yourself."}
    join = when_asked(lambda asked: operator.escalations.resolve(str(asked.pk), **deny))  # type: ignore[arg-type]
    assert agent.run("Go").code == 0
    join()
    assert "Write it yourself." in seen[0] and not (agent.work / "made").exists()
    assert PermissionRequest.objects.get().state == "denied"


def test_without_an_answer_the_agents_own_program_decides(
    connect: Connect, model: ScriptedModel
) -> None:
    agent, seen = connect_asking(connect), list[str]()
    set_wait(agent, 2)
    model.play(call_once(agent, "touch made", seen))
    ended = agent.run("Go")
    assert ended.code == 0 and not (agent.work / "made").exists()
    assert json.loads(ended.out)["permission_denials"][0]["tool_input"]["command"] == "touch made"
    assert "approval" in seen[0]
    # The end of the session has withdrawn it.
    assert PermissionRequest.objects.get().state == "withdrawn"


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_stopped_server_allows_nothing(
    when: str, connect: Connect, model: ScriptedModel, relay: Relay
) -> None:
    agent, seen = connect_asking(connect), list[str]()
    set_wait(agent, 4)

    def script(_: Request) -> Iterator[Step]:
        if when == "before":
            relay.close()
        request = yield agent.shell("touch made")  # type: ignore[misc]
        seen.append(request.newest)
        yield Say("Done.")

    model.play(script)  # type: ignore[arg-type]
    join = when_asked(lambda _: relay.break_off()) if when == "meanwhile" else lambda: None
    assert agent.run("Go").code == 0
    join()
    assert "approval" in seen[0] and not (agent.work / "made").exists()
    assert PermissionRequest.objects.count() == (when == "meanwhile")


def test_a_rule_lets_its_command_through_and_no_other(
    connect: Connect, model: ScriptedModel, operator: Client
) -> None:
    agent, seen = connect_asking(connect), list[str]()
    rule = make_rule(operator, "make check")
    smuggled = "make check; touch stolen"

    def script(_: Request) -> Iterator[Step]:
        request = yield agent.shell("make check")  # type: ignore[misc]
        seen.append(request.newest)
        request = yield agent.shell(smuggled)
        seen.append(request.newest)
        yield Say("Done.")

    model.play(script)  # type: ignore[arg-type]
    deny = {"action": "deny", "instruction": "One command at a time."}
    join = when_asked(lambda asked: operator.escalations.resolve(str(asked.pk), **deny))  # type: ignore[arg-type]
    assert agent.run("Go").code == 0
    join()
    assert "checked" in seen[0] and "One command at a time." in seen[1]
    assert not (agent.work / "stolen").exists()
    by_rule, by_person = PermissionRequest.objects.order_by("id")
    assert (by_rule.state, [str(id) for id in by_rule.rule_ids]) == ("allowed", [rule])
    assert (by_person.state, by_person.input["command"]) == ("denied", smuggled)
    assert not by_rule.escalation_set.exists() and PermissionRule.objects.get().hits == 1
    used = Event.objects.get(kind="permission.allowed")
    assert (used.subject_id, used.data["rules"]) == (by_rule.pk, [rule])


def make_rule(operator: Client, matcher: str) -> str:
    from tenfour.api.calls import json_object
    from tenfour.http.core import Call

    body = {"tool": "Bash", "matcher": matcher}
    call = Call("POST", "/v1/permission-rules", json_object, body)
    return str(operator.perform(call)["id"])


def test_codex_exec_never_asks(connect: Connect, model: ScriptedModel) -> None:
    agent = connect_asking(connect, "codex")
    model.play(steps(agent.shell("touch made"), Say("Done.")))
    assert agent.run("Go").code == 0
    assert (agent.work / "made").exists() and not PermissionRequest.objects.exists()
