"""The search box."""

import uuid
from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from ledger.models import Agent, Attempt
from tests.dashboard.sessions.conversations import make_session
from tests.dashboard.worked import make_task
from tests.factories import make_agent, make_project, send


@pytest.mark.parametrize("form", ["{}", "  {} ", '"{}"', "urn:uuid:{}", "`{}`,"])
def test_an_id_lands_on_what_it_names(browser: Client, agent: Agent, form: str) -> None:
    id = send(agent)
    response = browser.get("/search/", {"q": form.format(id)})
    assert response["Location"] == f"/instructions/{id}/"


@pytest.mark.parametrize("form", ["{}", "…{}", "...{}", " '…{}' "])
def test_a_short_id_lands_on_what_it_names(browser: Client, agent: Agent, form: str) -> None:
    """Pages shorten an id to its last 8 digits."""
    now = timezone.now()
    task = make_task("failed", agent=agent, now=now)
    letter, attempt = task.dead_letter, Attempt.objects.get()
    rows = {
        f"/instructions/{send(agent)}/": None,
        f"/tasks/{task.pk}/": task.pk,
        f"/dead-letters/{letter.pk}/": letter.pk,
        f"/agents/{agent.pk}/": agent.pk,
        f"/sessions/{(session := make_session(agent, now=now)).pk}/": session.pk,
    }
    for to, id in rows.items():
        short = form.format(str(id or to.split("/")[2])[-8:].upper())
        assert browser.get("/search/", {"q": short})["Location"] == to
    for text in (form.format(str(attempt.pk)[-8:]), str(attempt.pk)):
        assert browser.get("/search/", {"q": text})["Location"] == f"/tasks/{task.pk}/"


def test_an_agent_s_name_lands_on_its_page(browser: Client, agent: Agent) -> None:
    def found(text: str, **more: str) -> str:
        return str(browser.get("/search/", {"q": text} | more)["Location"])

    assert found("coder") == found(" 'CODER' ") == f"/agents/{agent.pk}/"
    assert found("code") == "/instructions/?q=code"
    exact = make_agent("Coder")
    assert found("Coder") == f"/agents/{exact.pk}/" and found("coder") == f"/agents/{agent.pk}/"
    assert found("CODER") == "/agents/?name=CODER"
    other = make_agent("coder", project=make_project("atlas"))
    assert found("coder") == "/agents/?name=coder"
    assert found("coder", project="atlas") == f"/agents/{other.pk}/"
    hexadecimal = make_agent("deadbeef")
    assert found("deadbeef") == f"/agents/{hexadecimal.pk}/"
    assert found("cafebabe") == "/instructions/?q=cafebabe"


def test_a_search_takes_few_statements(
    browser: Client, statements: Callable[..., int], agent: Agent
) -> None:
    assert statements(browser, "/search/", {"q": "…cafebabe"}) <= 8


@pytest.mark.parametrize(
    ("text", "to"),
    [
        ("", "/instructions/"),
        ("run the tests", "/instructions/?q=run+the+tests"),
        ("agent:coder", "/instructions/?q=agent%3Acoder"),
        ("a&b=c\x00", "/instructions/?q=a%26b%3Dc"),
    ],
)
def test_anything_else_filters_the_list(browser: Client, text: str, to: str) -> None:
    assert browser.get("/search/", {"q": text})["Location"] == to


def test_an_id_of_nothing_says_that_nothing_matches(browser: Client, agent: Agent) -> None:
    send(agent)
    response = browser.get("/search/", {"q": str(uuid.uuid4())}, follow=True)
    assert "No instructions match" in response.content.decode()
