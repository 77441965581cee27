"""Claims over HTTP."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger.models import Attempt
from tests.retries.api.calls import claim, enqueue

pytestmark = pytest.mark.django_db


def test_the_agents_loop(coder: Any, operator: Any) -> None:
    """S3.39 over HTTP, with a retry in between."""
    id = enqueue(operator, title="Create it", backoff={"base_delay_ms": 0})
    found = claim(coder, worker_id="ci-7")
    one = found["data"][0]
    assert one["task"]["id"] == id and one["task"]["state"] == "running"
    assert one["attempt"]["number"] == 1 and one["attempt"]["heartbeat_every_s"] == 100
    at = f"/attempts/{one['attempt']['id']}"
    beat = coder("POST", f"{at}/heartbeat", {"progress": {"message": "half", "percent": 50}})
    assert beat.body["abort_requested"] is False
    said = {
        "status": "failure",
        "failure": {"type": "verification_failed", "message": "1 failed"},
        "reclaim": True,
    }
    decision = coder("POST", f"{at}/result", said).body
    assert decision["decision"] == "retry" and decision["retry"]["number"] == 2
    last = coder("POST", f"/attempts/{decision['retry']['attempt']}/result", {"status": "success"})
    assert last.body["decision"] == "done"
    task = operator("GET", f"/tasks/{id}").body
    assert (task["state"], task["attempts"], task["retry_count"]) == ("done", 2, 1)
    attempts = operator("GET", f"/tasks/{id}/attempts").body["data"]
    assert [each["outcome"] for each in attempts] == ["success", "failure"]
    assert [each["worker_id"] for each in attempts] == ["ci-7", "ci-7"]
    assert attempts[1]["failure"]["message"] == "1 failed"
    assert attempts[1]["progress"] == {"message": "half", "percent": 50}
    events = operator("GET", f"/tasks/{id}/events").body["data"]
    assert [each["type"] for each in events] == [
        "task.created",
        "task.claimed",
        "task.retry_scheduled",
        "task.claimed",
        "task.completed",
    ]


def test_an_empty_claim_says_why_and_when(coder: Any, operator: Any) -> None:
    found = claim(coder)
    assert (found["data"], found["reason"], found["next_due_in_ms"]) == ([], "no_task", None)
    assert found["retry_after_s"] > 0
    enqueue(operator, backoff={"base_delay_ms": 20_000, "jitter": False})
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    assert 15_000 < claim(coder)["next_due_in_ms"] <= 20_000


def test_named_tasks(coder: Any, operator: Any) -> None:
    one, two = enqueue(operator), enqueue(operator)
    assert claim(coder, task=two)["data"][0]["task"]["id"] == two
    response = coder("POST", "/claims", {"task": two})
    assert (response.status_code, response.body["code"]) == (409, "invalid_transition")
    assert (response.body["current"], "done" in response.body["allowed"]) == ("running", True)
    assert coder("POST", f"/tasks/{one}/start").body["data"][0]["task"]["id"] == one
    unknown = "01a1fe6d-9b01-7830-98b6-0164ecc5924c"
    assert coder("POST", "/claims", {"task": unknown}).status_code == 404


def test_another_agents_tasks_are_not_found(
    api: Callable[..., Any], coder: Any, operator: Any
) -> None:
    id = enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    from tests.factories import make_agent

    other = api("agent", agent=make_agent("other"))
    for method, path in (
        ("GET", f"/tasks/{id}"),
        ("GET", f"/tasks/{id}/attempts"),
        ("GET", f"/tasks/{id}/events"),
        ("POST", f"/tasks/{id}/start"),
        ("GET", f"/attempts/{at}"),
        ("POST", f"/attempts/{at}/heartbeat"),
        ("POST", f"/attempts/{at}/release"),
        ("POST", f"/attempts/{at}/exit/0"),
    ):
        assert other(method, path).status_code == 404, path
    assert other("POST", f"/attempts/{at}/result", {"status": "success"}).status_code == 404
    assert Attempt.objects.get().outcome is None


def test_a_claimed_task_has_the_shape_of_a_task(coder: Any, operator: Any) -> None:
    first = enqueue(operator)
    second = enqueue(operator, needs=[first], title="after it")
    held = claim(coder, worker_id="ci-7")["data"][0]
    assert held["task"] == coder("GET", f"/tasks/{first}").body
    assert claim(coder, worker_id="ci-7")["data"][0]["task"] == held["task"]  # resumed
    coder("POST", f"/attempts/{held['attempt']['id']}/result", {"status": "success"})
    opened = claim(coder)["data"][0]
    assert opened["task"]["needs"] == [first]
    assert opened["task"] == coder("GET", f"/tasks/{second}").body
    released = coder("POST", f"/attempts/{opened['attempt']['id']}/release")
    assert released.body == coder("GET", f"/tasks/{second}").body
    assert operator("GET", f"/tasks/{second}").body in operator("GET", "/tasks").body["data"]
    created = operator("POST", "/tasks?claim=false", {"agent": "coder", "type": "x"}).body
    assert created == operator("GET", f"/tasks/{created['id']}").body


def test_a_list_names_the_open_escalation_of_each_task(coder: Any, operator: Any) -> None:
    id = enqueue(operator, max_attempts=1, on_exhausted="escalate")
    attempt = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{attempt}/result", {"status": "failure"})
    asked = operator("GET", "/escalations").body["data"][0]["id"]
    assert [row["escalation"] for row in operator("GET", "/tasks").body["data"]] == [asked]
    assert operator("GET", f"/tasks/{id}").body["escalation"] == asked
