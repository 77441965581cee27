"""The admin's page of one row: its verbs, its links, its history, and what the lists search."""

import re
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from ledger.admin_pages.lists import ReadOnly
from ledger.authorization.roles import Role
from ledger.models import (
    Agent,
    Attempt,
    DeadLetter,
    Event,
    Failure,
    Instruction,
    Membership,
    Plan,
    Task,
)
from retries.models import Escalation, FailurePattern
from tests.admin_pages import mara as mara
from tests.admin_pages import path
from tests.dashboard.worked import make_plan
from tests.factories import make_instruction
from tests.ledger.plans.test_import_writer import imported
from tests.retries.attempts.test_questions import asked
from tests.retries.escalations.test_answering import ignored
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.retries.plans.runs import CHECKPOINT

pytestmark = pytest.mark.django_db

LONG = "<script>alert('x')</script>" + "W" * 170
CELL = re.compile(r'<t[dh] class="field-[^>]*>(.*?)</t[dh]>', re.S)
LINKS = re.compile(r'<ul class="links">(.*?)</ul>', re.S)


def page_of(row: Any) -> str:
    return path(type(row), f"{row.pk}/change/")


def read(client: Client, url: str) -> Any:
    response = client.get(url)
    assert response.status_code == 200, url
    return response


def verbs(client: Client, row: Any) -> list[str]:
    return [verb.name for verb in read(client, page_of(row)).context.get("verbs", [])]


def act(client: Client, row: Any, verb: str, **more: str) -> Any:
    return client.post(page_of(row), {"action": verb} | more, follow=True)


def said(response: Any) -> str:
    return " ".join(str(message) for message in response.context["messages"])


@pytest.fixture
def failed(agent: Agent) -> Task:
    """A task of a plan with a long hostile title, whose only attempt failed."""
    _, (id,) = make_plan("03-01", [(LONG, [])], agent=agent, now=timezone.now())
    Task.objects.filter(pk=id).update(on_exhausted="dead_letter")
    fail(
        agent,
        attempt_of(claim(agent)),
        now=timezone.now(),
        message=f"full backup to disk broke {LONG}",
    )
    return Task.objects.get(pk=id)


def test_a_row_has_the_verbs_that_change_it_and_asks_before_it_does(
    mara: Client, agent: Agent
) -> None:
    task = Task.objects.get(pk=make_task(agent, title=LONG))
    assert verbs(mara, task) == ["skip", "abort"]
    question = act(mara, task, "abort")
    assert question.context["effects"] == ["1 waiting task will be aborted."]
    assert page_of(task) == question.request["PATH_INFO"]
    assert Task.objects.get(pk=task.pk).state == "queued"
    done = act(mara, task, "abort", confirmed="yes")
    assert done.redirect_chain == [(page_of(task), 302)]
    assert said(done) == "1 stopped: 1 task aborted."
    assert verbs(mara, task) == []
    history = read(mara, path(Task, f"{task.pk}/history/")).content.decode()
    assert "task: aborted" in history and "queued → aborted" in history and "mara" in history
    assert verbs(mara, agent) == ["pause", "limit", "set_account", "brief", "trip_breaker"]
    assert said(act(mara, agent, "limit", concurrency="3")) == "1 limited."
    assert Agent.objects.get().concurrency == 3


def test_every_link_of_a_row_leads_to_a_page(mara: Client, agent: Agent, failed: Task) -> None:
    ignored(agent)
    rows: list[Any] = [
        failed,
        agent,
        Plan.objects.get(),
        Instruction.objects.get(),
        Escalation.objects.get(),
        DeadLetter.objects.get(),
        Attempt.objects.get(),
        Failure.objects.get(),
        FailurePattern.objects.get(),
        Event.objects.filter(subject_type="task").order_by("id")[0],
    ]
    for row in rows:
        response = read(mara, page_of(row))
        assert str(response.context["outside"]).startswith("/"), row
        read(mara, response.context["outside"])
        labels = [link.label for link in response.context["links"]]
        wanted = "Events" if not isinstance(row, Event) else "Events about it"
        assert wanted in labels, row
        if type(row) in (Task, DeadLetter, Attempt, Failure):
            assert {"Attempts", "Failures"} <= set(labels), row
        for link in response.context["links"]:
            read(mara, link.url)
        if wanted == "Events" and type(row) in (Task, DeadLetter, Attempt, Failure):
            (events,) = (each.url for each in response.context["links"] if each.label == wanted)
            assert read(mara, events).context["cl"].result_count, row
        read(mara, path(type(row), f"{row.pk}/history/"))


def test_lists_find_refs_and_errors_and_cut_long_texts(
    mara: Client, agent: Agent, failed: Task
) -> None:
    other = make_task(agent, title="Elsewhere")
    make_instruction(agent=agent, content=f"Rebase {LONG}")
    for model in (Task, Attempt, Failure, DeadLetter):
        for term in ("03-01:task-1", "disk", "full disk"):
            found = read(mara, f"{path(model)}?q={term}").context["cl"].result_count
            assert found == 1, (model, term)
        assert read(mara, f"{path(model)}?q=elsewher").context["cl"].result_count == (model is Task)
    events = read(mara, f"{path(Event)}?q=03-01:task-1").context["cl"].queryset
    assert {event.subject_id for event in events} == {failed.pk} != {other}
    assert read(mara, f"{path(Instruction)}?q=rebase").context["cl"].result_count == 1
    for model, shown in admin.site._registry.items():
        if not isinstance(shown, ReadOnly):
            continue
        page = read(mara, path(model)).content.decode()
        for cell in CELL.findall(page):
            text = unescape(re.sub(r"<[^>]+>", "", cell))
            assert len(text.strip()) <= 60, (model, text)
        assert "<script>alert" not in page
    page = read(mara, page_of(failed)).content.decode()
    assert "<script>alert" not in page and "W" * 170 in page
    headings = re.findall(r"<h[12]>.*?</h[12]>|<bdi>.*?</bdi>", page)
    assert all(len(unescape(each)) < 110 for each in headings)


def test_a_question_is_answered_with_the_values_it_asks_for(mara: Client, agent: Agent) -> None:
    schema = {
        "type": "object",
        "properties": {"port": {"type": "integer"}, "env": {"type": "string", "enum": ["a", "b"]}},
        "required": ["port"],
    }
    question = asked(agent, response_schema=schema)
    page = read(mara, page_of(question))
    assert next(verb.name for verb in page.context["verbs"]) == "answer_question"
    assert 'name="response.port"' in page.content.decode()
    assert page.context["outside"] == f"/escalations/{question.pk}/"
    sure = act(mara, question, "answer_question", **{"response.port": "8080", "fix": "Use\r\nit"})
    assert sure.context["effects"] == ["1 question will be answered, and the asker continues."]
    fields = dict(sure.context["fields"])
    assert fields.pop("action") == "answer_question"
    assert fields.pop("_selected_action") == question.pk
    wrong = act(mara, question, "answer_question", **fields | {"response.port": "x"}, confirmed="y")
    assert "'port' must be an integer" in said(wrong) and "None answered" in said(wrong)
    assert said(act(mara, question, "answer_question", **fields, confirmed="y")) == "1 answered."
    question.refresh_from_db()
    assert (question.action, question.channel) == ("answer", "admin")
    assert question.response == {"port": 8080} and question.fix == "Use\nit\nport: 8080"
    assert verbs(mara, question) == []
    imported(CHECKPOINT)
    checkpoint = Escalation.objects.open().get()
    assert said(act(mara, checkpoint, "answer_question", fix="a", confirmed="y")) == "1 answered."
    assert Task.objects.get(ref="03-01:task-1").state == "queued"


def test_a_role_decides_which_verbs_a_row_has(agent: Agent) -> None:
    task = Task.objects.get(pk=make_task(agent))
    for role, shown in ((Role.VIEWER, []), (Role.OPERATOR, ["skip", "abort"])):
        user = User.objects.create_user(f"eve-{role}", is_staff=True)
        Membership.objects.create(user=user, project=agent.project, role=role, added_by="mara")
        client = Client()
        client.force_login(user)
        assert verbs(client, task) == shown
        answer = client.post(page_of(task), {"action": "abort", "confirmed": "yes"})
        assert answer.status_code == (403 if role == Role.VIEWER else 302)
    assert Task.objects.get().state == "aborted"
