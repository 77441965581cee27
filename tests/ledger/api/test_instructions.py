"""Instructions over HTTP: the main job, and every bad input with its own problem."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ledger import tasks
from ledger.models import Agent, Event, IdempotencyKey, Instruction
from ledger.schemas.instructions import InstructionOut
from ledger.states import InstructionState
from tests.conftest import Api
from tests.factories import make_agent, make_instruction, make_project

pytestmark = pytest.mark.django_db


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert (response.status_code, response["Content-Type"]) == (status, "application/problem+json")
    body: dict[str, Any] = response.body
    assert body["code"] == code and body["status"] == status and body["detail"]
    assert body["type"].endswith(f"/problems/{code}")
    assert body["request_id"] == response["X-Request-Id"]
    return body


def sent(api: Api, **more: Any) -> Any:
    return api("POST", "/instructions", {"agent": "coder", "content": "Check", **more})


def test_the_main_job(operator: Api, coder: Api) -> None:
    made = sent(operator, content="Check for OpenSpec CLI")
    assert made.status_code == 201 and made.body["state"] == "queued"
    InstructionOut.model_validate(made.body)
    pulled = coder("POST", "/instructions/pull")
    assert [row["text"] for row in pulled.body["data"]] == ["Check for OpenSpec CLI"]
    assert pulled.body["data"][0]["deliveries"] == 1 and pulled.body["retry_after_s"] > 0
    acked = coder("POST", f"/instructions/{made.body['id']}/ack", {"note": "1.4.2"})
    assert acked.status_code == 200
    assert (acked.body["state"], acked.body["note"], acked.body["late"]) == (
        "acknowledged",
        "1.4.2",
        False,
    )
    again = coder("POST", f"/instructions/{made.body['id']}/ack")
    assert (
        again.status_code == 200 and again.body["acknowledged_at"] == acked.body["acknowledged_at"]
    )
    assert coder("POST", "/instructions/pull", {"limit": 1}).body["data"] == []


def test_the_note_of_an_ack_is_stored_without_secrets_and_unseen_characters(
    operator: Api, coder: Api
) -> None:
    """S3.47"""
    id = sent(operator).body["id"]
    note = " Signed in\x07 with password=" + "hunter2" + "hunter2\u202e "
    acked = coder("POST", f"/instructions/{id}/ack", {"outcome": "accepted", "note": note}).body
    assert acked["note"] == "Signed in with password=[redacted:secret]"
    assert operator("GET", f"/instructions/{id}").body["note"] == acked["note"]


def test_the_same_content_answers_200_deduplicated(operator: Api, coder: Api) -> None:
    first, second = sent(operator), sent(operator)
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.body["deduplicated"] and second.body["id"] == first.body["id"]


def test_plain_text_is_the_text_alone(operator: Api, coder: Api) -> None:
    """S0.29"""
    sent(operator, content="one")
    sent(operator, content="two")
    response = coder("POST", "/instructions/pull", Accept="text/plain")
    assert (response["Content-Type"], response.content) == (
        "text/plain; charset=utf-8",
        b"one\n\ntwo\n",
    )
    assert coder("POST", "/instructions/pull", Accept="text/plain").content == b""


def test_a_signal_acknowledges_and_the_producer_reads_its_data(operator: Api, coder: Api) -> None:
    made = sent(operator, expect={"type": "fs_command", "match": {"command": "openspec"}})
    told = coder(
        "POST", "/signals", {"type": "fs_command", "data": {"command": "openspec", "found": True}}
    )
    assert told.body == {"acknowledged": [made.body["id"]], "sent": []}
    row = operator("GET", f"/instructions/{made.body['id']}").body
    assert row["acknowledged_by"]["data"]["found"] is True
    again = coder("POST", "/signals", {"type": "fs_command", "data": {"command": "openspec"}})
    assert again.body == {"acknowledged": [], "sent": []}


def test_a_list_of_acks(coder: Api, agent: Agent) -> None:
    id = str(make_instruction(InstructionState.DELIVERED, agent=agent).id)
    response = coder("POST", "/instructions/ack", {"ids": [id, str(uuid.uuid4())]})
    assert [row["status"] for row in response.body["data"]] == [200, 404]


def test_a_late_ack(coder: Api, agent: Agent) -> None:
    id = make_instruction(InstructionState.FAILED, agent=agent).id
    response = coder("POST", f"/instructions/{id}/ack")
    assert response.status_code == 200 and response.body["late"] is True
    assert response.body["state"] == "failed"


def test_cancel(operator: Api, agent: Agent) -> None:
    id = make_instruction(InstructionState.QUEUED, agent=agent).id
    assert operator("POST", f"/instructions/{id}/cancel").body["state"] == "cancelled"
    body = problem(operator("POST", f"/instructions/{id}/cancel"), 409, "invalid_transition")
    assert (body["current"], body["allowed"]) == ("cancelled", [])


def test_lists_are_filtered_and_paged(operator: Api, coder: Api, agent: Agent) -> None:
    ids = [str(make_instruction(InstructionState.QUEUED, agent=agent).id) for _ in range(5)]
    make_instruction(InstructionState.FAILED, agent=make_agent("codex"))
    seen: list[str] = []
    cursor = ""
    while True:
        page = coder("GET", f"/instructions?limit=2&cursor={cursor}").body
        seen += [row["id"] for row in page["data"]]
        if not page["has_more"]:
            break
        cursor = page["next_cursor"]
    assert seen == ids[::-1]
    assert len(operator("GET", "/instructions").body["data"]) == 6
    assert len(operator("GET", "/instructions?state=failed,cancelled").body["data"]) == 1
    assert len(operator("GET", "/instructions?agent=codex").body["data"]) == 1
    problem(operator("GET", f"/instructions?state=failed&cursor={cursor}"), 400, "bad_cursor")
    problem(operator("GET", "/instructions?cursor=%F0%9F%92%A9"), 400, "bad_cursor")
    problem(operator("GET", "/instructions?state=lost"), 422, "validation_error")
    problem(operator("GET", "/instructions?limit=0"), 422, "validation_error")
    problem(operator("GET", "/instructions?agent=%00"), 422, "validation_error")


def test_an_unknown_agent_is_refused_with_the_nearest(operator: Api, agent: Agent) -> None:
    body = problem(sent(operator, agent="Codr"), 422, "unknown_agent")
    assert body["nearest"] == ["coder"] and "register" in body["hint"]
    assert sent(operator, agent="Codr", register=True).status_code == 201
    assert Event.objects.filter(kind="agent.registered", data__name="Codr").exists()


@pytest.mark.parametrize(
    ("body", "status", "code", "says"),
    [
        ({"content": ""}, 422, "validation_error", "blank"),
        ({"content": " \t\n"}, 422, "validation_error", "blank"),
        ({"content": "x" * 8193}, 422, "validation_error", "8193"),
        ({"content": "a\x00b"}, 422, "validation_error", "U+0000"),
        ({"content": "a\x07b"}, 422, "validation_error", "U+0007"),
        ({"content": "\ud800"}, 422, "validation_error", "U+D800"),
        ({"content": 7}, 422, "validation_error", "/content"),
        ({"agent": ""}, 422, "validation_error", "blank"),
        ({"agent": "x" * 65}, 422, "validation_error", "64"),
        ({"agent": "nobody"}, 422, "unknown_agent", "nobody"),
        ({"max_retries": -1}, 422, "validation_error", "/max_retries"),
        ({"max_retries": 21}, 422, "validation_error", "/max_retries"),
        ({"max_retries": "3"}, 422, "validation_error", "/max_retries"),
        ({"max_retries": True}, 422, "validation_error", "/max_retries"),
        ({"tracked": "no"}, 422, "validation_error", "/tracked"),
        ({"on_failed": "explode"}, 422, "validation_error", "/on_failed"),
        ({"expect": {"type": ""}}, 422, "validation_error", "/expect/type"),
        ({"expect": {"type": "x", "match": {"a": []}}}, 422, "validation_error", "/expect/match/a"),
        ({"expect": {"type": "x"}, "tracked": False}, 422, "validation_error", "plain"),
        ({"maxretries": 1}, 422, "validation_error", "/maxretries"),
        ("{", 400, "bad_request", "JSON"),
        ('{"agent": NaN}', 400, "bad_request", "NaN"),
        ("[" * 100_000, 400, "bad_request", "deep"),
        ("[]", 422, "validation_error", ""),
        ("", 422, "validation_error", ""),
        (b"\xff\xfe", 400, "bad_request", "JSON"),
        ("x" * 262_145, 413, "payload_too_large", "262145"),
    ],
)
def test_bad_input_is_told_and_leaves_nothing(
    operator: Api, agent: Agent, body: Any, status: int, code: str, says: str
) -> None:
    events = Event.objects.count()
    if isinstance(body, dict):
        body = json.dumps({"agent": "coder", "content": "Check"} | body)
    told = problem(operator("POST", "/instructions", body), status, code)
    assert says in told["detail"] + json.dumps(told.get("errors", "")), told
    assert not Instruction.objects.exists() and Event.objects.count() == events


def test_a_signal_of_a_mebibyte_is_too_large(coder: Api) -> None:
    response = coder("POST", "/signals", {"type": "x", "data": {"output": "y" * 1024 * 1024}})
    assert problem(response, 413, "payload_too_large")["limit_bytes"] == 262_144


@pytest.mark.parametrize(
    "data", ['{"a": 1e999}', '{"a": "\\u0000"}', '{"\\udc00": 1}', "[1]", "null"]
)
def test_signal_data_that_cannot_be_kept_is_refused(coder: Api, agent: Agent, data: str) -> None:
    make_instruction(InstructionState.QUEUED, agent=agent)
    response = coder("POST", "/signals", f'{{"type": "x", "data": {data}}}')
    assert response.status_code in (400, 422), response.content
    assert not Event.objects.filter(kind="signal.matched").exists()


def test_half_characters_as_bytes_are_refused_where_they_stand(coder: Api, agent: Agent) -> None:
    """No UTF-8, but some programs write it; PostgreSQL does not take it."""
    make_instruction(InstructionState.QUEUED, agent=agent)
    response = coder("POST", "/signals", b'{"type": "x", "data": {"a": ["\xed\xa0\x80"]}}')
    told = problem(response, 422, "validation_error")
    assert told["errors"][0]["pointer"] == "/data/a/0" and "U+D800" in told["detail"]


def test_only_json_is_read(operator: Api, agent: Agent) -> None:
    response = operator("POST", "/instructions", "agent=coder", Content_Type="text/plain")
    problem(response, 415, "unsupported_media_type")


@pytest.mark.parametrize("id", ["nonsense", "123", "01a1fe6d-9b01-7830-98b6-0164ecc5924"])
def test_a_malformed_id_is_told(coder: Api, id: str) -> None:
    body = problem(coder("POST", f"/instructions/{id}/ack"), 422, "validation_error")
    assert body["errors"][0]["pointer"] == "/id"
    problem(coder("POST", "/instructions/ack", {"ids": [id]}), 422, "validation_error")


def test_acks_take_1_to_100_ids(coder: Api) -> None:
    problem(coder("POST", "/instructions/ack", {"ids": []}), 422, "validation_error")
    many = [str(uuid.uuid4()) for _ in range(101)]
    problem(coder("POST", "/instructions/ack", {"ids": many}), 422, "validation_error")


def test_what_belongs_to_others_is_not_found(
    api: Callable[..., Api], coder: Api, agent: Agent
) -> None:
    stranger = make_agent("coder", project=make_project("other"))
    neighbour = make_agent("codex")
    for owner in (stranger, neighbour):
        id = make_instruction(InstructionState.QUEUED, agent=owner).id
        problem(coder("GET", f"/instructions/{id}"), 404, "not_found")
        problem(coder("POST", f"/instructions/{id}/ack"), 404, "not_found")
        assert Instruction.objects.get(pk=id).state == InstructionState.QUEUED
    foreign = make_instruction(InstructionState.QUEUED, agent=stranger).id
    operator = api("operator")
    problem(operator("GET", f"/instructions/{foreign}"), 404, "not_found")
    problem(operator("POST", f"/instructions/{foreign}/cancel"), 404, "not_found")
    problem(operator("GET", f"/agents/{stranger.id}"), 404, "not_found")
    problem(operator("POST", f"/agents/{stranger.id}/reset"), 404, "not_found")
    assert str(foreign) not in operator("GET", "/instructions").content.decode()


def test_an_idempotency_key_does_the_work_once(operator: Api, agent: Agent) -> None:
    body = {"agent": "coder", "content": "plain", "tracked": False}
    first = operator("POST", "/instructions", body, Idempotency_Key="k1")
    second = operator("POST", "/instructions", dict(reversed(body.items())), Idempotency_Key="k1")
    assert (first.status_code, second.status_code) == (201, 201)
    assert second.body == first.body and second["Idempotency-Replayed"] == "true"
    assert Instruction.objects.count() == 1
    operator("POST", "/instructions", body, Idempotency_Key="k2")
    assert Instruction.objects.count() == 2
    other = operator("POST", "/instructions", body | {"content": "else"}, Idempotency_Key="k1")
    problem(other, 422, "idempotency_key_reused")


def test_a_refusal_does_not_use_up_the_key(operator: Api, agent: Agent) -> None:
    body = {"agent": "codex", "content": "Check"}
    problem(operator("POST", "/instructions", body, Idempotency_Key="k"), 422, "unknown_agent")
    make_agent("codex")
    assert operator("POST", "/instructions", body, Idempotency_Key="k").status_code == 201


def test_a_key_is_the_tokens_own_and_lasts_a_day(
    api: Callable[..., Api], operator: Api, agent: Agent
) -> None:
    body = {"agent": "coder", "content": "plain", "tracked": False}
    operator("POST", "/instructions", body, Idempotency_Key="k")
    api("orchestrator")("POST", "/instructions", body, Idempotency_Key="k")
    assert Instruction.objects.count() == 2
    IdempotencyKey.objects.update(expires_at="2020-01-01T00:00Z")
    operator("POST", "/instructions", body, Idempotency_Key="k")
    assert Instruction.objects.count() == 3


@pytest.mark.parametrize("key", ["x" * 256, "a\tb"])
def test_a_bad_key_is_refused(operator: Api, agent: Agent, key: str) -> None:
    problem(sent_with(operator, key), 422, "validation_error")


def sent_with(operator: Api, key: str) -> Any:
    return operator(
        "POST", "/instructions", {"agent": "coder", "content": "x"}, Idempotency_Key=key
    )


def test_an_instruction_can_name_its_task(operator: Any, api: Any, agent: Agent) -> None:
    task = operator("POST", "/tasks", {"agent": "coder", "type": "code"}).body["id"]
    producer = api("orchestrator")
    sent = producer("POST", "/instructions", {"agent": "coder", "content": "a", "task": task})
    assert (sent.status_code, sent.body["task"], sent.body["on_failed"]) == (201, task, "escalate")
    assert producer("GET", f"/instructions/{sent.body['id']}").body["task"] == task
    body = {"agent": "coder", "content": "b", "task": task, "on_failed": "record"}
    assert producer("POST", "/instructions", body).body["on_failed"] == "record"
    other = make_agent(project=make_project("other"))
    foreign = tasks.enqueue(other, "code")
    for unknown in (str(foreign), str(uuid.uuid4())):
        body = {"agent": "coder", "content": "c", "task": unknown}
        refused = producer("POST", "/instructions", body)
        assert refused.status_code == 422
        assert refused.body["errors"][0]["pointer"] == "/task"
