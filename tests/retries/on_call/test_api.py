"""Escalation policies and rotas over HTTP."""

from collections.abc import Callable

import pytest

from ledger.models import Agent, Event
from retries.models import Escalation
from retries.on_call import routing
from tests.conftest import Api
from tests.factories import NOW, make_project
from tests.retries.escalations.test_answering import ignored
from tests.retries.on_call.test_routing import make_member

pytestmark = pytest.mark.django_db
STEPS = ["0 tell rota:nights", "30 remind", "60 answer skip"]


def test_a_policy_and_its_rota_from_creation_to_deletion(
    operator: Api, api: Callable[..., Api], agent: Agent
) -> None:
    make_member(agent.project, "mara")
    rota = operator(
        "POST",
        "/rotas",
        {"name": "nights", "shifts": ["Daily 22:00-6:00 mara"], "fallback": ["mara"]},
    )
    assert rota.status_code == 201 and rota.body["shifts"] == ["daily 22:00-06:00 mara"]
    assert [each["people"] for each in rota.body["on_call"]] == [["mara"]], "one period of 7 days"
    body = {"name": "all", "answer_within_s": 3600, "steps": STEPS}
    made = operator("POST", "/escalation-policies", body)
    assert made.status_code == 201 and made.body["position"] == 1
    path = f"/escalation-policies/{made.body['id']}"
    assert operator("POST", "/escalation-policies", body).status_code == 422
    assert operator("PATCH", path, {"enabled": False}).status_code == 428
    assert operator("PATCH", path, {"enabled": None}, If_Match='"v1"').status_code == 422
    changed = operator("PATCH", path, {"conditions": " agent:coder  "}, If_Match='"v1"')
    assert (changed.body["conditions"], changed["ETag"]) == ("agent:coder", '"v2"')
    ignored(agent)
    routing.take_due_steps(now=NOW)
    (row,) = operator("GET", "/escalations?state=open").body["data"]
    assert (row["policy"], row["told"], row["assignee"]) == ("all", ["mara"], "mara")
    assert row["answer_due_at"] == "2026-11-21T13:00:00.000Z"
    assert row["next_step_at"] == "2026-11-21T12:30:00.000Z"
    named = operator("DELETE", f"/rotas/{rota.body['id']}")
    assert named.status_code == 422 and "'all' names the rota" in named.body["detail"]
    assert operator("DELETE", path).status_code == 200
    assert operator("DELETE", f"/rotas/{rota.body['id']}").status_code == 200
    assert operator("GET", "/rotas").body["data"] == []
    assert Escalation.objects.get().policy is None
    kinds = (
        Event.objects.filter(subject_type="on_call").order_by("id").values_list("kind", flat=True)
    )
    assert list(kinds) == [
        "rota.created",
        *("escalation_policy.created", "escalation_policy.updated", "escalation_policy.deleted"),
        "rota.deleted",
    ]


def test_only_people_write_them_and_no_agent_reads_them(
    operator: Api, coder: Api, api: Callable[..., Api], agent: Agent
) -> None:
    make_member(agent.project, "mara")
    made = operator(
        "POST",
        "/escalation-policies",
        {"name": "all", "answer_within_s": 60, "steps": ["0 tell mara"]},
    )
    path = f"/escalation-policies/{made.body['id']}"
    assert coder("GET", path).status_code == 403
    for weak in (coder, api("orchestrator"), api("reader")):
        assert weak("DELETE", path).body["code"] == "human_required"
    stranger = api("operator", project=make_project("demo"))
    assert stranger("GET", path).status_code == 404
    assert stranger("DELETE", path).status_code == 404


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"timezone": "Mars/Olympus"}, "/timezone"),
        ({"shifts": ["daily 22:00-06:00 zoe"]}, "/shifts/0"),
        ({"shifts": ["daily 22:00 mara"]}, "/shifts/0"),
        ({"fallback": []}, "/fallback"),
        ({"fallback": ["zoe"]}, "/fallback"),
        ({"name": "a:b"}, "/name"),
        ({"name": "\u202enights"}, "/name"),
        ({"name": "n" * 65}, "/name"),
    ],
)
def test_a_rota_that_can_not_work_is_refused(
    operator: Api, agent: Agent, body: dict[str, object], pointer: str
) -> None:
    make_member(agent.project, "mara")
    rota = {"name": "nights", "shifts": [], "fallback": ["mara"]} | body
    refused = operator("POST", "/rotas", rota)
    assert refused.status_code == 422, refused.body
    assert refused.body["errors"][0]["pointer"] == pointer
