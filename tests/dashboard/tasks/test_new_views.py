"""The form of a new task: filled from the last tasks of its type, checked as the API checks."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Budget, Event, Membership, Preference, Project, Task
from ledger.tasks import Spec, enqueue_many
from tests.dashboard.seen import html, words
from tests.factories import make_agent, make_project

pytestmark = pytest.mark.django_db
NEW = "/tasks/new/"
TYPED = {"project": "default", "key": "k1", "type": "code", "agent": "coder"}


def add(agent: Agent, *payloads: Any, type: str = "code", **more: Any) -> None:
    specs = [(agent, Spec(type=type, payload=each, **more)) for each in payloads]
    enqueue_many(specs, stamp=Stamp(SYSTEM))


def test_a_task_has_what_was_typed(browser: Client, agent: Agent) -> None:
    Preference.objects.create(user=User.objects.get(), time_zone="Asia/Tokyo")
    tomorrow = datetime.now(UTC).replace(microsecond=0, second=0) + timedelta(days=1)
    typed = {
        **{"title": "Sum up", "payload": '{"action": "Sum"}', "priority": "7"},
        **{"max_attempts": "5", "timeout_s": "60", "evidence": "require", "budget": "5k tokens"},
        "not_before": (tomorrow + timedelta(hours=9)).strftime("%Y-%m-%dT%H:%M"),
    }
    page = browser.post(NEW, TYPED | typed, follow=True)
    row = Task.objects.get()
    assert page.redirect_chain[-1][0] == f"/tasks/{row.pk}/" and "enqueued" in words(page)
    assert (row.title, row.payload, row.priority) == ("Sum up", {"action": "Sum"}, 7)
    assert (row.max_attempts, row.timeout_s, row.evidence) == (5, 60, "require")
    assert row.not_before == tomorrow and row.state == "blocked"
    assert Budget.objects.get(task=row).amount == 5000
    assert (row.created_by_type, row.created_by_name) == ("user", "mara")
    assert Event.objects.get(kind="task.created").actor_name == "mara"


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("type", "no spaces", "type must have 1 to 64 characters"),
        ("agent", "ghost", "ghost"),
        ("title", "x" * 201, "at most 200 characters."),
        ("payload", '{"action": ', "This is not JSON: Expecting value, line 1 column 12."),
        ("payload", '{"files": "a.csv"}', "files must be a list of strings."),
        ("payload", '{"a": 1, "a": 2}', "The key “a” appears more than once."),
        ("payload", '{"a": "\\u0000"}', "a character that Tenfour can’t store"),
        ("payload", json.dumps({"text": "x" * 300_000}), "the limit is 262144."),
        ("priority", "99999999999", "priority must be a number"),
        ("max_attempts", "101", "less than or equal to 100."),
        ("timeout_s", "soon", "Enter a whole number."),
        ("evidence", "maybe", "Select a valid choice."),
        ("not_before", "2999-01-01T00:00", "not_before can be at most 366 days ahead."),
        ("not_before", "tomorrow", "Enter a valid date/time."),
        ("budget", "5 apples", "Give an amount with its unit"),
    ],
)
def test_a_refused_value_stays_in_the_form(
    browser: Client, agent: Agent, field: str, value: str, problem: str
) -> None:
    """What `POST /v1/tasks` refuses is refused with its sentence; nothing is created or lost."""
    typed = {"title": "Sum up", "payload": '{"action": "Sum"}', field: value}
    page = browser.post(NEW, TYPED | typed)
    shown = html(page, 422)
    assert problem in shown and page.context["form"].errors.get(field)
    assert value[:200].strip() in shown and ("Sum up" in shown or field == "title")
    assert not Task.objects.exists()


def test_a_form_that_is_sent_twice_makes_one_task(browser: Client, agent: Agent) -> None:
    first = browser.post(NEW, TYPED)
    again = browser.post(NEW, TYPED, follow=True)
    assert again.redirect_chain[-1][0] == first["Location"]
    assert "This form was sent before." in words(again)
    assert Task.objects.count() == 1
    # the page that the browser still shows can be changed and sent again
    browser.post(NEW, TYPED | {"title": "Another"})
    browser.post(NEW, TYPED | {"key": "k2"})
    assert Task.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_a_double_click_makes_one_task(browser: Client, agent: Agent) -> None:
    def send(_: int) -> str:
        try:
            return str(browser.post(NEW, TYPED)["Location"])
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        pages = set(pool.map(send, range(4)))
    assert len(pages) == 1 and Task.objects.count() == 1


def test_the_form_is_filled_from_the_newest_different_payloads(
    browser: Client, agent: Agent
) -> None:
    payloads = [{"n": n} for n in range(7)]
    add(agent, *payloads, payloads[6], title="Count", priority=4, evidence="ask")
    add(agent, {"other": True}, type="review")
    page = browser.get(NEW, {"type": "code"})
    assert [each.payload["n"] for each in page.context["earlier"]] == [6, 5, 4, 3, 2]
    assert page.context["source"] == page.context["earlier"][0]
    form = page.context["form"]
    assert json.loads(form["payload"].value()) == {"n": 6}
    assert (form["agent"].value(), form["title"].value()) == ("coder", "Count")
    assert (form["priority"].value(), form["evidence"].value()) == (4, "ask")
    assert {"code", "review"} <= set(page.context["types"])
    # another one is chosen, and what is typed stays
    third = Task.objects.get(payload={"n": 3})
    page = browser.post(NEW, TYPED | {"title": "Mine", "fill": str(third.pk)})
    form = page.context["form"]
    assert json.loads(form["payload"].value()) == {"n": 3} and form["title"].value() == "Mine"
    # what only the task before it filled in is not typed
    add(agent, {"n": 9}, title="Sum", priority=8)
    former = {"title": "Count", "priority": "4", "evidence": "ask", "filled": str(third.pk)}
    page = browser.post(NEW, TYPED | former | {"fill": str(Task.objects.get(payload={"n": 9}).pk)})
    form = page.context["form"]
    assert (form["title"].value(), form["priority"].value()) == ("Sum", 8)
    assert Task.objects.count() == 10


def test_a_type_without_tasks_keeps_what_is_typed(browser: Client, agent: Agent) -> None:
    page = browser.post(NEW, TYPED | {"payload": '{"n": 1}', "fill": "latest"})
    assert page.context["form"]["payload"].value() == '{"n": 1}'
    assert not Task.objects.exists()


def test_masked_values_are_pointed_out(browser: Client, agent: Agent) -> None:
    add(agent, {"password": "hunter2hunter2"})
    assert "did not store the values marked" in words(browser.get(NEW, {"type": "code"}))


def test_no_payload_of_another_project_fills_the_form(agent: Agent, project: Project) -> None:
    other = make_agent("other", project=make_project("elsewhere"))
    add(other, {"secret": "zebra"})
    olga = User.objects.create_user("olga")
    Membership.objects.create(user=olga, project=project, role="operator", added_by="mara")
    client = Client()
    client.force_login(olga)
    assert client.get(NEW, {"fill": str(Task.objects.get().pk)}).status_code == 404
    assert "zebra" not in html(client.get(NEW, {"type": "code"}))
    refused = client.post(NEW, TYPED | {"project": "elsewhere", "agent": "other"})
    assert refused.status_code in (403, 404) and Task.objects.count() == 1


def test_the_list_leads_to_the_form(browser: Client, agent: Agent) -> None:
    assert 'href="/tasks/new/"' in html(browser.get("/tasks/"))
