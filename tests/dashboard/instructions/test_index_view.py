"""The list of instructions with the day's figures."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import Client

from dashboard.frame import live_updates
from dashboard.frame.live_updates import split_key
from ledger import instructions
from ledger.database import optional_cache
from ledger.journal import Actor, Stamp
from ledger.models import Agent, ClockRun, Instruction
from ledger.states import InstructionState
from ledger.tokens import TrustedCaller
from tests.dashboard import seen
from tests.dashboard.conftest import PART
from tests.dashboard.seen import Part, html, key, words
from tests.dashboard.worked import enqueued
from tests.factories import as_name, make_agent, make_instruction, make_project, pull, send, tick

rows = partial(seen.rows, of="ins")
URL = "/instructions/"


@pytest.fixture(autouse=True)
def _clock_runs(project: object, now: datetime) -> None:
    ClockRun.objects.update_or_create(name="idle_check", defaults={"last_run_at": now})


# ---- page and part


def test_page_has_a_frame_and_part_has_none(browser: Client, part: Part) -> None:
    page, live = html(browser.get(URL)), html(part(URL))
    assert page.startswith("<!doctype html>") and 'id="instructions"' in page
    assert "<html" not in live and '<div id="instructions"' in live
    assert live.count("hx-swap-oob") == 2  # the counts of sidebar and tab bar
    assert "<title>Instructions · Tenfour</title>" in live


def test_restored_or_boosted_page_is_complete(browser: Client) -> None:
    for header in ("HX-Boosted", "HX-History-Restore-Request"):
        assert "<html" in html(browser.get(URL, headers={**PART, header: "true"}))


def test_every_response_varies_by_hx_request(browser: Client, part: Part) -> None:
    unchanged = part(URL, since=key(browser.get(URL)))
    for response in (browser.get(URL), part(URL), unchanged):
        assert "HX-Request" in response["Vary"]


# ---- polling


def test_poll_answers_204_until_something_changes(
    browser: Client, part: Part, agent: Agent
) -> None:
    since = key(browser.get(URL))
    response = part(URL, since=since)
    assert (response.status_code, response.content) == (204, b"")
    id = send(agent)
    response = part(URL, since=since)
    assert rows(response) == [str(id)]
    assert part(URL, since=key(response)).status_code == 204


def test_page_is_never_204(browser: Client) -> None:
    since = key(browser.get(URL))
    assert browser.get(URL, {"since": since}).status_code == 200


def test_poll_returns_a_change_of_a_row(part: Part, agent: Agent, now: datetime) -> None:
    """Also while the journal's settled place is held back, as by this test's own transaction."""
    send(agent)
    since = key(part(URL))
    pull(agent, now=now)
    assert part(URL, since=since).status_code == 200


def test_poll_sends_again_only_what_the_page_does_not_show(
    part: Part, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is too old, and one whose journal moved, is rendered and compared."""
    send(agent, now=now)
    pull(agent, now=now)
    monkeypatch.setattr(live_updates, "MAX_AGE_SECONDS", 0)
    # the two renderings may lie on either side of a step of the countdown, but not every time
    for _ in range(20):
        shown = part(URL, since=key(part(URL)))
        after = split_key(key(part(URL)))
        if shown.status_code == 204 and split_key(shown["Tenfour-Live-Key"])[2] == after[2]:
            break
    assert shown.status_code == 204  # with forms, a countdown and ages in it
    assert split_key(shown["Tenfour-Live-Key"])[2] == after[2]
    assert part(URL, since="0~0~0").status_code == 200
    send(agent)
    assert part(URL, since=shown["Tenfour-Live-Key"]).status_code == 200


def test_links_of_a_part_have_no_poll_parameters(part: Part, agent: Agent) -> None:
    send(agent)
    assert not re.search(r"[?&]since=", html(part(URL, since="0~0", q="agent:coder")))


def test_poll_takes_four_statements(
    browser: Client, agent: Agent, statements: Callable[..., int]
) -> None:
    send(agent)
    since = key(browser.get(URL))
    assert statements(browser, URL, {"since": since}, headers=PART) <= 4


# ---- figures


def test_reminders_by_urgency(browser: Client, agent: Agent, now: datetime) -> None:
    me = TrustedCaller(Actor("token", "1", "coder"), agent=agent)
    for level in range(5):
        at = now - timedelta(minutes=30)
        id = send(agent, f"level {level}", now=at)
        for _ in range(level):
            pull(agent, now=at)
            tick(at := at + timedelta(minutes=1))
        pull(agent, now=at)
        if level < 4:
            instructions.acknowledge([id], caller=me, now=at + timedelta(seconds=2))
    text = words(browser.get(URL))
    assert "5 sent in 24 h" in text
    for rung in ("First delivery", "Again", "IMPORTANT", "URGENT"):
        assert f"{rung} 1 answered 0 waiting" in text
    assert "Gave up 1 ignored all by coder" in text
    assert "unless the sender set another limit" in text
    assert "half within 1 m" in text
    assert "After a reminder 3" in text


def test_latencies_of_one_agent(browser: Client, agent: Agent, now: datetime) -> None:
    other = make_agent("codex")
    for each, seconds in ((agent, 2), (other, 20)):
        send(each, now=now - timedelta(minutes=5))
        pull(each, now=now - timedelta(minutes=5))
        at = now - timedelta(minutes=5) + timedelta(seconds=seconds)
        for row in Instruction.objects.filter(agent=each):
            instructions.acknowledge_instruction(row.id, now=at)
    assert "half within 11 s" in words(browser.get(URL))
    assert "half within 20 s" in words(browser.get(URL, {"of": str(other.id)}))
    for nonsense in ("x", str(uuid4())):
        assert "half within 11 s" in words(browser.get(URL, {"of": nonsense}))


def test_only_slow_figures_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    assert optional_cache.get_or_compute_slow("a", lambda: 1) == 1
    assert optional_cache.get_or_compute_slow("a", lambda: 2) == 2
    monkeypatch.setattr(optional_cache, "FRESH_SECONDS", -1)
    monkeypatch.setattr(optional_cache.time, "perf_counter", iter([0.0, 9.0, 0.0, 9.0]).__next__)
    assert optional_cache.get_or_compute_slow("b", lambda: 1) == 1
    assert optional_cache.get_or_compute_slow("b", lambda: 2) == 1


# ---- the list


def test_status_of_each_state(browser: Client, agent: Agent, now: datetime) -> None:
    order = sorted(
        InstructionState, key=lambda state: state != InstructionState.FAILED
    )  # giving up takes an idle check
    made = {state: make_instruction(state, agent=make_agent(f"of-{state}")) for state in order}
    ClockRun.objects.update(last_run_at=now)
    response = browser.get(URL)
    assert rows(response) == sorted((str(row.id) for row in made.values()), reverse=True)
    text = words(response)
    for said in ("next in its queue", "again in", "after 0 retries", "withdrawn", "0.0 s"):
        assert said in text
    assert "All 5 Waiting 2 Acknowledged 1 Gave up 1 Cancelled 1" in text
    assert "2 waiting · Instructions · Tenfour" in text


@pytest.mark.parametrize(
    ("query", "contents"),
    [
        ("state:waiting", "bd"),
        ("state:failed,cancelled", "ce"),
        ("-state:waiting", "ace"),
        ("agent:codex", "ab"),
        ("-agent:codex", "cde"),
        ("agent:codex state:acknowledged", "a"),
        ("from:mara", "d"),
        ("urgency:first state:waiting", "bd"),
        ("urgency:urgent", "e"),
        ("ack:<1h", "a"),
        ("ack:>1h", ""),
        ("Thing", "abcde"),
        ("thing-b", "b"),
        ("%", ""),
    ],
)
def test_filters(browser: Client, agent: Agent, query: str, contents: str) -> None:
    """S0.35"""
    codex = make_agent("codex")
    make_instruction(InstructionState.FAILED, agent=agent, content="thing-e", max_retries=0)
    Instruction.objects.filter(content="thing-e").update(max_retries=3, retry_count=3)
    make_instruction(InstructionState.ACKNOWLEDGED, agent=codex, content="thing-a")
    make_instruction(InstructionState.QUEUED, agent=codex, content="thing-b")
    make_instruction(InstructionState.CANCELLED, agent=agent, content="thing-c")
    mara = make_agent("gemini")
    make_instruction(
        InstructionState.DELIVERED, agent=mara, content="thing-d", actor=Actor("user", "1", "mara")
    )
    found = set(rows(browser.get(URL, {"q": query})))
    assert found == {
        str(row.id) for row in Instruction.objects.all() if row.content[-1] in contents
    }


def test_filter_by_id(browser: Client, agent: Agent) -> None:
    send(agent)
    id = send(agent)
    assert rows(browser.get(URL, {"q": str(id)})) == [str(id)]


def test_problems_of_a_query_show_on_the_page(browser: Client, agent: Agent) -> None:
    id = send(agent)
    response = browser.get(URL, {"q": "state:foo ack:soon <script>\x00"})
    assert "Unknown state “foo”" in words(response)
    assert "is not a duration" in words(response)
    assert "<script>\x00" not in response.content.decode()
    assert rows(browser.get(URL, {"q": "state:foo"})) == [str(id)]


def test_place_in_the_queue(browser: Client, agent: Agent) -> None:
    for _ in range(3):
        send(agent)
    send(agent, priority=True)
    text = words(browser.get(URL))
    for said in ("next in its queue", "1 ahead of it", "2 ahead of it", "3 ahead of it"):
        assert said in text


def test_reminder_waits_for_an_empty_queue(browser: Client, agent: Agent) -> None:
    send(agent)
    pull(agent)
    send(agent)
    assert "again once its queue is empty" in words(browser.get(URL))


# ---- pages of the list


def test_pagination(browser: Client, agent: Agent) -> None:
    ids = [str(send(agent)) for _ in range(100)][::-1]
    first = browser.get(URL)
    assert rows(first) == ids[:40]
    assert "Newest 40 of 100" in words(first)

    def follow(response: HttpResponse, rel: str) -> HttpResponse:
        link = re.search(rf'href="([^"]+)"[^>]*rel="{rel}"', html(response))
        assert link
        return browser.get(URL + link[1])

    second = follow(first, "next")
    assert rows(second) == ids[40:80]
    third = follow(second, "next")
    assert rows(third) == ids[80:]
    assert 'rel="next"' not in html(third) and 'rel="prev"' not in html(first)
    assert rows(follow(third, "prev")) == ids[40:80]
    assert rows(follow(follow(third, "prev"), "prev")) == ids[:40]


def test_pages_keep_the_filter_and_bad_places_show_the_first_page(
    browser: Client, agent: Agent
) -> None:
    for _ in range(41):
        send(agent)
    link = re.search(r'href="([^"]+)"[^>]*rel="next"', html(browser.get(URL, {"q": "agent:coder"})))
    assert link and "q=agent%3Acoder" in link[1]
    assert len(rows(browser.get(URL, {"before": "x", "after": "y"}))) == 40


def test_page_that_became_empty(browser: Client, agent: Agent) -> None:
    id = send(agent)
    response = browser.get(URL, {"before": str(id)})
    assert "This page of the list is empty now." in words(response)


# ---- nothing to show


def test_no_instructions_yet(browser: Client) -> None:
    text = words(browser.get(URL))
    assert "No instructions yet" in text and "tenfour send" in text
    assert "No instructions sent in the last 24 h." in text


def test_no_instructions_match(browser: Client, agent: Agent) -> None:
    send(agent)
    text = words(browser.get(URL, {"q": "state:failed"}))
    assert "No instructions match" in text and "Show all instructions" in text


def test_unknown_agent_suggests_similar_names(browser: Client, agent: Agent) -> None:
    send(agent)
    text = words(browser.get(URL, {"q": "agent:codr"}))
    assert "Nothing matches agent:codr . Did you mean agent:coder ?" in text


# ---- notices


def test_silent_agent(browser: Client, agent: Agent, now: datetime) -> None:
    for _ in range(3):
        send(agent, now=now - timedelta(minutes=7))
    assert "coder has never checked in; 3 waiting" in words(browser.get(URL))
    Agent.objects.update(last_seen_at=now - timedelta(minutes=6, seconds=5))
    assert "coder has not checked in for 6 m; 3 waiting" in words(browser.get(URL))
    Agent.objects.update(last_seen_at=now)
    assert "not asked" not in words(browser.get(URL))


def test_several_silent_agents_are_one_line(browser: Client, now: datetime) -> None:
    """OPR-37: their names stand on the page of agents."""
    for number in range(10):
        send(make_agent(f"deaf-{number}"), now=now - timedelta(minutes=7))
    enqueued(make_agent("no-instructions"), now=now - timedelta(minutes=7))
    page = browser.get(URL)
    assert "10 agents are silent, 10 waiting" in words(page)
    assert 'href="/agents/?q=state%3Asilent"' in html(page)


@pytest.mark.parametrize("last", [None, 10])
def test_late_clock(browser: Client, agent: Agent, now: datetime, last: int | None) -> None:
    send(agent)
    assert "clock runs" not in words(browser.get(URL))
    ClockRun.objects.all().delete()
    if last:
        ClockRun.objects.create(
            name="idle_check", last_run_at=now - timedelta(minutes=last, seconds=1)
        )
    text = words(browser.get(URL))
    assert (
        "The idle check last ran 10 m ago." if last else "The idle check has never run ."
    ) in text
    assert "Nothing is sent again until the clock runs." in text


# ---- one row opened


def test_row_expands_to_its_history(
    browser: Client, part: Part, agent: Agent, now: datetime
) -> None:
    id = send(agent, "Look here", now=now - timedelta(minutes=3))
    pull(agent, now=now - timedelta(minutes=3))
    tick(now - timedelta(minutes=2))
    tick(now - timedelta(minutes=2))
    text = words(part(URL, open=str(id)))
    assert "coder received Look here" in text
    assert "Sent by tenfour" in text and "Delivered to coder" in text
    assert "Not acknowledged, queue idle. Queued again as a plain reminder" in text
    assert "Delivered when coder checks in: next in its queue" in text
    for nonsense in ("x", str(uuid4())):
        assert 'id="trail"' not in html(browser.get(URL, {"open": nonsense}))


# ---- projects


def test_filter_by_project(browser: Client, agent: Agent) -> None:
    other = make_agent("elsewhere", project=make_project("atlas"))
    mine, theirs = send(agent), send(other)
    assert set(rows(browser.get(URL))) == {str(mine), str(theirs)}
    response = browser.get(URL, {"project": "atlas"})
    assert rows(response) == [str(theirs)]
    assert "project=atlas" in html(response)
    assert "All 1" in words(response)


def test_unknown_project(browser: Client) -> None:
    response = browser.get(URL, {"project": "<b>x"})
    assert response.status_code == 404
    assert "There is no project “<b>x”." in unescape(response.content.decode())
    assert "<b>x" not in response.content.decode()
    assert browser.get(URL, {"project": "a\x00"}).status_code == 404


# ---- hostile text


HOSTILE = [
    "<script>alert(1)</script>",
    "w" * 8192,
    "\u202etxt.exe \u2067\u05d0\u200f",
    "{{ x }}{% y %}",
    "\"'><b>",
]


@pytest.mark.parametrize("content", HOSTILE)
def test_hostile_text_is_escaped(browser: Client, content: str) -> None:
    agent = make_agent(as_name(content))
    id = send(agent, content, stamp=Stamp(Actor("token", "1", content[:64])))
    for data in ({}, {"open": str(id)}, {"q": content}):
        raw = browser.get(URL, data).content.decode()
        assert "<script>alert" not in raw and "\"'><b>" not in raw
    assert content in unescape(browser.get(f"{URL}{id}/").content.decode())


# ---- cost


@pytest.mark.parametrize(
    "data", [{}, {"q": "agent:coder thing state:waiting ack:>1s"}, {"open": "first"}]
)
def test_list_takes_at_most_15_statements(
    browser: Client, statements: Callable[..., int], data: dict[str, Any], now: datetime
) -> None:
    def few_or_many(number: int) -> int:
        for _ in range(number):
            agent = make_agent(f"coder-{uuid4().hex[:6]}")
            id = send(agent, now=now)
            pull(agent, now=now)
            send(agent, now=now)
        asked = {**data, "open": str(id)} if "open" in data else data
        return statements(browser, URL, asked)

    few = few_or_many(1)
    assert few_or_many(40) == few <= 15
