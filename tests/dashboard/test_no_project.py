"""Pages and forms of an installation that has no project."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.urls import urlpatterns
from ledger.models import Project
from tests.dashboard.seen import html, words
from tests.dashboard.test_access import ARGUMENTS, OPEN

pytestmark = pytest.mark.django_db
TYPED = {"name": "coder", "agent": "coder", "content": "Run it", "q": "x", "event": "every"}
NEW_RULE = "/instructions/standing/new/"


@pytest.fixture(autouse=True)
def _no_project(browser: Client) -> None:
    Project.objects.all().delete()


def test_each_page_and_form_answers(browser: Client) -> None:
    browser.raise_request_exception = False
    broken = set()
    for pattern in urlpatterns:
        if pattern.name in OPEN:
            continue
        kinds = re.findall(r"<(\w+):(\w+)>", str(pattern.pattern))
        of = {key: ARGUMENTS[kind] for kind, key in kinds}
        path = reverse(f"dashboard:{pattern.name}", kwargs=of)
        answers = [browser.get(path)]
        for more in ({}, {"save": "yes"}, {"try": "yes"}):
            answers.append(browser.post(path, TYPED | more))
        broken |= {path for each in answers if each.status_code >= 500}
    assert not broken


@pytest.mark.parametrize("path", [NEW_RULE, "/agents/connect/"])
def test_a_form_that_needs_a_project_says_how_to_add_one(browser: Client, path: str) -> None:
    assert "Add one in the admin, under Projects." in html(browser.get(path), 404)
    assert "Add one in the admin, under Projects." in words(browser.get("/settings/policies/"))
