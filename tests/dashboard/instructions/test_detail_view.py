"""The page of one instruction."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dashboard.frame import live_updates
from ledger import instructions, signal_matching
from ledger.instructions import Expect
from ledger.journal import Actor, Stamp
from ledger.models import Agent, ClockRun, Instruction
from ledger.tokens import TrustedCaller
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.states import Answer
from tests.dashboard.conftest import PART
from tests.factories import NOW, make_project, pull, send, tick

MINUTE = timedelta(minutes=1)


def words(response: HttpResponse) -> str:
    assert response.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", unescape(response.content.decode())))


@pytest.fixture
def show(browser: Client) -> Callable[[UUID], str]:
    return lambda id: words(browser.get(f"/instructions/{id}/"))


@pytest.fixture
def me(agent: Agent) -> TrustedCaller:
    return TrustedCaller(Actor("token", "1", "coder"), agent=agent)


def ignored(agent: Agent, id: UUID, *, now: datetime, ticks: int) -> None:
    """Deliver an instruction and ignore it for some ticks, up to now."""
    start = now - ticks * MINUTE
    pull(agent, now=start)
    for number in range(1, ticks + 1):
        tick(start + number * MINUTE)
        pull(agent, now=start + number * MINUTE)


def test_history_shows_every_urgency(
    show: Callable[[UUID], str], agent: Agent, now: datetime
) -> None:
    id = send(agent, "Look here", now=now - 5 * MINUTE)
    ignored(agent, id, now=now, ticks=4)
    text = show(id)
    story = [
        "Sent by tenfour",
        "Delivered to coder",
        "Queued again as a plain reminder",
        "Delivered to coder again, as a plain reminder",
        "Queued again as IMPORTANT",
        "Delivered to coder again, as IMPORTANT",
        "Queued again as URGENT",
        "Delivered to coder again, as URGENT",
        "Not acknowledged after 3 retries. Tenfour gave up",
    ]
    places = [text.index(step) for step in story]
    assert places == sorted(places)
    assert "coder never acknowledged it." in text
    assert "coder received last **URGENT:** Look here" in text
    assert "Retries 3 of 3" in text


def test_next_step(show: Callable[[UUID], str], agent: Agent, now: datetime) -> None:
    id = send(agent, now=now)
    assert "coder will receive" in show(id)
    assert "Delivered when coder checks in: next in its queue" in show(id)
    pull(agent, now=now)
    assert "Queued again as a plain reminder unless acknowledged, not until the clock runs" in show(
        id
    )
    ClockRun.objects.create(name="idle_check", last_run_at=now)
    assert re.search(r"in \d\d s|in 1 m", show(id))
    Instruction.objects.update(max_retries=0)
    assert "Tenfour gives up unless acknowledged" in show(id)
    send(agent, now=now)
    assert "not until its queue is empty" in show(id)


def test_signal_data(
    show: Callable[[UUID], str], agent: Agent, me: TrustedCaller, now: datetime
) -> None:
    id = send(agent, expect=Expect("fs_command", {"command": "openspec"}), now=now)
    pull(agent, now=now)
    assert "or for the signal fs_command" in show(id)
    signal_matching.signal("fs_command", {"command": "openspec", "found": True}, caller=me, now=now)
    text = show(id)
    assert "Acknowledged by coder’s signal fs_command" in text
    assert '"found": true' in text


def test_outcome_and_note(
    show: Callable[[UUID], str], agent: Agent, me: TrustedCaller, now: datetime
) -> None:
    id = send(agent, now=now)
    pull(agent, now=now)
    instructions.acknowledge([id], caller=me, outcome="declined", note="Not & my job", now=now)
    text = show(id)
    assert "coder declined it." in text
    assert "Declined by coder" in text and "Not & my job" in text


def test_late_acknowledgment_and_cancellation(
    show: Callable[[UUID], str], agent: Agent, me: TrustedCaller, now: datetime
) -> None:
    id = send(agent, now=now)
    mara = Actor("user", "1", "mara")
    instructions.cancel([id], project_id=agent.project_id, stamp=Stamp(mara, now))
    assert "Cancelled by mara" in show(id)
    instructions.acknowledge([id], caller=me, now=now)
    assert "Acknowledged too late by coder, which changes nothing" in show(id)


def test_link_to_the_escalation(
    browser: Client, show: Callable[[UUID], str], agent: Agent, now: datetime
) -> None:
    id = send(agent, "Mend it", max_retries=0, on_failed="escalate", now=now - 13 * MINUTE)
    assert "its-escalation" not in browser.get(f"/instructions/{id}/").content.decode()
    pull(agent, now=now - 13 * MINUTE)
    tick(now - 12 * MINUTE)
    question = Escalation.objects.get()
    assert "Waiting for an answer for 12 m Answer" in show(id)
    answering.answer(
        question.pk,
        Choice(Answer.FIX, fix="Mend only the door"),
        among=Escalation.objects.all(),
        stamp=Stamp(Actor("user", "77", "jonas"), now),
        channel="api",
    )
    assert re.search(r"jonas sent a new message. Queued. [0-9:]+ Open esc", show(id))
    page = browser.get(f"/instructions/{id}/").content.decode()
    assert f'href="/escalations/{question.pk}/"' in page
    make_project("other")
    page = browser.get(f"/instructions/{id}/", {"project": "default"}).content.decode()
    assert f'href="/escalations/{question.pk}/?project=default"' in page


@pytest.mark.django_db(transaction=True)
def test_poll_returns_an_answer(browser: Client, agent: Agent, now: datetime) -> None:
    id = send(agent, max_retries=0, on_failed="escalate", now=now - MINUTE)
    pull(agent, now=now - MINUTE)
    tick(now)
    url = f"/instructions/{id}/"
    found = re.search(r'data-since="([^"]+)"', browser.get(url).content.decode())
    assert found
    every = Escalation.objects.all()
    mara = Actor("user", "1", "mara")
    choice = Choice(Answer.SKIP)
    answering.answer(every[0].pk, choice, among=every, stamp=Stamp(mara, now), channel="page")
    live = browser.get(url, {"since": found[1]}, headers=PART)
    assert live.status_code == 200 and "left it as is." in words(live)


def test_plain_instruction(show: Callable[[UUID], str], agent: Agent) -> None:
    id = send(agent, tracked=False)
    pull(agent)
    text = show(id)
    assert "It is delivered once and not tracked." in text
    assert "no answer expected" in text and "Retries" not in text


def test_unknown_instruction(browser: Client) -> None:
    id = uuid4()
    response = browser.get(f"/instructions/{id}/")
    assert response.status_code == 404
    assert f"There is no instruction {id}." in response.content.decode()
    assert browser.get("/instructions/x/").status_code == 404


def test_poll(browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]) -> None:
    url = f"/instructions/{send(agent)}/"
    found = re.search(r'data-since="([^"]+)"', browser.get(url).content.decode())
    assert found
    assert browser.get(url, {"since": found[1]}, headers=PART).status_code == 204
    pull(agent, now=now)
    live = browser.get(url, {"since": found[1]}, headers=PART)
    assert live.status_code == 200 and "Delivered to coder" in live.content.decode()
    assert statements(browser, url) <= 15


def test_live_key_of_one_row_reads_that_row_only(agent: Agent) -> None:
    id = send(agent, "Deploy")
    with CaptureQueriesContext(connection) as seen:
        live_updates.read_live_key(now=NOW, row=id)
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")  # the table is so small
        cursor.execute(f"explain {seen[-1]['sql']}")
        plan = [line for (line,) in cursor.fetchall()]
    assert any("Index Cond: (id = '" in line for line in plan), plan
