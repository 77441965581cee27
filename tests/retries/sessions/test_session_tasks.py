"""A producer makes a task of a to-do over HTTP, or links one: once, and only its own."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger.models import Agent, SessionTask, Task
from tests.conftest import Api
from tests.dashboard.sessions.conversations import TOTALS, make_session, make_todo
from tests.dashboard.worked import enqueued, make_plan
from tests.factories import NOW, make_agent, make_project

pytestmark = pytest.mark.django_db


def test_a_producer_makes_and_links_tasks(
    api: Callable[..., Api], coder: Api, operator: Api, agent: Agent
) -> None:
    producer = api("orchestrator")
    session = make_session(agent, TOTALS, now=NOW)
    for order in (1, 2, 3):
        make_todo(session, order, f"Step {order}", order, progress=["begun"])
    make_agent("writer")
    path = f"/sessions/{session.pk}/tasks"
    sent: dict[str, Any] = {"agent": "writer", "title": "Note", "type": "docs", "priority": 3}
    made = producer("POST", f"{path}/1/task", sent, Idempotency_Key="k")
    assert made.status_code == 201, made.body
    task = Task.objects.get()
    assert (task.title, task.type, task.priority, task.agent.name) == ("Note", "docs", 3, "writer")
    assert task.payload == {"action": "Step 1", "context": ["begun"]}
    assert made.body["task"] == str(task.pk) and made.body["message_orders"] == [1]
    # a repeated key is the same answer; another call is refused and enqueues nothing
    again = producer("POST", f"{path}/1/task", sent, Idempotency_Key="k")
    assert again.body == made.body
    refused = producer("POST", f"{path}/1/task", {})
    assert (refused.status_code, refused.body["code"]) == (409, "invalid_transition")
    assert Task.objects.count() == 1
    planned = make_plan("03-01", [("Round", [])], agent=agent, now=NOW)[1][0]
    for _ in range(2):
        linked = operator("POST", f"{path}/2/task", {"task": "03-01:task-1"})
        assert (linked.status_code, linked.body["task"]) == (200, str(planned))
    assert linked.body["version"] == 2
    listed = coder("GET", path).body["data"]
    assert [row["task"] for row in listed] == [str(task.pk), str(planned), None]


def test_what_may_not_be_linked(api: Callable[..., Api], coder: Api, agent: Agent) -> None:
    producer = api("orchestrator")
    session = make_session(agent, TOTALS, now=NOW)
    make_todo(session, 1, "Step 1", 1)
    far = make_agent("far", project=make_project("elsewhere"))
    foreign = make_session(far, TOTALS, now=NOW)
    make_todo(foreign, 1, "Far", 1)
    outside = enqueued(far, "Far", now=NOW)
    path = f"/sessions/{session.pk}/tasks/1/task"
    for at, body, status in (
        (path, {"task": str(outside)}, 422),
        (path, {"task": "03-09:task-1"}, 422),
        (path, {"task": "\x00"}, 422),
        (path, {"task": str(outside), "title": "Both"}, 422),
        (path, {"agent": "far"}, 422),
        (path, {"type": ""}, 422),
        (path, {"title": "x" * 201}, 422),
        (path, {"more": 1}, 422),
        (f"/sessions/{session.pk}/tasks/0/task", {}, 404),
        (f"/sessions/{session.pk}/tasks/-1/task", {}, 404),
        (f"/sessions/{session.pk}/tasks/{2**40}/task", {}, 404),
        (f"/sessions/{session.pk}/tasks/9/task", {}, 404),
        (f"/sessions/{foreign.pk}/tasks/1/task", {}, 404),
    ):
        response = producer("POST", at, body)
        assert response.status_code == status, (at, body, response.body)
    assert coder("POST", path, {}).status_code == 403
    assert Task.objects.count() == 1 and not SessionTask.objects.exclude(task=None).exists()
