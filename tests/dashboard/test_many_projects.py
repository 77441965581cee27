"""Pages of a project that the lists of projects do not reach."""

import re
from datetime import datetime, timedelta

import pytest
from django.http import HttpResponse
from django.test import Client

from dashboard.lists.shared_queries import PROJECTS_SHOWN
from ledger.models import Agent, Event, Instruction, Project, Task, Token
from retries.models import ContextExperiment, Operation
from tests.dashboard.notifications.deliveries import make_channel
from tests.dashboard.seen import html, rows
from tests.dashboard.worked import enqueued
from tests.factories import make_agent, make_project
from tests.retries.operations.worlds import run

NEW = "/operations/new/task.abort/"


@pytest.fixture
def last(project: Project) -> Project:
    """Return the last of 22 projects by name."""
    for number in range(PROJECTS_SHOWN):
        make_project(f"p{number:02}")
    return make_project("z-last")


def picked(response: HttpResponse) -> str | None:
    """Return the project that a page's form would send."""
    select = re.search(r'<select[^>]+name="project".*?</select>', html(response))
    assert select
    options = re.findall(r"<option([^>]*)>\s*([^<]*?)\s*</option>", select[0])
    selected = [name for attributes, name in options if "selected" in attributes]
    return selected[0] if selected else options[0][1]


@pytest.mark.parametrize(
    "page",
    [
        "/instructions/new/?project=z-last",
        "/instructions/standing/new/?project=z-last",
        "/plans/import/?project=z-last",
        "/agents/connect/?project=z-last",
        "/settings/notifications/?project=z-last&edit=new",
        "/settings/notifications/?project=z-last&channel=new",
    ],
)
def test_a_form_offers_and_picks_the_project_of_the_page(
    page: str, last: Project, browser: Client, now: datetime
) -> None:
    make_channel("#oncall", kind="person", service="Slack", project=last, now=now)
    assert picked(browser.get(page)) == "z-last"


def test_the_sidebar_shows_the_project_of_the_page(last: Project, browser: Client) -> None:
    page = html(browser.get("/tasks/?project=z-last"))
    current = re.findall(r'aria-current="true" >.{0,200}?<bdi>([^<]+)</bdi>', page)
    assert current == ["z-last"]


def test_what_a_form_sends_lands_in_its_project(last: Project, browser: Client) -> None:
    for each in Project.objects.all():
        make_agent("coder", project=each)
    form = {"project": "z-last", "agent": "coder", "content": "Look"}
    browser.post("/instructions/new/?project=z-last", form)
    assert Instruction.objects.get().agent.project == last
    browser.post("/settings/tokens/new/", {"project": "z-last", "kind": "reader", "days": "9"})
    assert Token.objects.get().project == last
    browser.post(
        "/insight/experiments/",
        {"in": "z-last", "element": "known", "share": "10", "reason": "Why not"},
    )
    assert ContextExperiment.objects.get().project == last


def test_an_operation_opens_and_can_be_undone(
    last: Project, browser: Client, now: datetime
) -> None:
    id = enqueued(make_agent(project=last), now=now - timedelta(minutes=1))
    browser.post(NEW, {"id": [str(id)], "next": "/tasks/", "confirmed": "yes"})
    operation = Operation.objects.get()
    assert browser.get(f"/operations/{operation.pk}/").status_code == 200
    assert rows(browser.get("/operations/"), "op") == [str(operation.pk)]
    browser.post(f"/operations/{operation.pk}/undo/")
    operation = run(operation, now=now)
    assert (operation.state, Task.objects.get().state) == ("undone", "queued")


def test_an_export_of_every_project_is_an_entry_in_each(
    agent: Agent, last: Project, browser: Client
) -> None:
    browser.get("/settings/audit/export/csv/")
    journaled = Event.objects.filter(kind="audit.exported").values_list("project_id", flat=True)
    assert set(journaled) == set(Project.objects.values_list("pk", flat=True))
