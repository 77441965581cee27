"""A to-do becomes a task, or is linked to one: by people who may, once, in one step."""

from datetime import datetime

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Agent, Event, Message, Session, SessionTask, Task
from ledger.sessions import task_links
from ledger.sessions.task_links import NewTask
from tests.dashboard.seen import html, words
from tests.dashboard.sessions.conversations import (
    HOSTILE,
    TOTALS,
    make_busy_session,
    make_session,
    make_todo,
)
from tests.dashboard.worked import claimed, enqueued, make_plan
from tests.factories import make_agent, make_project

pytestmark = pytest.mark.django_db


def test_a_todo_becomes_a_task_with_its_words(browser: Client, agent: Agent, now: datetime) -> None:
    """S2 and the page: the form is filled in, the task says what the to-do says, the event too."""
    session = make_session(agent, TOTALS, now=now)
    todo = make_todo(session, 1, "Write the note\nfor partners", 1, progress=["Half done"])
    make_agent("tester")
    path = f"/sessions/{session.pk}/"
    assert "Make a task…" in words(browser.get(path))
    form = html(browser.get(path, {"make": "1"}))
    assert 'value="Write the note for partners"' in form and '<option value="tester">' in form
    sent = {"title": "Partner note", "agent": "tester", "type": "docs"}
    page = browser.post(f"{path}to-dos/1/task/", sent, follow=True)
    assert "Made a task of to-do 1 for tester." in words(page)
    task = Task.objects.get()
    assert (task.title, task.agent.name, task.type, task.state) == (
        "Partner note",
        "tester",
        "docs",
        "queued",
    )
    assert task.payload == {"action": "Write the note\nfor partners", "context": ["Half done"]}
    todo.refresh_from_db()
    assert todo.task_id == task.pk and todo.version == 2
    assert f"/tasks/{task.pk}/" in html(page) and "Make a task…" not in words(page)
    event = Event.objects.get(kind=Kind.SESSION_TASK_UPDATED)
    assert (event.subject_id, event.actor_name, event.data["task"]) == (
        session.pk,
        "mara",
        str(task.pk),
    )
    said = words(browser.get("/activity/"))
    assert "mara “ Write the note for partners ” · linked to a task" in said
    # once only: nothing is enqueued for the second click
    again = words(browser.post(f"{path}to-dos/1/task/", sent, follow=True))
    assert "Nothing changed. To-do 1 is linked to a task already." in again
    assert Task.objects.count() == 1


def test_a_todo_is_linked_by_ref_or_id(browser: Client, agent: Agent, now: datetime) -> None:
    session = make_session(agent, TOTALS, now=now)
    for order in (1, 2, 3):
        make_todo(session, order, HOSTILE, 1)
    planned = make_plan("03-01", [("Round once", [])], agent=agent, now=now)[1][0]
    other = enqueued(agent, "Other", now=now)
    path = f"/sessions/{session.pk}/to-dos"
    linked = browser.post(f"{path}/1/task/", {"link": "yes", "task": "03-01:task-1"}, follow=True)
    assert "03-01:task-1" in words(linked)
    browser.post(f"{path}/2/task/", {"link": "yes", "task": str(other)})
    tasks = list(SessionTask.objects.order_by("order").values_list("task", flat=True))
    assert tasks == [planned, other, None]
    foreign = make_agent("far", project=make_project("elsewhere"))
    far = enqueued(foreign, "Far", now=now)
    for text in ("", "03-09:task-1", str(far), "\0", "x" * 500):
        refused = browser.post(f"{path}/3/task/", {"link": "yes", "task": text})
        assert refused.status_code == 422 and 'id="link-error"' in refused.content.decode(), text
    bad = browser.post(f"{path}/3/task/", {"title": "x" * 999, "agent": "nobody", "type": ""})
    assert bad.status_code == 422 and "There is no agent “nobody”" in words_of(bad)
    assert browser.post(f"{path}/9/task/").status_code == 404
    assert browser.get(f"{path}/3/task/")["Location"] == f"/sessions/{session.pk}/"
    assert Task.objects.count() == 3 and SessionTask.objects.filter(task=None).count() == 1


def words_of(response: object) -> str:
    return html(response, 422)  # type: ignore[arg-type]


def test_a_viewer_gets_no_form_and_changes_nothing(agent: Agent, now: datetime) -> None:
    session = make_busy_session(agent, now=now)
    eve = User.objects.create_user("eve", is_staff=True)
    eve.user_permissions.add(
        Permission.objects.get(codename="view_session", content_type__app_label="ledger")
    )
    client = Client()
    client.force_login(eve)
    page = html(client.get(f"/sessions/{session.pk}/", {"make": "4"}))
    assert "Make a task" not in page and "Make the task" not in page
    assert "“Can add task”" in page
    assert client.post(f"/sessions/{session.pk}/to-dos/4/task/", {"title": "x"}).status_code == 403
    assert not Task.objects.exists()


def test_a_failed_enqueue_links_nothing(agent: Agent, now: datetime) -> None:
    """Both rows or none: another person was faster with the link, so the task is rolled back."""
    session = make_session(agent, TOTALS, now=now)
    make_todo(session, 1, "One", 1)
    first, second = (task_links.find_todo(session.pk, 1) for _ in range(2))
    task_links.make_task(first, NewTask(), stamp=Stamp(SYSTEM, now))
    with pytest.raises(task_links.InvalidTransition):
        task_links.make_task(second, NewTask(), stamp=Stamp(SYSTEM, now))
    assert Task.objects.count() == 1
    task_links.link_task(
        task_links.find_todo(session.pk, 1), Task.objects.get(), stamp=Stamp(SYSTEM, now)
    )
    assert SessionTask.objects.get().version == 2


def test_an_attempt_leads_to_its_conversation(browser: Client, agent: Agent, now: datetime) -> None:
    session = make_busy_session(agent, now=now)
    task = enqueued(agent, "Round once", now=now)
    attempt = claimed(agent, task, now=now)
    assert "Conversation of attempt" not in words(browser.get(f"/tasks/{task}/"))
    Message.objects.filter(session=session, order__gte=9).update(attempt=attempt)
    page = browser.get(f"/tasks/{task}/")
    assert "Conversation of attempt 1 13 messages, 1 of 4 to-dos done" in words(page)
    assert f'href="/sessions/{session.pk}/?at=9#m-9"' in html(page)
    assert Session.objects.count() == 1
