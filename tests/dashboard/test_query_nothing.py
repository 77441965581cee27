"""Queries whose groups can find nothing."""

import pytest
from django.test import Client
from django.urls import reverse

from ledger.models import Agent
from tests.dashboard.test_exports import world as two_agents

pytestmark = pytest.mark.django_db
world = two_agents
NOTHING = {
    "activity": ("agent:zoe OR agent:zora", "kind:task -kind:task OR agent:zoe"),
    "audit": ("agent:zoe OR agent:zora", "(agent:zoe OR kind:plan -kind:plan) by:people"),
}


@pytest.mark.parametrize("noun", ["activity", "audit", "tasks", "escalations", "instructions"])
def test_a_group_that_finds_nothing_has_a_page(browser: Client, world: Agent, noun: str) -> None:
    for text in ("agent:zoe", *NOTHING.get(noun, ("agent:zoe OR agent:zora",))):
        for _ in range(2):  # the second time, the SQL is compiled
            page = browser.get(reverse(f"dashboard:{noun}"), {"q": text})
            assert page.status_code == 200, (noun, text)
