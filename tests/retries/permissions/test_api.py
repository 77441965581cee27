"""Permission requests and rules over HTTP."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from ledger.models import Agent
from retries.models import PermissionRequest, PermissionRule
from tests.conftest import Api
from tests.factories import make_agent, make_project
from tests.ledger.api.test_instructions import problem
from tests.retries.moves import make_task
from tests.retries.permissions.asking import ask, escalation_of, make_rule

pytestmark = pytest.mark.django_db

BODY = {
    "tool": "Bash",
    "input": {"command": "npm test"},
    "folder": "/srv/web-shop",
    "session": "s-1",
    "wait_s": 540,
}


def test_an_agent_asks_a_person_answers_and_the_agent_takes_it(coder: Api, operator: Api) -> None:
    asked = coder("POST", "/permissions", BODY)
    assert asked.status_code == 201
    assert (asked.body["state"], asked.body["answer"]) == ("waiting", None)
    assert asked.body["url"].endswith(f"/escalations/{asked.body['escalation']}/")
    take = f"/permissions/{asked.body['id']}/take"
    assert coder("POST", take).body["answer"] is None
    text = {"text": "deny: Run make test instead."}
    told = operator("POST", f"/escalations/{asked.body['escalation']}/resolve", text)
    assert told.status_code == 200, told.body
    assert told.body["escalation"]["reason"] == "permission_request"
    answer = coder("POST", take).body["answer"]
    assert answer["allow"] is False and answer["message"] == "Run make test instead."
    listed = operator("GET", "/permissions?state=denied").body["data"]
    assert [row["id"] for row in listed] == [asked.body["id"]]
    assert listed[0]["taken_at"] is not None


def test_only_people_answer_and_make_rules(
    coder: Api, operator: Api, api: Callable[..., Api]
) -> None:
    asked = coder("POST", "/permissions", BODY).body
    for kind in ("agent", "orchestrator", "reader"):
        token = api(kind)
        for path, body in (
            (f"/escalations/{asked['escalation']}/resolve", {"action": "allow"}),
            ("/permission-rules", {"tool": "Bash", "matcher": "npm test"}),
        ):
            assert token("POST", path, body).status_code == 403, (kind, path)
    assert PermissionRequest.objects.get().state == "waiting"
    assert not PermissionRule.objects.exists()
    made = operator("POST", "/permission-rules", {"tool": "Bash", "matcher": "npm test"})
    assert made.status_code == 201 and made.body["hits"] == 0


def test_only_an_agent_asks(operator: Api) -> None:
    assert operator("POST", "/permissions", BODY).status_code == 403


def test_other_agents_and_projects_see_nothing(agent: Agent, api: Callable[..., Api]) -> None:
    request = ask(agent, now=timezone.now())
    make_rule(agent, "npm ci", for_all=False, now=timezone.now())
    other = api("agent", agent=make_agent("other"))
    elsewhere = api("operator", project=make_project("elsewhere"))
    for token in (other, elsewhere):
        assert token("GET", f"/permissions/{request.pk}").status_code == 404
        assert token("GET", "/permissions").body["data"] == []
        assert token("GET", "/permission-rules").body["data"] == []
    assert other("POST", f"/permissions/{request.pk}/take").status_code == 404
    assert other("POST", f"/permissions/{request.pk}/withdraw").status_code == 404
    rule = PermissionRule.objects.get()
    assert elsewhere("POST", f"/permission-rules/{rule.pk}/revoke").status_code == 404


def test_a_rule_is_tried_made_used_and_revoked(coder: Api, operator: Api) -> None:
    coder("POST", "/permissions", BODY)
    body = {"tool": "Bash", "matcher": "npm test"}
    trial = operator("POST", "/permission-rules/trial", body).body
    assert (trial["tried"], trial["matched"], trial["calls"]) == (1, 1, ["npm test"])
    made = operator("POST", "/permission-rules", body).body
    asked = coder("POST", "/permissions", BODY | {"session": "s-2"}).body
    assert asked["answer"] == {"allow": True, "message": "", "input": None, "by": "rule"}
    assert asked["rules"] == [made["id"]]
    by_rule = operator("GET", f"/permissions?rule={made['id']}").body["data"]
    assert [row["id"] for row in by_rule] == [asked["id"]]
    revoke = f"/permission-rules/{made['id']}/revoke"
    assert operator("POST", revoke).body["state"] == "revoked"
    assert coder("POST", "/permissions", BODY | {"session": "s-3"}).body["state"] == "waiting"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"wait_s": 0}, "/wait_s"),
        ({"wait_s": 86_401}, "/wait_s"),
        ({"tool": ""}, "/tool"),
        ({"when_silent": "allow"}, "/when_silent"),
        ({"input": "npm test"}, "/input"),
    ],
)
def test_a_wrong_request_says_what_to_change(
    coder: Api, change: dict[str, object], pointer: str
) -> None:
    response = coder("POST", "/permissions", BODY | change)
    found = problem(response, 422, "validation_error")
    assert found["errors"][0]["pointer"] == pointer


def test_a_task_of_another_agent_is_not_found(coder: Api) -> None:
    task = make_task(make_agent("other"))
    response = coder("POST", "/permissions", BODY | {"task": str(task)})
    assert response.status_code == 404


def test_withdrawing_says_who_answered(coder: Api, agent: Agent) -> None:
    first, second = ask(agent, now=timezone.now()), ask(agent, "npm ci", now=timezone.now())
    there = {"answered_there": True}
    ended = coder("POST", f"/permissions/{first.pk}/withdraw", there).body
    assert ended["state"] == "answered_there"
    assert coder("POST", f"/permissions/{second.pk}/withdraw").body["state"] == "withdrawn"
    assert escalation_of(second).state == "withdrawn"
