"""Tasks in the Python client, from the producer to the end of the attempt, on a real server."""

import pytest
from tenfour import Client, TenfourError, tasks
from tenfour.http.core import request_for
from tenfour.models import Claim, Claimed, Decision, Task
from tenfour.settings import Settings

from tests.client.faulty import DROPPED, Fault, FaultyLine
from tests.serving import Tenfour

UNKNOWN = "00000000-0000-7000-8000-000000000000"


def claimed_one(client: Client, **options: str) -> Claim:
    (claim,) = client.tasks.claim(**options)
    return claim


def test_a_task_goes_from_its_producer_to_its_agent_and_back(
    producer: Client, agent_client: Client
) -> None:
    """S3.8, S3.10, S3.14."""
    sent = producer.tasks.enqueue("coder", "code", {"files": ["a.py"]}, title="Mend it", priority=5)
    assert (sent.state, sent.priority, sent.max_attempts) == ("queued", 5, 3)
    assert sent.created_at and sent.started_at is None and not sent.is_final
    claim = claimed_one(agent_client, worker_id="w-1")
    assert claim.task.id == sent.id and claim.task.payload == {"files": ["a.py"]}
    assert claim.attempt.number == 1 and claim.attempt.worker_id == "w-1"
    assert claim.attempt.heartbeat_every_s == 100 and claim.attempt.lease_expires_at
    beat = agent_client.tasks.heartbeat(claim.attempt.id, message="half", percent=50)
    assert beat.lease_expires_at and not beat.abort_requested
    decision = agent_client.tasks.report(claim.attempt.id, "success", result={"n": 1})
    assert (decision.decision, decision.task["state"]) == ("done", "done")
    now = producer.tasks.get(sent.id)
    assert now.is_final and now.result == {"n": 1} and now.completed_at
    ended = producer.tasks.attempt(claim.attempt.id)
    assert ended.outcome == "success" and ended.progress == {"message": "half", "percent": 50}


def test_a_failure_says_when_to_come_back(producer: Client, agent_client: Client) -> None:
    """S3.11, S3.12."""
    sent = producer.tasks.enqueue("coder", "code", max_attempts=2, backoff={"base_delay_ms": 0})
    first = claimed_one(agent_client)
    failure = {"type": "verification_failed", "code": "assertion", "message": "1 failed"}
    wait = agent_client.tasks.report(first.attempt.id, "failure", failure=failure)
    assert wait.decision == "wait" and wait.not_before and wait.task["state"] == "retry"
    again = agent_client.tasks.report(first.attempt.id, "failure", failure=failure)
    assert again == wait
    second = claimed_one(agent_client)
    assert (second.task.id, second.attempt.number, second.task.error) == (sent.id, 2, "1 failed")
    assert agent_client.tasks.exit(second.attempt.id, 3, "it broke\n").decision == "failed"
    now = producer.tasks.get(sent.id)
    assert now.error == "it broke" and now.retry_count == 2


def test_what_is_handed_back_does_not_count(producer: Client, agent_client: Client) -> None:
    sent = producer.tasks.enqueue("coder", "code")
    claim = claimed_one(agent_client)
    assert agent_client.tasks.release(claim.attempt.id, note="moving").state == "queued"
    with pytest.raises(TenfourError) as raised:
        agent_client.tasks.heartbeat(claim.attempt.id)
    assert raised.value.code == "lease_lost"
    assert claimed_one(agent_client, task=sent.id).task.retry_count == 0


def test_a_worker_gets_back_what_it_holds(producer: Client, agent_client: Client) -> None:
    producer.tasks.enqueue("coder", "code")
    first, second = (claimed_one(agent_client, worker_id="w-1") for _ in range(2))
    assert first.attempt.id == second.attempt.id and second.attempt.resumed


def test_nothing_to_do_says_why_and_when_to_ask_again(
    producer: Client, agent_client: Client
) -> None:
    nothing = agent_client.tasks.claim()
    assert not nothing and nothing.reason == "no_task" and nothing.retry_after_s > 0
    sent = producer.tasks.enqueue("coder", "code")
    with pytest.raises(TenfourError) as raised:
        agent_client.tasks.claim(task=UNKNOWN)
    assert raised.value.status == 404
    (started,) = agent_client.tasks.start(sent.id)
    assert started.task.state == "running"
    with pytest.raises(TenfourError) as raised:
        agent_client.tasks.start(sent.id)
    assert raised.value.code == "invalid_transition"


def test_many_tasks_are_one_call_and_lists_have_filters(
    producer: Client, agent_client: Client
) -> None:
    sent = producer.tasks.enqueue_many(
        [tasks.task("coder", "code", {"n": n}, title=f"Number {n}") for n in range(3)]
    )
    assert [each.payload["n"] for each in sent] == [0, 1, 2]
    needs = producer.tasks.enqueue("coder", "review", needs=[sent[0].id])
    assert (needs.state, needs.blocked_reason) == ("blocked", "dependency")
    assert {each.id for each in producer.tasks.list(type="code")} == {each.id for each in sent}
    assert [each.id for each in producer.tasks.list(state=["blocked", "done"])] == [needs.id]
    assert [each.id for each in agent_client.tasks.list(q="ber 2", agent="coder")] == [sent[2].id]
    assert producer.tasks.abort(sent[1].id, reason="enough").state == "aborted"


def test_an_agent_makes_a_task_and_starts_it_in_one_call(agent_client: Client) -> None:
    key = "once"
    first, second = (
        agent_client.tasks.enqueue_and_claim("chore", {"n": 1}, title="Tidy", idempotency_key=key)
        for _ in range(2)
    )
    assert first == second and [each.task.title for each in first] == ["Tidy"]
    assert len(list(agent_client.tasks.list())) == 1


def test_an_answer_that_got_lost_does_not_make_a_second_task(
    tenfour_server: Tenfour, line: FaultyLine
) -> None:
    tenfour_server.token("agent", "coder")
    line.faults.append(Fault(503, {"Retry-After": "0"}, b"", after=True))
    with Client(line.url, tenfour_server.token("orchestrator")) as client:
        sent = client.tasks.enqueue("coder", "code")
        assert [each.id for each in client.tasks.list()] == [sent.id]


def test_a_report_whose_answer_got_lost_can_be_repeated(
    tenfour_server: Tenfour, line: FaultyLine, producer: Client
) -> None:
    with Client(line.url, tenfour_server.token("agent", "coder")) as client:
        producer.tasks.enqueue("coder", "code")
        attempt = claimed_one(client).attempt.id
        line.faults.append(Fault(DROPPED.status, after=True))
        with pytest.raises(TenfourError):
            client.tasks.exit(attempt, 0, "fine")
        assert client.tasks.exit(attempt, 0, "fine").decision == "done"
        with pytest.raises(TenfourError) as raised:
            client.tasks.exit(attempt, 1, "not fine")
    assert raised.value.code == "attempt_already_reported"


# ---- without a server


def test_what_is_not_given_is_left_to_the_server() -> None:
    assert tasks.enqueue("coder", "code").body == {"agent": "coder", "type": "code"}
    assert tasks.claim().body == {} and tasks.heartbeat("a").body == {}
    assert tasks.heartbeat("a", percent=0).body == {"progress": {"percent": 0}}
    assert tasks.enqueue("coder", "code", 0, idempotent=False).body == {
        "agent": "coder",
        "type": "code",
        "payload": 0,
        "idempotent": False,
    }


def test_an_output_goes_out_as_text() -> None:
    request = request_for(
        tasks.exit("../x", 3, "größer\n"), Settings("http://tenfour", "tenfour_agt_x")
    )
    assert request.url == "http://tenfour/v1/attempts/..%2Fx/exit/3"
    assert request.content == "größer\n".encode()
    assert request.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_what_a_newer_server_says_passes() -> None:
    row = {"id": "1", "state": "parked", "colour": "green", "due_at": "2026-10-21T07:28:00Z"}
    task = Task.read(row)
    assert task.raw["colour"] == "green" and task.due_at and not task.is_final
    claimed = Claimed.read({"data": [{"attempt": {"id": "2"}, "task": row}], "reason": None})
    assert len(claimed) == 1 and claimed.data[0].task == task
    assert Decision.read({"decision": "parked"}).not_before is None
