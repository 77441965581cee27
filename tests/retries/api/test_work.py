"""The agent's loop and the producers' calls over HTTP."""

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from ledger.journal import SYSTEM
from ledger.models import Agent, Attempt, DeadLetter, Event, Failure, Task, Token
from ledger.tasks.spec import PAYLOAD_BYTES
from ledger.tokens import TrustedCaller
from retries import claims, in_process
from retries.api import attempts as api_attempts
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.models import Escalation
from tests.elsewhere import blocked

pytestmark = pytest.mark.django_db


def enqueue(api: Any, **body: Any) -> str:
    response = api("POST", "/tasks", {"agent": "coder", "type": "code"} | body)
    assert response.status_code == 201, response.content
    id: str = response.body["id"]
    return id


def claim(coder: Any, **body: Any) -> dict[str, Any]:
    response = coder("POST", "/claims", body or None)
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.body
    return found


def test_the_loop(coder: Any, operator: Any) -> None:
    """S3.39 over HTTP, with a retry in between."""
    id = enqueue(operator, title="Create it", backoff={"base_delay_ms": 0})
    found = claim(coder, worker_id="ci-7")
    one = found["data"][0]
    assert one["task"]["id"] == id and one["task"]["state"] == "running"
    assert one["attempt"]["number"] == 1 and one["attempt"]["heartbeat_every_s"] == 100
    at = f"/attempts/{one['attempt']['id']}"
    beat = coder("POST", f"{at}/heartbeat", {"progress": {"message": "half", "percent": 50}})
    assert beat.body["abort_requested"] is False
    said = {
        "status": "failure",
        "failure": {"type": "verification_failed", "message": "1 failed"},
        "reclaim": True,
    }
    decision = coder("POST", f"{at}/result", said).body
    assert decision["decision"] == "retry" and decision["retry"]["number"] == 2
    last = coder("POST", f"/attempts/{decision['retry']['attempt']}/result", {"status": "success"})
    assert last.body["decision"] == "done"
    task = operator("GET", f"/tasks/{id}").body
    assert (task["state"], task["attempts"], task["retry_count"]) == ("done", 2, 1)
    attempts = operator("GET", f"/tasks/{id}/attempts").body["data"]
    assert [each["outcome"] for each in attempts] == ["success", "failure"]
    assert [each["worker_id"] for each in attempts] == ["ci-7", "ci-7"]
    assert attempts[1]["failure"]["message"] == "1 failed"
    assert attempts[1]["progress"] == {"message": "half", "percent": 50}
    events = operator("GET", f"/tasks/{id}/events").body["data"]
    assert [each["type"] for each in events] == [
        "task.created",
        "task.claimed",
        "task.retry_scheduled",
        "task.claimed",
        "task.completed",
    ]


def test_an_empty_claim_says_why_and_when(coder: Any, operator: Any) -> None:
    found = claim(coder)
    assert (found["data"], found["reason"], found["next_due_in_ms"]) == ([], "no_task", None)
    assert found["retry_after_s"] > 0
    enqueue(operator, backoff={"base_delay_ms": 20_000, "jitter": False})
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    assert 15_000 < claim(coder)["next_due_in_ms"] <= 20_000


def test_plain_exit_codes(coder: Any, operator: Any) -> None:
    id = enqueue(operator, payload={"verify": {"command": "make test"}}, max_attempts=1)
    at = claim(coder)["data"][0]["attempt"]["id"]
    response = coder(
        "POST",
        f"/attempts/{at}/exit/2",
        b"\x1b[31mred\x1b[0m \x00 1 failed",
        Content_Type="text/plain",
    )
    assert response.body["decision"] == "failed"
    assert response["Output-Limit"] == "65536"
    failure = operator("GET", f"/attempts/{at}").body["failure"]
    assert failure["type"] == "verification_failed" and failure["message"] == "red  1 failed"
    letter = operator("GET", "/dead-letters").body["data"][0]
    assert letter["task"] == id and letter["error"] == "red  1 failed"


def test_a_wait_names_its_moment_as_every_time_is_named(coder: Any, operator: Any) -> None:
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    decision = coder("POST", f"/attempts/{at}/result", {"status": "failure"}).body
    assert re.fullmatch(r"[\dT:-]{19}\.\d{3}Z", decision["not_before"])


def test_a_retry_that_another_worker_took_is_waited_for(coder: Any, operator: Any) -> None:
    """The report stands whoever gets the next attempt."""
    enqueue(operator, backoff={"base_delay_ms": 0})
    row = claims.claim(caller := TrustedCaller(SYSTEM, agent=Agent.objects.get())).rows[0]
    told = finishing.finish_attempt(row["attempt_id"], Report(status="failure"), caller=caller)
    claims.claim(caller, worker_id="faster")
    assert api_attempts.next_of(told, caller, after=row["attempt_id"]) is None


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
        ({"command": "make"}, 124, "failed", "verification_failed"),
        ({"command": "make", "expect_exit": 3}, 3, "done", None),
        ({"command": "make", "expect_exit": 3}, 0, "failed", "verification_failed"),
    ],
)
def test_what_an_exit_code_means(
    coder: Any, operator: Any, verify: dict[str, Any], code: int, state: str, type: str | None
) -> None:
    id = enqueue(operator, payload={"verify": verify} if verify else {}, max_attempts=1)
    at = claim(coder)["data"][0]["attempt"]["id"]
    path = f"/attempts/{at}/exit/{code}"
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


def test_a_long_output_is_cut_and_not_refused(coder: Any, operator: Any) -> None:
    """Its end tells most; secrets are masked before it is cut."""
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
    assert f"of {len(output)} bytes kept]" in details
    assert 65_000 < len(details.encode()) <= 65_536
    assert details.index("[… cut") < 20_000
    assert "hunter2" not in details
    huge = coder("POST", f"/attempts/{at}/exit/1", b"x" * (api_attempts.MOST_OUTPUT_BYTES + 1))
    assert (huge.status_code, huge.body["limit_bytes"]) == (413, api_attempts.MOST_OUTPUT_BYTES)


def test_a_report_is_kept_within_its_limits(coder: Any, operator: Any) -> None:
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


def test_a_verification_that_is_required(coder: Any, operator: Any) -> None:
    enqueue(operator, payload={"verify": {"command": "make", "required": True, "expect_exit": 3}})
    at = claim(coder)["data"][0]["attempt"]["id"]
    response = coder("POST", f"/attempts/{at}/result", {"status": "success"})
    assert (response.status_code, response.body["code"]) == (422, "verification_missing")
    good = {"status": "success", "verification": {"exit_code": 3}}
    assert coder("POST", f"/attempts/{at}/result", good).body["decision"] == "done"


def test_abort_is_cooperative(coder: Any, operator: Any) -> None:
    waits, runs = enqueue(operator), enqueue(operator, priority=1)
    at = claim(coder)["data"][0]["attempt"]["id"]
    assert operator("POST", f"/tasks/{waits}/abort").body["state"] == "aborted"
    assert operator("POST", f"/tasks/{runs}/abort").body["abort_requested"] is True
    assert coder("POST", f"/attempts/{at}/heartbeat").body["abort_requested"] is True
    decision = coder("POST", f"/attempts/{at}/result", {"status": "success"}).body
    assert (decision["decision"], decision["reason"]) == ("aborted", "user_abort")
    response = operator("POST", f"/tasks/{runs}/abort")
    assert (response.status_code, response.body["current"]) == (409, "aborted")


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


@pytest.mark.parametrize(
    ("answer", "state", "limit"),
    [("retry", "queued", 4), ("fix", "queued", 2), ("skip", "skipped", 3), ("abort", "aborted", 3)],
)
def test_a_person_answers(coder: Any, operator: Any, answer: str, state: str, limit: int) -> None:
    id = enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    said = {"status": "failure", "failure": {"code": "permission_denied"}}
    asked = coder("POST", f"/attempts/{at}/result", said).body["escalation"]["id"]
    assert coder("POST", f"/escalations/{asked}/resolve", {"action": "retry"}).status_code == 403
    body = {"action": answer} | ({"instruction": "use sudo"} if answer == "fix" else {})
    response = operator("POST", f"/escalations/{asked}/resolve", body)
    assert response.status_code == 200, response.content
    task = operator("GET", f"/tasks/{id}").body
    assert (task["state"], task["attempt_limit"]) == (state, limit)


def test_aborting_withdraws_the_question(coder: Any, operator: Any) -> None:
    id = enqueue(operator, on_exhausted="escalate", max_attempts=1)
    at = claim(coder)["data"][0]["attempt"]["id"]
    decision = coder("POST", f"/attempts/{at}/result", {"status": "failure"}).body
    assert decision["reason"] == "max_retries_exceeded"
    assert operator("POST", f"/tasks/{id}/abort").body["state"] == "aborted"
    assert Escalation.objects.get().state == "withdrawn"


def test_a_producer_can_not_end_what_a_person_is_asked(
    coder: Any, operator: Any, api: Callable[..., Any]
) -> None:
    id = enqueue(operator, on_exhausted="escalate", max_attempts=1)
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    response = api("orchestrator")("POST", f"/tasks/{id}/abort")
    assert (response.status_code, response.body["code"]) == (409, "invalid_transition")


@pytest.mark.django_db(transaction=True)
def test_a_producer_s_abort_sees_that_a_person_is_asked_just_now(
    coder: Any, operator: Any, api: Callable[..., Any], elsewhere: Callable[..., Any]
) -> None:
    """Between the look at the task and its abort its agent's report may escalate it."""
    id, producer = enqueue(operator, on_exhausted="escalate", max_attempts=1), api("orchestrator")
    at = claim(coder)["data"][0]["attempt"]["id"]
    with transaction.atomic():
        in_process.report_failure(UUID(at), "it broke")
        aborted = elsewhere(lambda: producer("POST", f"/tasks/{id}/abort"))
        with blocked(aborted):
            pass
    refused = aborted.result(10)
    assert (refused.status_code, refused.body["code"]) == (409, "invalid_transition")
    assert refused.body["current"] == "escalated"
    assert Task.objects.get().state == "escalated" and Escalation.objects.open().count() == 1


def test_make_and_claim_in_one_call(coder: Any) -> None:
    response = coder("POST", "/tasks?claim=true", {"type": "shell", "title": "make test"})
    assert response.status_code == 201
    assert response.body["data"][0]["task"]["state"] == "running"
    assert response.body["data"][0]["task"]["agent"] == "coder"


def test_only_agents_start_what_they_enqueue(operator: Any, agent: Agent) -> None:
    response = operator("POST", "/tasks?claim=true", {"agent": "coder", "type": "x"})
    assert (response.status_code, response.body["code"]) == (403, "scope_missing")
    assert not Task.objects.exists()


def test_named_tasks(coder: Any, operator: Any) -> None:
    one, two = enqueue(operator), enqueue(operator)
    assert claim(coder, task=two)["data"][0]["task"]["id"] == two
    response = coder("POST", "/claims", {"task": two})
    assert (response.status_code, response.body["code"]) == (409, "invalid_transition")
    assert (response.body["current"], "done" in response.body["allowed"]) == ("running", True)
    assert coder("POST", f"/tasks/{one}/start").body["data"][0]["task"]["id"] == one
    unknown = "01a1fe6d-9b01-7830-98b6-0164ecc5924c"
    assert coder("POST", "/claims", {"task": unknown}).status_code == 404


def test_nobody_else_s(api: Callable[..., Any], coder: Any, operator: Any) -> None:
    id = enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    from tests.factories import make_agent

    other = api("agent", agent=make_agent("other"))
    for method, path in (
        ("GET", f"/tasks/{id}"),
        ("GET", f"/tasks/{id}/attempts"),
        ("GET", f"/tasks/{id}/events"),
        ("POST", f"/tasks/{id}/start"),
        ("GET", f"/attempts/{at}"),
        ("POST", f"/attempts/{at}/heartbeat"),
        ("POST", f"/attempts/{at}/release"),
        ("POST", f"/attempts/{at}/exit/0"),
    ):
        assert other(method, path).status_code == 404, path
    assert other("POST", f"/attempts/{at}/result", {"status": "success"}).status_code == 404
    assert Attempt.objects.get().outcome is None


def test_bulk_is_all_or_nothing(operator: Any, agent: Agent) -> None:
    good = {"agent": "coder", "type": "code"}
    made = operator("POST", "/tasks/bulk", {"tasks": [good, good | {"priority": 3}]})
    assert made.status_code == 201 and len(made.body["data"]) == 2
    response = operator("POST", "/tasks/bulk", {"tasks": [good, good | {"type": "no spaces"}]})
    assert response.status_code == 422
    assert response.body["errors"][0]["pointer"] == "/tasks/1/type"
    listless = good | {"payload": {"files": "a.py"}}
    response = operator("POST", "/tasks/bulk", {"tasks": [good, good, listless]})
    assert response.body["errors"][0]["pointer"] == "/tasks/2/payload/files"
    assert Task.objects.count() == 2


@pytest.mark.parametrize("path", ["/claims", "/tasks", "/instructions/pull"])
def test_a_body_that_is_no_object_is_told_in_words_of_json(
    coder: Any, operator: Any, agent: Agent, path: str
) -> None:
    response = (operator if path == "/tasks" else coder)("POST", path, "[1]")
    assert response.status_code == 422
    assert "should be an object" in response.body["detail"]


def test_many_each_for_itself(operator: Any, agent: Agent) -> None:
    """api.md §3: per item, in the order of the request; what is right is kept."""
    good = {"agent": "coder", "type": "code"}
    asked = {"tasks": [good | {"agent": "codre"}, good, good | {"needs": [str(uuid4())]}]}
    found = operator("POST", "/tasks/bulk?atomic=false", asked)
    assert found.status_code == 200
    assert [(each["index"], each["status"]) for each in found.body["data"]] == [
        (0, 422),
        (1, 201),
        (2, 422),
    ]
    assert found.body["data"][0]["body"]["code"] == "unknown_agent"
    assert found.body["data"][2]["body"]["code"] == "unknown_dependency"
    made = found.body["data"][1]["body"]
    assert list(Task.objects.values_list("pk", flat=True)) == [UUID(made["id"])]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"priority": "high"}, "validation_error"),
        ({"agent": "nobody"}, "unknown_agent"),
        ({"max_attempts": 0}, "validation_error"),
        ({"payload": {"verify": {"timeout_s": "long"}}}, "validation_error"),
        ({"needs": ["01a1fe6d-9b01-7830-98b6-0164ecc5924c"]}, "unknown_dependency"),
        ({"nonsense": 1}, "validation_error"),
    ],
)
def test_what_does_not_fit(operator: Any, agent: Agent, body: dict[str, Any], code: str) -> None:
    response = operator("POST", "/tasks", {"agent": "coder", "type": "code"} | body)
    assert (response.status_code, response.body["code"]) == (422, code)
    assert not Task.objects.exists()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("required", "perhaps", "required must be true or false."),
        ("expect_exit", 2**31, "expect_exit must be a number from -2147483648 to 2147483647."),
        ("expect_exit", True, "expect_exit must be an integer."),
        ("timeout_s", 0, "timeout_s must be a number from 1 to 604800."),
    ],
)
def test_a_verification_that_does_not_fit(
    operator: Any, agent: Agent, name: str, value: Any, told: str
) -> None:
    """What the statements read as numbers must be some, made or changed."""
    payload = {"verify": {"command": "make", name: value}}
    made = operator("POST", "/tasks", {"agent": "coder", "type": "code", "payload": payload})
    id = enqueue(operator)
    changed = operator("PATCH", f"/tasks/{id}", {"payload": payload}, If_Match='"v1"')
    for refused in (made, changed):
        assert (refused.status_code, refused.body["code"]) == (422, "validation_error")
        wrong = {"pointer": f"/payload/verify/{name}", "detail": told}
        assert refused.body["errors"] == [wrong]


@pytest.mark.parametrize(("body_bytes", "told"), [(None, "body"), (PAYLOAD_BYTES * 2, "payload")])
def test_a_large_payload(
    operator: Any, agent: Agent, settings: Any, body_bytes: int | None, told: str
) -> None:
    """The body has its limit, and behind a larger one the payload has its own."""
    settings.TENFOUR = settings.TENFOUR | ({"BODY_BYTES": body_bytes} if body_bytes else {})
    body = {"agent": "coder", "type": "x", "payload": "x" * PAYLOAD_BYTES}
    response = operator("POST", "/tasks", body)
    assert (response.status_code, response.body["code"]) == (413, "payload_too_large")
    assert f"The {told} has" in response.body["detail"]
    assert response.body["limit_bytes"] == PAYLOAD_BYTES
    assert not Task.objects.exists()


def test_the_size_of_a_payload_is_that_of_its_json_without_spaces(
    operator: Any, agent: Agent, settings: Any
) -> None:
    """However many spaces it was sent with; the text in it counts as UTF-8."""
    settings.TENFOUR = settings.TENFOUR | {"BODY_BYTES": 4 * PAYLOAD_BYTES}
    fits = ["ä"] * ((PAYLOAD_BYTES - 1) // 5)
    assert operator("POST", "/tasks", {"agent": "coder", "type": "x", "payload": fits}).body["id"]
    over = {"agent": "coder", "type": "x", "payload": [*fits, "ä"]}
    assert operator("POST", "/tasks", over).body["code"] == "payload_too_large"


def test_secrets_are_masked_and_counted(operator: Any, agent: Agent) -> None:
    """S3.47"""
    id = enqueue(operator, payload={"password": "hunter2", "url": "https://a:b" + "@x.example/"})
    task = operator("GET", f"/tasks/{id}").body
    assert "hunter2" not in str(task["payload"]) and ":b@" not in str(task["payload"])
    assert sum(task["redactions"].values()) == 2


def test_a_payload_and_a_result_come_back_as_they_were(coder: Any, operator: Any) -> None:
    """S3.8"""
    value = {"👩\u200d👧": ["می\u200cخواهم", "\x1b[31mred\x1b[0m\r\n", "a\u202eb", 1.5, None]}
    id = enqueue(operator, payload=value, title="\u202eA 👩\u200d👧")
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "success", "result": value})
    task = operator("GET", f"/tasks/{id}").body
    assert task["payload"] == task["result"] == value
    assert task["title"] == "A 👩\u200d👧" and task["redactions"] == {}


def test_dead_letters_are_replayed_or_dismissed(coder: Any, operator: Any) -> None:
    for _ in range(2):
        enqueue(operator, max_attempts=1)
        at = claim(coder)["data"][0]["attempt"]["id"]
        coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    one, two = (str(letter.pk) for letter in DeadLetter.objects.order_by("id"))
    replayed = operator("POST", f"/dead-letters/{one}/replay").body
    assert replayed["closed_as"] == "replayed"
    assert claim(coder)["data"][0]["task"]["id"] == replayed["replayed_as"]
    gone = operator("POST", f"/dead-letters/{two}/dismiss", {"note": "old"}).body
    assert (gone["closed_as"], gone["note"]) == ("dismissed", "old")
    again = operator("POST", f"/dead-letters/{two}/replay")
    assert (again.status_code, again.body["code"]) == (409, "invalid_transition")
    assert coder("POST", f"/dead-letters/{one}/replay").status_code == 403
    assert len(operator("GET", "/dead-letters?state=open").body["data"]) == 0


# ---- changes


def test_a_task_is_changed_as_it_was_read(coder: Any, operator: Any) -> None:
    id = enqueue(operator)
    got = operator("GET", f"/tasks/{id}")
    body = {"priority": 7, "max_attempts": 5, "payload": {"a": 1}}
    changed = operator("PATCH", f"/tasks/{id}", body, If_Match=got["ETag"])
    assert changed.status_code == 200, changed.content
    task = changed.body
    assert (task["priority"], task["attempt_limit"], task["payload"]) == (7, 5, {"a": 1})
    assert changed["ETag"] == '"v2"'
    stale = operator("PATCH", f"/tasks/{id}", body, If_Match=got["ETag"])
    assert (stale.status_code, stale.body["current"]) == (412, 2)
    assert operator("PATCH", f"/tasks/{id}", body).status_code == 428
    assert operator("PATCH", f"/tasks/{id}", body, If_Match="7").status_code == 422
    assert coder("PATCH", f"/tasks/{id}", body, If_Match='"v2"').status_code == 403
    events = operator("GET", f"/tasks/{id}/events").body["data"]
    assert events[-1]["data"] == {"changed": ["priority", "payload", "max_attempts"]}


def test_what_runs_keeps_its_payload_and_its_attempts(coder: Any, operator: Any) -> None:
    id = enqueue(operator)
    claim(coder)
    refused = operator("PATCH", f"/tasks/{id}", {"payload": {}}, If_Match='"v2"')
    assert (refused.status_code, refused.body["code"]) == (409, "invalid_transition")
    changed = operator("PATCH", f"/tasks/{id}", {"max_attempts": 1}, If_Match='"v2"').body
    assert (changed["attempt_limit"], changed["max_attempts"]) == (1, 1)


def test_a_dead_letter_of_an_aborted_plan_is_told_to_restart_it(coder: Any, operator: Any) -> None:
    task = {"action": "do it", "max_attempts": 1, "on_exhausted": "dead_letter"}
    made = operator("POST", "/plans", {"ref": "03-01", "agent": "coder", "tasks": [task, task]})
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    operator("POST", f"/plans/{made.body['plan']['id']}/abort")
    refused = operator("POST", f"/dead-letters/{DeadLetter.objects.get().pk}/replay")
    assert (refused.status_code, refused.body["code"]) == (409, "invalid_transition")
    assert "Restart the plan" in refused.body["detail"]
    assert (refused.body["current"], refused.body["allowed"]) == ("open", ["dismissed"])
    bulk = operator("POST", "/dead-letters/bulk", {"action": "replay", "type": "auto"}).body
    assert bulk["changed"] == 0 and Task.objects.filter(state="queued").count() == 0


def test_dead_letters_in_bulk(coder: Any, operator: Any) -> None:
    for type in ("code", "code", "review"):
        enqueue(operator, type=type, max_attempts=1)
        at = claim(coder)["data"][0]["attempt"]["id"]
        coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    bulk = "/dead-letters/bulk"
    counted = operator("POST", bulk, {"action": "replay", "type": "code", "dry_run": True}).body
    assert (counted["matched"], counted["changed"]) == (2, 0)
    done = operator("POST", bulk, {"action": "replay", "type": "code"}).body
    assert (done["matched"], done["changed"]) == (2, 2)
    again = operator("POST", bulk, {"action": "dismiss", "ids": done["ids"]}).body
    assert (again["matched"], again["changed"]) == (0, 0)
    assert operator("POST", bulk, {"action": "dismiss"}).body["changed"] == 1
    assert Task.objects.filter(state="queued").count() == 2
