"""Steps from one row's page to its neighbors in the filtered list."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from dashboard.lists import sorting
from ledger.models import Agent
from ledger.states import TaskState
from tests.dashboard.seen import html, rows, words
from tests.dashboard.sessions.conversations import make_session
from tests.dashboard.worked import buried, make_plan, make_task
from tests.factories import make_agent, send

pytestmark = pytest.mark.django_db

# the pages of a list and of its rows, and what the ids of its rows begin with
LISTS = {
    "tasks": ("task", "task"),
    "instructions": ("instruction", "ins"),
    "deadletters": ("deadletter", "dead"),
    "sessions": ("session", "session"),
    "plans": ("plan", "plan"),
    "patterns": ("pattern", "pattern"),
    "agents": ("agent", "agent"),
}
ORDERS = {
    "tasks": ("", "-attempts", "created"),
    "instructions": ("", "-urgency", "sent"),
    "deadletters": ("", "name", "failed"),
    "sessions": ("", "messages", "-messages", "active", "-active"),
    "plans": ("", "-ref", "title"),
    "patterns": ("", "-failures", "first"),
    "agents": ("", "name", "errors"),
}

ERRORS = ("No module named lxml", "The disk is full", "Two of the tests failed")


def link(page: HttpResponse, rel: str) -> str:
    found = re.search(
        rf'<a class="btn btn--ghost btn--icon" href="([^"]+)"[^>]*rel="{rel}"', html(page)
    )
    return found[1] if found else ""


@pytest.mark.parametrize("noun", LISTS)
def test_steps_lead_through_the_filtered_list(
    browser: Client, agent: Agent, now: datetime, part: Callable[..., HttpResponse], noun: str
) -> None:
    """In every order: each row's page says its place, and leads on and back."""
    make_agent("coder-2"), make_agent("coder-3")
    for each in (agent, make_agent("codex")):
        for number in range(3):
            make_task([*TaskState][number], f"T{number}", agent=each, now=now)
            at = now - timedelta(minutes=number)
            buried(f"L{number}", agent=each, now=at, error=ERRORS[number])
            make_session(each, now=now - timedelta(minutes=number))
            send(each)
            make_plan(f"{each.name}-{number}", [("One", [])], now=now, agent=each)
    page_name, of = LISTS[noun]
    asked = "coder" if noun == "agents" else "agent:coder"
    query = {"q": asked, "group": "time"}
    for sort in ORDERS[noun]:
        params = query | ({"sort": sort} if sort else {})
        listing = browser.get(reverse(f"dashboard:{noun}"), params)
        ids = rows(listing, of)
        assert len(ids) > 2
        path = f"{reverse(f'dashboard:{page_name}', args=[ids[0]])}?{urlencode(query)}"
        if noun != "instructions":  # whose rows open in place
            assert path in html(listing)
        seen, page = [], browser.get(path + (f"&sort={sort}" if sort else ""))
        for place, id in enumerate(ids, 1):
            assert f"{place} of {len(ids)}" in words(page)
            seen.append(id)
            following = link(page, "next")
            assert bool(following) == (place < len(ids)), (sort, place)
            if not following:
                break
            assert f"/{ids[place]}/?{urlencode({'q': asked})}" in following
            before, page = page, browser.get(following)
            assert link(page, "prev").partition("?")[0] == before.request["PATH_INFO"]
        assert seen == ids
    assert "rel=" not in html(part(f"{reverse(f'dashboard:{page_name}', args=[ids[0]])}"))
    outside = browser.get(reverse(f"dashboard:{page_name}", args=[ids[0]]), {"q": f"{asked}-9"})
    assert "Back to the list" in words(outside)


def test_a_list_too_long_to_be_sorted_leads_on_in_its_usual_order(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from an address that has an order from when the list was shorter."""
    _, middle, newest = (make_task(title=title, agent=agent, now=now) for title in "bac")
    path = f"/tasks/{newest.pk}/"
    assert link(browser.get(path, {"sort": "task"}), "next") == ""
    monkeypatch.setattr(sorting, "SORTABLE", 2)
    assert f"/tasks/{middle.pk}/" in link(browser.get(path, {"sort": "task"}), "next")


def test_steps_leave_out_what_is_the_page_s_own(
    browser: Client, agent: Agent, now: datetime
) -> None:
    older, newer = (make_task(title=title, agent=agent, now=now) for title in "ab")
    own = {"q": "agent:coder", "differences": "only", "timeline": "clock", "ask": "abort"}
    page = browser.get(f"/tasks/{newer.pk}/", own)
    assert link(page, "next") == f"/tasks/{older.pk}/?q=agent%3Acoder"
    assert 'href="/tasks/?q=agent%3Acoder"' in html(page)
