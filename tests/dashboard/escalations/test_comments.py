"""Comments on an escalation's page."""

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.escalations.queries import EARLIER
from ledger.models import Agent, Event
from retries.models import Escalation
from tests.dashboard.seen import html
from tests.factories import NOW
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(agent: Agent) -> Escalation:
    id = make_task(agent, max_attempts=1, on_exhausted="escalate")
    fail(agent, attempt_of(claim(agent, task=id)), now=NOW, type="verification_failed")
    return Escalation.objects.get()


def read_key(browser: Client, asked: Escalation) -> str:
    page = html(browser.get(f"/escalations/{asked.pk}/"))
    return page.split('name="key" value="')[1].split('"')[0]


def comment(browser: Client, asked: Escalation, text: str, key: str) -> None:
    address = reverse("dashboard:escalation_comment", args=[asked.pk])
    browser.post(address, {"text": text, "key": key})


def test_a_comment_whose_form_is_sent_twice_is_written_once(
    browser: Client, asked: Escalation
) -> None:
    key = read_key(browser, asked)
    for _ in range(2):
        comment(browser, asked, "The disk is full", key)
    assert Event.objects.filter(kind="escalation.commented").count() == 1


def test_a_new_form_writes_the_same_text_again_after_many_comments(
    browser: Client, asked: Escalation
) -> None:
    for number in range(EARLIER):
        comment(browser, asked, f"Comment {number}.", read_key(browser, asked))
    for _ in range(2):
        comment(browser, asked, "Still full", read_key(browser, asked))
    said = Event.objects.filter(kind="escalation.commented", data__text="Still full")
    assert said.count() == 2
    shown = html(browser.get(f"/escalations/{asked.pk}/"))
    assert shown.count("Still full") == 2
    assert "Comment 1." not in shown and "Comment 2." in shown
