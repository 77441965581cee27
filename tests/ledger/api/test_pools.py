"""Pools over HTTP."""

from typing import Any

import pytest

from ledger.models import Agent, Instruction, Task
from tests.conftest import Api
from tests.factories import make_agent

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool(operator: Api, agent: Agent) -> dict[str, Any]:
    make_agent("tester")
    body = {"name": "reviewers", "members": ["coder", "tester"]}
    created = operator("POST", "/pools", body)
    assert created.status_code == 201
    found: dict[str, Any] = created.body
    return found


def names(pool: dict[str, Any]) -> list[str]:
    return [each["agent"] for each in pool["members"]]


def test_a_pool_is_created_read_and_listed(operator: Api, pool: dict[str, Any]) -> None:
    assert (pool["name"], names(pool), pool["retry_on"]) == (
        "reviewers",
        ["coder", "tester"],
        "any",
    )
    assert operator("GET", "/pools/reviewers").body == pool
    assert operator("GET", f"/pools/{pool['id']}").body == pool
    assert operator("GET", "/pools").body["data"] == [pool]
    assert [each["name"] for each in operator("GET", "/agents").body["data"]] == ["tester", "coder"]
    assert operator("GET", "/agents/coder").body["pools"] == ["reviewers"]


def test_a_task_is_sent_to_a_pool_and_claimed_by_a_member(
    operator: Api, coder: Api, pool: dict[str, Any]
) -> None:
    sent = operator("POST", "/tasks", {"agent": "reviewers", "type": "review"}).body
    assert (sent["agent"], sent["pool"], sent["retry_on"]) == ("reviewers", "reviewers", "any")
    assert operator("GET", "/pools/reviewers").body["queued"] == 1
    [work] = coder("POST", "/claims").body["data"]
    assert (work["task"]["agent"], work["task"]["pool"]) == ("coder", "reviewers")
    shown = operator("GET", "/tasks?pool=reviewers").body["data"]
    assert [(each["id"], each["agent"]) for each in shown] == [(sent["id"], "coder")]
    assert operator("GET", "/tasks?agent=reviewers").body["data"] == []


def test_a_member_starts_a_task_of_its_pool(
    operator: Api, coder: Api, pool: dict[str, Any]
) -> None:
    sent = operator("POST", "/tasks", {"agent": "reviewers", "type": "review"}).body
    started = coder("POST", f"/tasks/{sent['id']}/start")
    assert (started.status_code, started.body["data"][0]["task"]["agent"]) == (200, "coder")


def test_members_are_added_and_removed(operator: Api, pool: dict[str, Any]) -> None:
    make_agent("third")
    changed = operator(
        "PATCH", "/pools/reviewers", {"add": ["third"], "remove": ["coder"], "retry_on": "other"}
    ).body
    assert (names(changed), changed["retry_on"]) == (["tester", "third"], "other")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [({"add": ["tester", "nobody"]}, "/add/1"), ({"remove": ["x"]}, "/remove/0")],
)
def test_an_unknown_member_changes_nothing(
    operator: Api, pool: dict[str, Any], body: dict[str, Any], pointer: str
) -> None:
    refused = operator("PATCH", "/pools/reviewers", body | {"paused": True})
    assert refused.status_code == 422 and refused.body["errors"][0]["pointer"] == pointer
    assert operator("GET", "/pools/reviewers").body == pool


def test_a_pool_is_paused_as_an_agent_is(operator: Api, coder: Api, pool: dict[str, Any]) -> None:
    operator("POST", "/tasks", {"agent": "reviewers", "type": "review"})
    assert operator("PATCH", "/pools/reviewers", {"paused": True}).body["paused"]
    assert coder("POST", "/claims").body["data"] == []
    operator("PATCH", "/agents/reviewers", {"paused": False})
    assert len(coder("POST", "/claims").body["data"]) == 1


def test_a_name_that_is_taken_is_refused(operator: Api, pool: dict[str, Any]) -> None:
    for name in ("reviewers", "coder"):
        refused = operator("POST", "/pools", {"name": name})
        assert (refused.status_code, refused.body["code"]) == (409, "name_taken")


def test_a_pool_with_tasks_says_where_they_can_go(operator: Api, pool: dict[str, Any]) -> None:
    operator("POST", "/tasks", {"agent": "reviewers", "type": "review"})
    refused = operator("DELETE", "/pools/reviewers")
    assert (refused.status_code, refused.body["code"], refused.body["tasks"]) == (
        409,
        "pool_has_tasks",
        1,
    )
    assert operator("DELETE", "/pools/reviewers?move_to=tester").body == {"moved": 1}
    assert Task.objects.get().agent.name == "tester"
    assert operator("GET", "/pools/reviewers").status_code == 404
    sent = operator("POST", "/tasks", {"agent": "reviewers", "type": "x", "register": True})
    assert (sent.status_code, sent.body["code"]) == (409, "pool_removed")


def test_what_a_person_does_to_an_agent_reaches_the_members(
    operator: Api, pool: dict[str, Any]
) -> None:
    operator("PATCH", "/agents/reviewers", {"concurrency": 3, "system_text": "Be kind."})
    assert set(Agent.objects.workers().values_list("concurrency", "system_text")) == {
        (3, "Be kind.")
    }
    operator("POST", "/agents/reviewers/breaker/trip")
    states = {each["breaker"] for each in operator("GET", "/pools/reviewers").body["members"]}
    assert states == {"open"}
    sent = operator("POST", "/instructions", {"agent": "reviewers", "content": "Stop."}).body
    assert (len(sent["also_sent"]), Instruction.objects.count()) == (1, 2)
    assert operator("POST", "/agents/reviewers/reset").body == {"cancelled": 2}


def test_a_plan_sends_its_tasks_to_a_pool(operator: Api, pool: dict[str, Any]) -> None:
    plan = {
        "ref": "03-01",
        "agent": "reviewers",
        "retry_on": "same",
        "tasks": [{"title": "One"}, {"title": "Two", "agent": "coder", "retry_on": "other"}],
    }
    created = operator("POST", "/plans", plan)
    assert created.status_code == 201, created.body
    found = Task.objects.order_by("id").values_list("agent__name", "pool__name", "retry_on")
    assert list(found) == [("reviewers", "reviewers", "same"), ("coder", None, "other")]


def test_a_task_moves_to_a_pool(operator: Api, pool: dict[str, Any]) -> None:
    sent = operator("POST", "/tasks", {"agent": "coder", "type": "x"}).body
    moved = operator(
        "PATCH", f"/tasks/{sent['id']}", {"agent": "reviewers", "retry_on": "same"}, If_Match='"v1"'
    ).body
    assert (moved["agent"], moved["pool"], moved["retry_on"]) == ("reviewers", "reviewers", "same")
