"""The renderings over HTTP: who may read them, of what, and in which form."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from ledger.models import Agent, Plan
from retries.renderings import log_queries
from tests.conftest import Api
from tests.factories import make_agent, make_project
from tests.journal_partitions import settle
from tests.ledger.api.test_instructions import problem
from tests.retries.renderings.stories import add, attempt, make_plan, sample

pytestmark = pytest.mark.django_db

FILES = {
    "retry-state.json": "application/json",
    "retry.log": "text/plain; charset=utf-8",
    "retry.jsonl": "application/x-ndjson; charset=utf-8",
    "state.md": "text/markdown; charset=utf-8",
    "failure-records.yaml": "application/yaml; charset=utf-8",
}


@pytest.fixture
def now() -> datetime:
    return timezone.now() - timedelta(hours=1)


@pytest.fixture
def plan(agent: Agent, now: datetime) -> Plan:
    return sample(agent, now=now)[0]


def text(api: Api, path: str, **headers: str) -> str:
    response = api.client.get(f"/v1{path}", headers=api.headers | headers)
    assert response.status_code == 200, response
    return b"".join(response).decode() if response.streaming else response.content.decode()


@pytest.mark.parametrize("kind", ["orchestrator", "operator", "reader"])
def test_every_file_of_project_and_plan(api: Callable[..., Api], plan: Plan, kind: str) -> None:
    caller = api(kind)
    for name, media in FILES.items():
        whole = caller.client.get(f"/v1/{name}", headers=caller.headers)
        assert (whole.status_code, whole["Content-Type"], whole.streaming) == (200, media, True)
        said = b"".join(whole).decode()
        assert "03-01:task-3" in said
        assert text(caller, f"/plans/{plan.pk}/{name}") == said
        assert text(caller, f"/plans/03-01/{name}") == said
    assert set(json.loads(text(caller, "/retry-state.json"))) == {"task_retries", "global_stats"}


@pytest.mark.django_db(transaction=True)
def test_a_log_is_followed_without_a_gap_or_a_repetition(
    operator: Api, agent: Agent, plan: Plan, monkeypatch: pytest.MonkeyPatch, now: datetime
) -> None:
    """SED-3: piece by piece it is the whole log, and then what is new."""
    monkeypatch.setattr(log_queries, "STREAM_SIZE", 7)

    def read_pieces(path: str, cursor: str) -> tuple[str, str]:
        told, more = "", True
        while more:
            response = operator.client.get(f"/v1{path}?after={cursor}", headers=operator.headers)
            told += response.content.decode()
            cursor, more = response["Next-Cursor"], response["Has-More"] == "true"
        return told, cursor

    for path in ("/retry.log", "/retry.jsonl", f"/plans/{plan.ref}/retry.log"):
        settle()
        told, cursor = read_pieces(path, "")
        assert sorted(told.splitlines()) == sorted(text(operator, path).splitlines()) != []
        assert read_pieces(path, cursor) == ("", cursor)
        attempt(agent, add(plan, agent, 70 + len(path), now=now), now=now, error="no")
        settle()
        news, _ = read_pieces(path, cursor)
        assert sorted((told + news).splitlines()) == sorted(text(operator, path).splitlines())
        assert f"task-{70 + len(path)}" in news
    assert problem(operator("GET", "/retry.log?after=&tail=3"), 422, "validation_error")
    assert problem(operator("GET", "/retry.log?after=x"), 400, "bad_cursor")


def test_a_plan_s_files_tell_of_it_alone(operator: Api, agent: Agent, now: datetime) -> None:
    sample(agent, now=now)
    attempt(agent, add(make_plan(agent, "03-02"), agent, 1, now=now), now=now)
    assert "03-02:task-1" in text(operator, "/retry.log")
    assert "03-02:task-1" not in text(operator, "/plans/03-01/retry.log")
    assert set(json.loads(text(operator, "/plans/03-02/retry-state.json"))["task_retries"]) == set()


def test_the_tail(operator: Api, plan: Plan) -> None:
    """S1.64"""
    for path in ("/retry.log", f"/plans/{plan.ref}/retry.jsonl"):
        whole = text(operator, path).splitlines()
        assert len(whole) > 6
        assert text(operator, f"{path}?tail=5").splitlines() == whole[-5:]
        for wrong in ("0", "-1", "x", "10001"):
            problem(operator("GET", f"{path}?tail={wrong}"), 422, "validation_error")


def test_an_agent_reads_none_of_them(coder: Api, plan: Plan) -> None:
    for name in FILES:
        problem(coder("GET", f"/{name}"), 403, "scope_missing")
        problem(coder("GET", f"/plans/{plan.pk}/{name}"), 403, "scope_missing")


def test_other_projects_are_not_found(api: Callable[..., Api], plan: Plan) -> None:
    stranger = api("operator", project=make_project("other"))
    for name in FILES:
        assert "03-01" not in text(stranger, f"/{name}")
        problem(stranger("GET", f"/plans/{plan.pk}/{name}"), 404, "not_found")
    for id in (plan.pk, plan.ref, "03-09", "nothing"):
        problem(stranger("GET", f"/plans/{id}/summary"), 404, "not_found")


def test_the_summary_in_both_forms(api: Callable[..., Api], operator: Api, plan: Plan) -> None:
    """S1.65–S1.69"""
    for accept in ("text/markdown", "text/plain", "text/markdown, application/json;q=0.5"):
        said = text(operator, "/plans/03-01/summary", Accept=accept)
        assert said.startswith("## Retry Summary for Plan 03-01\n") and "| 3 (60%) |" in said
    for accept in ("*/*", "application/json", "image/png"):
        told: Any = json.loads(text(operator, f"/plans/{plan.pk}/summary", Accept=accept))
        assert told["metrics"]["retried_tasks_percent"] == 40
    assert told["patterns"][0] == {"name": "verification_failed", "count": 4}


def test_an_agent_reads_the_summary_of_a_plan_it_works_on(
    api: Callable[..., Api], coder: Api, plan: Plan
) -> None:
    assert coder("GET", "/plans/03-01/summary").body["ref"] == "03-01"
    other = api("agent", agent=make_agent("codex"))
    problem(other("GET", "/plans/03-01/summary"), 404, "not_found")


def test_nothing_has_happened_yet(operator: Api) -> None:
    assert json.loads(text(operator, "/retry-state.json")) == {
        "task_retries": {},
        "global_stats": {"total_retries": 0, "successful_retries": 0, "escalations": 0},
    }
    assert text(operator, "/retry.log") == text(operator, "/retry.jsonl") == ""
    assert "skipped_tasks: []" in text(operator, "/state.md")
