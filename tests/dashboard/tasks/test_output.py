"""The output of an attempt on its task's page: followed, read whole, and downloaded."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from ledger.journal import SYSTEM
from ledger.models import Agent
from ledger.tokens import TrustedCaller
from retries.live_output.storing import append_output
from tests.dashboard.conftest import PART
from tests.factories import MINUTE
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script> </pre>\n"


@pytest.fixture
def running(agent: Agent, now: datetime) -> tuple[UUID, UUID]:
    id = make_task(agent, now=now - MINUTE)
    return id, attempt_of(claim(agent, now=now - MINUTE))


def send(agent: Agent, attempt: UUID, at: int, text: str, now: datetime) -> None:
    append_output(attempt, at=at, text=text, caller=TrustedCaller(SYSTEM, agent=agent), now=now)


def test_a_script_gets_the_pieces_that_are_new(
    browser: Client, agent: Agent, running: tuple[UUID, UUID], now: datetime
) -> None:
    task, attempt = running
    path = f"/tasks/{task}/attempts/1/output/"
    page = browser.get(f"/tasks/{task}/").content.decode()
    assert f'data-output="{path}"' in page and "Nothing printed yet." in page
    send(agent, attempt, 0, HOSTILE, now)
    send(agent, attempt, 500, "rest\nlater\n", now)

    def ask(start: Any) -> Any:
        return browser.get(path, {"from": start}, headers=PART).json()

    first = ask(0)
    assert [piece["text"] for piece in first["data"]] == [HOSTILE, "later\n"]
    assert first["is_live"] and first["next"] == 500
    assert [piece["at"] for piece in ask(500)["data"]] == [500]
    for wrong in ("x", "-1", "9" * 40, "²"):
        assert ask(wrong) == first
    fail(agent, attempt, now=now)
    assert ask(600) == {"data": [], "next": 600, "is_live": False}


def test_a_quiet_attempt_answers_without_a_body(
    browser: Client, agent: Agent, running: tuple[UUID, UUID], now: datetime
) -> None:
    task, attempt = running
    path = f"/tasks/{task}/attempts/1/output/"

    def ask(start: int, size: Any) -> tuple[int, int]:
        answer = browser.get(path, {"from": start, "size": size}, headers=PART)
        assert bool(answer.content) is (answer.status_code == 200)
        return answer.status_code, len(answer.json()["data"]) if answer.content else 0

    assert ask(0, 0) == (204, 0)
    send(agent, attempt, 0, "one\n", now)
    assert ask(0, 0) == (200, 1)
    assert ask(0, 4) == (204, 0)
    for wrong in ("", "x", "-4", 3, 5):
        assert ask(0, wrong) == (200, 1)
    send(agent, attempt, 0, "one\ntwo\n", now)
    assert ask(0, 4) == (200, 1)
    send(agent, attempt, 500, "rest\nlater\n", now)
    assert ask(0, 8) == (200, 2)
    assert ask(500, 11) == (204, 0)
    fail(agent, attempt, now=now)
    assert ask(500, 11) == (200, 1)


def test_the_whole_output_is_text_that_can_be_downloaded(
    browser: Client, agent: Agent, running: tuple[UUID, UUID], now: datetime
) -> None:
    task, attempt = running
    path = f"/tasks/{task}/attempts/1/output/"
    send(agent, attempt, 0, HOSTILE, now)
    whole = browser.get(path)
    assert whole["Content-Type"].startswith("text/plain") and whole.content.decode() == HOSTILE
    assert "attachment" in browser.get(f"{path}?download")["Content-Disposition"]
    assert browser.get(f"/tasks/{task}/attempts/2/output/").status_code == 404
    assert browser.get(f"/tasks/{uuid4()}/attempts/1/output/").status_code == 404
