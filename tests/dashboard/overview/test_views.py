"""The page of Overview: escalations, figures, agents and events."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from ledger import instructions
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event
from retries import breaker
from retries.models import Escalation
from tests.dashboard.conftest import PART
from tests.dashboard.seen import Part, html, key, words
from tests.factories import as_name, make_agent, make_project, pull, send, tick

URL = "/"


def send_ignored(agent: Agent, text: str, *, at: datetime) -> Escalation:
    """Send an instruction that is given up and escalated."""
    id = send(agent, text, now=at, max_retries=0, on_failed="escalate")
    pull(agent, now=at)
    tick(at + timedelta(minutes=1))
    return Escalation.objects.get(instruction_id=id)


def send_acknowledged(agent: Agent, *, at: datetime, after: float = 2, reminders: int = 0) -> UUID:
    id = send(agent, now=at)
    pull(agent, now=at)
    for number in range(reminders):
        at += timedelta(minutes=number + 1)
        tick(at)
        pull(agent, now=at)
    instructions.acknowledge_instruction(id, now=at + timedelta(seconds=after))
    return id


def backdate_ids() -> None:
    """Give the instructions ids that start with the time they were sent."""
    with connection.cursor() as cursor:
        cursor.execute("update ledger_instruction set id = uuidv7(queued_at - clock_timestamp())")


def test_open_escalations_come_first_oldest_first(
    browser: Client, agent: Agent, now: datetime
) -> None:
    asked = [
        send_ignored(agent, f"Ignored {number}", at=now - timedelta(minutes=100 - 20 * number))
        for number in range(4)
    ]
    response = browser.get(URL)
    text, page = words(response), html(response)
    assert (
        "4 instructions need an answer The oldest has waited 1 h 39 m All 4 Answer the oldest"
        in text
    )
    shown = [text.index(f"Ignored {number} coder ignored it 1 time") for number in range(3)]
    assert shown == sorted(shown)
    assert "Ignored 3 coder ignored" not in text  # the list has it
    assert f'href="/escalations/{asked[0].pk}/" >Answer the oldest' in page
    assert "<title>4 need an answer · Overview · Tenfour</title>" in page
    assert page.count('class="due due--red"') == 2  # those that waited for more than an hour


def test_one_open_escalation(browser: Client, agent: Agent, now: datetime) -> None:
    send_ignored(agent, "Ignored", at=now - timedelta(minutes=5))
    page = html(browser.get(URL))
    assert "1 instruction needs an answer" in page
    assert "<title>1 needs an answer · Overview · Tenfour</title>" in page


def test_no_open_escalation(browser: Client, agent: Agent, now: datetime) -> None:
    send_acknowledged(agent, at=now - timedelta(minutes=5))
    response = browser.get(URL)
    assert "Nothing needs your attention" in words(response) and "Answer the oldest" not in html(
        response
    )
    assert "<title>Overview · Tenfour</title>" in html(response)


def test_silent_agents_are_listed(browser: Client, project: object, now: datetime) -> None:
    for number in range(5):
        silent = make_agent(f"deaf-{number}")
        Agent.objects.filter(pk=silent.pk).update(last_seen_at=now - timedelta(hours=9 - number))
        send(silent, now=now - timedelta(hours=1))
    response = browser.get(URL)
    assert "deaf-0 has not checked in for 9 h; 1 waiting" in words(response)
    assert "2 more silent agents" in words(response) and '/agents/?show=silent"' in html(response)


def test_tripped_agents_are_listed_first(browser: Client, agent: Agent, now: datetime) -> None:
    for number in range(5):
        tripped = make_agent(f"broken-{number}")
        breaker.trip([tripped], reason="", stamp=Stamp(SYSTEM, now - timedelta(minutes=9 - number)))
    send_acknowledged(agent, at=now - timedelta(minutes=5))
    Agent.objects.update(last_seen_at=now)
    response = browser.get(URL)
    text = words(response)
    assert "broken-4 : breaker open broken-3" in text
    assert "2 more tripped agents" in text and '/agents/?show=tripped"' in html(response)
    assert re.findall(r"(broken-\d|coder) Breaker open|coder In touch", text)[:3] == [
        "broken-4",
        "broken-3",
        "broken-2",
    ]
    assert text.index("broken-2 Breaker open") < text.index("coder In touch")
    assert "5 breakers not closed Sessions" in text  # the sidebar


def test_the_five_tiles(browser: Client, agent: Agent, now: datetime) -> None:
    for hours in (30, 31):
        send_acknowledged(agent, at=now - timedelta(hours=hours))
    backdate_ids()
    for minutes in range(40, 46):
        send_acknowledged(agent, at=now - timedelta(minutes=minutes), after=4)
    send_acknowledged(agent, at=now - timedelta(minutes=20), reminders=2)
    send_ignored(agent, "Ignored", at=now - timedelta(minutes=10))
    send(agent, "Wait", now=now)
    text = words(browser.get(URL))
    assert "Instructions sent 9 up 7 1 still waiting" in text
    assert "Acknowledged 77.8 % down 22.2 pt of 9 sent" in text
    assert re.search(r"Time to acknowledge, p95 \d m \d\d s up .* median 4.0 s", text)
    assert "Retries per instruction 0.22 up 0.22 11.1% needed a retry" in text
    assert "Given up 1 up 1 11.1% of all" in text
    assert "First delivery 6 After a reminder 1 Gave up 1 Waiting 1" in text


def test_agents_at_a_glance_start_with_silent_ones(
    browser: Client, agent: Agent, now: datetime
) -> None:
    for number in range(12):
        other = make_agent(f"agent-{number:02}")
        for _ in range(number):
            send_acknowledged(other, at=now - timedelta(minutes=30))
    send(agent, now=now - timedelta(hours=1))  # nobody asks for it
    page = html(browser.get(URL))
    rows = re.findall(r'<tr id="glance-.*?<bdi class="trunc">(.*?)</bdi>', page)
    assert rows == ["coder", *(f"agent-{number:02}" for number in range(11, 4, -1))]


def test_the_feed_shows_the_last_16_events(browser: Client, agent: Agent, now: datetime) -> None:
    for _ in range(12):
        send_acknowledged(agent, at=now - timedelta(minutes=5))
    page = html(browser.get(URL))
    assert page.count('<li id="feed-') == 16
    assert "<bdi>coder</bdi></b> <bdi>acknowledged</bdi>" in page


def test_overview_before_the_first_instruction(
    browser: Client, project: object, now: datetime
) -> None:
    text = words(browser.get(URL))
    assert "No instructions yet" in text and "Instructions sent" not in text
    assert "Nothing needs your attention" in text


def test_overview_after_a_day_without_instructions(
    browser: Client, agent: Agent, now: datetime
) -> None:
    send_acknowledged(agent, at=now - timedelta(days=3))
    text = words(browser.get(URL))
    assert "Instructions sent 0 none waiting" in text
    assert "Acknowledged – of 0 sent" in text
    assert "No instructions sent in the last 24 h" in text


def test_overview_of_one_project(browser: Client, agent: Agent, now: datetime) -> None:
    other = make_agent("elsewhere", project=make_project("other"))
    asked = send_ignored(other, "Ignored", at=now - timedelta(minutes=5))
    send_acknowledged(agent, at=now - timedelta(minutes=5))
    whole, own = words(browser.get(URL)), words(browser.get(URL, {"project": "default"}))
    assert (
        "1 instruction needs an answer" in whole
        and "ignored it 1 time · sent by tenfour · other" in whole
    )
    assert "Nothing needs your attention" in own and "Instructions sent 1 " in own
    page = html(browser.get(URL, {"project": "other"}))
    assert f'/escalations/{asked.pk}/?project=other"' in page
    assert '/instructions/?project=other&q=state%3Afailed"' in page
    assert browser.get(URL, {"project": "nowhere"}).status_code == 404


def test_page_part_and_poll(browser: Client, part: Part, agent: Agent, now: datetime) -> None:
    page = browser.get(URL)
    assert html(page).startswith("<!doctype html>")
    live = html(part(URL))
    assert "<html" not in live and '<div id="overview"' in live and live.count("hx-swap-oob") == 2
    assert part(URL, since=key(page)).status_code == 204
    send_ignored(agent, "Ignored", at=now - timedelta(minutes=3))
    fresh = part(URL, since=key(page))
    assert "<title>1 needs an answer · Overview · Tenfour</title>" in html(fresh)


def test_the_number_of_rows_adds_no_statements(
    browser: Client, statements: Callable[..., int], agent: Agent, now: datetime
) -> None:
    def more(count: int) -> None:
        for _ in range(count):
            number = Event.objects.count()
            other = make_agent(f"agent {number}")
            send_ignored(other, f"Ignored {number}", at=now - timedelta(minutes=9))
            send(other, now=now - timedelta(hours=1))

    more(2)
    few = statements(browser, URL)
    more(12)
    assert statements(browser, URL) == few <= 15
    since = key(browser.get(URL))
    assert statements(browser, URL, {"since": since}, headers=PART) <= 5


def test_only_operators_see_overview_and_reading_writes_nothing(
    browser: Client, agent: Agent, now: datetime
) -> None:
    send_ignored(agent, "Ignored", at=now - timedelta(minutes=5))
    before = Event.objects.count()
    browser.get(URL)
    assert browser.post(URL).status_code == 405
    assert Event.objects.count() == before
    stranger = Client()
    assert stranger.get(URL)["Location"] == "/sign-in/?next=/"
    assert stranger.get(URL, headers=PART).status_code == 401
    stranger.force_login(User.objects.create_user("visitor"))
    assert stranger.get(URL)["Location"] == "/sign-in/?next=/"


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "w" * 8192, "\u202etxt.exe \u05d0\u200f"]
)
def test_hostile_text_is_escaped(
    browser: Client, now: datetime, project: object, text: str
) -> None:
    send_ignored(make_agent(as_name(text)), text, at=now - timedelta(minutes=5))
    response = browser.get(URL)
    assert "<script>alert" not in response.content.decode()
    assert len(response.content) < 60_000
