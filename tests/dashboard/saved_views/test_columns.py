"""Each person pins the columns of a list; they stay in every browser."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard import urls
from dashboard.completion.lists import LISTS
from dashboard.listing import Listing
from ledger.models import Agent, Preference
from tests.dashboard.seen import html
from tests.retries.moves import make_task

pytestmark = pytest.mark.django_db
LISTINGS = {
    each.name: each for module in vars(urls).values() if isinstance(each := module, Listing)
}


def pin(browser: Client, noun: str, *shown: str, offered: tuple[str, ...]) -> None:
    given = {"column": shown, "offered": offered, "next": f"/{noun}/"}
    assert browser.post(f"/columns/{noun}/", given).status_code == 302


def headings(page: str) -> list[str]:
    return re.findall(r'<th scope="col"[^>]*>(?:\s*<a[^>]*>)?\s*([A-Z][\w ]*?)\s*<', page)


def test_pinned_columns_of_tasks_stay(browser: Client, agent: Agent) -> None:
    make_task(agent)
    offered = ("error", "type", "priority", "proof", "created")
    assert "Type" not in headings(html(browser.get("/tasks/")))
    pin(browser, "tasks", "type", "priority", offered=offered)
    assert {"Type", "Priority"} <= set(headings(html(browser.get("/tasks/"))))
    other = Client()
    other.force_login(User.objects.get(username="mara"))
    assert "Type" in headings(html(other.get("/tasks/")))
    # an address that names columns shows those
    assert "Type" not in headings(html(other.get("/tasks/?column=priority")))
    olga = Client()
    olga.force_login(User.objects.create_superuser("olga"))
    assert "Type" not in headings(html(olga.get("/tasks/")))
    pin(browser, "tasks", offered=offered)
    assert "Type" not in headings(html(browser.get("/tasks/")))
    assert Preference.objects.get(user__username="mara").list_columns == {}


@pytest.mark.parametrize("name", LISTINGS)
def test_every_list_hides_columns(browser: Client, name: str) -> None:
    listing = LISTINGS[name]
    keys = [each.key for each in listing.columns if each.key]
    assert len(set(keys)) == len(keys) and len(keys) < 13
    browser.post(f"/columns/{name}/", {"offered": keys, "column": keys[3:]})
    page = browser.get(listing.crumb.url)
    # the first two columns name the row, and stay
    assert page.context["hidden"] == f"hide-{3 + bool(listing.verbs)}"
    assert [each.is_hidden for each in page.context["columns"]][:4] == [False, False, True, False]


def test_a_hidden_column_is_not_shown(browser: Client, agent: Agent) -> None:
    pin(browser, "agents", offered=("breaker", "running-now", "done"))
    shown = html(browser.get("/agents/"))
    assert '<div class="cols hide-3 hide-4">' in shown


@pytest.mark.parametrize("noun", ["nothing", "tasks%20"])
def test_an_unknown_list_has_no_columns(browser: Client, noun: str) -> None:
    assert browser.post(f"/columns/{noun}/", {"offered": "type"}).status_code == 404


def test_names_that_no_column_has_are_left_out(browser: Client) -> None:
    hostile = ("<script>", "x" * 99, "a b", "type")
    pin(browser, "tasks", *hostile, offered=hostile)
    assert Preference.objects.get().list_columns == {"tasks": ["type"]}


def test_the_other_preferences_stay(browser: Client) -> None:
    browser.post("/settings/profile/save/", {"theme": "dark"})
    pin(browser, "tasks", "type", offered=("type",))
    pin(browser, "plans", offered=("ref",))
    row = Preference.objects.get()
    assert row.theme == "dark" and row.list_columns == {"tasks": ["type"], "plans": ["ref"]}


def test_every_list_has_columns_or_its_own_page() -> None:
    assert set(LISTS) - set(LISTINGS) == {"tasks", "escalations", "activity", "audit"}
