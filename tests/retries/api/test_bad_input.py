"""What does not fit, what is another's, and what is refused: it changes nothing and is told."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from ledger.models import Agent, DeadLetter, Event, Task
from ledger.secrets.redaction import DEEPEST
from retries.models import Escalation, FailurePattern
from tests.conftest import Api
from tests.factories import make_agent, make_project
from tests.ledger.api.test_instructions import problem
from tests.retries.api.calls import claim, enqueue
from tests.retries.moves import make_task

pytestmark = pytest.mark.django_db

ZERO_WIDTH, TO_THE_LEFT = "\u200b", "\u202e"


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize("depth", [DEEPEST, 963, 100_000])
@pytest.mark.parametrize("key", [{}, {"Idempotency_Key": "once"}])
def test_what_is_nested_too_deep_is_refused(
    operator: Api, agent: Agent, depth: int, key: dict[str, str]
) -> None:
    """However deep: nothing is kept without its inner parts, and nothing breaks on it."""
    body = b'{"agent": "coder", "type": "code", "payload": %b}' % nested(depth)
    told = problem(operator("POST", "/tasks", body, **key), 400, "bad_request")
    assert f"more than {DEEPEST} levels deep" in told["detail"] and told["hint"]
    assert not Task.objects.exists()


def test_what_is_nested_as_deep_as_may_be_comes_back(operator: Api, agent: Agent) -> None:
    body = b'{"agent": "coder", "type": "code", "payload": %b}' % nested(DEEPEST - 1)
    made = operator("POST", "/tasks", body).body
    assert json.dumps(made["payload"]).encode() == nested(DEEPEST - 1)
    wide = {"agent": "coder", "type": "code", "payload": [[]] * 2000}
    assert operator("POST", "/tasks", wide).status_code == 201


def test_a_payload_is_measured_as_it_is_sent(operator: Api, agent: Agent) -> None:
    """200 KB in letters beyond ASCII are 200 KB."""
    body = {"agent": "coder", "type": "code", "payload": {"a": "é" * 100_000}}
    sent = json.dumps(body, ensure_ascii=False).encode()
    assert operator("POST", "/tasks", sent).status_code == 201


def test_an_agent_sees_no_dead_letter_of_another(
    api: Callable[..., Api], coder: Api, operator: Api
) -> None:
    """Neither in the list nor what it says."""
    enqueue(operator, max_attempts=1, payload={"for": "coder alone"})
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    other = api("agent", agent=make_agent("other"))
    assert other("GET", "/dead-letters").body["data"] == []
    assert len(coder("GET", "/dead-letters").body["data"]) == 1
    assert len(operator("GET", "/dead-letters").body["data"]) == 1


def test_a_note_hides_its_secrets(coder: Api, operator: Api) -> None:
    enqueue(operator, max_attempts=1)
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    letter, secret = DeadLetter.objects.get(), "hunter2" + "hunter"
    body = {"note": f"wrong password={secret}{TO_THE_LEFT}"}
    note = operator("POST", f"/dead-letters/{letter.pk}/dismiss", body).body["note"]
    assert note == "wrong password=[redacted:secret]"


def test_what_people_note_about_questions_and_patterns_hides_its_secrets(
    coder: Api, operator: Api
) -> None:
    """S3.47: in the row, and in the journal, which keeps what it has got."""
    enqueue(operator, max_attempts=1, on_exhausted="escalate")
    at = claim(coder)["data"][0]["attempt"]["id"]
    report = {"status": "failure", "failure": {"type": "verification_failed", "message": "Oh no"}}
    coder("POST", f"/attempts/{at}/result", report)
    asked = f"/escalations/{Escalation.objects.get().pk}"
    pattern = f"/patterns/{FailurePattern.objects.get().pk}"
    secret, masked = "hunter2" + "hunter2", "password=[redacted:secret]"
    said = f"password={secret}"
    assert operator("POST", f"{asked}/comment", {"text": said}).status_code == 200
    answer = {"action": "skip", "note": said}
    resolved = operator("POST", f"{asked}/resolve", answer).body["escalation"]["resolution"]
    assert resolved["note"] == masked
    for verb in ("ignore", "resolve"):
        assert operator("POST", f"{pattern}/{verb}", {"note": said}).body["note"] == masked
    told = [str(event.data) for event in Event.objects.all()]
    assert sum(masked in each for each in told) == 4
    assert not [each for each in told if secret in each]


@pytest.mark.parametrize("running", [False, True])
def test_the_reason_of_an_abort_is_kept(coder: Api, operator: Api, running: bool) -> None:
    id, secret = enqueue(operator), "hunter2" + "hunter"
    if running:
        claim(coder)
    reason = f"the branch is frozen, password={secret}"
    assert operator("POST", f"/tasks/{id}/abort", {"reason": reason}).status_code == 200
    event = Event.objects.get(kind="task.abort_requested" if running else "task.aborted")
    assert event.data == {"note": "the branch is frozen, password=[redacted:secret]"}


@pytest.mark.parametrize(
    "more", [{"type": "not ok!"}, {"priority": 2**40}, {"needs": [str(uuid4())]}]
)
def test_no_agent_is_made_for_what_is_refused(operator: Api, more: dict[str, Any]) -> None:
    good = {"agent": "ghost", "type": "code", "register": True}
    assert operator("POST", "/tasks", good | more).status_code == 422
    assert operator("POST", "/tasks/bulk", {"tasks": [good, good | more]}).status_code == 422
    bulk = operator("POST", "/tasks/bulk?atomic=false", {"tasks": [good | more]}).body["data"]
    assert bulk[0]["status"] == 422
    sent = operator("POST", "/instructions", {"agent": "ghost", "content": " ", "register": True})
    assert sent.status_code == 422
    assert not Agent.objects.exists() and not Event.objects.filter(subject_type="agent").exists()


@pytest.mark.parametrize("name", [f"cod{ZERO_WIDTH}er", f"{TO_THE_LEFT}redoc", "cod\ufffeer"])
def test_no_agent_looks_like_another(operator: Api, agent: Agent, name: str) -> None:
    body = {"agent": name, "type": "code", "register": True}
    told = problem(operator("POST", "/tasks", body), 422, "validation_error")
    assert told["errors"][0]["pointer"] == "/agent"
    assert Agent.objects.count() == 1


def test_an_exit_code_that_can_not_be_one_is_pointed_to(coder: Api, operator: Api) -> None:
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    body = {"status": "success", "verification": {"exit_code": 2**40}}
    told = problem(coder("POST", f"/attempts/{at}/result", body), 422, "validation_error")
    assert told["errors"][0]["pointer"] == "/verification/exit_code"


def test_a_change_of_nothing_is_none(operator: Api, agent: Agent) -> None:
    id = enqueue(operator)
    same = operator("PATCH", f"/tasks/{id}", {"priority": None}, If_Match='"v1"')
    assert (same.status_code, same["ETag"]) == (200, '"v1"')
    problem(operator("PATCH", f"/tasks/{id}", {}, If_Match='"v2"'), 412, "version_mismatch")
    problem(
        operator("PATCH", f"/tasks/{id}", {"agent": ""}, If_Match='"v1"'), 422, "validation_error"
    )
    assert not Event.objects.filter(kind="task.changed").exists()


def test_two_names_of_one_limit_do_not_differ(operator: Api, agent: Agent) -> None:
    body = {"agent": "coder", "type": "code", "max_attempts": 2}
    told = problem(operator("POST", "/tasks", body | {"max_retries": 5}), 422, "validation_error")
    assert told["errors"][0]["pointer"] == "/max_retries"
    assert operator("POST", "/tasks", body | {"max_retries": 2}).body["max_attempts"] == 2


def test_a_plan_s_new_title_is_kept_as_its_first_was(operator: Api, agent: Agent) -> None:
    title = f"x{TO_THE_LEFT}\u0007y"
    body = {"ref": "03-01", "title": "Ids", "agent": "coder", "tasks": [{"title": "One"}]}
    plan = operator("POST", "/plans", body).body["plan"]
    told = operator("PATCH", f"/plans/{plan['id']}", {"title": title}, If_Match='"v1"').body
    assert told["title"] == "xy"


# ---- what keeps an agent from its work


@pytest.fixture(params=["breaker", "paused", "concurrency"])
def held_back(request: pytest.FixtureRequest, operator: Api, coder: Api, agent: Agent) -> str:
    if request.param == "breaker":
        operator("POST", f"/agents/{agent.pk}/breaker/trip")
    elif request.param == "paused":
        operator("PATCH", f"/agents/{agent.pk}", {"paused": True})
    else:
        operator("PATCH", f"/agents/{agent.pk}", {"concurrency": 1})
        enqueue(operator)
        claim(coder)
    return str(request.param)


def test_another_s_task_is_unknown_whatever_keeps_the_agent_from_it(
    held_back: str, operator: Api, coder: Api
) -> None:
    """Neither its state nor whose it is."""
    make_agent("other")
    stranger = make_agent("stranger", project=make_project("elsewhere"))
    foreign = [enqueue(operator, agent="other"), str(uuid4()), str(make_task(stranger))]
    for id in foreign:
        told = problem(coder("POST", f"/tasks/{id}/start"), 404, "not_found")
        assert told["detail"] == f"There is no task {id}."
        problem(coder("POST", "/claims", {"task": id}), 404, "not_found")
    assert set(Task.objects.filter(pk__in=foreign).values_list("state", flat=True)) == {"queued"}


def test_what_is_over_is_not_started_later(held_back: str, operator: Api, coder: Api) -> None:
    id = enqueue(operator)
    operator("POST", f"/tasks/{id}/abort")
    told = problem(coder("POST", f"/tasks/{id}/start"), 409, "invalid_transition")
    assert (told["current"], told["allowed"]) == ("aborted", [])


def test_who_is_held_back_is_named(held_back: str, operator: Api, coder: Api) -> None:
    id = enqueue(operator)
    told = coder("POST", f"/tasks/{id}/start")
    assert told.status_code == 409 and "coder" in told.body["detail"]


def test_what_was_made_and_could_not_be_started_is_named(
    held_back: str, operator: Api, coder: Api
) -> None:
    """It waits, so the caller that made it is told."""
    made = coder("POST", "/tasks?claim=true", {"type": "shell"})
    assert (made.status_code, made.body["data"]) == (201, [])
    state = "blocked" if held_back == "breaker" else "queued"
    assert coder("GET", f"/tasks/{made.body['made']}").body["state"] == state


def test_what_can_not_be_started_at_all_is_not_made(coder: Api, operator: Api) -> None:
    need = enqueue(operator)
    body = {"type": "shell", "needs": [need]}
    problem(coder("POST", "/tasks?claim=true", body), 409, "invalid_transition")
    assert Task.objects.count() == 1


def test_another_s_task_is_told_from_no_unknown_one(coder: Api, operator: Api) -> None:
    """S3.18"""
    make_agent("other")
    for id in (enqueue(operator, agent="other"), str(uuid4())):
        for told in (coder("POST", f"/tasks/{id}/start"), coder("POST", "/claims", {"task": id})):
            assert problem(told, 404, "not_found")["detail"] == f"There is no task {id}."


def test_a_retry_that_is_not_due_is_told_so(coder: Api, operator: Api) -> None:
    id = enqueue(operator, backoff={"base_delay_ms": 60_000})
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    due = coder("GET", f"/tasks/{id}").body["due_at"]
    told = problem(coder("POST", "/claims", {"task": id}), 409, "invalid_transition")
    assert due[:19] in told["detail"] and told["current"] == "retry"


def test_a_worker_s_id_is_told_what_it_must_be(coder: Api) -> None:
    told = problem(coder("POST", "/claims", {"worker_id": "a\nb"}), 422, "validation_error")
    assert "printable" in told["detail"]


# ---- what an answer says


def test_an_attempt_that_was_reported_did_not_lose_its_lease(coder: Api, operator: Api) -> None:
    for status in ("failure", "success"):
        enqueue(operator)
        at = claim(coder)["data"][0]["attempt"]["id"]
        coder("POST", f"/attempts/{at}/result", {"status": status})
        told = problem(coder("POST", f"/attempts/{at}/heartbeat"), 409, "lease_lost")
        assert "it was reported" in told["detail"]


def test_the_same_report_is_told_the_same_next_attempt(coder: Api, operator: Api) -> None:
    """Its first answer may have got lost, and the lease of that attempt runs."""
    enqueue(operator, backoff={"base_delay_ms": 0})
    at = claim(coder)["data"][0]["attempt"]["id"]
    said = {"status": "failure", "reclaim": True}
    first = coder("POST", f"/attempts/{at}/result", said).body
    assert first["decision"] == "retry"
    assert coder("POST", f"/attempts/{at}/result", said).body == first
    coder("POST", f"/attempts/{first['retry']['attempt']}/result", {"status": "success"})
    over = coder("POST", f"/attempts/{at}/result", said).body
    assert (over["decision"], over["task"]["state"], "retry" in over) == ("wait", "done", False)


def test_an_escalation_has_an_address_that_can_be_opened(coder: Api, operator: Api) -> None:
    enqueue(operator, max_attempts=1, on_exhausted="escalate")
    at = claim(coder)["data"][0]["attempt"]["id"]
    said = coder("POST", f"/attempts/{at}/result", {"status": "failure"}).body["escalation"]
    url = f"{settings.LINK_URL}/escalations/{said['id']}/"
    assert said["url"] == url
    assert operator("GET", f"/escalations/{said['id']}").body["url"] == url
    assert operator("GET", "/escalations").body["data"][0]["url"] == url


def test_a_reset_forgets_failures_before_they_have_opened_anything(
    coder: Api, operator: Api, agent: Agent
) -> None:
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    at_agent = f"/agents/{agent.pk}"
    assert operator("GET", at_agent).body["breaker"]["failures"] == 1
    reset = operator("POST", f"{at_agent}/breaker/reset").body["breaker"]
    assert (reset["state"], reset["failures"]) == ("closed", 0)
    operator("POST", f"{at_agent}/breaker/reset")
    assert Event.objects.filter(kind="agent.breaker_closed").count() == 1
