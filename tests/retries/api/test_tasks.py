"""Tasks over HTTP: enqueue, start, change, abort, and what people answer."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ledger.api import auth
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Project, Task
from ledger.states import BlockedReason, TaskState, Who, allowed_moves
from ledger.tasks import Change
from ledger.tasks.spec import PAYLOAD_BYTES
from ledger.tokens import TrustedCaller
from retries import breaker, breaker_actions, claims, in_process
from retries.attempts.finishing import finish_attempt
from retries.attempts.report_fields import Report
from retries.models import Escalation
from retries.tasks import actions as task_actions
from tests.dashboard.worked import make_task
from tests.elsewhere import blocked
from tests.factories import make_agent
from tests.retries.api.calls import claim, enqueue
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db


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


def test_a_producer_cannot_end_an_escalated_task(
    coder: Any, operator: Any, api: Callable[..., Any]
) -> None:
    id = enqueue(operator, on_exhausted="escalate", max_attempts=1)
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    response = api("orchestrator")("POST", f"/tasks/{id}/abort")
    assert (response.status_code, response.body["code"]) == (409, "invalid_transition")


@pytest.mark.django_db(transaction=True)
def test_a_producers_abort_waits_for_a_concurrent_escalation(
    coder: Any, operator: Any, api: Callable[..., Any], elsewhere: Callable[..., Any]
) -> None:
    """Between the look at the task and its abort its agent's report may escalate it."""
    id, producer = enqueue(operator, on_exhausted="escalate", max_attempts=1), api("orchestrator")
    at = claim(coder)["data"][0]["attempt"]["id"]
    with transaction.atomic():
        in_process.report_failure(UUID(at), "it broke", stamp=Stamp(SYSTEM))
        aborted = elsewhere(lambda: producer("POST", f"/tasks/{id}/abort"))
        with blocked(aborted):
            pass
    refused = aborted.result(PATIENCE_S)
    assert (refused.status_code, refused.body["code"]) == (409, "invalid_transition")
    assert refused.body["current"] == "escalated"
    assert Task.objects.get().state == "escalated" and Escalation.objects.open().count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_task_that_is_being_changed_is_claimed_and_started_a_second_later(
    coder: Any, operator: Any, elsewhere: Callable[..., Any]
) -> None:
    id = enqueue(operator)
    with transaction.atomic():
        Task.objects.select_for_update().get(pk=id)
        empty = elsewhere(lambda: coder("POST", "/claims", {"task": id})).result(PATIENCE_S)
        refused = elsewhere(lambda: coder("POST", f"/tasks/{id}/start")).result(PATIENCE_S)
    assert empty.status_code == 200, empty.body
    assert (empty.body["data"], empty.body["reason"]) == ([], "no_task")
    assert empty.body["retry_after_s"] == 1
    assert (refused.status_code, refused.body["code"]) == (409, "task_locked")
    assert refused.body["retryable"] and refused["Retry-After"] == "1"
    assert coder("POST", f"/tasks/{id}/start").body["data"][0]["task"]["id"] == id


def test_enqueue_and_claim_in_one_call(coder: Any) -> None:
    response = coder("POST", "/tasks?claim=true", {"type": "shell", "title": "make test"})
    assert response.status_code == 201
    assert response.body["data"][0]["task"]["state"] == "running"
    assert response.body["data"][0]["task"]["agent"] == "coder"


def test_only_agents_start_what_they_enqueue(operator: Any, agent: Agent) -> None:
    response = operator("POST", "/tasks?claim=true", {"agent": "coder", "type": "x"})
    assert (response.status_code, response.body["code"]) == (403, "scope_missing")
    assert not Task.objects.exists()


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


def test_what_is_no_id_is_told_what_an_id_looks_like(coder: Any) -> None:
    """AGT-31."""
    response = coder("GET", "/instructions/Nope")
    assert response.status_code == 422
    assert "Input should be an id, such as 01a1" in response.body["detail"]


@pytest.mark.parametrize("path", ["/claims", "/tasks", "/instructions/pull"])
def test_a_body_that_is_not_an_object(coder: Any, operator: Any, agent: Agent, path: str) -> None:
    response = (operator if path == "/tasks" else coder)("POST", path, "[1]")
    assert response.status_code == 422
    assert "should be an object" in response.body["detail"]


def test_bulk_each_on_its_own(operator: Any, agent: Agent) -> None:
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
def test_invalid_tasks(operator: Any, agent: Agent, body: dict[str, Any], code: str) -> None:
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
def test_an_invalid_verification(
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
    operator: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch, body_bytes: int | None, told: str
) -> None:
    """The body has its limit, and behind a larger one the payload has its own."""
    monkeypatch.setattr(auth, "BODY_BYTES", body_bytes or auth.BODY_BYTES)
    body = {"agent": "coder", "type": "x", "payload": "x" * PAYLOAD_BYTES}
    response = operator("POST", "/tasks", body)
    assert (response.status_code, response.body["code"]) == (413, "payload_too_large")
    assert f"The {told} has" in response.body["detail"]
    assert response.body["limit_bytes"] == PAYLOAD_BYTES
    assert not Task.objects.exists()


def test_the_size_of_a_payload_is_that_of_its_json_without_spaces(
    operator: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many spaces it was sent with; the text in it counts as UTF-8."""
    monkeypatch.setattr(auth, "BODY_BYTES", 4 * PAYLOAD_BYTES)
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


def test_a_payload_and_a_result_round_trip(coder: Any, operator: Any) -> None:
    """S3.8"""
    value = {"👩\u200d👧": ["می\u200cخواهم", "\x1b[31mred\x1b[0m\r\n", "a\u202eb", 1.5, None]}
    id = enqueue(operator, payload=value, title="\u202eA 👩\u200d👧")
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "success", "result": value})
    task = operator("GET", f"/tasks/{id}").body
    assert task["payload"] == task["result"] == value
    assert task["title"] == "A 👩\u200d👧" and task["redactions"] == {}


def test_a_change_needs_the_version_that_was_read(coder: Any, operator: Any) -> None:
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
    assert events[-1]["data"] == {
        "changed": ["priority", "payload", "max_attempts"],
        "values": {"priority": {"old": 0, "new": 7}, "max_attempts": {"old": 3, "new": 5}},
        "payload": [{"path": "/a", "new": 1}],
        "payload_changes": 1,
        "attempt": 1,  # the one that gets it
    }


def test_a_change_of_the_agent_names_both_in_the_journal(coder: Any, operator: Any) -> None:
    id = enqueue(operator)
    make_agent("tester")
    changed = operator("PATCH", f"/tasks/{id}", {"agent": "tester"}, If_Match='"v1"')
    assert (changed.status_code, changed.body["agent"]) == (200, "tester")
    same = operator("PATCH", f"/tasks/{id}", {"agent": "tester"}, If_Match='"v2"')
    assert same.status_code == 200, same.content
    first, second = operator("GET", f"/tasks/{id}/events").body["data"][-2:]
    assert first["data"] == {"changed": ["agent"], "from_agent": "coder", "to_agent": "tester"}
    assert second["data"] == {"changed": ["agent"]}


def test_a_running_task_keeps_its_payload_and_its_attempts(coder: Any, operator: Any) -> None:
    id = enqueue(operator)
    claim(coder)
    refused = operator("PATCH", f"/tasks/{id}", {"payload": {}}, If_Match='"v2"')
    assert (refused.status_code, refused.body["code"]) == (409, "invalid_transition")
    changed = operator("PATCH", f"/tasks/{id}", {"max_attempts": 1}, If_Match='"v2"').body
    assert (changed["attempt_limit"], changed["max_attempts"]) == (1, 1)


def test_a_retry_keeps_its_next_attempt_when_its_budget_is_lowered(
    coder: Any, operator: Any
) -> None:
    id = enqueue(operator, max_attempts=3, backoff={"base_delay_ms": 0})
    for _ in range(2):
        at = claim(coder, task=id)["data"][0]["attempt"]["id"]
        coder("POST", f"/attempts/{at}/result", {"status": "failure"})
    got = operator("GET", f"/tasks/{id}")
    assert (got.body["state"], got.body["attempts"], got.body["attempt_limit"]) == ("retry", 2, 3)
    changed = operator("PATCH", f"/tasks/{id}", {"max_attempts": 2}, If_Match=got["ETag"]).body
    assert (changed["state"], changed["max_attempts"], changed["attempt_limit"]) == ("retry", 2, 3)
    last = claim(coder)["data"][0]
    assert (last["attempt"]["number"], last["attempt"]["attempt_limit"]) == (3, 3)
    coder("POST", f"/attempts/{last['attempt']['id']}/result", {"status": "failure"})
    assert operator("GET", f"/tasks/{id}").body["state"] == "failed"


def test_a_tasks_attempts_and_events_are_paged(coder: Any, operator: Any) -> None:
    id = enqueue(operator, max_attempts=3, backoff={"base_delay_ms": 0})
    for _ in range(3):
        attempt = claim(coder, task=id)["data"][0]["attempt"]["id"]
        coder("POST", f"/attempts/{attempt}/result", {"status": "failure"})
    for path in (f"/tasks/{id}/attempts", f"/tasks/{id}/events"):
        whole = operator("GET", path).body
        assert len(whole["data"]) >= 3 and not whole["has_more"]
        rows: list[Any] = []
        cursor = ""
        for _ in whole["data"]:
            page = operator("GET", f"{path}?limit=1&cursor={cursor}").body
            rows += page["data"]
            cursor = page["next_cursor"]
        assert rows == whole["data"] and cursor is None
        assert operator("GET", f"{path}?cursor=x").body["code"] == "bad_cursor"
    numbers = [row["number"] for row in operator("GET", f"/tasks/{id}/attempts").body["data"]]
    assert numbers == [3, 2, 1]


def test_a_person_unblocks_what_a_skipped_need_blocks(operator: Any, api: Any, agent: Any) -> None:
    need = operator("POST", "/tasks", {"agent": "coder", "type": "code"}).body["id"]
    body = {"agent": "coder", "type": "code", "needs": [need]}
    task = operator("POST", "/tasks", body).body
    assert (task["state"], task["allowed_moves"]) == ("blocked", ["skipped", "aborted"])
    refused = operator("POST", f"/tasks/{task['id']}/unblock")
    assert (refused.status_code, refused.body["code"]) == (409, "invalid_transition")
    assert refused.body["allowed"] == ["skipped", "aborted"]
    task_actions.skip([UUID(need)], dependents="block", stamp=Stamp(SYSTEM))
    task = operator("GET", f"/tasks/{task['id']}").body
    assert task["blocked_reason"] == "dependency_skipped"
    assert task["allowed_moves"] == ["queued", "skipped", "aborted"]
    producer = api("orchestrator")("POST", f"/tasks/{task['id']}/unblock")
    assert (producer.status_code, producer.body["code"]) == (403, "human_required")
    done = operator("POST", f"/tasks/{task['id']}/unblock")
    assert (done.status_code, done.body["state"]) == (200, "queued")
    assert operator("POST", f"/tasks/{task['id']}/unblock").status_code == 409


def test_an_agent_grants_itself_no_more_attempts(coder: Any, operator: Any) -> None:
    for name in ("max_attempts", "max_retries"):
        refused = coder("POST", "/tasks", {"type": "code", name: 4})
        assert refused.status_code == 422
        assert refused.body["errors"][0]["pointer"] == "/max_attempts"
        assert coder("POST", "/tasks", {"type": "code", name: 3}).status_code == 201
        body = {"agent": "coder", "type": "code", name: 4}
        assert operator("POST", "/tasks", body).status_code == 201


CALLERS = {"agent": Who.AGENT, "orchestrator": Who.PRODUCER, "operator": Who.PERSON, "reader": None}


def make_blocked(reason: str, *, agent: Agent, now: datetime) -> Task:
    """Return a task that is blocked for a reason."""
    if reason == BlockedReason.DEPENDENCY_SKIPPED:
        need = make_task(agent=agent, now=now)
        task = make_task(TaskState.BLOCKED, agent=agent, now=now, needs=[need.pk])
        task_actions.skip([need.pk], dependents="block", stamp=Stamp(SYSTEM))
    elif reason == BlockedReason.REPORTED:
        task = make_task(TaskState.RUNNING, agent=agent, now=now)
        assert task.current_attempt
        said, caller = Report(status="blocked"), TrustedCaller(SYSTEM, agent=agent)
        finish_attempt(task.current_attempt, said, caller=caller)
    elif reason == BlockedReason.BREAKER_OPEN:
        task = make_task(agent=agent, now=now)
        breaker_actions.trip([agent], reason="by hand", stamp=Stamp(SYSTEM))
        with pytest.raises(breaker.CircuitBreakerOpen):
            claims.start(task.pk, stamp=Stamp(SYSTEM))
    elif reason == BlockedReason.NOT_BEFORE:
        task = make_task(agent=agent, now=now)
        later = Change(not_before=now + timedelta(hours=1))
        task_actions.change(task.pk, later, version=task.version, stamp=Stamp(SYSTEM))
    else:
        task = make_task(TaskState.BLOCKED, agent=agent, now=now)
    task.refresh_from_db()
    assert task.blocked_reason == reason
    return task


@pytest.mark.parametrize("kind", CALLERS)
def test_each_caller_is_offered_what_it_may_do(api: Any, project: Project, kind: str) -> None:
    """S3.2: in every state, abort and unblock succeed exactly where they are listed."""
    who, now = CALLERS[kind], timezone.now()
    cases = [(state, None) for state in TaskState if state != TaskState.BLOCKED]
    for state, reason in [*cases, *((TaskState.BLOCKED, reason) for reason in BlockedReason)]:
        agent = make_agent(f"{state}-{reason}")
        made = make_blocked(reason, agent=agent, now=now) if reason else None
        task = made or make_task(state, agent=agent, now=now)
        caller = api("agent", agent=agent) if kind == "agent" else api(kind)
        offered = caller("GET", f"/tasks/{task.pk}").body["allowed_moves"]
        assert offered == allowed_moves(state, who, blocked_reason=reason)
        unblocked = caller("POST", f"/tasks/{task.pk}/unblock")
        if reason == BlockedReason.DEPENDENCY_SKIPPED:
            assert (unblocked.status_code == 200) == ("queued" in offered)
            offered = caller("GET", f"/tasks/{task.pk}").body["allowed_moves"]
        aborted = caller("POST", f"/tasks/{task.pk}/abort")
        if kind in ("agent", "reader"):
            assert (aborted.status_code, unblocked.status_code) == (403, 403)
            continue
        # a running task ends by its agent's report
        can = "aborted" in offered or state == TaskState.RUNNING
        assert aborted.status_code == (200 if can else 409), (state, reason)
        if not can:
            assert aborted.body["allowed"] == offered


def test_needs_do_not_tell_an_agent_of_other_agents_tasks(api: Any, coder: Any) -> None:
    """A foreign task and one that does not exist: the same refusal by the same statements."""
    own, foreign = enqueue(coder), enqueue(api("agent", agent=make_agent("other")), agent="other")
    body = {"type": "code", "needs": [own]}
    assert coder("POST", "/tasks", body).body["needs"] == [own]
    seen = []
    for need in (foreign, str(uuid4())):
        with CaptureQueriesContext(connection) as ran:
            refused = coder("POST", "/tasks", body | {"needs": [own, need]})
        assert refused.status_code == 422
        told = refused.body | {"detail": refused.body["detail"].replace(need, "…")}
        seen.append((told | {"request_id": "", "instance": ""}, len(ran)))
        claimed = coder("POST", "/tasks?claim=true", body | {"needs": [need]})
        assert claimed.body["code"] == refused.body["code"] == "unknown_dependency"
    assert seen[0] == seen[1]
    producer = api("orchestrator")
    assert enqueue(producer, needs=[foreign])


def test_a_task_says_which_of_its_needs_were_skipped(coder: Any, operator: Any) -> None:
    """In the list, alone, when it is enqueued, claimed and claimed again, and in its prompt."""
    need, dismissed, done = (
        enqueue(operator, title="Lay <it>"),
        enqueue(operator),
        enqueue(operator),
    )
    task = enqueue(operator, needs=[need, dismissed, done])
    assert operator("GET", f"/tasks/{task}").body["skipped_needs"] == []
    task_actions.skip([UUID(need)], stamp=Stamp(SYSTEM))
    for id, status in ((dismissed, "failure"), (done, "success")):
        at = claim(coder, task=id)["data"][0]["attempt"]["id"]
        report = {"status": status, "failure": {"non_retryable": status == "failure"}}
        coder("POST", f"/attempts/{at}/result", report)
    letter = operator("GET", "/dead-letters").body["data"][0]["id"]
    assert operator("POST", f"/dead-letters/{letter}/dismiss").status_code == 200
    expected = [
        {"id": need, "ref": None, "title": "Lay <it>"},
        {"id": dismissed, "ref": None, "title": ""},
    ]
    asked = operator("GET", f"/tasks/{task}")
    assert (asked.body["state"], asked.body["skipped_needs"]) == ("queued", expected)
    rows = {row["id"]: row["skipped_needs"] for row in operator("GET", "/tasks").body["data"]}
    assert rows == {task: expected, need: [], dismissed: [], done: []}
    told = f"Their results may be missing:\n- Lay &lt;it&gt;\n- {dismissed}</skipped_needs>"
    assert told in operator("GET", f"/tasks/{task}/prompt").content.decode()
    for _ in range(2):  # the worker gets its live attempt again
        found = claim(coder, worker_id="w1")["data"][0]
        assert (found["task"]["id"], found["task"]["skipped_needs"]) == (task, expected)
        assert told in found["prompt"]
    late = operator("POST", "/tasks", {"agent": "coder", "type": "code", "needs": [need, done]})
    assert (late.body["state"], late.body["skipped_needs"]) == ("queued", expected[:1])


def test_a_person_retries_a_task_with_another_payload(operator: Any, coder: Any) -> None:
    """The row "replay or retry with changed payload" of the findings."""
    id = enqueue(operator, payload={"action": "Read a"}, max_attempts=1, on_exhausted="dead_letter")
    path = f"/tasks/{id}/retry"
    assert operator("POST", path, {}).status_code == 409  # it is queued
    attempt = claim(coder)["data"][0]["attempt"]["id"]
    report = {"status": "failure", "failure": {"message": "No a"}}
    assert coder("POST", f"/attempts/{attempt}/result", report).status_code == 200
    new = {"payload": {"action": "Read b"}, "note": "moved"}
    assert coder("POST", path, new).status_code == 403
    bad = operator("POST", path, {"payload": {"files": "b"}})
    assert (bad.status_code, bad.body["errors"][0]["pointer"]) == (422, "/payload/files")
    done = operator("POST", path, new)
    assert (done.status_code, done.body["payload"]) == (200, new["payload"])
    assert done.body["state"] == "queued" and done.body["id"] != id
    assert operator("POST", path, new).status_code == 409
