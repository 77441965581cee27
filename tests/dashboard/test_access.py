"""Who may see pages."""

from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ledger.models import Agent
from retries.models import Escalation
from tests.dashboard.conftest import PART
from tests.factories import pull, send, tick

ID = "01a1fe8a-1bbf-798b-b797-e0023d4c4b40"
PAGES = [
    "/instructions/",
    f"/instructions/{ID}/",
    "/search/",
    "/tasks/",
    f"/tasks/{ID}/",
    "/dead-letters/",
    f"/dead-letters/{ID}/",
]


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.django_db
def test_strangers_are_sent_to_sign_in_and_come_back(path: str) -> None:
    response = Client().get(path, {"q": "a b"})
    assert (response.status_code, response["Location"]) == (
        302,
        f"/sign-in/?next={path}%3Fq%3Da%2Bb",
    )


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.django_db
def test_a_part_is_refused_so_that_no_form_lands_in_the_page(path: str) -> None:
    response = Client().get(path, headers=PART)
    assert (response.status_code, response.content) == (401, b"You are signed out.")


@pytest.mark.parametrize("flags", [{}, {"is_staff": True, "is_active": False}])
@pytest.mark.django_db
def test_only_active_staff_may_enter(flags: dict[str, bool]) -> None:
    client = Client()
    client.force_login(User.objects.create_user("visitor", **flags))
    assert client.get("/instructions/").status_code == 302


def test_pages_are_read_only_and_never_stored(browser: Client) -> None:
    assert browser.post("/instructions/").status_code == 405
    response = browser.get("/instructions/")
    assert "no-store" in response["Cache-Control"]
    assert response["Vary"].count("HX-Request") == 1


def test_head_gets_what_get_would_without_the_page(
    browser: Client, agent: Agent, now: datetime
) -> None:
    start = now - timedelta(minutes=1)
    id = send(agent, max_retries=0, on_failed="escalate", now=start)
    pull(agent, now=start)
    tick(now)
    question = Escalation.objects.get(instruction=id)
    lists = ["/", "/instructions/", "/agents/", "/activity/", "/escalations/"]
    single = [f"/instructions/{id}/", f"/agents/{agent.pk}/", f"/escalations/{question.pk}/"]
    for path in [*lists, *single, "/instructions/new/"]:
        response = browser.head(path)
        assert (path, response.status_code, response.content) == (path, 200, b"")
    assert browser.head("/search/", {"q": str(id)})["Location"] == f"/instructions/{id}/"
    assert Client().head("/").status_code == 302


def test_an_unknown_address_is_told_in_words(browser: Client) -> None:
    response = browser.get("/nowhere/<b>")
    assert response.status_code == 404
    assert "There is no page at <code>/nowhere/&lt;b&gt;</code>" in response.content.decode()
