"""Permission requests in the inbox: the list, the page of one, and the answers."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from ledger.authorization.roles import Role
from ledger.models import Agent, Membership, Session
from retries.models import Escalation, PermissionRequest, PermissionRule
from retries.permissions import requests
from retries.permissions.calls import ToolCall
from retries.states import EscalationState, PermissionState, WhenSilent
from tests.dashboard.escalations.test_escalations import html, lines, words
from tests.dashboard.worked import enqueued
from tests.factories import make_agent
from tests.retries.permissions.asking import FOLDER, ask, escalation_of

URL = "/escalations/"
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOSTILE = "<script>document.title='owned'</script>"
Part = Callable[..., HttpResponse]


def address(request: PermissionRequest, action: str = "") -> str:
    return f"{URL}{escalation_of(request).pk}/{action}"


def answer(browser: Client, request: PermissionRequest, action: str, **more: Any) -> HttpResponse:
    escalation = escalation_of(request)
    posted = {"action": action, "version": escalation.version, "fix": "", **more}
    return browser.post(address(request, "answer/"), posted)


def test_a_request_stands_in_the_inbox_with_its_time(
    browser: Client, agent: Agent, now: datetime
) -> None:
    ask(agent, "npm test", now=now - 10 * SECOND, wait=220 * SECOND)
    ask(agent, "git push\nrm -rf x", now=now - 5 * SECOND)
    said = words(browser.get(URL))
    assert "Ends by itself · 2" in said
    assert "May I? 2" in said
    assert "npm test" in said
    assert "1 more line" in said
    assert 'data-countdown="210"' in html(browser.get(URL)) or 'data-countdown="209"' in html(
        browser.get(URL)
    )
    assert len(lines(browser.get(f"{URL}?q=reason:may-i"))) == 2


def test_equal_calls_are_a_group_and_others_are_not(
    browser: Client, agent: Agent, now: datetime
) -> None:
    for number in range(3):
        ask(agent, "npm test", now=now, session=f"s-{number}")
    # the same first line is not the same call
    ask(agent, "npm test\nrm -rf /", now=now)
    ask(make_agent("tester"), "npm test", now=now)
    said = words(browser.get(URL))
    assert "Decide all 3…" in said
    assert "May I? 2 m" not in said
    assert "Decide all 5…" not in said


def test_the_page_shows_the_call(browser: Client, agent: Agent, now: datetime) -> None:
    task = enqueued(agent, "Fix tax rounding", now=now)
    session = Session.objects.create(
        project=agent.project,
        agent=agent,
        external_id="s-1",
        title="Tax rounding",
        tracker="todo",
        last_message_at=now,
        created_at=now,
        updated_at=now,
    )
    found = ask(
        agent,
        "sudo rm -rf /var/x && npm ci",
        now=now,
        said="All tests pass, so I clean up.",
        task_id=task,
    )
    text, said = html(browser.get(address(found))), words(browser.get(address(found)))
    assert "coder wants to run sudo rm -rf /var/x && npm ci" in said
    assert "left, then the terminal asks instead" in said
    assert '<mark class="risk risk--red">' in text
    assert "Runs with an administrator's rights." in said
    assert FOLDER in said
    assert f"/sessions/{session.pk}/" in text
    assert f"/tasks/{task}/" in text
    assert "All tests pass, so I clean up." in said
    assert "Asked 1 time" in said


@pytest.mark.parametrize(
    ("silent", "said"),
    [
        (WhenSilent.TERMINAL_WAITS, "the terminal alone decides"),
        (WhenSilent.TERMINAL_ASKS, "the terminal asks instead"),
        (WhenSilent.REFUSES, "the agent’s program refuses the call"),
    ],
)
def test_the_page_says_what_silence_means(
    browser: Client, agent: Agent, now: datetime, silent: WhenSilent, said: str
) -> None:
    found = ask(agent, now=now, when_silent=silent)
    assert said in words(browser.get(address(found)))
    requests.end(
        found.pk,
        PermissionState.EXPIRED,
        among=PermissionRequest.objects.all(),
        stamp=requests.Stamp(requests.rules.CLOCK, now),
    )
    assert "The time ran out" in words(browser.get(address(found)))


CALLS = [
    ToolCall(
        "Edit",
        {"file_path": f"{FOLDER}/a.py", "old_string": "a = 1", "new_string": "a = 2"},
        FOLDER,
    ),
    ToolCall("Write", {"file_path": f"{FOLDER}/a.py", "content": HOSTILE}, FOLDER),
    ToolCall(
        "MultiEdit",
        {"file_path": "a.py", "edits": [{"old_string": "x", "new_string": HOSTILE}, 7]},
        FOLDER,
    ),
    ToolCall(
        "apply_patch",
        {"input": f"*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+{HOSTILE}\n*** End Patch"},
        FOLDER,
    ),
    ToolCall("WebFetch", {"url": f"https://x.example/{HOSTILE}"}, FOLDER),
    ToolCall("mcp__mail__send", {"to": HOSTILE, "n": 1, "more": {"a": [HOSTILE]}}, FOLDER),
    ToolCall("ExitPlanMode", {"plan": f"# Plan\n{HOSTILE}"}, FOLDER),
    ToolCall(HOSTILE[:60], {HOSTILE: HOSTILE}, HOSTILE),
    ToolCall("Bash", {"command": f"echo '{HOSTILE}' \u202e\u200b; ls"}, FOLDER),
    ToolCall("Bash", {"command": 7}, FOLDER),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.tool[:12])
def test_a_hostile_call_is_text(
    browser: Client, agent: Agent, now: datetime, call: ToolCall
) -> None:
    found = ask(agent, call, now=now, said=HOSTILE)
    for url in (URL, address(found)):
        response = browser.get(url)
        assert response.status_code == 200
        assert HOSTILE not in response.content.decode()
    assert "\u202e" not in browser.get(address(found)).content.decode()


def test_a_change_is_shown_as_a_difference(browser: Client, agent: Agent, now: datetime) -> None:
    text = html(browser.get(address(ask(agent, CALLS[0], now=now))))
    assert '<span class="pdel" data-s="−">a = 1</span>' in text
    assert '<span class="padd" data-s="+">a = 2</span>' in text


def test_allow_once_and_undo(browser: Client, agent: Agent, now: datetime) -> None:
    found = ask(agent, now=now)
    answer(browser, found, "allow")
    found.refresh_from_db()
    assert found.state == PermissionState.ALLOWED
    said = words(browser.get(address(found)))
    assert "mara allowed this call once" in said
    assert "has not taken the answer yet" in said
    back = browser.post(address(found, "undo/"))
    assert "Answer undone. The escalation is open again." in words(back)
    found.refresh_from_db()
    assert found.state == PermissionState.WAITING


def test_an_answer_that_was_taken_is_final(browser: Client, agent: Agent, now: datetime) -> None:
    found = ask(agent, now=now)
    answer(browser, found, "allow")
    requests.poll(found.pk, among=PermissionRequest.objects.all(), now=now + SECOND)
    text = html(browser.get(address(found)))
    assert "coder has the answer." in text
    assert "undo/" not in text
    response = browser.post(address(found, "undo/"))
    assert "Too late to undo: the agent already has the answer." in words(response, 409)


def test_deny_with_a_message(browser: Client, agent: Agent, now: datetime) -> None:
    found = ask(agent, now=now)
    answer(browser, found, "deny", fix="Use uv.")
    found.refresh_from_db()
    assert found.state == PermissionState.DENIED
    assert "mara denied this call" in words(browser.get(address(found)))
    assert escalation_of(found).fix == "Use uv."


def test_one_that_the_terminal_answered(browser: Client, agent: Agent, now: datetime) -> None:
    found = ask(agent, now=now)
    requests.end(
        found.pk,
        PermissionState.ANSWERED_THERE,
        among=PermissionRequest.objects.all(),
        stamp=requests.Stamp(requests.rules.CLOCK, now),
    )
    said = words(browser.get(address(found)))
    assert "Answered at the terminal" in said
    response = browser.post(address(found, "answer/"), {"action": "allow", "version": 1})
    assert "Withdrawn" in words(response, 409)
    assert "A person at the terminal" in words(browser.get(f"{URL}?state=answered"))


def test_questions_with_choices_are_answered(browser: Client, agent: Agent, now: datetime) -> None:
    options = [{"label": "Postgres"}, {"label": "MySQL"}]
    call = ToolCall(
        "AskUserQuestion", {"questions": [{"question": "Which one?", "options": options}]}, FOLDER
    )
    found = ask(agent, call, now=now)
    text = html(browser.get(address(found)))
    assert '<option value="Postgres">' in text
    assert "Send answers" in text
    assert "No rule answers a question." in text
    assert answer(browser, found, "allow", **{"response.Which one?": "SQLite"}).status_code == 422
    answer(browser, found, "allow", **{"response.Which one?": "MySQL"})
    assert escalation_of(found).response == {"Which one?": "MySQL"}


def test_viewers_read(client: Client, agent: Agent, now: datetime) -> None:
    member = User.objects.create_user("jo")
    Membership.objects.create(user=member, project=agent.project, role=Role.VIEWER, added_by="mara")
    client.force_login(member)
    found = ask(agent, now=now)
    text = html(client.get(address(found)))
    assert "The call" in text
    assert 'value="allow"' not in text
    assert 'id="thumb"' not in text


def test_two_hundred_open_ones_take_few_statements(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    for number in range(200):
        ask(agent, f"npm test {number % 150}", now=now, session=f"s-{number}")
    first = Escalation.objects.order_by("id").first()
    assert first
    for url in (URL, f"{URL}{first.pk}/"):
        browser.get(url)
        assert statements(browser, url) <= 15
        assert len(browser.get(url).content) < 400_000


def test_allow_and_remember(browser: Client, agent: Agent, mara: User, now: datetime) -> None:
    ask(agent, "npm test", now=now - MINUTE, session="s-0")
    found = ask(agent, "npm test", now=now)
    escalation = escalation_of(found)
    form = f"/settings/permissions/new/?escalation={escalation.pk}"
    assert form in html(browser.get(address(found)))
    text = html(browser.get(form))
    assert 'value="npm test"' in text
    assert "it would have allowed 2" in words(browser.get(form))
    posted = {
        "escalation": escalation.pk,
        "tool": "Bash",
        "matcher": "npm test",
        "verdict": "allow",
        "in": agent.project.name,
        "save": "yes",
    }
    assert 'value="deny"' not in text
    refused = browser.post(form, posted)
    assert "look at what the rule would have decided" in words(refused, 422)
    assert not PermissionRule.objects.exists()
    saved = browser.post(form, posted | {"tried": "Bash\nnpm test\nallow\n"})
    assert saved.status_code == 302
    assert PermissionRule.objects.get().matcher == "npm test"
    assert escalation_of(found).state == EscalationState.RESOLVED
    again = ask(agent, "npm test", now=now, session="s-9")
    assert again.state == PermissionState.ALLOWED
