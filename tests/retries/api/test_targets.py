"""Targets over HTTP: set, replaced, listed, and removed."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger.models import Agent, Event
from retries.models import AckTarget, TaskTarget
from tests.conftest import Api
from tests.factories import make_agent, make_project
from tests.retries.renderings.stories import make_plan

pytestmark = pytest.mark.django_db
TIME = {"percent": 95, "within_s": 120}


def test_targets_are_set_replaced_and_removed(agent: Agent, operator: Api) -> None:
    plan = make_plan(agent)
    owners: list[tuple[dict[str, str], str]] = [
        ({"plan": str(plan.pk)}, "run"),
        ({"type": "code"}, "wait"),
        ({"agent": agent.name}, "run"),
        ({"agent": str(agent.pk)}, "ack"),
    ]
    for owner, measure in owners:
        answer = operator("PUT", "/targets", owner | TIME | {"measure": measure})
        assert answer.status_code == 200 and answer.body["percent"] == 95
    operator("PUT", "/targets", {"type": "code", "measure": "wait", "percent": 90, "within_s": 9})
    rows = operator("GET", "/targets").body["data"]
    names = ("agent", "type", "plan", "measure", "percent", "within_s")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("coder", None, None, "ack", 95, 120),
        ("coder", None, None, "run", 95, 120),
        (None, None, "03-01", "run", 95, 120),
        (None, "code", None, "wait", 90, 9),
    ]
    assert TaskTarget.objects.exclude(project=agent.project).count() == 0
    for owner, measure in owners:
        answer = operator("PUT", "/targets", owner | {"measure": measure})
        assert (answer.status_code, answer.body["percent"]) == (200, None)
    assert operator("GET", "/targets").body["data"] == []
    told = Event.objects.filter(kind="agent.target_set").order_by("id")
    assert [each.data for each in told][-1] == {} and told[0].actor_type == "token"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"type": "code", "agent": "coder"},
        {"type": "code", "percent": None},
        {"type": "code", "within_s": 86_401},
        {"type": "code", "percent": 100},
        {"type": "code", "measure": "ack"},
        {"type": "<script>"},
        {"type": "a\0b"},
        {"type": "ghp_" + "a1B2" * 9},
        {"type": 5},
        {"type": "x" * 65},
    ],
)
def test_a_wrong_target_is_refused(agent: Agent, operator: Api, wrong: dict[str, Any]) -> None:
    answer = operator("PUT", "/targets", {"measure": "wait"} | TIME | wrong)
    assert answer.status_code == 422, answer.body
    assert not TaskTarget.objects.exists() and not AckTarget.objects.exists()


def test_another_projects_targets_stay_hidden(agent: Agent, operator: Api) -> None:
    foreign = make_agent("stranger", project=make_project("else"))
    plan = make_plan(foreign)
    for owner in ({"agent": "stranger"}, {"agent": str(foreign.pk)}, {"plan": str(plan.pk)}):
        answer = operator("PUT", "/targets", owner | TIME | {"measure": "run"})
        assert answer.status_code == 404
    TaskTarget.objects.create(
        project=foreign.project,
        type="code",
        measure="run",
        percent=95,
        within_s=60,
        set_at=plan.created_at,
        set_by_name="x",
    )
    assert operator("GET", "/targets").body["data"] == []


def test_agents_and_producers_set_no_target(
    agent: Agent, coder: Api, api: Callable[..., Api]
) -> None:
    producer = api("orchestrator")
    body = {"type": "code", "measure": "run"} | TIME
    assert coder("GET", "/targets").status_code == 403
    assert producer("GET", "/targets").status_code == 200
    for caller in (coder, producer):
        assert caller("PUT", "/targets", body).body["code"] == "human_required"
    assert not TaskTarget.objects.exists()
