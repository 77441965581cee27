"""A task's attempts side by side, and the card of the last failure."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from ledger.models import Agent, Attempt
from tests.dashboard.seen import html, words
from tests.dashboard.worked import claimed, enqueued, failed

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def task(agent: Agent, now: datetime) -> Any:
    """A task with three failures and a running attempt."""
    id = enqueued(agent, "Sum up", now=now - timedelta(hours=4), max_attempts=4)
    told: list[dict[str, Any]] = [
        {"message": "AssertionError: 41 of 90 differ", "files_modified": [{"path": "a.py"}]},
        {
            "message": "AssertionError: 3 of 90 differ",
            "files_modified": [{"path": "b.py"}],
            "root_cause_guess": "Rounded twice",
        },
        {"message": f"KeyError: {HOSTILE}", "files_modified": [], "root_cause_guess": "No key"},
    ]
    for hours, more in zip((3, 2, 1), told, strict=True):
        at = now - timedelta(hours=hours)
        failed(agent, id, now=at, type="verification_failed", retry_after_s=0, **more)
    claimed(agent, id, now=now - timedelta(minutes=1))
    Attempt.objects.filter(number=2).update(context_elements={"error": 1}, context_chars=400)
    Attempt.objects.filter(number=3).update(
        context_elements={"error": 1, "known_fix": 1}, context_chars=900
    )
    return id


def test_the_likely_cause_is_the_last_failures(browser: Client, task: Any) -> None:
    page = words(browser.get(f"/tasks/{task}/"))
    card = page[page.index("Attempt 3 failed") : page.index("Timeline")]
    assert "KeyError: " in card
    assert "Likely cause No key A guess by coder after attempt 3." in card
    assert "Rounded twice" not in card


def test_attempts_stand_side_by_side(browser: Client, task: Any) -> None:
    response = browser.get(f"/tasks/{task}/")
    page = words(response)
    table = page[page.index("Attempts compared 4") : page.index("Failures 3")]
    assert re.search(r"Duration 10 s 10 s 10 s 1 m( \d\d s)?, so far", table)
    assert "verification_failed closer: 3, not 41 AssertionError: 3 of 90" in table
    assert "another error KeyError: " in table and "None so far" in table
    assert "Files a.py 1 other file b.py no file changed Not reported" in table
    assert "Told Nothing about earlier attempts new: error error 1 400 characters" in table
    assert "new: known fix error 1 known fix 1 900 characters" in table
    assert HOSTILE not in response.content.decode()


def test_the_axis_is_chosen_and_kept(browser: Client, task: Any) -> None:
    work = browser.get(f"/tasks/{task}/")
    assert "4 long waits are cut" in words(work) and html(work).count("gantt__cut") == 4
    clock = browser.get(f"/tasks/{task}/", {"timeline": "clock"})
    assert "gantt__cut" not in html(clock)
    assert 'hx-get="/tasks/' in html(clock) and "?timeline=clock" in html(clock)


def test_a_task_without_attempts_has_neither(browser: Client, agent: Agent, now: datetime) -> None:
    page = html(browser.get(f"/tasks/{enqueued(agent, now=now)}/"))
    assert 'id="compared"' not in page and 'id="last-failure"' not in page
