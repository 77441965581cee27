"""A task's attempts side by side, and the card of the last failure."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.tasks.attempt_comparison import ComparedRows, compare_attempts, list_rows
from ledger.journal import SYSTEM
from ledger.models import Agent, Attempt, Failure
from ledger.tokens import TrustedCaller
from retries.attempts.finishing import finish_attempt
from retries.attempts.report_fields import Report
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
    Attempt.objects.filter(number=2).update(context_elements={"failure": 2}, context_chars=400)
    Attempt.objects.filter(number=3).update(
        context_elements={"failure": 1, "known": 1, "user_intervention": 1}, context_chars=900
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
    assert "Told Nothing about earlier attempts 2 earlier failures" in table
    assert "Your fix, 1 earlier failure, known cause" in table  # OPR-36
    assert "/contexts/?a=2&amp;b=3" in response.content.decode()
    assert HOSTILE not in response.content.decode()


def test_only_the_rows_that_differ_are_shown_where_asked(browser: Client, task: Any) -> None:
    """Equal rows are hidden and named; the other links of the page keep the choice."""
    path = f"/tasks/{task}/"
    assert "Hidden because all attempts match" not in words(browser.get(path))
    everything = words(browser.get(path, {"differences": "only"}))
    table = everything[everything.index("Attempts compared 4") : everything.index("Failures 3")]
    assert all(f" {name} " in table for name in ("Duration", "Error", "Files", "Told"))
    assert "Hidden because all attempts match" not in everything

    Attempt.objects.update(context_elements=None, context_chars=None)
    Failure.objects.update(files_modified=[{"path": "a.py"}])
    Attempt.objects.filter(number=4).delete()
    response = browser.get(path, {"differences": "only", "timeline": "clock"})
    page = words(response)
    table = page[page.index("Attempts compared 3") : page.index("Failures 3")]
    assert "Error verification_failed AssertionError: 41" in table
    assert "Files a.py" not in table and "Told Nothing" not in table
    assert "Hidden because all attempts match: duration, files, told." in table
    assert 'href="?differences=only#compared"' not in html(response)
    assert 'href="?differences=only&timeline=clock#compared"' in html(response)
    assert 'href="?timeline=clock#compared"' in html(response)
    assert 'href="?differences=only"' in html(response)  # of the other axis


def test_what_each_row_shows_decides_whether_it_is_equal(task: Any) -> None:
    """A check that did not run is one with a failure and without; cost and checks need values."""
    now = timezone.now()

    def rows(**more: Any) -> ComparedRows:
        Attempt.objects.filter(number=1).update(**more)
        attempts = Attempt.objects.select_related("failure").order_by("number")
        return list_rows(compare_attempts(list(attempts), now=now), only_differences=True)

    assert rows().shown == ["Duration", "Error", "Files", "Told"]
    assert rows(usage={"cost_usd": 2}).shown[-1] == "Cost"
    Attempt.objects.update(usage={"cost_usd": 2})
    assert rows().equal == ["Cost"]
    check = {"command": "make test", "exit_code": 1}
    Failure.objects.update(verification=check)
    assert rows().shown[-1] == "Check"  # the running attempt has not run its own
    Attempt.objects.filter(outcome=None).delete()
    assert rows().equal == ["Duration", "Check", "Cost"]
    Failure.objects.filter(attempt__number=2).update(verification=check | {"exit_code": 2})
    assert rows().equal == ["Duration", "Cost"]
    first = Attempt.objects.select_related("failure").filter(number=1)
    assert list_rows(compare_attempts(list(first), now=now), only_differences=True).equal == []


def test_one_attempt_is_not_compared(browser: Client, agent: Agent, now: datetime) -> None:
    id = enqueued(agent, "Sum up", now=now)
    claimed(agent, id, now=now)
    response = browser.get(f"/tasks/{id}/", {"differences": "only"})
    assert "Attempts compared" not in words(response)  # OPR-33, OPR-35
    assert "was told" not in words(response)
    assert "Only differences" not in words(response) and 'id="equal-rows"' not in html(response)


def test_the_axis_is_chosen_and_kept(browser: Client, task: Any) -> None:
    work = browser.get(f"/tasks/{task}/")
    assert "4 long waits are cut" in words(work) and html(work).count("gantt__cut") == 4
    clock = browser.get(f"/tasks/{task}/", {"timeline": "clock"})
    assert "gantt__cut" not in html(clock)
    assert 'hx-get="/tasks/' in html(clock) and "?timeline=clock" in html(clock)


def test_a_task_without_attempts_has_neither(browser: Client, agent: Agent, now: datetime) -> None:
    page = html(browser.get(f"/tasks/{enqueued(agent, now=now)}/"))
    assert 'id="compared"' not in page and 'id="last-failure"' not in page


def test_what_is_blocked_as_reported_has_one_word(
    browser: Client, agent: Agent, now: datetime
) -> None:
    id = enqueued(agent, "Sum up", now=now)
    finish_attempt(
        claimed(agent, id, now=now),
        Report(status="blocked", message="No access to the archive"),
        caller=TrustedCaller(SYSTEM, agent=agent),
        now=now + timedelta(seconds=9),
    )
    page = words(browser.get(f"/tasks/{id}/"))
    assert "Blocked: reported blocked by its agent" in page
    assert "Attempt 1: reported blocked" in html(browser.get(f"/tasks/{id}/"))
    assert "reported blocked" in words(browser.get("/tasks/"))
    assert "Reported blocked" in html(browser.get("/escalations/"))
    assert "Reported blocked" in words(browser.get("/"))


def test_an_error_stands_once_with_one_attempt(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """OPR-35; and OPR-26: the failure of a task that is done has no red card."""
    id = enqueued(agent, "Sum up", now=now - timedelta(hours=1), max_attempts=3)
    failed(agent, id, now=now, message="ValueError: no sums", retry_after_s=0)
    page = words(browser.get(f"/tasks/{id}/"))
    assert page.count("ValueError: no sums") == 1 and "Attempt 1 failed" in page

    attempt = claimed(agent, id, now=now + timedelta(minutes=1))
    later = now + timedelta(minutes=2)
    caller = TrustedCaller(SYSTEM, agent=agent)
    finish_attempt(attempt, Report(status="success"), caller=caller, now=later)
    page = words(browser.get(f"/tasks/{id}/"))
    assert "Attempt 1 failed" not in page.partition("Timeline")[0]
    assert "attempt 2 of 3 · took" in page
