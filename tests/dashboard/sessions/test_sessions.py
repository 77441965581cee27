"""The list of sessions and the page of one: what they show, filter, count and fetch."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.http import HttpResponse
from django.test import Client

from ledger.models import Agent, Message, Session
from ledger.sessions.message_parts import Call, Result, Text
from tests.dashboard.conftest import PART
from tests.dashboard.seen import html, key, rows, words
from tests.dashboard.sessions.conversations import (
    HOSTILE,
    TOTALS,
    bash,
    make_batch,
    make_busy_session,
    make_session,
    make_todo,
    recount,
)
from tests.dashboard.worked import claimed, make_plan
from tests.factories import make_agent, make_project, pull, send

pytestmark = pytest.mark.django_db
Count = Callable[..., int]


def test_the_list_derives_states_and_filters_and_counts(
    browser: Client, agent: Agent, now: datetime, statements: Count
) -> None:
    codex = make_agent("codex")
    ago = lambda minutes: {"now": now - timedelta(minutes=minutes)}  # noqa: E731
    one = [("user", [Text("Fix the <b>totals</b>")])]
    done = make_session(agent, one, **ago(1))
    buffering = make_session(codex, one, pending=1, **ago(2))
    stored = make_session(codex, one, tracker="none", **ago(3))
    failed = make_session(agent, one, **ago(4))
    make_batch(failed, 1, 1, outcome="failed", reason="no tool call")
    busy = make_session(agent, [("user", [Text(HOSTILE)])], pending=1, **ago(90))
    Session.objects.filter(pk=busy.pk).update(
        lock_token=busy.pk, lock_until=now + timedelta(minutes=1)
    )
    make_todo(done, 1, "One", state="success")
    make_todo(done, 2, "Two", state="failed")
    task = make_plan("03-01", [("Round once", [])], agent=agent, now=now)[1][0]
    Message.objects.filter(session=done).update(attempt=claimed(agent, task, now=now))

    page = browser.get("/sessions/")
    order = [done, buffering, stored, failed, busy]
    assert rows(page, "session") == [str(each.pk) for each in order]
    text = html(page)
    for label, n in (("Batch failed", 1), ("Processing", 1), ("Buffering", 1), ("Up to date", 1)):
        assert f'{label}</span> <span class="num">{n}</span>' in text, label
    assert (
        "<script>document" not in page.content.decode()
        and "Fix the &lt;b&gt;" in page.content.decode()
    )
    assert "1/2<span" in text and "1 failed" in text and "03-01:task-1" in text
    assert '1<span class="vh"> of 16 messages buffered' in text
    assert 'Linked</span> <span class="num">1</span>' in text
    assert 'Not linked</span> <span class="num">4</span>' in text
    codex_only = html(browser.get("/sessions/", {"q": "agent:codex"}))
    assert 'Not linked</span> <span class="num">2</span>' in codex_only
    for query, found in {
        "state:failed": [failed],
        "state:processing": [busy],
        "-state:failed,processing": [done, buffering, stored],
        "agent:codex": [buffering, stored],
        "tracker:none": [stored],
        "attempt:linked": [done],
        "attempt:none agent:coder": [failed, busy],
        "task:03-01:task-1": [done],
        "older:1h": [busy],
        "newer:150s": [done, buffering],
        "totals": order[:4],
        str(stored.pk): [stored],
    }.items():
        got = rows(browser.get("/sessions/", {"q": query}), "session")
        assert got == [str(each.pk) for each in found], query
    assert "Unknown state “foo”" in words(browser.get("/sessions/", {"q": "state:foo"}))
    assert "is not a duration" in words(browser.get("/sessions/", {"q": "older:soon"}))
    assert "No sessions match" in words(browser.get("/sessions/", {"q": "agent:nobody"}))
    assert statements(browser, "/sessions/") <= 15
    # a poll reads nothing as long as nothing happens, and the row again when a message comes
    assert browser.get("/sessions/", {"since": key(page)}, headers=PART).status_code == 204
    Session.objects.filter(pk=stored.pk).update(last_message_at=now, updated_at=now)
    fresh = browser.get("/sessions/", {"since": key(page)}, headers=PART)
    assert rows(fresh, "session")[0] == str(stored.pk)


def test_pages_of_the_list_follow_each_other(browser: Client, agent: Agent, now: datetime) -> None:
    """Seventy sessions, some of the same moment: each is on one page."""
    at = [now - timedelta(minutes=n // 3) for n in range(70)]
    made = [make_session(agent, now=each) for each in at]
    first = browser.get("/sessions/")
    seen = rows(first, "session")
    assert len(seen) == 40 and "of 70" in words(first)
    older = link(first, "next")
    second = browser.get(older)
    seen += rows(second, "session")
    assert sorted(seen) == sorted(str(each.pk) for each in made)
    back = browser.get(link(second, "prev"))
    assert rows(back, "session") == rows(first, "session")
    assert browser.get("/sessions/", {"before": "x~y"}).status_code == 200
    assert browser.get("/sessions/", {"after": "99999999999999.1~y"}).status_code == 200


def test_the_headings_sort_and_pages_keep_the_order(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Seventy sessions, many with the same number of messages, in four orders: each once."""
    made = [make_session(agent, now=now - timedelta(minutes=n)) for n in range(70)]
    for n, each in enumerate(made):
        Session.objects.filter(pk=each.pk).update(message_count=n * 7 % 5)
    rows_of = Session.objects.values_list("pk", flat=True)
    active = [each.pk for each in made]
    orders = {
        "messages": list(rows_of.order_by("message_count", "-id")),
        "-messages": list(rows_of.order_by("-message_count", "-id")),
        "active": active[::-1],
        "-active": active,
    }
    for sort, expected in orders.items():
        first = browser.get("/sessions/", {"sort": sort, "q": "agent:coder"})
        second = browser.get(link(first, "next"))
        assert rows(first, "session") + rows(second, "session") == [str(pk) for pk in expected]
        assert rows(browser.get(link(second, "prev")), "session") == rows(first, "session")
        direction = "descending" if sort.startswith("-") else "ascending"
        assert html(first).count(f'aria-sort="{direction}"') == 1
        assert "First 40 of 70" in words(first)
    # a cursor of another order, and an order that is not known, show the first page
    for odd in ({"sort": "messages", "before": f"1.5~{made[0].pk}"}, {"sort": "title"}):
        assert len(rows(browser.get("/sessions/", odd), "session")) == 40


def link(response: HttpResponse, rel: str) -> str:
    text = html(response)
    found = next(a for a in re.findall(r"<a [^>]*>", text) if f'rel="{rel}"' in a)
    match = re.search(r'href="([^"]+)"', found)
    assert match
    return f"/sessions/{match[1]}"


def test_a_session_shows_its_conversation_todos_notes_and_batches(
    browser: Client, agent: Agent, now: datetime, statements: Count
) -> None:
    session = make_busy_session(agent, now=now)
    task = make_plan("03-01", [("Round once", [])], agent=agent, now=now)[1][0]
    Message.objects.filter(session=session).update(attempt=claimed(agent, task, now=now))
    path = f"/sessions/{session.pk}/"
    page = browser.get(path)
    text, said = html(page), words(page)
    assert "<script>document" not in page.content.decode()
    assert "<code>make test</code>" in text and "<b>pytest</b>" in text
    for expected in (
        "Buffering",
        "2 of 16 messages buffered. They are processed 8 s after the first one, or when 14 more",
        "1 of 4 done",
        "All three mix 7% and 19%",
        "From #5 , #11–12",
        "Planning 1 message",
        "Preferences 2",
        "Batch 1 Processed 8 messages, 0.0 s, 3 tool calls",
        "Attempt 1 of 1",
        "03-01:task-1",
        "2 system records hidden",
        "coder #9 to-do 1",
    ):
        assert expected in said, expected
    for number in (1, 5, 6, 11, 12, 21):
        assert f'id="m-{number}"' in text, number
    assert statements(browser, path) <= 15
    tabs = {"errors": "2", "prompts": "2", "todos": "2"}
    for tab, count in tabs.items():
        assert f'show={tab}" >' in text and f'<span class="num">{count}</span>' in text
        assert browser.get(path, {"show": tab}).status_code == 200
    errors = words(browser.get(path, {"show": "errors"}))
    assert "3 failed, 41 passed" in errors and "214 lines" not in errors
    found = words(browser.get(path, {"find": "VatGroup.close"}))
    assert "moving" not in found and "Reproduced." in found and "214 lines" not in found
    buffered = browser.get(path, {"state": "pending"})
    assert "Adding an alias" in words(buffered) and "Reproduced." not in words(buffered)
    assert "No message contains" in words(browser.get(path, {"find": "100%_"}))
    assert browser.get(path, {"since": key(page)}, headers=PART).status_code == 204
    assert browser.get(f"/sessions/{task}/").status_code == 404


def test_ten_thousand_messages_are_read_a_page_at_a_time(
    browser: Client, agent: Agent, now: datetime, statements: Count
) -> None:
    """Bodies are fetched when they are opened, and no page reads more than its messages."""
    lines = [line for n in range(4_999) for line in bash(f"c{n}", f"make {n}", "ok")]
    big = "x" * 500_000 + "THE-END"
    lines += [
        ("assistant", [Call("big", "Write", {"file_path": "a.txt", "content": big})]),
        ("user", [Result("big", big)]),
    ]
    session = make_session(agent, lines, now=now)
    path = f"/sessions/{session.pk}/"
    page = browser.get(path)
    text = html(page)
    assert "make 4998" in text and "make 4900" not in text and "Earlier messages" in text
    assert "THE-END" not in text and len(text) < 300_000 and "Read the whole call" in text
    assert statements(browser, path) <= 15
    bodies = browser.get(f"{path}messages/9999/", headers=PART)
    assert html(bodies).count("THE-END") == 2
    whole = words(browser.get(f"{path}messages/9999/"))
    assert "Message 9999" in whole and "THE-END" in whole
    assert browser.get(f"{path}messages/10001/").status_code == 404
    middle = html(browser.get(path, {"at": "5001"}))
    assert 'id="m-5001"' in middle and "Later messages" in middle and "Earlier" in middle
    assert "m-9901" in html(browser.get(path, {"start": "9801", "since": "0"}, headers=PART))
    assert browser.get(path, {"at": "x", "before": "-1"}).status_code == 200
    first = html(browser.get(path, {"before": "50"}))
    assert 'id="m-1"' in first and "Earlier messages" not in first


def test_a_session_that_fails_or_only_stores_says_so(
    browser: Client, agent: Agent, now: datetime
) -> None:
    failed = make_session(agent, TOTALS, now=now)
    make_batch(failed, 1, 16, outcome="failed", reason=f"The model answered {HOSTILE}")
    said = words(browser.get(f"/sessions/{failed.pk}/"))
    assert "Batch 1 failed" in said and "The model answered" in said
    stored = make_session(agent, tracker="none", now=now)
    said = words(browser.get(f"/sessions/{stored.pk}/"))
    assert "Stored only" in said and "No messages yet" in said and "nothing looks for" in said
    assert "No conversations yet" in words(browser.get("/sessions/", {"project": elsewhere()}))
    recount(stored)


def elsewhere() -> str:
    return make_project("elsewhere").name


def test_a_delivered_instruction_stands_where_the_agent_got_it(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Between the messages before and after its delivery, with its acknowledgment, once."""
    ago = [now - timedelta(seconds=seconds) for seconds in (40, 20, 10)]
    content = f"Rebase on main {HOSTILE}"
    sent = send(agent, content, now=ago[0])
    pull(agent, now=ago[0])
    other = make_agent("codex")
    send(other, "Of another agent", now=ago[0])
    pull(other, now=ago[0])
    lines = [
        ("user", [Text("Go on")]),
        ("system", [Text(f"hook: {content}")]),
        ("assistant", [Text("Rebased.")]),
    ]
    session = make_session(agent, lines, now=now)
    for order, at in zip((1, 2, 3), (ago[0] - timedelta(seconds=9), ago[1], ago[2]), strict=True):
        Message.objects.filter(session=session, order=order).update(sent_at=at)
    page = browser.get(f"/sessions/{session.pk}/")
    said = words(page)
    places = [said.index(text) for text in ("Prompt #1", "Instruction delivered", "Rebased.")]
    assert places == sorted(places)
    assert said.count("Rebase on main") == 1 and "Of another agent" not in said
    assert f'href="/instructions/{sent}/"' in html(page)
    assert "<script>document" not in page.content.decode()
    assert "hidden" not in words(page).split("Prompt #1")[1].split("Rebased.")[0]


def test_an_instruction_stands_in_the_session_that_got_it(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """An agent's other session at the same time does not show it."""
    ago = [now - timedelta(seconds=seconds) for seconds in (40, 30, 20, 10)]
    lines = [("user", [Text("Go on")]), ("assistant", [Text("Done.")])]
    here, there = (
        make_session(agent, lines, now=now, external_id=name) for name in ("here", "there")
    )
    for session in (here, there):
        for order, at in ((1, ago[0]), (2, ago[3])):
            Message.objects.filter(session=session, order=order).update(sent_at=at)
    send(agent, "Rebase on main", now=ago[1])
    assert len(pull(agent, now=ago[1], session="here")) == 1
    send(agent, "No one said where", now=ago[2])
    assert len(pull(agent, now=ago[2])) == 1

    def said(session: Session) -> str:
        return words(browser.get(f"/sessions/{session.pk}/"))

    assert "Rebase on main" in said(here) and "Rebase on main" not in said(there)
    assert "No one said where" not in said(here) + said(there)
    # the other session ended before, so it can only have been this one
    Message.objects.filter(session=there, order=2).update(sent_at=ago[1])
    assert "No one said where" in said(here) and "No one said where" not in said(there)
