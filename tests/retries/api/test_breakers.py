"""The breaker of an agent by hand, over HTTP."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger.models import Agent, Event
from tests.conftest import Api
from tests.factories import make_agent, make_project
from tests.ledger.api.test_instructions import problem
from tests.retries.moves import make_task

pytestmark = pytest.mark.django_db


def test_an_operator_trips_and_resets(operator: Api, coder: Api, agent: Agent) -> None:
    """S3.31"""
    at = f"/agents/{agent.pk}"
    closed = operator("GET", at).body["breaker"]
    assert (closed["state"], closed["opened_at"], closed["held_tasks"]) == ("closed", None, 0)
    secret = "hunter2" + "hunter"
    said = {"reason": f"it prints password={secret}"}
    opened = operator("POST", f"{at}/breaker/trip", said).body["breaker"]
    assert (opened["state"], secret in opened["reason"]) == ("open", False)
    assert opened["opened_at"] < opened["retry_at"]
    id = make_task(agent)
    told = problem(coder("POST", f"/tasks/{id}/start"), 409, "breaker_open")
    assert 0 < told["retry_after_s"] <= 60
    assert operator("GET", at).body["breaker"]["held_tasks"] == 1
    again = operator("POST", f"{at}/breaker/trip")
    assert again.body["breaker"]["reason"] == opened["reason"]
    reset = operator("POST", f"{at}/breaker/reset").body["breaker"]
    assert (reset["state"], reset["reason"], reset["retry_at"]) == ("closed", "", None)
    kinds = Event.objects.filter(kind__startswith="agent.breaker").order_by("id")
    assert list(kinds.values_list("kind", flat=True)) == [
        "agent.breaker_opened",
        "agent.breaker_closed",
    ]


def test_an_operator_keeps_a_breaker_open(operator: Api, coder: Api, agent: Agent) -> None:
    at = f"/agents/{agent.pk}"
    told = problem(operator("POST", f"{at}/breaker/keep-open"), 409, "invalid_transition")
    assert (told["current"], told["allowed"]) == ("closed", ["open"])
    operator("POST", f"{at}/breaker/trip")
    secret = "hunter2" + "hunter"
    said = {"reason": f"it prints password={secret}"}
    kept = operator("POST", f"{at}/breaker/keep-open", said).body["breaker"]
    assert (kept["state"], kept["retry_at"]) == ("open", None) and kept["kept_open_at"]
    again = operator("POST", f"{at}/breaker/keep-open").body["breaker"]
    assert again["kept_open_at"] == kept["kept_open_at"]
    event = Event.objects.get(kind="agent.breaker_kept_open")
    assert secret not in event.data["reason"] and "it prints" in event.data["reason"]
    make_task(agent)
    claimed: dict[str, Any] = coder("POST", "/claims").body
    assert (claimed["reason"], claimed["retry_after_s"]) == ("breaker_open", 60)
    reset = operator("POST", f"{at}/breaker/reset").body["breaker"]
    assert (reset["state"], reset["kept_open_at"]) == ("closed", None)
    assert coder("POST", "/claims").body["data"]


@pytest.mark.parametrize("verb", ["trip", "keep-open", "reset"])
def test_only_operators_of_its_project_may(
    api: Callable[..., Api], operator: Api, agent: Agent, verb: str
) -> None:
    for kind in ("agent", "orchestrator", "reader"):
        caller = api(kind, **({"agent": agent} if kind == "agent" else {}))
        problem(caller("POST", f"/agents/{agent.pk}/breaker/{verb}"), 403, "scope_missing")
    stranger = make_agent(project=make_project("other"))
    problem(operator("POST", f"/agents/{stranger.pk}/breaker/{verb}"), 404, "not_found")
    assert not Event.objects.filter(kind__startswith="agent.breaker").exists()


def test_a_start_over_the_limit_says_so(coder: Api, agent: Agent, operator: Api) -> None:
    operator("PATCH", f"/agents/{agent.pk}", {"concurrency": 1})
    one, two = make_task(agent), make_task(agent)
    coder("POST", f"/tasks/{one}/start")
    told = problem(coder("POST", f"/tasks/{two}/start"), 409, "concurrency_limit")
    assert told["retryable"] and told["retry_after_s"] > 0
    claimed: dict[str, Any] = coder("POST", "/claims").body
    assert (claimed["data"], claimed["reason"]) == ([], "concurrency_limit")
    shown = operator("GET", f"/agents/{agent.pk}").body
    assert (shown["running"], shown["concurrency"]) == (1, 1)
