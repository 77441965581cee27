"""Heartbeats, reports, exit codes, and releases over HTTP."""

import json
import re
from typing import Any

import pytest
import yaml

from ledger.journal import SYSTEM
from ledger.models import Agent, Attempt, Breaker, Event, Failure, Token
from ledger.tokens import TrustedCaller
from retries import claims
from retries.api import attempts as api_attempts
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from tests.retries.api.calls import claim, enqueue

pytestmark = pytest.mark.django_db


def test_plain_exit_codes(coder: Any, operator: Any) -> None:
    id = enqueue(operator, payload={"verify": {"command": "make test"}}, max_attempts=1)
    at = claim(coder)["data"][0]["attempt"]["id"]
    response = coder(
        "POST",
        f"/attempts/{at}/exit/2?of=verification",
        b"\x1b[31mred\x1b[0m \x00 1 failed",
        Content_Type="text/plain",
    )
    assert response.body["decision"] == "failed"
    assert response["Output-Limit"] == "65536"
    failure = operator("GET", f"/attempts/{at}").body["failure"]
    assert failure["type"] == "verification_failed" and failure["message"] == "red  1 failed"
    letter = operator("GET", "/dead-letters").body["data"][0]
    assert letter["task"] == id and letter["error"] == "red  1 failed"


def test_not_before_has_the_format_of_all_timestamps(coder: Any, operator: Any) -> None:
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    decision = coder("POST", f"/attempts/{at}/result", {"status": "failure"}).body
    assert re.fullmatch(r"[\dT:-]{19}\.\d{3}Z", decision["not_before"])


def test_another_worker_can_take_the_retry(coder: Any, operator: Any) -> None:
    """The report stands, no matter who gets the next attempt."""
    enqueue(operator, backoff={"base_delay_ms": 0})
    row = claims.claim(caller := TrustedCaller(SYSTEM, agent=Agent.objects.get())).rows[0]
    told = finishing.finish_attempt(row["attempt_id"], Report(status="failure"), caller=caller)
    claims.claim(caller, worker_id="faster")
    assert api_attempts.claim_next_attempt(told, caller, after=row["attempt_id"]) is None


def test_what_follows_a_report_has_its_actor(
    coder: Any, operator: Any, agent: Agent, settings: Any
) -> None:
    settings.TENFOUR = settings.TENFOUR | {"BREAKER_FAILURES": 1}
    enqueue(operator, on_exhausted="escalate", max_attempts=1)
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    kinds = ("task.escalated", "escalation.opened", "agent.breaker_opened")
    events = Event.objects.filter(kind__in=kinds)
    token = Token.objects.get(agent=agent)
    assert set(events.values_list("actor_type", "actor_id", "actor_name")) == {
        ("token", str(token.pk), token.name)
    }
    assert events.count() == 3


@pytest.mark.parametrize(
    ("verify", "code", "state", "type"),
    [
        ({}, 0, "done", None),
        ({}, 2, "failed", "execution_error"),
        ({}, 124, "failed", "timeout"),
        ({}, 137, "failed", "timeout"),
        ({"command": "make"}, 0, "done", None),
        ({"command": "make"}, 2, "failed", "verification_failed"),
        ({"command": "make"}, 124, "failed", "timeout"),
        ({"command": "make", "expect_exit": 3}, 3, "done", None),
        ({"command": "make", "expect_exit": 3}, 0, "failed", "verification_failed"),
    ],
)
def test_what_an_exit_code_means(
    coder: Any, operator: Any, verify: dict[str, Any], code: int, state: str, type: str | None
) -> None:
    id = enqueue(operator, payload={"verify": verify} if verify else {}, max_attempts=1)
    at = claim(coder)["data"][0]["attempt"]["id"]
    path = f"/attempts/{at}/exit/{code}" + ("?of=verification" if verify else "")
    assert coder("POST", path, b"1 failed").body["decision"] == state
    assert coder("POST", path, b"1 failed").body["decision"] == state
    assert coder("POST", path, b"2 failed").body["code"] == "attempt_already_reported"
    assert operator("GET", f"/tasks/{id}").body["state"] == state
    failure = operator("GET", f"/attempts/{at}").body["failure"]
    assert (failure and failure["type"]) == type
    if failure:
        shown = failure["details"], (failure["verification"] or {}).get("output")
        assert failure["message"] == "1 failed"
        assert shown == (("", "1 failed") if verify else ("1 failed", None))


def test_an_agents_own_success_verifies_nothing(coder: Any, operator: Any) -> None:
    def exits(code: int, of: str = "", *, verify: dict[str, Any]) -> Any:
        enqueue(operator, payload={"verify": verify}, max_attempts=1)
        at = claim(coder)["data"][0]["attempt"]["id"]
        return coder("POST", f"/attempts/{at}/exit/{code}{of}", b"ok").body

    make = {"command": "make"}
    assert exits(0, verify=make)["reason"] == "reported"
    assert exits(0, "?of=verification", verify=make)["reason"] == "verified"
    failed = exits(3, verify=make | {"expect_exit": 3})
    assert failed["verdict"]["type"] == "execution_error"
    assert exits(0, "?of=nothing", verify=make)["code"] == "validation_error"
    operator("POST", f"/tasks/{Attempt.objects.get(outcome=None).task_id}/abort")
    coder("POST", f"/attempts/{Attempt.objects.get(outcome=None).pk}/release")
    assert exits(0, verify=make | {"required": True})["code"] == "verification_missing"


def test_a_failed_verification_without_output_names_its_command(coder: Any, operator: Any) -> None:
    def failure(path: str, body: Any) -> str:
        enqueue(operator, payload={"verify": {"command": "npm test"}}, max_attempts=1)
        at = claim(coder)["data"][0]["attempt"]["id"]
        coder("POST", f"/attempts/{at}/{path}", body)
        return Failure.objects.latest("id").message

    said = "`npm test` returned exit code 1"
    ran = {"command": "npm test", "exit_code": 1}
    assert failure("result", {"status": "success", "verification": ran}) == said
    assert failure("result", {"status": "failure", "verification": ran}) == said
    assert failure("exit/1?of=verification", b"") == said


def test_a_release_without_a_note_says_why(coder: Any, operator: Any) -> None:
    id = enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/release", {"reason": "wrong_agent"})
    event = Event.objects.get(subject_id=id, kind="task.released")
    assert event.data["error"] == "The agent released the task: wrong agent."


@pytest.mark.parametrize("code", ["malformed_task", "permission_denied", "impossible"])
def test_a_task_at_fault_does_not_open_the_agents_breaker(
    coder: Any, operator: Any, code: str
) -> None:
    for _ in range(6):
        enqueue(operator)
        at = claim(coder)["data"][0]["attempt"]["id"]
        said = {"status": "failure", "failure": {"type": "execution_error", "code": code}}
        coder("POST", f"/attempts/{at}/result", said)
    assert not Breaker.objects.filter(failures__gt=0).exists()
    assert claim(coder)["reason"] == "no_task"


def test_a_long_output_is_truncated_and_not_refused(coder: Any, operator: Any) -> None:
    """Its start and its end stay, and no secret."""
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    secret = "hunter2" * 3
    line = f"password={secret} here\n".encode()
    output = b"first\n" + line * 40_000 + b"last\n"
    assert len(output) > 1_000_000
    response = coder("POST", f"/attempts/{at}/exit/1", output, Content_Type="text/plain")
    assert (response.status_code, response["Output-Limit"]) == (200, "65536")
    details = Failure.objects.get().details
    assert details.startswith("first\n") and details.endswith("here\nlast\n")
    assert "lines left out …]" in details
    assert 55_000 < len(details.encode()) <= 65_536
    assert "hunter2" not in details
    huge = coder("POST", f"/attempts/{at}/exit/1", b"x" * (api_attempts.MOST_OUTPUT_BYTES + 1))
    assert (huge.status_code, huge.body["limit_bytes"]) == (413, api_attempts.MOST_OUTPUT_BYTES)


def test_a_report_is_stored_within_its_limits(coder: Any, operator: Any) -> None:
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    said = {
        "status": "failure",
        "summary": "s" * 600,
        "failure": {
            "details": "head\n" + "d" * 100_000 + "\ntail",
            "suggested_fix": "f" * 1100,
            "root_cause_guess": "g\u202e",
        },
        "learnings": ["same", " same ", "", "l" * 400, *map(str, range(30))],
        "files_modified": [{"path": f"src/{n}\u202e.py"} for n in range(250)],
    }
    assert coder("POST", f"/attempts/{at}/result", said).status_code == 200
    kept = Failure.objects.get()
    assert kept.message == "s" * 499 + "…" and kept.suggested_fix == "f" * 999 + "…"
    assert kept.root_cause_guess == "g"
    assert kept.details.startswith("head\n") and kept.details.endswith("\ntail")
    assert len(kept.details.encode()) <= 65_536
    assert kept.learnings[:3] == ["same", "l" * 299 + "…", "0"] and len(kept.learnings) == 20
    assert len(kept.files_modified) == 200 and kept.files_modified[0]["path"] == "src/0.py"


def test_a_report_is_not_lost_for_what_a_program_printed(coder: Any, operator: Any) -> None:
    """api.md §7.2: NUL and half characters in output are dropped, elsewhere they are refused."""
    id = enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    odd = "a\ud800b\x00c \U0001f600"
    assert (
        coder("POST", f"/attempts/{at}/heartbeat", {"progress": {"message": odd}}).status_code
        == 200
    )
    said = {
        "status": "failure",
        "failure": {"message": odd},
        "verification": {"command": odd, "exit_code": 1, "output": odd},
        "learnings": [odd],
        "result": {odd: odd},
    }
    assert coder("POST", f"/attempts/{at}/result", said).status_code == 200
    kept = Failure.objects.get(task=id)
    assert (kept.message, kept.learnings) == ("abc \U0001f600", ["abc \U0001f600"])
    assert (kept.verification or {})["output"] == "abc \U0001f600"
    task = {"agent": "coder", "type": "code", "title": odd}
    assert operator("POST", "/tasks", task).status_code == 422


def test_a_report_brings_tokens_and_cost(coder: Any, operator: Any) -> None:
    """In JSON or beside an exit code, of a success or of a failure, by each way through a report."""
    used = {"input_tokens": 52_100, "cached_tokens": 0, "output_tokens": 1_840, "cost_usd": 0.21}
    query = "&".join(f"{name}={value}" for name, value in used.items())

    def stored(path: str, body: Any, *, status: int = 200, payload: Any = None) -> Any:
        enqueue(operator, payload=payload or {}, max_attempts=1)
        at = claim(coder)["data"][0]["attempt"]["id"]
        for _ in range(2):  # the same report again gets the same answer
            assert coder("POST", f"/attempts/{at}/{path}", body).status_code == status
        found = operator("GET", f"/attempts/{at}").body["usage"]
        if status != 200:
            coder("POST", f"/attempts/{at}/release")
        return found

    success = {"status": "success", "usage": used}
    assert stored("result", success) == used
    assert stored("result", success | {"usage": used | {"model": "opus"}}) == used | {
        "model": "opus"
    }
    assert stored("result", success | {"status": "failure"}) == used
    assert stored(f"exit/0?{query}", b"ok") == stored(f"exit/1?{query}", b"no") == used
    verify = {"verify": {"command": "make test", "expect_exit": 0}}
    assert stored(f"exit/0?of=verification&{query}", b"ok", payload=verify) == used
    assert stored("result", {"status": "success"}) is None
    assert stored("result", {"status": "success", "usage": {"model": "opus"}}) is None
    for wrong in ({"input_tokens": -1}, {"cost_usd": -0.1}, {"cost_usd": "NaN"}, {"tokens": 1}):
        assert stored("result", success | {"usage": wrong}, status=422) is None
    assert stored("exit/0?cost_usd=inf", b"", status=422) is None
    secret = "sk-ant-api03-" + "a1B2c3D4e5" * 9 + "AA"
    assert secret not in str(stored("result", success | {"usage": used | {"model": secret}}))


def test_the_first_report_s_usage_stays(coder: Any, operator: Any) -> None:
    """What was used does not make two reports different ones."""
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    for tokens in (5, 6):
        said = {"status": "success", "usage": {"output_tokens": tokens}}
        assert coder("POST", f"/attempts/{at}/result", said).body["decision"] == "done"
    assert operator("GET", f"/attempts/{at}").body["usage"] == {"output_tokens": 5}


def test_a_late_report_changes_nothing(coder: Any, operator: Any) -> None:
    id = enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    assert coder("POST", f"/attempts/{at}/release").body["state"] == "queued"
    response = coder("POST", f"/attempts/{at}/result", {"status": "success"})
    assert (response.status_code, response.body["code"]) == (409, "lease_lost")
    assert operator("GET", f"/tasks/{id}").body["state"] == "queued"


def test_a_different_second_report_is_refused(coder: Any, operator: Any) -> None:
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    first = coder("POST", f"/attempts/{at}/result", {"status": "success", "result": 1}).body
    assert coder("POST", f"/attempts/{at}/result", {"status": "success", "result": 1}).body == first
    response = coder("POST", f"/attempts/{at}/result", {"status": "success", "result": 2})
    assert (response.status_code, response.body["code"]) == (409, "attempt_already_reported")


def test_a_required_verification(coder: Any, operator: Any) -> None:
    enqueue(operator, payload={"verify": {"command": "make", "required": True, "expect_exit": 3}})
    at = claim(coder)["data"][0]["attempt"]["id"]
    response = coder("POST", f"/attempts/{at}/result", {"status": "success"})
    assert (response.status_code, response.body["code"]) == (422, "verification_missing")
    good = {"status": "success", "verification": {"exit_code": 3}}
    assert coder("POST", f"/attempts/{at}/result", good).body["decision"] == "done"


@pytest.mark.parametrize(
    ("code", "status"), [("permission_denied", "failure"), ("impossible", "blocked")]
)
def test_hopeless_codes_ask_a_person_at_once(
    coder: Any, operator: Any, code: str, status: str
) -> None:
    """S1.10"""
    id = enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    said = {"status": status, "failure": {"code": code, "message": "no"}}
    decision = coder("POST", f"/attempts/{at}/result", said).body
    assert (decision["decision"], decision["reason"]) == ("escalated", code)
    assert operator("GET", f"/tasks/{id}").body["retry_count"] == 0
    asked = operator("GET", f"/escalations/{decision['escalation']['id']}").body
    assert (asked["task"], asked["reason"]) == (id, code)
    assert asked["message"].startswith("## Task Escalation Required\n\n**Task:** ")


def test_a_failure_with_a_long_output_in_json_is_recorded(coder: Any, operator: Any) -> None:
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    verification = {"command": "make", "exit_code": 1, "output": "line\n" * 600_000}
    body = {"status": "failure", "verification": verification}
    assert coder("POST", f"/attempts/{at}/result", body).status_code == 200
    stored = Failure.objects.get().verification["output"]
    assert "lines left out …]" in stored and len(stored) <= 65_536
    claimed = enqueue(operator) and claim(coder)["data"][0]["attempt"]["id"]
    verification["output"] = "x" * 4_200_000
    assert coder("POST", f"/attempts/{claimed}/result", body).body["code"] == "payload_too_large"


def test_a_failure_tells_its_cause_to_an_orchestrator(coder: Any, operator: Any) -> None:
    """In the attempt, its escalation, its pattern, and the pattern's failures."""
    task = enqueue(operator, max_attempts=1, on_exhausted="escalate")
    line = "ModuleNotFoundError: No module named 'polars'"
    said = {"status": "failure", "failure": {"message": "it failed", "details": f"step\n{line}"}}
    attempt = claim(coder)["data"][0]["attempt"]["id"]
    decision = coder("POST", f"/attempts/{attempt}/result", said).body
    failure = operator("GET", f"/attempts/{attempt}").body["failure"]
    assert failure["headline"] == line
    assert failure["signature"]["entities"] == ["polars"] and failure["signature"]["key"]
    known = failure["known_error"]
    assert (known["name"], known["action"]) == ("missing_module", "retry")
    assert known["cause"].startswith("polars is not installed")
    assert failure["suggestion"] == {
        "cause": known["cause"],
        "cause_by": "tenfour",
        "fix": known["fix"],
        "fix_by": "tenfour",
        "for_person": "",
    }
    assert operator("GET", f"/tasks/{task}/attempts").body["data"][0]["failure"] == failure
    names = ("headline", "pattern", "signature", "known_error", "suggestion", "prediction")
    escalation = operator("GET", f"/escalations/{decision['escalation']['id']}").body
    assert [escalation[name] for name in names] == [failure[name] for name in names]
    (of_pattern,) = operator("GET", f"/patterns/{failure['pattern']}/failures").body["data"]
    assert [of_pattern[name] for name in names] == [failure[name] for name in names]
    pattern = operator("GET", f"/patterns/{failure['pattern']}").body
    assert [pattern[name] for name in ("headline", "known_error")] == [line, known]


EXECUTOR = """\
status: "failure"
files_modified: ["src/domain/PlannerId.ts", "src/index.ts"]
verification:
  command: "npm test -- PlannerId"
  exit_code: 1
  output_summary: "1 passed, 2 failed"
error: "Cannot find module 'uuid'"
failure_type: "verification_failed"
root_cause_guess: "Missing dependency"
suggested_fix: "Run npm install uuid"
files_state:
  - path: "src/domain/PlannerId.ts"
    status: "partially_modified"
    lines_changed: 15
"""


@pytest.mark.parametrize("media", ["application/yaml", "text/x-yaml", "application/json"])
def test_an_executors_result_is_taken_as_it_is(coder: Any, operator: Any, media: str) -> None:
    """SED-2, S1.13, S1.14, S1.15"""
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    body = EXECUTOR if media != "application/json" else json.dumps(yaml.safe_load(EXECUTOR))
    for _ in range(2):
        response = coder("POST", f"/attempts/{at}/result", body.encode(), Content_Type=media)
        assert response.body["decision"] == "wait", response.body
    failure = Failure.objects.get()
    assert (failure.type, failure.message) == ("verification_failed", "Cannot find module 'uuid'")
    assert failure.verification["output"] == "1 passed, 2 failed"
    assert failure.root_cause_guess == "Missing dependency"
    assert failure.suggested_fix == "Run npm install uuid"
    assert failure.files_modified == [
        {"path": "src/domain/PlannerId.ts", "status": "partially_modified", "lines_changed": 15},
        {"path": "src/index.ts", "status": "modified", "lines_changed": None},
    ]


@pytest.mark.parametrize(
    ("body", "place", "said"),
    [
        ({"stauts": "success"}, "/stauts", "Unknown key 'stauts'. Did you mean 'status'?"),
        ({"verification": {"exit_code": 1, "outputs": ""}}, "/verification/outputs", "'output'?"),
        ({"files_modified": [{"path": "a", "stat": 1}]}, "/files_modified/0/stat", "'status'?"),
        ({"failure": {"zzz": 1}}, "/failure/zzz", "Use one of: type, code, message"),
        ({"error": "a", "failure": {"message": "b"}}, "/error", "another name"),
        ({"error": 7}, "/failure/message", "string"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(
    coder: Any, operator: Any, body: dict[str, Any], place: str, said: str
) -> None:
    """SED-2"""
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    response = coder("POST", f"/attempts/{at}/result", {"status": "failure"} | body)
    assert response.status_code == 422
    told = {each["pointer"]: each["detail"] for each in response.body["errors"]}
    assert said in told[place]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"status: [", 400, "The body is not valid YAML"),
        (b"\xff", 400, "The body is not valid YAML"),
        (b"status: &a success\nresult: !!python/name:os.system 1\n", 400, "A body can't contain"),
        (b"status: failure\nresult: .nan\n", 400, "not a JSON number"),
        (b"status: failure\nerror: 'a\\0'\nlearnings: ['x: \xe2\x82\xac']\n", 200, ""),
        (b"status: success\nerror: null\nresult: {1: 2026-01-26}\n", 200, ""),
    ],
)
def test_a_result_in_yaml_follows_the_rules_of_json(
    coder: Any, operator: Any, body: bytes, status: int, said: str
) -> None:
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    response = coder("POST", f"/attempts/{at}/result", body, Content_Type="application/yaml")
    assert response.status_code == status and said in response.body.get("detail", "")
    other = coder("POST", f"/attempts/{at}/release", b"{}", Content_Type="application/yaml")
    assert other.status_code == 415
