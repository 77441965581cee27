"""Views that a project's people save: their limits, who may change them, and where they show."""

from datetime import datetime
from importlib import import_module

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils.http import urlencode

from dashboard.saved_views.strip import BUILT_IN
from ledger.authorization.roles import Role
from ledger.models import Agent, Membership, Project, SavedView
from ledger.people.saved_views import MOST
from ledger.states import TaskState
from retries.models import Escalation
from tests.dashboard.seen import html, said, words
from tests.dashboard.worked import make_task
from tests.factories import make_project

pytestmark = pytest.mark.django_db

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def save(client: Client, name: str, *, noun: str = "tasks", **more: str) -> str:
    """Save a view and return the message of the page that follows."""
    return said(client, f"/views/{noun}/save/", {"name": name, "q": "agent:coder", **more})


def test_a_view_is_saved_shown_and_deleted(browser: Client, agent: Agent) -> None:
    """It is everyone's in the project, and of its list only; its name is text."""
    page = html(browser.get("/tasks/", {"q": "agent:coder"}))
    assert "Save this filter for default" in page
    there = "/tasks/?q=agent%3Acoder&sort=-attempts"
    response = browser.post(
        "/views/tasks/save/",
        {"name": f" {HOSTILE}  view ", "q": "agent:coder", "sort": "-attempts", "next": there},
    )
    assert response["Location"] == there
    view = SavedView.objects.get()
    assert (view.name, view.query, view.sort) == (f"{HOSTILE} view", "agent:coder", "-attempts")
    raw = browser.get("/tasks/", {"q": "agent:coder", "sort": "-attempts"}).content.decode()
    assert "<img" not in raw and "&lt;img src=x" in raw
    assert f"Delete “<bdi>{HOSTILE} view</bdi>”" in html(browser.get(there))
    for path in ("/instructions/", "/tasks/?project=other"):
        make_project("other")
        assert HOSTILE not in words(browser.get(path)), path
    gone = f"/views/{view.pk}/delete/"
    assert "is deleted" in said(browser, gone, {"next": "/tasks/"})
    assert "deleted before" in said(browser, gone, {"next": "/tasks/"})


@pytest.mark.parametrize("noun", BUILT_IN)
def test_every_list_has_its_own_views(browser: Client, agent: Agent, noun: str) -> None:
    assert "is saved for everyone" in save(browser, "Mine", noun=noun, q="older:1d zzz")
    view = SavedView.objects.get(list=noun)
    page = html(browser.get(reverse(f"dashboard:{noun}"), {"q": view.query}))
    assert "Delete “<bdi>Mine</bdi>”" in page
    assert all(f"<bdi>{name}</bdi>" in page for name, _ in BUILT_IN[noun])


def test_a_built_in_view_is_a_query_that_its_list_understands(browser: Client) -> None:
    for noun, views in BUILT_IN.items():
        for name, query in views:
            found = browser.get(reverse(f"dashboard:{noun}"), {"q": query}).context
            parsed = found["inbox"].query if found.get("inbox") else found["query"]
            assert parsed.problems == (), (noun, name)


def test_the_page_of_an_escalation_shows_the_views_of_the_inbox(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Each leads to the list, and not to the filtered page of the same escalation."""
    for title in ("One", "Two"):
        make_task(TaskState.ESCALATED, title, agent=agent, now=now)
    there = f"/escalations/{Escalation.objects.earliest('id').pk}/"
    query = {"q": "agent:coder", "sort": "newest"}
    form = {**query, "next": f"{there}?{urlencode(query)}"}
    assert "is saved for everyone" in save(browser, "Mine", noun="escalations", **form)
    make_project("other")
    scope = {"project": agent.project.name}
    page = html(browser.get(there, scope))
    assert f'href="/escalations/?{urlencode(scope | query)}"' in page
    view = SavedView.objects.get(list="escalations")
    assert f"/views/{view.pk}/delete/" not in page
    assert f"/views/{view.pk}/delete/" in html(browser.get(there, scope | query))
    assert "Mine" not in words(browser.get(there, {"project": "other"}))


def test_views_have_limits(browser: Client, agent: Agent) -> None:
    """Each refusal says what to do next, and saves nothing."""
    for name in ("", "  \0 ", "x" * 41):
        assert "a name of at most 40 characters" in save(browser, name)
    assert "Filter or sort the list first" in save(browser, "All", q="", sort="")
    assert browser.post("/views/settings/save/", {"name": "x", "q": "x"}).status_code == 404
    assert not SavedView.objects.exists()
    for number in range(MOST):
        assert "is saved" in save(browser, f"View {number}")
    assert f"at most {MOST}" in save(browser, "One more") or "Delete one" in save(browser, "More")
    assert "is saved" in save(browser, "View 1", noun="plans")
    SavedView.objects.filter(name="View 0").delete()
    assert "There is a view “View 1” already" in save(browser, "View 1")
    assert SavedView.objects.filter(list="tasks").count() == MOST - 1
    make_project("other")
    assert browser.post("/views/tasks/save/", {"name": "x", "q": "x"}).status_code == 404
    assert "Choose a project" in words(browser.get("/tasks/", {"q": "agent:coder"}))


@pytest.mark.parametrize("role", Role)
def test_viewers_use_views_and_others_change_them(
    browser: Client, agent: Agent, role: Role
) -> None:
    save(browser, "Mine")
    view = SavedView.objects.get()
    person = User.objects.create_user("eve")
    Membership.objects.create(user=person, project=agent.project, role=role, added_by="mara")
    client = Client()
    client.force_login(person)
    page = html(client.get("/tasks/", {"q": "agent:coder"}))
    may_change = role != Role.VIEWER
    assert "Mine" in page
    assert (f"/views/{view.pk}/delete/" in page) == may_change
    assert ('name="name"' in html(client.get("/tasks/", {"q": "state:done"}))) == may_change
    answers = [
        client.post("/views/tasks/save/", {"name": "Theirs", "q": "state:done"}).status_code,
        client.post(f"/views/{view.pk}/delete/").status_code,
    ]
    assert answers == [302 if may_change else 403] * 2
    assert [each.name for each in SavedView.objects.all()] == ["Theirs" if may_change else "Mine"]


def test_a_view_of_sessions_keeps_its_order(project: Project) -> None:
    """Views that were saved when a minus meant the fewest first on this list alone."""
    turn = import_module("ledger.migrations.0044_session_view_sort").TURN
    for noun, sort in (("sessions", "messages"), ("sessions", "-active"), ("tasks", "-attempts")):
        SavedView.objects.create(project=project, list=noun, name=sort, sort=sort)
    SavedView.objects.create(project=project, list="sessions", name="any", query="agent:coder")
    with connection.cursor() as cursor:
        cursor.execute(turn)
    sorts = dict(SavedView.objects.values_list("name", "sort"))
    assert sorts == {
        "messages": "-messages",
        "-active": "active",
        "-attempts": "-attempts",
        "any": "",
    }
