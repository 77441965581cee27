"""The search box."""

import uuid

import pytest
from django.test import Client

from ledger.models import Agent
from tests.factories import send


@pytest.mark.parametrize("form", ["{}", "  {} ", '"{}"', "urn:uuid:{}", "`{}`,"])
def test_an_id_lands_on_what_it_names(browser: Client, agent: Agent, form: str) -> None:
    id = send(agent)
    response = browser.get("/search/", {"q": form.format(id)})
    assert response["Location"] == f"/instructions/{id}/"


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
