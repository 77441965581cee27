"""Take a task, a dead letter or a pattern on its page, comment on it, and find what is yours."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ledger.authorization.roles import Role
from ledger.models import Agent, Event, Membership, Task
from retries.models import FailurePattern, Operation
from tests.dashboard.seen import html, rows, said, words
from tests.dashboard.worked import buried, make_task
from tests.retries.operations.worlds import run

pytestmark = pytest.mark.django_db
HOSTILE = "<b>@mara</b> ‮ look"


def sign_in(name: str, agent: Agent, role: Role = Role.OPERATOR) -> Client:
    user = User.objects.create_user(name)
    Membership.objects.create(user=user, project=agent.project, role=role, added_by="mara")
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def pages(agent: Agent, now: datetime) -> dict[str, str]:
    letter = buried("Back up", agent=agent, now=now - timedelta(minutes=5))
    return {
        "tasks": f"/tasks/{letter.task_id}/",
        "dead-letters": f"/dead-letters/{letter.pk}/",
        "patterns": f"/patterns/{FailurePattern.objects.get().pk}/",
    }


@pytest.mark.parametrize("noun", ["tasks", "dead-letters", "patterns"])
def test_a_row_is_taken_given_and_given_back(
    browser: Client, agent: Agent, pages: dict[str, str], noun: str
) -> None:
    page = pages[noun]
    sign_in("ben", agent)
    assert "Assigned to You" not in words(browser.get(page))
    assert said(browser, f"{page}assign/", {"user": "mara"}) == "Assigned to mara."
    assert "Assigned to You" in words(browser.get(page))
    assert "already the same" in said(browser, f"{page}assign/", {"user": "mara"})
    assert said(browser, f"{page}assign/", {"user": "ben"}) == "Assigned to ben."
    assert "assigned it to ben" in words(browser.get(page))
    assert "no active user" in said(browser, f"{page}assign/", {"user": "x"})
    assert said(browser, f"{page}assign/", {"user": ""}) == "Assigned to no one."
    assert "removed the assignee" in words(browser.get(page))


@pytest.mark.parametrize("noun", ["tasks", "dead-letters", "patterns"])
def test_a_comment_stands_on_the_page(
    browser: Client, agent: Agent, pages: dict[str, str], noun: str
) -> None:
    page = pages[noun]
    assert said(browser, f"{page}comment/", {"text": HOSTILE}) == "Comment added."
    assert b"&lt;b&gt;@mara&lt;/b&gt;" in browser.get(page).content
    assert "1 to 2000" in said(browser, f"{page}comment/", {"text": " "})
    assert ".commented" in words(browser.get("/activity/"))
    viewer = sign_in("vera", agent, Role.VIEWER)
    shown = html(viewer.get(page))
    assert "@mara" in shown and 'name="text"' not in shown and "assign-menu" not in shown
    assert viewer.post(f"{page}comment/", {"text": "x"}).status_code == 403
    assert viewer.post(f"{page}assign/", {"user": "mara"}).status_code == 403
    assert Event.objects.filter(kind__endswith=".commented").count() == 1


def comment_key(browser: Client, page: str) -> str:
    return html(browser.get(page)).split('name="key" value="')[1].split('"')[0]


@pytest.mark.parametrize("noun", ["tasks", "dead-letters", "patterns"])
def test_a_comment_whose_form_is_sent_twice_is_written_once(
    browser: Client, pages: dict[str, str], noun: str
) -> None:
    page = pages[noun]
    form = {"text": "The disk is full", "key": comment_key(browser, page)}
    for _ in range(2):
        assert said(browser, f"{page}comment/", form) == "Comment added."
    written = Event.objects.filter(kind__endswith=".commented")
    assert written.count() == 1
    # the same text again, from the page that shows the first comment
    said(browser, f"{page}comment/", form | {"key": comment_key(browser, page)})
    assert written.count() == 2


@pytest.mark.parametrize("noun", ["tasks", "dead-letters", "patterns"])
def test_a_refused_comment_gives_its_text_back(
    browser: Client, pages: dict[str, str], noun: str
) -> None:
    form = {"text": "too long " * 300, "key": ""}
    told = said(browser, f"{pages[noun]}comment/", form)
    assert "1 to 2000" in told and "You typed: “too long too long" in told


def test_a_task_and_its_dead_letter_show_the_same(
    browser: Client, agent: Agent, pages: dict[str, str]
) -> None:
    browser.post(f"{pages['tasks']}assign/", {"user": "mara"})
    browser.post(f"{pages['dead-letters']}comment/", {"text": "The disk is full"})
    for noun in ("tasks", "dead-letters"):
        shown = words(browser.get(pages[noun]))
        assert "Assigned to You" in shown and "The disk is full" in shown
    assert "mara: The disk is full" in words(browser.get(pages["tasks"]))  # its history


@pytest.mark.parametrize(
    ("noun", "row"), [("tasks", "task"), ("dead-letters", "dead"), ("patterns", "pattern")]
)
def test_mine_are_those_of_the_viewer(
    browser: Client, agent: Agent, now: datetime, pages: dict[str, str], noun: str, row: str
) -> None:
    browser.post(f"{pages[noun]}assign/", {"user": "mara"})
    mine, ben = f"/{noun}/?q=assignee:me", sign_in("ben", agent)
    [id] = rows(browser.get(mine), row)
    assert id in pages[noun]
    # neither rows nor counts are another person's
    assert rows(ben.get(mine), row) == [] and "assigned to mara" not in words(ben.get(mine))
    assert rows(ben.get(f"/{noun}/?q=assignee:mara"), row) == [id]
    assert rows(ben.get(f"/{noun}/?q=assignee:none"), row) == []
    assert rows(ben.get(f"/{noun}/?q=-assignee:me"), row) == [id]
    assert rows(browser.get(f"/{noun}/?q=(assignee:me OR assignee:none)"), row) == [id]
    exported = browser.get(f"/{noun}/export/csv/?q=assignee:me")
    assert b",mara," in b"".join(exported.streaming_content)  # type: ignore[attr-defined]
    count = {"tasks": 0, "dead-letters": 1, "patterns": 1}[noun]
    [label] = [each for each in ("Tasks", "Dead letters", "Patterns") if noun[:4] in each.lower()]
    assert f"{label} {count} open" in words(browser.get("/settings/profile/"))
    assert f"{label} 0 open" in words(ben.get("/settings/profile/"))


@pytest.mark.django_db(transaction=True)
def test_many_are_assigned_at_once(browser: Client, agent: Agent, now: datetime) -> None:
    start = now - timedelta(minutes=5)
    tasks = [make_task(agent=agent, now=start) for _ in range(3)]
    Task.objects.filter(pk=tasks[0].pk).update(assignee=User.objects.get())
    buried(agent=agent, now=start)
    pattern = FailurePattern.objects.get()
    form: dict[str, Any] = {"id": [str(each.pk) for each in tasks]}
    asked = html(browser.post("/operations/new/task.assign/", form))
    assert '<select class="input opagent" id="user"' in asked and "mara" in asked
    browser.post("/operations/new/task.assign/", form | {"confirmed": "yes", "user": "mara"})
    form = {"id": [str(pattern.pk)]}
    assert "Assign 1 selected pattern?" in words(
        browser.post("/operations/new/pattern.assign/", form)
    )
    browser.post("/operations/new/pattern.assign/", form | {"confirmed": "yes", "user": "mara"})
    for operation in Operation.objects.all():
        run(operation, now=now)
    assert Event.objects.filter(kind="task.assigned").count() == 2
    assert Task.objects.filter(assignee__username="mara").count() == 3
    assert FailurePattern.objects.get().assignee == User.objects.get()
