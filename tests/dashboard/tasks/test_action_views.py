"""Actions on one task and on selected tasks."""

import re
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.test import Client

from ledger.models import Agent, Event, Task
from ledger.states import TaskState, Who, allowed_moves
from retries.models import Escalation
from tests.dashboard.seen import html, said, words
from tests.dashboard.worked import enqueued, make_task

pytestmark = pytest.mark.django_db


URL = "/tasks/"


SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def address(task: Task | UUID) -> str:
    return f"{URL}{task.pk if isinstance(task, Task) else task}/"


@pytest.mark.parametrize("state", [state.value for state in TaskState])
def test_only_allowed_actions_have_buttons(
    browser: Client, agent: Agent, now: datetime, state: str
) -> None:
    """The buttons come from the table of moves; one that runs can be told to stop."""
    task = make_task(state, agent=agent, now=now)
    found = set(re.findall(rf"/tasks/{task.pk}/([a-z-]+)/", html(browser.get(address(task)))))
    may = allowed_moves(state, Who.PERSON)
    wanted = {"assign", "comment"}
    wanted |= {verb for verb, to in (("skip", "skipped"), ("abort", "aborted")) if to in may}
    wanted |= {"abort", "attempts"} if state == "running" else set()  # its output
    wanted |= {"retry-now"} if state == "retry" else set()
    wanted |= {"change-and-retry"} if state in ("retry", "failed", "escalated") else set()
    assert found == wanted


def test_retry_now(browser: Client, agent: Agent, now: datetime) -> None:
    task = make_task(TaskState.RETRY, agent=agent, now=now)
    path = f"{address(task)}retry-now/"
    assert "1 task will retry now." in said(browser, path, {})
    assert "Nothing changed" in said(browser, path, {})
    task.refresh_from_db()
    assert task.due_at and task.due_at < now + MINUTE
    assert "mara retried it now" in words(browser.get(address(task)))


@pytest.mark.parametrize("verb", ["skip", "abort"])
def test_irreversible_actions_ask_first(
    browser: Client, agent: Agent, now: datetime, verb: str
) -> None:
    task = make_task(agent=agent, now=now)
    waiting = enqueued(agent, now=now, needs=[task.pk])
    path = f"{address(task)}{verb}/"
    asked = browser.post(path)
    assert asked["Location"] == f"{address(task)}?ask={verb}"
    assert "1 task waits for it." in words(browser.get(asked["Location"]))
    assert Task.objects.get(pk=task.pk).state == TaskState.QUEUED
    said(browser, path, {"confirmed": "yes"})
    assert Task.objects.get(pk=task.pk).state == {"skip": "skipped", "abort": "aborted"}[verb]
    assert Task.objects.get(pk=waiting).state == ("queued" if verb == "skip" else "blocked")
    assert Event.objects.filter(subject_id=task.pk).latest("id").actor_name == "mara"
    assert "Nothing changed" in said(browser, path, {"confirmed": "yes"})


def test_skip_can_keep_dependents_blocked(browser: Client, agent: Agent, now: datetime) -> None:
    task = make_task(agent=agent, now=now)
    waiting = enqueued(agent, now=now, needs=[task.pk])
    said(browser, f"{address(task)}skip/", {"confirmed": "yes", "dependents": "block"})
    assert Task.objects.get(pk=waiting).blocked_reason == "dependency_skipped"
    assert "Blocked: a task it needs was skipped." in words(browser.get(address(waiting)))
    assert "1 task unblocked" in said(browser, f"{address(waiting)}unblock/", {})
    assert Task.objects.get(pk=waiting).state == TaskState.QUEUED
    assert "/unblock/" not in html(browser.get(address(waiting)))


def test_running_task_is_asked_to_stop(browser: Client, agent: Agent, now: datetime) -> None:
    task = make_task(TaskState.RUNNING, agent=agent, now=now)
    assert "1 task asked to stop." in said(browser, f"{address(task)}abort/", {"confirmed": "yes"})
    text = words(browser.get(address(task)))
    assert "stop requested" in text and "mara asked it to stop" in text
    assert "/abort/" not in html(browser.get(address(task)))


@pytest.mark.parametrize("verb", ["skip", "abort"])
def test_a_reason_is_asked_for_and_shown_in_the_audit_log(
    verb: str, agent: Agent, browser: Client, now: datetime
) -> None:
    task = make_task(TaskState.QUEUED, agent=agent, now=now)
    assert 'name="reason"' in html(browser.get(f"{address(task)}?ask={verb}"))
    said(browser, f"{address(task)}{verb}/", {"confirmed": "yes", "reason": "wrong branch"})
    assert "wrong branch" in html(browser.get("/settings/audit/"))


def test_aborting_an_escalated_task_closes_its_escalation(
    browser: Client, agent: Agent, now: datetime
) -> None:
    task = make_task(TaskState.ESCALATED, agent=agent, now=now)
    question = Escalation.objects.get(task=task)
    assert f"/escalations/{question.pk}/" in html(browser.get(address(task)))
    said(browser, f"{address(task)}abort/", {"confirmed": "yes"})
    assert Escalation.objects.get().state == "withdrawn"
    assert f"/escalations/{question.pk}/" not in html(browser.get(address(task)))


@pytest.mark.parametrize("verb", ["retry-now", "skip", "abort", "explode"])
def test_get_never_acts_and_strangers_are_refused(
    browser: Client, agent: Agent, now: datetime, verb: str
) -> None:
    task = make_task(agent=agent, now=now)
    path = f"{address(task)}{verb}/"
    assert browser.get(path).status_code == 405
    assert Client().post(path)["Location"].startswith("/sign-in/")
    assert Client(enforce_csrf_checks=True).post(path).status_code == 403
    assert browser.post(f"{URL}{uuid4()}/{verb}/").status_code == 404
    assert Task.objects.get().state == TaskState.QUEUED


@pytest.mark.parametrize("action", ["skip", "abort"])
def test_inbox_asks_before_it_skips_or_aborts(
    browser: Client, agent: Agent, now: datetime, action: str
) -> None:
    task = make_task(TaskState.ESCALATED, agent=agent, now=now)
    question = Escalation.objects.get()
    path = f"/escalations/{question.pk}/answer/"
    form = {"action": action, "version": str(question.version)}
    assert "This cannot be undone" in words(browser.post(path, form))
    assert Task.objects.get(pk=task.pk).state == TaskState.ESCALATED
    browser.post(path, form | {"confirmed": "yes"})
    assert Task.objects.get(pk=task.pk).state == {"skip": "skipped", "abort": "aborted"}[action]
