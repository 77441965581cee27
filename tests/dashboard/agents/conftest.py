"""Helpers for the tests of the Agents pages."""

import re
from html import unescape

from django.http import HttpResponse

from ledger.models import Agent
from tests.dashboard.seen import html

URL = "/agents/"


def names(response: HttpResponse) -> list[str]:
    """Return the names of the listed agents."""
    found = re.findall(r'<tr id="agent-.*?<bdi class="trunc"[^>]*>(.*?)</bdi>', html(response))
    return [unescape(name) for name in found]


def row_of(response: HttpResponse, agent: Agent) -> str:
    """Return the words of an agent's row."""
    found = re.search(rf'<tr id="agent-{agent.pk}".*?</tr>', html(response))
    assert found
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[0]))
