"""Failure patterns over HTTP."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ledger.models import Agent, DeadLetter, Event, Task
from ledger.values.timestamps import format_timestamp
from retries.models import Escalation, FailurePattern
from tests.conftest import Api
from tests.factories import NOW, make_project, make_token
from tests.ledger.api.test_instructions import problem
from tests.retries.api.calls import claim, enqueue
from tests.retries.failures.test_suggestions import fixed

pytestmark = pytest.mark.django_db

NO_MODULE = "ModuleNotFoundError: No module named 'lxml'"


def fail(operator: Api, coder: Api, message: str = NO_MODULE, **body: Any) -> str:
    """A task whose only attempt fails with this message."""
    id = enqueue(operator, max_attempts=1, **body)
    attempt = claim(coder, task=id)["data"][0]["attempt"]["id"]
    report = {"status": "failure", "failure": {"type": "verification_failed", "message": message}}
    assert coder("POST", f"/attempts/{attempt}/result", report).status_code == 200
    return id


def test_patterns_are_listed_and_read_with_their_failures(operator: Api, coder: Api) -> None:
    tasks = [fail(operator, coder), fail(operator, coder)]
    fail(operator, coder, "Error: connect ECONNREFUSED")
    rows = operator("GET", "/patterns").body["data"]
    assert [(row["failures"], row["agents"], row["state"]) for row in rows] == [
        (1, ["coder"], "open"),
        (2, ["coder"], "open"),
    ]
    row = rows[1]
    assert row["example"] == NO_MODULE and "‹text›" in row["template"]
    assert operator("GET", "/patterns?q=econnrefused").body["data"] == rows[:1]
    assert operator("GET", "/patterns?state=resolved,ignored").body["data"] == []
    problem(operator("GET", "/patterns?state=gone"), 422, "validation_error")
    one = operator("GET", f"/patterns/{row['id']}").body
    names = ("headline", "known_error", "suggestion", "prediction")
    newest = {name: one.pop(name) for name in names}
    stuck = {"failed": 2, "waiting": 0, "escalated": 0}
    assert one == row | {"stuck": stuck, "merged_templates": [], "first_seen_after": None}
    assert newest["known_error"]["name"] == "missing_module"
    page = operator("GET", f"/patterns/{row['id']}/failures?limit=1").body
    rest = operator("GET", f"/patterns/{row['id']}/failures?cursor={page['next_cursor']}").body
    failures = page["data"] + rest["data"]
    assert [each["task"] for each in failures] == tasks[::-1]
    assert {(each["message"], each["agent"]) for each in failures} == {(NO_MODULE, "coder")}
    assert (page["has_more"], rest["has_more"]) == (True, False)


def test_a_person_ignores_resolves_and_reopens_a_pattern(operator: Api, coder: Api) -> None:
    fail(operator, coder)
    at = f"/patterns/{FailurePattern.objects.get().pk}"
    until = format_timestamp(timezone.now() + timedelta(hours=1))
    ignored = operator("POST", f"{at}/ignore", {"until": until, "note": "moving"}).body
    assert (ignored["state"], ignored["ignored_until"], ignored["note"]) == (
        "ignored",
        until,
        "moving",
    )
    assert operator("POST", f"{at}/resolve").body["state"] == "resolved"
    refused = problem(operator("POST", f"{at}/ignore"), 409, "invalid_transition")
    assert (refused["current"], refused["allowed"]) == ("resolved", ["open"])
    assert operator("POST", f"{at}/reopen").body["state"] == "open"
    problem(operator("POST", f"{at}/reopen"), 409, "invalid_transition")
    past = {"until": "2020-01-01T00:00:00Z"}
    problem(operator("POST", f"{at}/ignore", past), 422, "validation_error")
    kinds = Event.objects.filter(subject_type="pattern").order_by("id")
    assert [event.kind for event in kinds] == [
        "pattern.ignored",
        "pattern.resolved",
        "pattern.reopened",
    ]


def test_a_retry_covers_all_stuck_tasks_once(operator: Api, coder: Api) -> None:
    buried = fail(operator, coder)
    asked = fail(operator, coder, on_exhausted="escalate")
    at = f"/patterns/{FailurePattern.objects.get().pk}"
    done = operator("POST", f"{at}/retry", {}, Idempotency_Key="once")
    letter, escalation = DeadLetter.objects.get(), Escalation.objects.get()
    assert done.body == {
        "replayed": [str(letter.pk)],
        "made_due": [],
        "answered": [str(escalation.pk)],
    }
    assert str(letter.task_id) == buried and escalation.channel == "api"
    assert operator("GET", f"/tasks/{asked}").body["state"] == "queued"
    assert operator("POST", f"{at}/retry", {}, Idempotency_Key="once").body == done.body
    assert Task.objects.count() == 3


def test_agents_see_no_patterns_and_only_people_act(
    api: Callable[..., Api], operator: Api, coder: Api
) -> None:
    fail(operator, coder)
    id = FailurePattern.objects.get().pk
    problem(coder("GET", "/patterns"), 403, "scope_missing")
    producer, foreign = api("orchestrator"), Api(make_token(project=make_project("other")))
    assert producer("GET", f"/patterns/{id}").status_code == 200
    assert foreign("GET", "/patterns").body["data"] == []
    for path in ("", "/failures"):
        problem(foreign("GET", f"/patterns/{id}{path}"), 404, "not_found")
    for verb in ("ignore", "resolve", "reopen", "retry"):
        problem(producer("POST", f"/patterns/{id}/{verb}"), 403, "human_required")
        problem(foreign("POST", f"/patterns/{id}/{verb}"), 404, "not_found")


def test_people_judge_fixes_by_signature(operator: Api, coder: Api, agent: Agent) -> None:
    fixed(agent, "Run npm ci", works=True, now=NOW)
    at = f"/patterns/{FailurePattern.objects.get(template__startswith='Cannot').pk}/fixes"
    (fix,) = operator("GET", at).body["data"]
    assert (fix["state"], fix["worked"], fix["tried"], fix["plain_tried"]) == ("tried", 1, 1, 0)
    assert (fix["signature"]["entities"], fix["last_by"], fix["verdict"]) == (
        ["uuid"],
        "mara",
        None,
    )
    chosen = {"signature": fix["signature"]["key"], "key": fix["key"], "note": "checked"}
    promoted = operator("POST", f"{at}/promote", chosen).body
    assert (promoted["state"], promoted["verdict"]["note"]) == ("promoted", "checked")
    secret = chosen | {"note": "password=" + "hunter2" + "hunter2"}
    retired = operator("POST", f"{at}/retire", secret).body
    assert (retired["state"], retired["verdict"]["note"]) == (
        "retired",
        "password=[redacted:secret]",
    )
    assert not Event.objects.filter(data__note=secret["note"]).exists()
    assert operator("GET", at).body["data"][0]["state"] == "retired"
    assert operator("POST", f"{at}/reset", chosen).body == fix
    problem(operator("POST", f"{at}/retire", chosen | {"key": "gone"}), 404, "not_found")
    problem(coder("POST", f"{at}/retire", chosen), 403, "human_required")
    problem(coder("GET", at), 403, "scope_missing")
