"""The values that the query box of Tasks offers."""

from datetime import datetime

import pytest
from django.test import Client

from dashboard.tasks.filters import KEYS
from ledger.models import Agent
from retries.models import FailurePattern
from tests.dashboard.worked import make_task
from tests.factories import make_agent

pytestmark = pytest.mark.django_db


def complete(browser: Client, **params: str) -> list[tuple[str, str]]:
    answer = browser.get(f"/complete/{params.pop('list', 'tasks')}/", params).json()
    return [(each["term"], each["count"]) for each in answer["options"]]


def test_values_with_their_counts_in_the_list(browser: Client, agent: Agent, now: datetime) -> None:
    make_task("failed", agent=agent, now=now)
    make_task("queued", agent=agent, now=now)
    make_agent("codex")
    make_agent("a b")
    assert complete(browser, key="agent", prefix="CO") == [
        ("agent:coder", "2"),
        ("agent:codex", "0"),
    ]
    assert complete(browser, key="agent", prefix="co", q="state:failed")[0] == ("agent:coder", "1")
    assert complete(browser, key="agent", prefix="a") == [('agent:"a b"', "0")]
    assert complete(browser, key="state", prefix="f") == [("state:failed", "1")]
    assert complete(browser, key="type", prefix="co") == [("type:code", "")]
    pattern = FailurePattern.objects.get()
    assert complete(browser, key="pattern", prefix=pattern.template[:4]) == [
        (f"pattern:{pattern.fingerprint}", "")
    ]
    assert complete(browser, key="changed", prefix="2") == [
        ("changed:24h", ""),
        ("changed:2026-01-01..2026-01-31", ""),
    ]
    assert complete(browser, key="agnet", prefix="x") == []
    for key in KEYS:  # every key completes, and nothing that is typed breaks it
        assert len(complete(browser, key=key, prefix="")) > 0 or key == "plan", key
        for prefix in ("%", "'\"\\", "\0x%", "x" * 400):
            assert complete(browser, key=key, prefix=prefix, q=prefix) == [], (key, prefix)
