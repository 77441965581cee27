"""A paused type: no claim hands out its tasks, and each says why."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from ledger.errors import Invalid, InvalidTransition
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Project
from ledger.pools import membership
from ledger.tasks import type_pauses
from retries import claims
from tests.conftest import Api
from tests.factories import NOW, make_agent, make_project
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db
STAMP = Stamp(SYSTEM, NOW)


def pause(type: str = "code", *, paused: bool = True, **more: Any) -> bool:
    project = make_project()
    return type_pauses.set_paused(type, paused=paused, project_id=project.pk, stamp=STAMP, **more)[
        1
    ]


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("worker", ["", "w1"])
def test_no_claim_hands_out_a_paused_type(agent: Agent, limit: int, worker: str) -> None:
    held, other = make_task(agent, type="code", priority=9), make_task(agent, type="review")
    assert pause(note="the build server is down")

    def ids() -> list[Any]:
        return [row["id"] for row in claim(agent, limit=limit, worker_id=worker).rows]

    assert ids() == [other]
    if worker and limit == 1:
        claims_again = claim(agent, worker_id=worker)
        assert claims_again.rows[0]["resumed"]
        return
    empty = claim(agent, limit=limit, worker_id=worker)
    assert (empty.rows, empty.reason, empty.next_due_at) == ([], "type_paused", None)
    assert pause(paused=False)
    assert ids() == [held]


def test_a_retry_of_a_paused_type_is_not_said_to_be_due(agent: Agent) -> None:
    make_task(agent, type="code")
    fail(agent, attempt_of(claim(agent)), now=NOW)
    pause()
    late = NOW + timedelta(hours=1)
    empty = claim(agent, now=late)
    assert (empty.reason, empty.next_due_at) == ("type_paused", None) and empty.retry_after_s > 1
    pause(paused=False)
    assert claim(agent, now=late).rows


def test_a_member_of_a_pool_gets_none_either(agent: Agent) -> None:
    pool = membership.create("all", members=[agent], project=agent.project, stamp=STAMP)
    make_task(pool, type="code")
    pause()
    assert claim(agent).reason == "type_paused"
    other = make_task(pool, type="review")
    assert claim(agent).rows[0]["id"] == other


def test_a_claim_that_has_waited_sees_a_type_that_was_paused_meanwhile(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    Agent.objects.update(concurrency=1)
    make_task(agent, type="review")
    pause("code")
    lock_room = claims.lock_room

    def pause_and_lock(agent_id: Any) -> int:
        pause("review")
        return lock_room(agent_id)

    monkeypatch.setattr(claims, "lock_room", pause_and_lock)
    assert claim(agent).rows == []


def test_an_agent_with_a_limit_and_a_named_claim(agent: Agent) -> None:
    Agent.objects.update(concurrency=2)
    held, other = make_task(agent, type="code"), make_task(agent, type="review")
    pause()
    assert claim(agent, task=held).reason == "type_paused"
    with pytest.raises(InvalidTransition, match="The type code is paused"):
        claims.start(held, stamp=STAMP)
    assert claim(agent).rows[0]["id"] == other


def test_a_pause_is_of_one_project_and_running_tasks_continue(agent: Agent) -> None:
    other = make_agent("other", project=make_project("elsewhere"))
    running, there = make_task(agent, type="code"), make_task(other, type="code")
    attempt = attempt_of(claim(agent))
    pause()
    assert claim(other).rows[0]["id"] == there
    assert fail(agent, attempt, now=NOW) and running
    assert Project.objects.get(name="elsewhere").paused_types is None


def test_a_pause_says_since_when_who_and_why(agent: Agent, project: Project) -> None:
    assert pause(note="token=hunter2hunter2") and not pause()
    (row,) = type_pauses.list_pauses(project.pk)
    assert (row.type, row.paused_at, row.paused_by) == ("code", NOW, SYSTEM.name)
    assert "hunter2" not in row.note
    assert pause(paused=False) and not pause(paused=False)
    # claims look at types only while one is paused
    assert Project.objects.get().paused_types is None
    events = Event.objects.filter(kind__startswith="project.type_").order_by("id")
    assert [(each.kind, each.data["type"]) for each in events] == [
        ("project.type_paused", "code"),
        ("project.type_resumed", "code"),
    ]
    assert "hunter2" not in str(events[0].data)


def test_a_name_that_no_type_can_have_is_refused(project: Project) -> None:
    with pytest.raises(Invalid, match="type must have 1 to 64 characters"):
        pause("no type")
    for n in range(type_pauses.MOST_PAUSED):
        pause(f"t{n}")
    with pytest.raises(Invalid, match="Resume another one"):
        pause("more")


def test_pause_and_resume_over_http(operator: Api, coder: Api, agent: Agent) -> None:
    make_task(agent, type="code")
    paused = operator("PATCH", "/task-types/code", {"paused": True, "note": "down"})
    assert paused.status_code == 200 and paused.body["paused"] and paused.body["note"] == "down"
    assert coder("GET", "/task-types").body["data"] == [paused.body]
    assert coder("POST", "/claims").body["reason"] == "type_paused"
    assert coder("PATCH", "/task-types/code", {"paused": False}).status_code == 403
    assert operator("PATCH", "/task-types/no%20type", {"paused": True}).status_code == 422
    resumed = operator("PATCH", "/task-types/code", {"paused": False})
    assert resumed.body == {
        **{"type": "code", "paused": False, "paused_at": None, "paused_by": None, "note": ""}
    }
    assert coder("POST", "/claims").body["data"]


def test_only_a_project_with_a_paused_type_needs_more_statements(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    take = claims.take_tasks

    def take_and_count(*given: Any, **more: Any) -> Any:
        asked.append(given)
        return take(*given, **more)

    monkeypatch.setattr(claims, "take_tasks", take_and_count)
    for type, number in (("", 1), ("review", 2)):
        if type:
            pause(type)
        make_task(agent, type="code")
        assert claim(agent).rows and len(asked) == number
        asked.clear()


class TestPage:
    @pytest.fixture
    def browser(self, django_user_model: Any) -> Client:
        client = Client()
        client.force_login(django_user_model.objects.create_superuser("mara"))
        return client

    def test_the_page_pauses_and_resumes(self, browser: Client, agent: Agent) -> None:
        task = make_task(agent, type="code")
        page = browser.post(
            "/tasks/types/pause/", {"type": "code", "note": "the server is down"}, follow=True
        )
        text = page.content.decode()
        assert "The type code is paused." in text and "the server is down" in text
        assert "by <bdi>mara</bdi>" in text
        shown = browser.get(f"/tasks/{task}/").content.decode()
        assert "the type code is paused" in shown
        assert "on hold, type paused" in browser.get("/tasks/").content.decode()
        again = browser.post("/tasks/types/pause/", {"type": "code"}, follow=True)
        assert "is paused already" in again.content.decode()
        page = browser.post("/tasks/types/resume/", {"type": "code"}, follow=True)
        assert "The type code is active." in page.content.decode()
        assert claim(agent).rows

    @pytest.mark.parametrize("name", ["", "<script>", "x" * 65])
    def test_a_bad_name_changes_nothing(self, browser: Client, agent: Agent, name: str) -> None:
        page = browser.post("/tasks/types/pause/", {"type": name}, follow=True)
        assert "Nothing changed." in page.content.decode()
        assert b"<script>alert" not in page.content
        assert Project.objects.get().paused_types is None

    def test_an_unknown_verb_is_not_found(self, browser: Client, agent: Agent) -> None:
        assert browser.post("/tasks/types/explode/", {"type": "code"}).status_code == 404
