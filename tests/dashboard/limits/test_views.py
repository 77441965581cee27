"""The Limits page: who is near a limit, who waits, until when, and at what volume it is read."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.test import Client

from dashboard.limits import queries
from ledger import accounts, agents
from ledger.accounts import Account
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent
from ledger.values.account_windows import LimitWindow
from tests.dashboard.limits.shares import HOUR, note_share
from tests.dashboard.seen import Part, html, key, words
from tests.dashboard.worked import enqueued, make_plan
from tests.factories import make_agent, make_project

PATH = "/limits/"


def bill(agent: Agent, account: str, *, now: datetime) -> None:
    accounts.set_account([agent], account=account, stamp=Stamp(SYSTEM, now))


def text(browser: Client, path: str = PATH) -> str:
    return words(browser.get(path)).replace(" ,", ",")


def test_an_empty_world_says_one_calm_sentence(browser: Client) -> None:
    page = text(browser)
    assert "No agent is registered yet. Its account and what is used of its limits" in page
    assert "not told" not in page and "Waiting for a limit" not in page


def test_each_account_shows_its_windows_agents_and_forecast(
    browser: Client, agent: Agent, now: datetime
) -> None:
    bill(make_agent("second"), "coder", now=now)
    make_agent("quiet")
    note_share(agent, 0.8, now=now)
    note_share(agent, 0.3, window=LimitWindow.WEEK, facts=3, now=now)
    page = text(browser)
    assert "No agent waits for a limit of its account." in page
    assert "coder Full" in page and "2 agents: coder, second" in page
    assert "quiet not told 1 agent: quiet" in page
    assert "80%" in page and "At this pace it is full at" in page and "then its agents wait" in page
    assert "30%" in page and "ago. Few data for a forecast." in page
    assert "from Codex" in page
    assert "used up" not in page


def test_tasks_wait_for_the_reset_of_an_account_until_a_time(
    browser: Client, agent: Agent, now: datetime
) -> None:
    second, other = make_agent("second"), make_agent("other")
    bill(second, "coder", now=now)
    plan, _ = make_plan("05-01", [("Export", [])], title="Nightly", agent=second, now=now)
    enqueued(agent, "Post the balances", priority=5, now=now)
    enqueued(other, "Free to run", now=now)
    reset = note_share(agent, 1.0, now=now)
    page, source = text(browser), html(browser.get(PATH))
    assert "2 tasks wait for a limit of coder until" in page
    assert "Used up" in page and "2 tasks wait until" in page
    assert "Post the balances" in page and "Free to run" not in page
    assert f"/plans/{plan.pk}/" in source and reset.isoformat(timespec="milliseconds") in source
    assert "1 used up" in page  # the sidebar
    agents.pause([second], stamp=Stamp(SYSTEM, now))
    assert "1 task waits for a limit of coder" in text(browser)
    note_share(other, 1.0, resets_in=HOUR, now=now)
    assert "2 tasks wait for limits of 2 accounts; those of the first wait until" in text(browser)


def test_what_may_be_more_than_is_counted_says_so(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        bill(make_agent(f"agent-{number}"), "coder", now=now)
    for found in Agent.objects.all():
        enqueued(found, "Work", now=now)
    note_share(agent, 1.0, facts=1, now=now)
    assert "3 tasks wait" in text(browser) and "t least" not in text(browser)
    # as many tasks as are counted of one agent, but of three
    counts = queries.COUNTS.replace(f"limit {queries.COUNTED}", "limit 3")
    monkeypatch.setattr(queries, "COUNTS", counts.replace(f"= {queries.COUNTED}", "= 3"))
    assert "t least" not in text(browser)
    counts = queries.COUNTS.replace(f"limit {queries.AGENTS}", "limit 2")
    monkeypatch.setattr(queries, "COUNTS", counts.replace(f"= {queries.AGENTS}", "= 2"))
    page = text(browser)
    assert "At least 2 tasks wait" in page and page.count("at least 2 tasks") == 2


def test_an_agents_own_wait_is_not_called_a_reset(
    browser: Client, agent: Agent, now: datetime
) -> None:
    enqueued(agent, "Work", now=now)
    Agent.objects.update(waits_until=now + HOUR, waits_for="429 too many requests per minute")
    page = text(browser)
    assert "1 task waits for a limit of coder until" in page
    assert "reset" not in page


def test_accounts_with_the_least_room_come_first(
    browser: Client, agent: Agent, now: datetime
) -> None:
    for name, used in (("a", 0.2), ("b", 1.0), ("c", 0.7)):
        note_share(make_agent(name), used, now=now)
    bill(make_agent("d"), "coder", now=now)
    # what has been reset says nothing
    note_share(make_agent("e"), 0.9, resets_in=-HOUR, now=now)
    found = accounts.list_most_used(agent.project_id, now=now, offset=0, most=9)
    assert [each.name for each in found] == ["b", "c", "a", "coder", "e"]
    assert [each.agents for each in found] == [1, 1, 1, 2, 1]


def test_a_project_shows_its_own_accounts(browser: Client, agent: Agent, now: datetime) -> None:
    elsewhere = make_agent("coder", project=make_project("second"))
    enqueued(elsewhere, "Elsewhere", now=now)
    note_share(elsewhere, 1.0, now=now)
    found = accounts.list_most_used(None, now=now, offset=0, most=9)
    assert [each.project_id for each in found] == [elsewhere.project_id, agent.project_id]
    assert "Elsewhere" in text(browser)
    here = text(browser, f"{PATH}?project={agent.project.name}")
    assert "Elsewhere" not in here and "Used up" not in here and "coder" in here


def test_the_page_is_read_with_few_statements_at_any_volume(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    def grow(first: int, last: int) -> None:
        for number in range(first, last):
            other = make_agent(f"agent-{number}")
            enqueued(other, "Work", now=now)
            note_share(other, 1.0, facts=1, now=now)

    grow(0, 2)
    few = statements(browser, PATH)
    grow(2, 40)
    assert statements(browser, PATH) == few <= 15
    assert "Page 1" in text(browser)
    assert "Page 2" in text(browser, f"{PATH}?page=2")


def test_a_poll_without_news_gets_nothing(
    browser: Client, part: Part, agent: Agent, now: datetime
) -> None:
    note_share(agent, 0.5, facts=1, now=now - timedelta(minutes=1))
    since = key(browser.get(PATH))
    assert part(PATH, since=since).status_code == 204
    note_share(agent, 0.6, facts=1, now=now)
    changed = part(PATH, since=since)
    assert changed.status_code == 200 and "60%" in changed.content.decode()


def test_an_account_without_agents_is_kept(agent: Agent, now: datetime) -> None:
    note_share(agent, 0.5, facts=1, now=now)
    bill(agent, "team", now=now)
    found: list[Account] = accounts.list_newest(agent.project_id, now=now, before=None, most=9)
    assert {each.name: (each.agents, len(each.windows)) for each in found} == {
        "coder": (0, 1),
        "team": (1, 0),
    }
