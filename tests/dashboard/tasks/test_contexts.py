"""The page that compares what two attempts were told."""

import re
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from ledger.models import Agent, Attempt
from retries.models import StoredContext
from tests.conftest import Api
from tests.retries.api.calls import claim, enqueue

pytestmark = pytest.mark.django_db
BACKOFF = {"base_delay_ms": 0, "jitter": False}


def text(page: Any) -> str:
    assert page.status_code == 200
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.content.decode())).split())


def test_two_attempts_are_compared_with_what_each_was_told(
    browser: Client, agent: Agent, operator: Api, coder: Api
) -> None:
    id = enqueue(operator, max_attempts=4, backoff=BACKOFF)
    at = f"/tasks/{id}/contexts/"
    assert "The task has not run yet." in text(browser.get(at))
    told = []
    for message in ("<b>alpha</b> is missing", "beta is missing", "gamma is missing"):
        row = claim(coder)["data"][0]
        told.append(row["retry_context"])
        failure = {"status": "failure", "failure": {"message": message}}
        assert coder("POST", f"/attempts/{row['attempt']['id']}/result", failure).status_code == 200
    shown = browser.get(at)
    # the block is the one that the agent got, to the letter
    plain = unescape(
        re.sub(
            r"<[^>]+>", "", re.sub(r'<span\s+class="vh">[^<]*</span>', "", shown.content.decode())
        )
    )
    for line in told[2].splitlines():
        assert line in plain, line
    second, third = Attempt.objects.order_by("number")[1:3]
    words = text(shown)
    assert f"Characters {second.context_chars:,} {third.context_chars:,}" in words
    for each in (second, third):
        assert bytes(each.context_sha256 or b"").hex() in shown.content.decode()
    assert "failure 1 2" in words and "only the second was told: +" in words
    assert "Variant default default" in words
    # any two, in any order, and the first was told nothing
    words = text(browser.get(at + "?a=2&b=1"))
    assert "Attempt 2 Attempt 1" in words and "told nothing" in words
    assert "both were told the same" in text(browser.get(at + "?a=2&b=2"))
    StoredContext.objects.all().delete()
    assert "The text of attempt 2 was not stored" in text(browser.get(at))
    assert browser.get(f"/tasks/{uuid4()}/contexts/").status_code == 404
    assert f'href="{at}"' not in browser.get(f"/tasks/{enqueue(operator)}/").content.decode()
    assert at in browser.get(f"/tasks/{id}/").content.decode()
