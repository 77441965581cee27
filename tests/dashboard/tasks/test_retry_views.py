"""The form that retries or replays a task with another payload."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Budget, Event, Task
from ledger.states import TaskState
from ledger.tasks.changing import Change, change
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.retry_context.history import (
    MARKS,
    load_histories,
    load_history,
    render_next_context,
    select_payload_changes,
)
from retries.states import Answer
from tests.dashboard.conftest import PART
from tests.dashboard.seen import html, words
from tests.dashboard.worked import claimed, make_task
from tests.factories import make_agent

pytestmark = pytest.mark.django_db
OLD = {"action": "Sum up", "files": ["a.csv"], "password": "[redacted:secret]"}


def address(task: Task) -> str:
    return f"/tasks/{task.pk}/change-and-retry/"


def send(browser: Client, task: Task, payload: Any, **more: Any) -> Any:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    version = Task.objects.get(pk=task.pk).version
    given = {"payload": text, "version": version, "note": "wrong file"} | more
    return browser.post(address(task), given, follow=True)


@pytest.mark.parametrize("state", [TaskState.RETRY, TaskState.ESCALATED])
def test_the_next_attempt_gets_the_payload_and_is_told_so(
    browser: Client, agent: Agent, now: datetime, state: TaskState
) -> None:
    task = make_task(state, "Sum", agent=agent, now=now, payload=OLD)
    assert "Change and retry…" in words(browser.get(f"/tasks/{task.pk}/"))
    form = browser.get(address(task))
    assert "You can leave or remove them" in words(form) and "a.csv" in html(form)
    new = OLD | {"files": ["b.csv"]}
    page = send(browser, task, new)
    assert page.status_code == 200 and page.redirect_chain[-1][0] == f"/tasks/{task.pk}/"
    assert "changed payload: /files/0 from “a.csv” to “b.csv”" in words(page)
    row = Task.objects.get(pk=task.pk)
    assert row.payload == new and row.state in (TaskState.RETRY, TaskState.QUEUED)
    data = Event.objects.get(kind="task.changed").data
    assert data["payload"] == [{"path": "/files/0", "old": "a.csv", "new": "b.csv"}]
    assert (data["attempt"], data["note"]) == (2, "wrong file")
    newer = Change(payload={"action": "Sum up", "files": ["c.csv"]})
    change(row.pk, newer, version=row.version, stamp=Stamp(SYSTEM))
    attempts = row.attempt_set.annotate(**MARKS).select_related("failure").order_by("number")
    changes = [each.data for each in select_payload_changes(Event.objects.about(row.pk))]
    for past in (
        load_histories([row.pk])[row.pk],
        load_history([row.pk], attempts, None, {}, [], changes),  # what a preview shows
    ):
        of = {"id": row.pk, "type": row.type, "attempts": 1, "attempt_limit": 3}
        told = render_next_context(of, history=past)
        assert "the task's payload was changed: /files/0, /password." in told
    assert claimed(agent, row.pk, now=now + timedelta(hours=1))


@pytest.mark.parametrize("answered_first", [True, False])
def test_no_undo_leaves_another_payload_behind(
    browser: Client, agent: Agent, now: datetime, answered_first: bool
) -> None:
    """An answer can't be undone once the task was retried with another payload."""
    task = make_task(TaskState.ESCALATED, "Sum", agent=agent, now=now, payload=OLD)
    asked = Escalation.objects.get(task=task)
    if answered_first:
        answering.answer(
            asked.pk,
            Choice(Answer.RETRY),
            among=Escalation.objects.all(),
            stamp=Stamp(SYSTEM, now),
            channel="page",
            undo_for=timedelta(minutes=1),
        )
        assert Task.objects.get(pk=task.pk).state == TaskState.RETRY
    new = {"action": "Sum up b.csv"}
    page = send(browser, task, new)
    assert page.status_code == 200 and "/undo/" not in html(page)
    late = browser.post(f"/escalations/{asked.pk}/undo/", {}, headers=PART)
    assert late.status_code == 409
    row = Task.objects.get(pk=task.pk)
    assert row.payload == new and row.state in (TaskState.RETRY, TaskState.QUEUED)
    assert Event.objects.filter(kind="task.changed").count() == 1
    assert not Event.objects.filter(kind="task.answer_undone").exists()


@pytest.mark.parametrize("state", [TaskState.RETRY, TaskState.ESCALATED, TaskState.FAILED])
def test_a_retry_changes_agent_attempts_start_and_budget(
    browser: Client, agent: Agent, now: datetime, state: TaskState
) -> None:
    task = make_task(state, "Sum", agent=agent, now=now, payload=OLD)
    tester = make_agent("tester")
    later = (now + timedelta(hours=2)).replace(second=0, microsecond=0)
    shown = html(browser.get(address(task)))
    assert 'value="coder"' in shown and f'value="{task.max_attempts}"' in shown
    page = send(
        browser,
        task,
        OLD,
        agent="tester",
        max_attempts="7",
        not_before=later.strftime("%Y-%m-%dT%H:%M"),
        budget="9k tokens",
    )
    assert page.status_code == 200, html(page, 422)
    row = Task.objects.get(replay_of=task.pk) if state == "failed" else Task.objects.get(pk=task.pk)
    assert (row.agent_id, row.max_attempts, row.not_before) == (tester.pk, 7, later)
    assert row.state == (TaskState.RETRY if state == "retry" else TaskState.BLOCKED)
    assert state != "retry" or row.due_at == later
    assert Budget.objects.get(task=row).amount == 9000
    kind = "task.replayed" if state == "failed" else "task.changed"
    data: dict[str, Any] = {}
    for event in Event.objects.filter(kind=kind).order_by("id"):
        data = event.data | {"values": data.get("values", {}) | event.data.get("values", {})} | data
    assert (data["from_agent"], data["to_agent"]) == ("coder", "tester")
    values = Event.objects.filter(kind=kind).values_list("data__values", flat=True)
    both = {name: each[name] for each in values if each for name in each}
    assert both["max_attempts"] == {"old": task.max_attempts, "new": 7}
    assert both["not_before"]["old"] is None
    history = words(browser.get(f"/tasks/{task.pk}/"))
    assert f"max attempts from {task.max_attempts} to 7" in history
    assert f"{later:%Y-%m-%d %H:%M} UTC" in history


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("agent", "ghost", "ghost"),
        ("max_attempts", "101", "Give a number from 1 to 100."),
        ("not_before", "2999-01-01T00:00", "at most 366 days ahead."),
        ("budget", "5 apples", "Give an amount with its unit"),
    ],
)
def test_a_refused_term_changes_nothing(
    browser: Client, agent: Agent, now: datetime, field: str, value: str, problem: str
) -> None:
    task = make_task(TaskState.RETRY, "Sum", agent=agent, now=now, payload=OLD)
    page = send(browser, task, OLD | {"files": ["b.csv"]}, **{field: value})
    shown = html(page, 422)
    assert problem in shown and page.context["form"].errors.get(field) and "b.csv" in shown
    row = Task.objects.get(pk=task.pk)
    assert (row.payload, row.version) == (OLD, task.version)


def test_a_failed_task_is_replayed(browser: Client, agent: Agent, now: datetime) -> None:
    task = make_task(TaskState.FAILED, "Sum", agent=agent, now=now, payload=OLD)
    assert "Change and replay…" in words(browser.get(f"/dead-letters/{task.dead_letter.pk}/"))
    page = send(browser, task, {"action": "Sum up b.csv"})
    new = Task.objects.get(replay_of=task.pk)
    assert page.redirect_chain[-1][0] == f"/tasks/{new.pk}/"
    assert new.payload == {"action": "Sum up b.csv"}
    old = words(browser.get(f"/tasks/{task.pk}/"))
    assert "with another payload: " in old and "/action from “Sum up” to “Sum up b.csv”" in old
    assert "Change and retry" not in old
    # the typed text stays
    again = send(browser, task, {"action": "Once more"})
    assert "Nothing changed. " in html(again, 422) and "Once more" in html(again, 422)
    assert Task.objects.count() == 2
    assert "can’t be retried now" in words(browser.get(address(task), follow=True))


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ('{"action": ', "This is not JSON: Expecting value, line 1 column 12."),
        ('{"n": NaN}', "This is not JSON that Tenfour can store."),
        ('{"files": "a.csv"}', "files must be a list of strings."),
        ('{"password": "hunter2"}', "/password holds a redacted value, which can't be edited"),
        (json.dumps({"text": "x" * 300_000}), "the limit is 262144."),
    ],
)
def test_a_refused_payload_stays_in_the_form(
    browser: Client, agent: Agent, now: datetime, payload: str, problem: str
) -> None:
    """What `POST /v1/tasks` refuses, and changes of values that were never stored."""
    task = make_task(TaskState.RETRY, "Sum", agent=agent, now=now, payload=OLD)
    page = send(browser, task, payload)
    shown = html(page, 422)
    assert problem in shown and payload[:200].strip() in shown
    assert Task.objects.get(pk=task.pk).payload == OLD


def test_a_typed_secret_is_redacted_and_a_redacted_value_can_be_removed(
    browser: Client, agent: Agent, now: datetime
) -> None:
    task = make_task(TaskState.RETRY, "Sum", agent=agent, now=now, payload=OLD)
    send(browser, task, {"action": "Sum up", "api_key": "hunter2"})
    assert Task.objects.get(pk=task.pk).payload["api_key"] == "[redacted:secret]"
    assert "hunter2" not in json.dumps(list(Event.objects.values_list("data", flat=True)))


def test_a_form_of_an_older_version_is_refused_with_the_text(
    browser: Client, agent: Agent, now: datetime
) -> None:
    task = make_task(TaskState.RETRY, "Sum", agent=agent, now=now, payload=OLD)
    page = send(browser, task, {"action": "Mine"}, version=task.version - 1)
    shown = html(page, 422)
    assert "has changed since you opened this form" in shown
    assert "Mine" in shown and Task.objects.get(pk=task.pk).payload == OLD


def test_other_tasks_have_no_form(browser: Client, agent: Agent, now: datetime) -> None:
    for state in (TaskState.QUEUED, TaskState.RUNNING, TaskState.DONE):
        task = make_task(state, agent=agent, now=now)
        assert "Change and retry" not in words(browser.get(f"/tasks/{task.pk}/"))
        assert "can’t be retried now" in words(browser.get(address(task), follow=True))
