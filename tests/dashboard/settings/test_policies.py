"""The page of a project's policies: figures, switches with a reason, and who switched them."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from ledger.models import Agent, Event, Project, Task
from retries.models import RetryPolicy
from retries.policies import editing, replay
from tests.factories import make_project
from tests.retries.policies.test_replay import MISSING, task, work

pytestmark = pytest.mark.django_db
PAGE = "/settings/policies/"


def text(page: Any) -> str:
    plain = re.sub(r"<[^>]+>", " ", page.content.decode())
    return " ".join(unescape(plain).split())


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are shown from three tasks on."""
    monkeypatch.setattr(replay, "LEAST_TASKS", 3)
    monkeypatch.setattr(
        "tests.retries.policies.test_replay.NOW", timezone.now() - timedelta(days=1)
    )


def test_the_numbers_stand_beside_a_policy_and_in_its_question(
    browser: Client, agent: Agent, few: None
) -> None:
    RetryPolicy.objects.create(project=agent.project, ask_on_same_failure="off")
    work(agent, task(agent), *[(MISSING, [])] * 4)
    lost = work(agent, task(agent), (MISSING, []), (MISSING, []), ("", None))
    work(agent, task(agent), ("", None))
    shown = text(browser.get(PAGE))
    assert "Policies of default replayed on 3 tasks, 90 days" in shown
    assert "Would have saved 2 attempts, 2 s Would have lost 1 of 2 successes" in shown
    assert "Would have asked you 2 more times" in shown
    assert f'href="/tasks/{lost}/"' in browser.get(PAGE).content.decode()
    asked = text(browser.get(PAGE + "?ask=ask_on_same_failure&scope=all"))
    assert (
        "For all tasks from the next failure on, in default . On your last 90 days it would have "
        "saved 2 attempts (2 s), lost 1 success of 2 , and asked you 2 more times ." in asked
    )
    # none of them is a plan's task
    asked = text(browser.get(PAGE + "?ask=ask_on_same_failure&scope=plans"))
    assert "it would have saved 0 attempts (0 s), lost 0 successes of 2" in asked
    # what changes nothing is not asked about
    assert 'id="asked"' not in browser.get(PAGE + "?ask=obey_waits&scope=all").content.decode()
    assert 'id="asked"' in browser.get(PAGE + "?ask=obey_waits&scope=off").content.decode()


def test_a_person_switches_a_policy_with_a_reason(browser: Client, agent: Agent) -> None:
    address, name = PAGE + "ask_on_same_failure/", agent.project.name
    without = browser.post(address, {"scope": "plans", "version": "1"}, follow=True)
    assert "Give a reason. Nothing was changed." in text(without)
    assert "There are too few tasks for a replay: n = 0, shown from 50." in text(without)
    said = {"scope": "plans", "version": "1", "reason": "<b>enough</b>"}
    done = browser.post(address, said, follow=True)
    assert "Ask a person after the same error twice: on for tasks of plans." in text(done)
    row = editing.read_policies(agent.project_id)
    assert (row.ask_on_same_failure, row.version) == ("plans", 2)
    assert "On for tasks of plans , switched by" in text(done) and "<b>enough</b>" in text(done)
    event = Event.objects.get(kind="project.policies_changed")
    assert (event.subject_id, event.actor_type) == (agent.project_id, "user")
    # who read the page before someone else switched changes nothing
    stale = browser.post(address, said | {"scope": "all"}, follow=True)
    assert "Someone else changed the policies. Nothing was changed." in text(stale)
    assert browser.post(PAGE + "gone/", said).status_code == 404
    assert browser.post(address, said | {"scope": "some"}).status_code == 404
    assert name in text(done)


def test_proof_is_required_with_a_reason(browser: Client, agent: Agent) -> None:
    """S0: design.md §4a, per project."""
    assert "No task was done in these 90 days" in text(browser.get(PAGE))
    now = timezone.now()
    work(agent, task(agent), ("", None))
    Task.objects.update(updated_at=now)
    cache.clear()
    shown = text(browser.get(PAGE))
    assert (
        "Recorded; the agent is asked once, at the end of a turn Done without proof 1 of 1" in shown
    )
    asked = text(browser.get(PAGE + "?ask=evidence&scope=require"))
    assert "Require it from the next report on, in default" in asked
    assert "1 of 1 done task had no proof, and would have waited for a person" in asked
    assert "Not set Record it Ask once Require it" in shown
    said = {"scope": "require", "version": "1", "reason": "no more claims"}
    done = browser.post(PAGE + "evidence/", said, follow=True)
    assert "Ask for proof before a task is done: required." in text(done)
    assert editing.read_policies(agent.project_id).evidence == "require"
    assert "Require it from" not in text(browser.get(PAGE + "?ask=evidence&scope=require"))
    assert browser.post(PAGE + "evidence/", said | {"scope": "plans"}).status_code == 404


def test_each_project_has_its_own_and_all_projects_are_a_choice(
    browser: Client, agent: Agent
) -> None:
    make_project("ops & more")
    assert "Choose a project default ops & more" in text(browser.get(PAGE))
    said = {"scope": "off", "version": "1", "reason": "quiet"}
    assert browser.post(PAGE + "obey_waits/", said).status_code == 404
    browser.post(PAGE + "obey_waits/?project=ops+%26+more", said)
    assert RetryPolicy.objects.get().project.name == "ops & more"
    assert "Policies of ops & more" in text(browser.get(PAGE + "?project=ops+%26+more"))


def test_who_may_only_read_sees_no_switch(agent: Agent) -> None:
    reader = User.objects.create_user("jonas", is_staff=True)
    client = Client()
    client.force_login(reader)
    assert client.get(PAGE).status_code == 403
    reader.user_permissions.add(Permission.objects.get(codename="view_retrypolicy"))
    page = client.get(PAGE + "?ask=obey_waits&scope=off")
    assert "Switch" not in text(page) and "Can change retry policy" in text(page)
    assert client.post(PAGE + "obey_waits/", {"scope": "off", "reason": "x"}).status_code == 403
    assert not RetryPolicy.objects.exists()


def test_a_person_keeps_the_files_of_a_project_exclusive(browser: Client, agent: Agent) -> None:
    asked = text(browser.get(PAGE + "?ask=exclusive_files&scope=plans"))
    assert "Run no two tasks at once that name the same files?" in asked
    assert "For tasks of plans from the next claims on, in default . Running tasks" in asked
    said = {"scope": "plans", "version": "1", "reason": "conflicts"}
    done = browser.post(PAGE + "exclusive_files/", said, follow=True)
    assert "On for tasks of plans , switched by" in text(done)
    assert Project.objects.get(name="default").exclusive_files == "plans"
    assert "Off from the next claims on" in text(
        browser.get(PAGE + "?ask=exclusive_files&scope=off")
    )
