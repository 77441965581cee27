"""Requests for leave through the hooks of Claude Code and Codex."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ledger.errors import Invalid
from ledger.journal import Stamp
from ledger.models import Agent, Token
from retries.agent_hooks import permissions
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation, PermissionRequest
from retries.states import Answer
from tests.conftest import Api
from tests.factories import make_agent
from tests.retries.escalations.test_answering import MARA, answer
from tests.retries.permissions.asking import escalation_of, make_rule
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db

Hook = Callable[..., dict[str, Any]]
WAITING = {"wait_s": 540, "when_silent": "terminal_waits", "said": "I run the tests now."}


@pytest.fixture
def hook(coder: Api) -> Hook:
    """Sends an event of the session `s-1`; `local` is what `tenfour hook` would add."""

    def hook(event: str = "PermissionRequest", line: str = "npm test", **more: Any) -> Any:
        local = more.pop("local", None)
        body = {
            "hook_event_name": event,
            "session_id": "s-1",
            "cwd": "/srv/web-shop",
            "tool_name": "Bash",
            "tool_input": {"command": line},
        }
        body |= more | ({"tenfour": local} if local else {})
        response = coder("POST", "/hooks/agent", body)
        assert response.status_code == 200, response.body
        return response.body

    return hook


def decision(body: dict[str, Any]) -> dict[str, Any]:
    found = body["hookSpecificOutput"]
    assert found["hookEventName"] == "PermissionRequest"
    return dict(found["decision"])


def ask(hook: Hook, **more: Any) -> dict[str, Any]:
    return hook(local={"folder": "/srv/web-shop", "permission": WAITING}, **more)


def ask_again(hook: Hook, asked: dict[str, Any]) -> dict[str, Any]:
    id = asked["tenfour"]["permission"]
    return hook(local={"folder": "/srv/web-shop", "permission": WAITING | {"id": id}})


@pytest.mark.parametrize(
    ("action", "text", "told"),
    [
        (Answer.ALLOW, "", {"behavior": "allow"}),
        (Answer.DENY, "Use make test.", {"behavior": "deny", "message": "Use make test."}),
        (Answer.DENY, "", {"behavior": "deny", "message": "mara denied this call."}),
    ],
)
def test_the_hook_asks_until_a_person_has_answered(
    hook: Hook, action: Answer, text: str, told: dict[str, Any]
) -> None:
    asked = ask(hook)
    assert asked["tenfour"]["poll_after_s"] == 1 and "hookSpecificOutput" not in asked
    request = PermissionRequest.objects.get()
    assert (request.folder, request.said) == ("/srv/web-shop", "I run the tests now.")
    assert ask_again(hook, asked)["tenfour"] == asked["tenfour"]
    answer(escalation_of(request), action, text, now=timezone.now())
    assert decision(ask_again(hook, asked)) == told
    request.refresh_from_db()
    assert request.taken_at is not None


def test_a_request_that_has_ended_is_answered_with_nothing(hook: Hook) -> None:
    asked = ask(hook)
    hook("PostToolUse", tool_response={"stdout": "ok"})
    assert PermissionRequest.objects.get().state == "answered_there"
    assert ask_again(hook, asked) == {}
    assert Escalation.objects.get().state == "withdrawn"


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionEnd"])
def test_a_session_that_goes_on_no_longer_asks(hook: Hook, event: str) -> None:
    ask(hook)
    hook(event)
    assert PermissionRequest.objects.get().state == "withdrawn"


def test_a_request_of_another_agent_is_answered_with_nothing(
    hook: Hook, api: Callable[..., Api]
) -> None:
    asked = ask(hook)
    answer(escalation_of(PermissionRequest.objects.get()), Answer.ALLOW, now=timezone.now())
    other = api("agent", agent=make_agent("other"))
    body = {
        "hook_event_name": "PermissionRequest",
        "session_id": "s-1",
        "tool_name": "Bash",
        "tenfour": {"permission": WAITING | {"id": asked["tenfour"]["permission"]}},
    }
    assert other("POST", "/hooks/agent", body).body == {}


def test_a_rule_answers_at_once(hook: Hook, agent: Agent) -> None:
    make_rule(agent, "npm test", now=timezone.now())
    make_rule(agent, "rm **", allows=False, message="Never delete.", now=timezone.now())
    assert decision(ask(hook)) == {"behavior": "allow"}
    assert decision(hook()) == {"behavior": "allow"}
    denied = {"behavior": "deny", "message": "Never delete."}
    assert decision(ask(hook, line="npm test; rm -rf build")) == denied
    assert "tenfour" in ask(hook, line="npm test `id`")
    assert not Escalation.objects.exclude(permission__title__contains="id").exists()


def test_a_rule_knows_the_project_s_folder_not_the_one_that_the_agent_went_to(
    hook: Hook, agent: Agent
) -> None:
    make_rule(agent, "cat **", now=timezone.now())
    assert decision(ask(hook, line="cat docs/a.md")) == {"behavior": "allow"}
    assert "tenfour" in ask(hook, line="cat passwd", cwd="/etc")
    assert "tenfour" in ask(hook, line="cat docs/a.md", cwd="/srv/web-shop/docs")


def test_claude_codes_own_hook_gets_no_decision_in_time(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permissions, "HTTP_WAIT", timedelta(seconds=1))
    assert hook() == {}
    assert PermissionRequest.objects.get().taken_at is None


def test_too_many_waiting_hooks_ask_no_one(hook: Hook) -> None:
    taken = [permissions.PLACES.acquire(blocking=False) for _ in range(2)]
    try:
        assert taken == [True, True]
        assert hook() == {}
    finally:
        for _ in taken:
            permissions.PLACES.release()
    assert PermissionRequest.objects.get().state == "withdrawn"
    assert Escalation.objects.get().state == "withdrawn"


@pytest.mark.django_db(transaction=True)
def test_claude_codes_own_hook_waits_for_a_person(
    hook: Hook, elsewhere: Callable[..., Any]
) -> None:
    told = elsewhere(hook)
    wait_until(lambda: Escalation.objects.open().exists())
    answer(escalation_of(PermissionRequest.objects.get()), Answer.ALLOW, now=timezone.now())
    assert decision(told.result(timeout=PATIENCE_S)) == {"behavior": "allow"}


def test_a_token_that_gets_no_tasks_asks_nothing(api: Callable[..., Api], agent: Agent) -> None:
    reporter = api("agent", agent=agent)
    Token.objects.update(scopes=["signals:write"])
    body = {
        "hook_event_name": "PermissionRequest",
        "session_id": "s-1",
        "tool_name": "Bash",
        "tenfour": {"permission": WAITING},
    }
    response = reporter("POST", "/hooks/agent", body)
    assert (response.status_code, response.body) == (200, {})


FORM = {
    "mcp_server_name": "deployer",
    "message": "Where to?",
    "mode": "form",
    "requested_schema": {
        "type": "object",
        "properties": {"place": {"type": "string", "enum": ["staging", "live"]}},
        "required": ["place"],
    },
}


def elicit(hook: Hook, local: Any = None, **more: Any) -> Any:
    return hook("Elicitation", tool_name="", tool_input=None, local=local, **FORM | more)


def test_the_form_of_an_mcp_server_is_answered(hook: Hook) -> None:
    asked = elicit(hook, {"permission": WAITING})
    again = {"permission": WAITING | {"id": asked["tenfour"]["permission"]}}
    request = PermissionRequest.objects.get()
    escalation = escalation_of(request)
    assert (request.tool, request.proposed) == ("Elicitation", None)
    assert escalation.question == "Where to?"
    assert elicit(hook, again)["tenfour"] == asked["tenfour"]
    with pytest.raises(Invalid):
        answer(escalation, Answer.ALLOW, now=timezone.now())
    answering.answer(
        escalation.pk,
        Choice(Answer.ALLOW, response={"place": "staging"}),
        among=Escalation.objects.all(),
        stamp=Stamp(MARA, timezone.now()),
        channel="page",
    )
    output = {"hookEventName": "Elicitation", "action": "accept", "content": {"place": "staging"}}
    assert elicit(hook, again)["hookSpecificOutput"] == output


def test_the_form_of_an_mcp_server_is_declined(hook: Hook) -> None:
    asked = elicit(hook, {"permission": WAITING})
    again = {"permission": WAITING | {"id": asked["tenfour"]["permission"]}}
    answer(escalation_of(PermissionRequest.objects.get()), Answer.DENY, now=timezone.now())
    output = {"hookEventName": "Elicitation", "action": "decline"}
    assert elicit(hook, again)["hookSpecificOutput"] == output


@pytest.mark.parametrize("schema", [None, "x", {"type": "array"}, {"type": "object", "oneOf": []}])
def test_a_form_that_no_page_can_show_is_left_to_the_agents_program(
    hook: Hook, schema: Any
) -> None:
    assert elicit(hook, {"permission": WAITING}, requested_schema=schema) == {}
    assert not PermissionRequest.objects.exists()


@pytest.mark.parametrize("tool", ["AskUserQuestion", "Elicitation"])
def test_no_rule_answers_a_question(agent: Agent, tool: str) -> None:
    with pytest.raises(Invalid, match="which no rule can answer"):
        make_rule(agent, "", tool=tool)
