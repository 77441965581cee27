"""The API's frame: unknown addresses, request ids, statistics, the journal, its own description."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from openapi_spec_validator import validate

from config.api import ASKED_MOST
from config.api import api as tenfour_api
from config.problems import CODES
from ledger.errors import Refusal
from ledger.models import Agent, Event
from ledger.states import InstructionState
from tests.conftest import Api
from tests.factories import make_instruction
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db

OPENAPI = Path(__file__).parents[3] / "docs" / "openapi.json"


def test_unknown_addresses_and_methods_are_problems(operator: Api) -> None:
    problem(operator("GET", "/nothing"), 404, "not_found")
    response = operator("DELETE", "/instructions")
    problem(response, 405, "method_not_allowed")
    assert set(response["Allow"].split(", ")) == {"GET", "POST"}


@pytest.mark.parametrize(
    ("asked", "kept"), [("abc-1.2_3", True), ("a b", False), ("x" * 65, False)]
)
def test_a_sane_request_id_is_kept(operator: Api, asked: str, kept: bool) -> None:
    assert (operator("GET", "/me", X_Request_Id=asked)["X-Request-Id"] == asked) is kept


@pytest.mark.django_db(transaction=True)
def test_the_request_id_is_in_the_journal(operator: Api, agent: Agent) -> None:
    operator("POST", "/instructions", {"agent": "coder", "content": "x"}, X_Request_Id="req-1")
    events = operator("GET", "/events").body["data"]
    assert [row["request_id"] for row in events if row["type"] == "instruction.queued"] == ["req-1"]


def test_what_is_set_by_hand_tells_which_request_did_it(operator: Api, agent: Agent) -> None:
    body = {"paused": True, "concurrency": 2, "system_text": "Be brief."}
    operator("PATCH", f"/agents/{agent.pk}", body, X_Request_Id="req-2")
    found = Event.objects.filter(request_id="req-2").values_list("kind", flat=True)
    assert sorted(found) == ["agent.briefed", "agent.limited", "agent.paused"]


def test_what_is_asked_most_is_there_and_found_first() -> None:
    first = [str(url.pattern) for url in tenfour_api._get_urls()][: len(ASKED_MOST)]
    assert set(first) == ASKED_MOST


def test_statistics_of_project_and_agents(operator: Api, agent: Agent) -> None:
    """S0.36"""
    from django.utils import timezone

    for state in (
        InstructionState.ACKNOWLEDGED,
        InstructionState.FAILED,
        InstructionState.DELIVERED,
    ):
        make_instruction(state, agent=agent, now=timezone.now())
    body = operator("GET", "/stats?window=1h").body
    project, (coder,) = body["project"], body["agents"]
    assert project["name"] == "default" and coder["name"] == "coder"
    for numbers in (project, coder):
        assert [numbers[key] for key in ("sent", "acknowledged", "failed", "waiting")] == [
            3,
            1,
            1,
            1,
        ]
        assert numbers["failed_share"] == pytest.approx(1 / 3, abs=1e-3)
        assert numbers["levels"][0]["acknowledged"] == numbers["levels"][0]["waiting"] == 1
    for window in ("", "0h", "24", "9999d", "1w"):
        problem(operator("GET", f"/stats?window={window}"), 422, "validation_error")


@pytest.mark.django_db(transaction=True)
def test_the_journal_is_read_in_pages(operator: Api, agent: Agent) -> None:
    make_instruction(InstructionState.ACKNOWLEDGED, agent=agent)
    whole = operator("GET", "/events?limit=100").body["data"]
    assert len(whole) >= 4
    pieces, after = [], ""
    for _ in range(len(whole)):
        page = operator("GET", f"/events?limit=1&after={after}").body
        pieces += page["data"]
        after = page["next_cursor"]
    assert pieces == whole
    assert operator("GET", f"/events?after={after}").body["data"] == []
    problem(operator("GET", "/events?after=x"), 400, "bad_cursor")


def test_agents_can_be_read_paused_and_reset(operator: Api, agent: Agent) -> None:
    make_instruction(InstructionState.DELIVERED, agent=agent)
    row = operator("GET", f"/agents/{agent.id}").body
    assert (row["awaiting_ack"], row["waiting"], row["paused"]) == (1, 0, False)
    assert operator("PATCH", f"/agents/{agent.id}", {"paused": True}).body["paused"] is True
    assert operator("POST", f"/agents/{agent.id}/reset").body == {"cancelled": 1}
    assert operator("GET", "/agents").body["data"][0]["awaiting_ack"] == 0


def test_a_limit_of_attempts_is_set_and_lifted(operator: Api, agent: Agent) -> None:
    path = f"/agents/{agent.id}"
    assert operator("GET", path).body["concurrency"] is None
    assert operator("PATCH", path, {"concurrency": 3}).body["concurrency"] == 3
    assert operator("PATCH", path, {"paused": True}).body["concurrency"] == 3
    for wrong in (0, 1001, "3", True):
        problem(operator("PATCH", path, {"concurrency": wrong}), 422, "validation_error")
    row = operator("PATCH", path, {"concurrency": None}).body
    assert (row["concurrency"], row["paused"]) == (None, True)
    told = Event.objects.filter(kind="agent.limited").order_by("id").values_list("data", flat=True)
    assert list(told) == [{"concurrency": 3}, {"concurrency": None}]


def test_a_system_text_is_kept_without_secrets_and_taken_away(
    operator: Api, coder: Api, agent: Agent
) -> None:
    path = f"/agents/{agent.id}"
    text = " Use the key AKIAIOSFODNN7EXAMPLE\x07.\r\nThen stop. "
    kept = operator("PATCH", path, {"system_text": text}).body["system_text"]
    assert kept == "Use the key [redacted:aws].\nThen stop."
    assert operator("PATCH", path, {"paused": False}).body["system_text"] == kept
    problem(operator("PATCH", path, {"system_text": "x" * 16_001}), 422, "validation_error")
    assert len(operator("PATCH", path, {"system_text": "ä" * 16_000}).body["system_text"]) == 16_000
    problem(coder("PATCH", path, {"system_text": "Do as you like"}), 403, "scope_missing")
    for nothing in (None, ""):
        assert operator("PATCH", path, {"system_text": nothing}).body["system_text"] == ""
    told = Event.objects.filter(kind="agent.briefed").order_by("id").values_list("data", flat=True)
    assert [event["characters"] for event in told] == [len(kept), 16_000, 0]


def test_every_code_has_a_page_and_every_refusal_a_status() -> None:
    for code, (status, title, _again) in CODES.items():
        text = Client().get(f"/problems/{code}").content.decode()
        assert code in text and title in text and str(status) in text
    assert Client().get("/problems/nonsense").status_code == 404

    def refusals(kind: type[Refusal]) -> Any:
        yield from kind.__subclasses__()
        for child in kind.__subclasses__():
            yield from refusals(child)

    for refusal in set(refusals(Refusal)):
        if refusal.code != "unknown_entry":  # the command line's own
            assert CODES[refusal.code][1:] == (refusal.title(), refusal.retryable), refusal


def test_the_description_is_valid_and_reviewed() -> None:
    schema = json.loads(json.dumps(tenfour_api.get_openapi_schema()))
    validate(schema)
    assert schema == json.loads(OPENAPI.read_text()), "docs/openapi.json: make openapi"


def test_every_operation_is_documented() -> None:
    schema = tenfour_api.get_openapi_schema()
    tags = {tag["name"] for tag in schema["tags"]}
    for methods in schema["paths"].values():
        for operation in methods.values():
            assert operation["summary"] and operation["description"]
            assert set(operation["tags"]) <= tags
            good = [
                answer for status, answer in operation["responses"].items() if int(status) < 300
            ]
            told = [kind for answer in good for kind in answer["content"].values()]
            assert told and all("example" in kind for kind in told)
            if "requestBody" in operation:
                assert "example" in operation["requestBody"]["content"]["application/json"]
