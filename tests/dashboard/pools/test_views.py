"""The pages of pools: members, what waits, who has room, and the forms that change them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Instruction
from ledger.pools import membership
from tests.dashboard.seen import html, rows, said, words
from tests.dashboard.worked import claimed, enqueued, failed
from tests.factories import make_agent, make_project, send

HOSTILE = "<script>alert(1)</script>"


def make_pool(name: str, *members: Agent, **more: Any) -> Agent:
    stamp = Stamp(SYSTEM)
    return membership.create(name, members=members, project=make_project(), stamp=stamp, **more)


@pytest.fixture
def pool(agent: Agent, now: datetime) -> Agent:
    Agent.objects.update(last_seen_at=now)
    return make_pool("reviewers", agent)


def path(pool: Agent) -> str:
    return f"/agents/pools/{pool.pk}/"


def names(pool: Agent) -> list[str]:
    return [agent.name for agent in membership.list_members(pool)]


def test_the_page_of_pools_says_what_waits_and_who_has_room(
    browser: Client, pool: Agent, now: datetime
) -> None:
    make_pool(HOSTILE.replace("/", "|"))
    enqueued(pool, now=now - timedelta(minutes=5))
    page = browser.get("/agents/pools/")
    assert len(rows(page, "pool")) == 2
    text = words(page)
    assert "1 of 1 have room" in text and "none" in text
    assert b"<script>alert" not in page.content


def test_no_pools_say_what_a_pool_is(browser: Client) -> None:
    assert "A pool is a name that tasks are sent to" in words(browser.get("/agents/pools/"))


def test_a_pools_page_shows_members_and_the_next_tasks(
    browser: Client, pool: Agent, agent: Agent, now: datetime
) -> None:
    first, second = (enqueued(pool, f"Task {n}", now=now) for n in range(2))
    claimed(agent, first, now=now)
    page = browser.get(path(pool))
    assert rows(page, "task") == [str(second)] and rows(page, "member") == [str(agent.pk)]
    assert "has room" in words(page)


def test_a_pool_that_nobody_can_serve_says_so(
    browser: Client, pool: Agent, agent: Agent, now: datetime
) -> None:
    enqueued(pool, now=now)
    assert "no member has room" not in words(browser.get(path(pool)))
    Agent.objects.filter(pk=agent.pk).update(paused=True)
    assert "1 waiting, no member has room" in words(browser.get(path(pool)))


def test_a_pool_is_found_where_its_agent_would_be(browser: Client, pool: Agent) -> None:
    response = browser.get(f"/agents/{pool.pk}/")
    assert (response.status_code, response["Location"]) == (302, path(pool))
    response = browser.get(path(make_agent("second")))
    assert response.status_code == 302


def test_a_tasks_page_names_its_pool_and_the_member_it_waits_for(
    browser: Client, pool: Agent, agent: Agent, now: datetime
) -> None:
    id = enqueued(pool, "Review", now=now, retry_on="same")
    failed(agent, id, now=now, message="it broke")
    Agent.objects.filter(pk=agent.pk).update(paused=True)
    text = words(browser.get(f"/tasks/{id}/"))
    assert "reviewers" in text and "retried by the same member" in text
    assert "coder is paused" in text


def test_agents_are_listed_without_pools(browser: Client, pool: Agent) -> None:
    assert "reviewers" not in words(browser.get("/agents/"))


def test_a_person_creates_a_pool(browser: Client, agent: Agent) -> None:
    make_agent("second")
    form = {"name": "reviewers", "agents": "coder, second", "retry_on": "other"}
    assert "The pool reviewers is created." in said(browser, "/agents/pools/new/", form)
    pool = Agent.objects.get(is_pool=True)
    assert (names(pool), pool.retry_on) == (["coder", "second"], "other")


@pytest.mark.parametrize(
    "form", [{"name": ""}, {"name": "coder"}, {"name": "new", "agents": "nobody"}]
)
def test_a_wrong_form_creates_no_pool(browser: Client, agent: Agent, form: dict[str, str]) -> None:
    assert "No pool was created." in said(browser, "/agents/pools/new/", form)
    assert not Agent.objects.filter(is_pool=True).exists()


def test_members_are_added_and_removed_on_the_page(browser: Client, pool: Agent) -> None:
    make_agent("second")
    assert "Added 1 agent" in said(browser, f"{path(pool)}add/", {"agents": "second, coder"})
    assert names(pool) == ["coder", "second"]
    assert "Removed 1 agent" in said(browser, f"{path(pool)}drop/", {"agents": "coder"})
    assert names(pool) == ["second"]
    assert "Nothing was changed" in said(browser, f"{path(pool)}add/", {"agents": "nobody"})


def test_who_retries_is_set_on_the_page(browser: Client, pool: Agent) -> None:
    said(browser, f"{path(pool)}retry-on/", {"retry_on": "same"})
    assert Agent.objects.get(pk=pool.pk).retry_on == "same"
    assert "Nothing was changed" in said(browser, f"{path(pool)}retry-on/", {"retry_on": "never"})


def test_a_pool_is_removed_once_its_tasks_have_a_place(
    browser: Client, pool: Agent, now: datetime
) -> None:
    enqueued(pool, now=now)
    assert "has 1 open task" in said(browser, f"{path(pool)}remove/", {})
    assert "1 task went to coder" in said(browser, f"{path(pool)}remove/", {"move_to": "coder"})
    assert rows(browser.get("/agents/pools/"), "pool") == []
    assert "removed" in words(browser.get(path(pool)))


def test_a_pool_is_paused_and_its_members_changed_from_its_page(
    browser: Client, pool: Agent, agent: Agent
) -> None:
    said(browser, f"/agents/{pool.pk}/pause/", {"next": path(pool)})
    assert Agent.objects.get(pk=pool.pk).paused and not Agent.objects.get(pk=agent.pk).paused
    said(browser, f"/agents/{pool.pk}/limit/", {"concurrency": "3", "next": path(pool)})
    assert Agent.objects.get(pk=agent.pk).concurrency == 3
    send(agent)
    said(browser, f"/agents/{pool.pk}/reset/", {"confirmed": "yes"})
    assert Instruction.objects.get().state == "cancelled"
    for verb in ("trip", "close"):
        text = said(browser, f"/agents/{pool.pk}/{verb}/", {"confirmed": "yes"})
        assert "reviewers" in text, verb


def test_a_viewer_reads_and_changes_nothing(pool: Agent, agent: Agent) -> None:
    from ledger.models import Membership

    viewer = User.objects.create_user("vera")
    Membership.objects.create(user=viewer, project=make_project(), role="viewer")
    client = Client()
    client.force_login(viewer)
    page = client.get(path(pool))
    assert "Add members" not in words(page) and "Members" in words(page)
    assert client.post(f"{path(pool)}add/", {"agents": "coder"}).status_code == 403
    assert client.post("/agents/pools/new/", {"name": "mine"}).status_code == 403


def test_the_pages_take_few_statements(
    browser: Client, pool: Agent, statements: Callable[..., int], now: datetime
) -> None:
    others = [make_agent(f"member-{n}") for n in range(20)]
    membership.add_members(pool, others, stamp=Stamp(SYSTEM))
    for _ in range(3):
        enqueued(pool, now=now)
    browser.get(path(pool))
    assert statements(browser, path(pool)) <= 15
    assert statements(browser, "/agents/pools/") <= 15


def test_the_live_part_comes_alone(part: Callable[..., HttpResponse], pool: Agent) -> None:
    assert "<html" not in html(part(path(pool)))
