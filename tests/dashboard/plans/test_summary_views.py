"""The page of a plan's retry summary."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.http import HttpResponse
from django.test import Client

from ledger.models import Agent, Task
from tests.factories import make_agent, make_project
from tests.retries.renderings.stories import add, attempt, make_plan, sample

pytestmark = pytest.mark.django_db

HOSTILE = "<b>owned</b> | \n## x"


def text(page: HttpResponse) -> str:
    words = re.sub(r"<[^>]+>", " ", page.content.decode())
    return " ".join(words.split())


def test_the_summary_of_the_sample_plan(browser: Client, agent: Agent, now: datetime) -> None:
    """S1.65–S1.69"""
    plan, tasks = sample(agent, now=now - timedelta(hours=1))
    for path in (f"/plans/{plan.ref}/summary/", f"/plans/{plan.pk}/summary/"):
        said = text(browser.get(path))
        assert "First-attempt success 3 (60%) Retried tasks 2 (40%) Retry success 1" in said
        assert "Task 2 Part 2 2 success (retry worked)" in said
        assert "Task 3 Part 3 3 skipped (escalated)" in said
        assert "verification_failed 4 occurrences" in said
        assert "## Retry Summary for Plan 03-01 | Metric | Value |" in said
    assert f"/tasks/{tasks[2]}/" in browser.get(path).content.decode()


def test_hostile_texts_are_escaped(browser: Client, agent: Agent, now: datetime) -> None:
    plan = make_plan(agent, title=HOSTILE)
    task = add(plan, agent, 1, title=HOSTILE, now=now)
    attempt(agent, task, now=now, error=HOSTILE, root_cause_guess=HOSTILE)
    page = browser.get("/plans/03-01/summary/").content.decode()
    assert "&lt;b&gt;owned" in page and "<b>owned" not in page


def test_a_poll_gets_the_part_or_204(
    part: Callable[..., HttpResponse], agent: Agent, now: datetime
) -> None:
    plan = make_plan(agent)
    task = add(plan, agent, 1, now=now)
    page = part("/plans/03-01/summary/").content.decode()
    assert "<html" not in page and 'id="plan-summary"' in page
    key = re.search(r'data-since="([^"]+)"', page)
    assert key and part("/plans/03-01/summary/", since=key[1]).status_code == 204
    Task.objects.filter(pk=task).update(updated_at=now + timedelta(seconds=1))
    again = part("/plans/03-01/summary/", since=key[1])
    assert again.status_code == 204  # a change that the summary does not show
    assert again["Tenfour-Live-Key"] != key[1]


def test_a_ref_is_looked_up_in_the_selected_project(browser: Client, agent: Agent) -> None:
    make_plan(agent, title="Ours")
    make_plan(make_agent(project=make_project("other")), title="Theirs")
    for name, title in (("default", "Ours"), ("other", "Theirs")):
        assert title in text(browser.get(f"/plans/03-01/summary/?project={name}"))
    for path in ("03-09", "nothing", "00000000-0000-7000-8000-000000000000"):
        assert browser.get(f"/plans/{path}/summary/").status_code == 404


def test_only_operators_see_the_summary(agent: Agent) -> None:
    make_plan(agent)
    assert Client().get("/plans/03-01/summary/").status_code == 302


def test_the_number_of_tasks_adds_no_statements(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    plan = make_plan(agent)
    add(plan, agent, 1, now=now)
    few = statements(browser, "/plans/03-01/summary/")
    for number in range(2, 40):
        attempt(agent, add(plan, agent, number, now=now), now=now, error="no")
    assert statements(browser, "/plans/03-01/summary/") == few <= 12
