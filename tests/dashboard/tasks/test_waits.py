"""The pages say what a task waits for: a time, its plan's time, or another task's files."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from ledger.database import server_time
from ledger.models import Agent
from tests.ledger.plans.test_import_writer import imported, task
from tests.retries.moves import claim, make_task

pytestmark = pytest.mark.django_db


def read(browser: Client, kind: str, id: UUID) -> str:
    response: Any = browser.get(f"/{kind}/{id}/")
    assert response.status_code == 200
    return str(response.content.decode())


def test_a_task_says_when_it_starts(agent: Agent, browser: Client) -> None:
    later = server_time.now() + timedelta(hours=1)
    text = read(browser, "tasks", make_task(agent, not_before=later))
    assert "its start is set for later" in text and "Not before" in text
    assert "waiting for its start time" in text and "waiting for other tasks" not in text
    assert f"{later:%Y-%m-%dT%H:%M:%S}" in text
    assert "starts in" in browser.get("/tasks/").content.decode()


def test_a_task_says_that_its_plan_has_not_started(agent: Agent, browser: Client) -> None:
    later = server_time.now() + timedelta(hours=1)
    plan = imported({}, not_before=later.isoformat(), exclusive_files=True).plan
    assert "its plan does not start until" in read(browser, "tasks", task("03-01:task-1").pk)
    text = read(browser, "plans", plan.pk)
    assert "Not before" in text and "tasks with the same files" in text
    assert "on hold, plan not started" in text


def test_a_task_names_the_one_that_has_its_files(agent: Agent, browser: Client) -> None:
    files = {"files": ["a"]}
    imported(files, files | {"title": "Second"}, exclusive_files=True)
    claim(agent)
    first, second = (task(f"03-01:task-{n}").pk for n in (1, 2))
    assert f"/tasks/{first}" in read(browser, "tasks", second)
    assert "some of the same files" in read(browser, "tasks", second)
    assert "some of the same files" not in read(browser, "tasks", first)
