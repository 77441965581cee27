"""Comments on an escalation's page."""

import pytest
from django.test import Client
from django.urls import reverse

from ledger.models import Agent, Event
from retries.models import Escalation
from tests.dashboard.seen import html
from tests.factories import NOW
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db


def test_a_comment_whose_form_is_sent_twice_is_written_once(browser: Client, agent: Agent) -> None:
    id = make_task(agent, max_attempts=1, on_exhausted="escalate")
    fail(agent, attempt_of(claim(agent, task=id)), now=NOW, type="verification_failed")
    asked = Escalation.objects.get()
    page = f"/escalations/{asked.pk}/"
    key = html(browser.get(page)).split('name="key" value="')[1].split('"')[0]
    for _ in range(2):
        address = reverse("dashboard:escalation_comment", args=[asked.pk])
        browser.post(address, {"text": "The disk is full", "key": key})
    assert Event.objects.filter(kind="escalation.commented").count() == 1
