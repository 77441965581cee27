"""Helpers for the tests of the Agents pages."""

import re
from html import unescape

import pytest
from django.http import HttpResponse

from dashboard import live_updates
from ledger.models import Agent
from tests.dashboard.seen import html

URL = "/agents/"


def names(response: HttpResponse) -> list[str]:
    """Return the names of the listed agents."""
    found = re.findall(r'<li id="agent-.*?<bdi class="trunc">(.*?)</bdi>', html(response))
    return [unescape(name) for name in found]


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "BUCKET_SECONDS", 10**9)


def row_of(response: HttpResponse, agent: Agent) -> str:
    """Return the words of an agent's row."""
    found = re.search(rf'<li id="agent-{agent.pk}".*?</li>', html(response))
    assert found
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[0]))
