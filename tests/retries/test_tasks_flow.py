"""A task from its queue to its end: claimed, reported, retried, buried, answered."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from ledger import tasks
from ledger.errors import InvalidTransition, NotFound
from ledger.journal import SYSTEM
from ledger.models import Agent, Attempt, DeadLetter, Event, Failure, Task, TaskHistory
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries import claims, deadletters, in_process, sweeps
from retries.attempts import finishing, heartbeats, leases, releases
from retries.attempts.finishing import AlreadyReported
from retries.attempts.live_attempt import LeaseLost
from retries.attempts.report_fields import Report
from retries.claims import ClaimResult
from retries.models import Escalation
from tests.factories import MINUTE, NOW
from tests.ledger.test_redaction import WHOLE

pytestmark = pytest.mark.django_db
S = TaskState
SECOND = timedelta(seconds=1)


def make_task(agent: Agent, *, now: datetime = NOW, **more: Any) -> UUID:
    return tasks.enqueue(agent, more.pop("type", "code"), more.pop("payload", {}), now=now, **more)


def claim(agent: Agent, *, now: datetime = NOW, **more: Any) -> ClaimResult:
    return claims.claim(TrustedCaller(SYSTEM, agent=agent), now=now, **more)


def attempt_of(found: ClaimResult) -> UUID:
    id: UUID = found.rows[0]["attempt_id"]
    return id


def fail(agent: Agent, id: UUID, *, now: datetime, **more: Any) -> dict[str, Any]:
    said = Report(status="failure", message=more.pop("message", "it broke"), **more)
    return finishing.finish_attempt(
        id, said, caller=TrustedCaller(SYSTEM, agent=agent), now=now
    ).decision


def kinds(task_id: UUID) -> list[str]:
    return list(
        Event.objects.filter(subject_id=task_id).order_by("id").values_list("kind", flat=True)
    )


def test_enqueue_task(agent: Agent) -> None:
    """S3.4, S3.8"""
    id = tasks.enqueue(agent, "code", {"a": [1, "ä"]}, now=NOW)
    task = Task.objects.get(pk=id)
    assert (task.state, task.priority, task.retry_count, task.max_attempts) == (S.QUEUED, 0, 0, 3)
    assert task.payload == {"a": [1, "ä"]} and len(str(id)) == 36
    assert kinds(id) == ["task.created"]


@dataclass
class Login:
    user: str
    password: str


ODD: list[tuple[Any, Any]] = [
    ({"at": NOW}, {"at": "2026-11-21T12:00:00Z"}),
    ({"id": UUID(int=1)}, {"id": str(UUID(int=1))}),
    ({"each": (n for n in "ab")}, {"each": ["a", "b"]}),
    ({"keys": {WHOLE["github"][0]}}, {"keys": ["[redacted:github]"]}),
    (
        {"login": Login("mara", "hunter2")},
        {"login": {"user": "mara", "password": "[redacted:secret]"}},
    ),
    ({"text": "a\ud800b"}, {"text": "ab"}),
]


@pytest.mark.parametrize(("made", "kept"), ODD)
def test_a_payload_of_python_is_kept_as_json_says_it(agent: Agent, made: Any, kept: Any) -> None:
    """… and its secrets are found in whatever it was made of."""
    task = Task.objects.get(pk=tasks.enqueue(agent, "code", made))
    assert task.payload == kept


def test_a_payload_without_a_form_in_json_is_refused(agent: Agent) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        tasks.enqueue(agent, "code", {"it": object()})
    assert not Task.objects.exists()


def test_higher_priority_first_then_oldest(agent: Agent) -> None:
    """S3.9"""
    ids = {n: make_task(agent, priority=p) for n, p in enumerate((1, 10, 5, 10))}
    order = [claim(agent).rows[0]["id"] for _ in ids]
    assert order == [ids[1], ids[3], ids[2], ids[0]]
    assert claim(agent).reason == "no_task"


def test_done(agent: Agent) -> None:
    """S3.10, S3.14, S3.17"""
    id = make_task(agent)
    found = claim(agent, worker_id="w1")
    assert found.rows[0]["state"] == S.RUNNING
    told = in_process.report_success(attempt_of(found), {"branch": "x"}, now=NOW + SECOND)
    assert told.decision["decision"] == "done" and told.decision["reason"] == "verified"
    task = Task.objects.get(pk=id)
    assert (task.state, task.result, task.completed_at) == (S.DONE, {"branch": "x"}, NOW + SECOND)
    assert task.started_at == NOW and task.current_attempt is None
    assert Attempt.objects.get().outcome == "success"
    assert kinds(id) == ["task.created", "task.claimed", "task.completed"]


def test_dead_letter_queue(agent: Agent) -> None:
    """S3.12, S3.15, S3.20: max 2, the second failure buries it."""
    id = make_task(agent, max_attempts=2)
    first = fail(agent, attempt_of(claim(agent)), now=NOW)
    assert first["decision"] == "wait" and first["reason"] == "attempts_left"
    task = Task.objects.get(pk=id)
    assert (task.state, task.retry_count, task.error) == (S.RETRY, 1, "it broke")
    assert 0.05 <= first["delay_s"] <= 0.15
    assert claim(agent).reason == "no_task"
    assert claim(agent).next_due_at == task.due_at
    later = NOW + SECOND
    second = fail(agent, attempt_of(claim(agent, now=later)), now=later, message="again")
    assert (second["decision"], second["reason"]) == ("failed", "max_retries_exceeded")
    task.refresh_from_db()
    assert (task.state, task.retry_count) == (S.FAILED, 2)
    letter = DeadLetter.objects.get()
    assert (letter.task_id, letter.error, letter.retry_count) == (id, "again", 2)
    assert [f.message for f in Failure.objects.order_by("id")] == ["it broke", "again"]


def test_the_same_report_gets_the_same_answer_another_one_is_refused(agent: Agent) -> None:
    make_task(agent)
    attempt = attempt_of(claim(agent))
    first = fail(agent, attempt, now=NOW)
    assert fail(agent, attempt, now=NOW + MINUTE)["reason"] == first["reason"]
    with pytest.raises(AlreadyReported):
        fail(agent, attempt, now=NOW, message="something else")
    assert Failure.objects.count() == 1


def test_a_lease_that_ran_out_is_a_timeout_and_its_report_too_late(agent: Agent) -> None:
    """S3.19"""
    id = make_task(agent)
    attempt = attempt_of(claim(agent))
    assert leases.expire(now=NOW + timedelta(seconds=299)) == 0
    assert leases.expire(now=NOW + timedelta(seconds=301)) == 1
    assert leases.expire(now=NOW + timedelta(seconds=301)) == 0
    task = Task.objects.get(pk=id)
    assert (task.state, task.retry_count) == (S.RETRY, 1)
    assert Failure.objects.get().type == "timeout" and Failure.objects.get().code == "lease_expired"
    with pytest.raises(LeaseLost):
        in_process.report_success(attempt, now=NOW + MINUTE * 6)
    with pytest.raises(LeaseLost):
        heartbeats.renew_lease(
            attempt, caller=TrustedCaller(SYSTEM, agent=agent), now=NOW + MINUTE * 6
        )
    task.refresh_from_db()
    assert task.state == S.RETRY


def test_heartbeats_keep_it_alive(agent: Agent) -> None:
    make_task(agent)
    attempt = attempt_of(claim(agent))
    caller = TrustedCaller(SYSTEM, agent=agent)
    beat = heartbeats.renew_lease(
        attempt, caller=caller, progress={"percent": 40}, now=NOW + MINUTE * 4
    )
    assert beat["lease_expires_at"] == NOW + MINUTE * 9 and beat["abort_requested"] is False
    assert leases.expire(now=NOW + MINUTE * 8) == 0
    assert Attempt.objects.get().progress == {"percent": 40}


def test_our_own_outage_expires_nobody(agent: Agent) -> None:
    make_task(agent)
    claim(agent)
    did = leases.expire_leases(now=NOW + MINUTE * 60)
    assert (did["extended"], did["expired"]) == (1, 0)
    # its deadline, an hour after the claim, passed meanwhile too
    assert leases.expire(now=NOW + MINUTE * 64) == 0
    assert Task.objects.get().state == S.RUNNING
    assert leases.expire(now=NOW + MINUTE * 65) == 1


def test_a_sweep_that_seldom_runs_still_expires(agent: Agent, settings: Any) -> None:
    """Between two runs lies what was asked for: that is no outage."""
    settings.TENFOUR = settings.TENFOUR | {"EXPIRE_LEASES_SECONDS": 60}
    make_task(agent)
    claim(agent)
    sweeps.run("expire_leases", now=NOW + MINUTE * 5)
    did = sweeps.run("expire_leases", now=NOW + MINUTE * 8)
    assert (did["extended"], did["expired"]) == (0, 0)
    assert sweeps.run("expire_leases", now=NOW + MINUTE * 11)["expired"] == 1
    assert sweeps.run("expire_leases", now=NOW + MINUTE * 15)["extended"] == 0


def test_release_does_not_count_and_the_tenth_asks_a_person(agent: Agent) -> None:
    id = make_task(agent)
    caller = TrustedCaller(SYSTEM, agent=agent)
    for number in range(1, 10):
        attempt = attempt_of(claim(agent))
        row = releases.release(attempt, caller=caller, now=NOW)
        assert (row["state"], row["attempt_limit"], row["retry_count"]) == ("queued", 3 + number, 0)
    releases.release(attempt_of(claim(agent)), caller=caller, now=NOW)
    assert Task.objects.get(pk=id).state == S.ESCALATED
    assert Escalation.objects.get().reason == "releases_exhausted"


def test_resume_gives_back_what_a_worker_holds(agent: Agent) -> None:
    make_task(agent)
    make_task(agent)
    first = claim(agent, worker_id="w1")
    again = claim(agent, worker_id="w1", now=NOW + MINUTE)
    assert attempt_of(again) == attempt_of(first) and again.rows[0]["resumed"]
    assert attempt_of(claim(agent, worker_id="w2")) != attempt_of(first)


def test_a_paused_agent_gets_nothing(agent: Agent) -> None:
    make_task(agent)
    Agent.objects.update(paused=True)
    assert claim(agent).reason == "agent_paused"


def test_dependents_wait_and_go_on(agent: Agent) -> None:
    one, two = make_task(agent), make_task(agent)
    third = make_task(agent, needs=[one, two])
    assert Task.objects.get(pk=third).blocked_reason == "dependency"
    in_process.report_success(attempt_of(claim(agent, task=one)), now=NOW)
    assert Task.objects.get(pk=third).unmet == 1
    in_process.report_success(attempt_of(claim(agent, task=two)), now=NOW)
    task = Task.objects.get(pk=third)
    assert (task.state, task.unmet) == (S.QUEUED, 0)
    assert kinds(third) == ["task.created", "task.unblocked"]


def test_a_replay_takes_the_place_of_the_old_one(agent: Agent) -> None:
    old = make_task(agent, max_attempts=1)
    waits = make_task(agent, needs=[old])
    fail(agent, attempt_of(claim(agent)), now=NOW)
    assert Task.objects.get(pk=waits).state == S.BLOCKED
    letters = deadletters.replay(
        [DeadLetter.objects.get().pk], among=DeadLetter.objects.all(), actor=SYSTEM, now=NOW
    )
    new = letters[0].replayed_as_id
    assert Task.objects.get(pk=old).replaced_by_id == new
    in_process.report_success(attempt_of(claim(agent, task=new)), now=NOW)
    assert Task.objects.get(pk=waits).state == S.QUEUED
    assert not deadletters.replay(
        [letters[0].pk], among=DeadLetter.objects.all(), actor=SYSTEM, now=NOW
    )


# ---- the verbs by a task's id


def test_state_transitions(agent: Agent) -> None:
    """S3.2, S3.10, S3.14"""
    id = make_task(agent)
    in_process.mark_running(id, now=NOW)
    assert Task.objects.get(pk=id).state == S.RUNNING
    with pytest.raises(InvalidTransition) as refused:
        in_process.mark_running(id, now=NOW)
    assert refused.value.more["current"] == "running"
    in_process.mark_done(id, {"ok": 1}, now=NOW)
    task = Task.objects.get(pk=id)
    assert (task.state, task.result) == (S.DONE, {"ok": 1})
    before = kinds(id)
    for verb in (in_process.mark_retry, in_process.mark_failed, in_process.mark_blocked):
        with pytest.raises(InvalidTransition):
            verb(id, "too late", now=NOW)
    assert kinds(id) == before
    with pytest.raises(NotFound):
        in_process.mark_done(agent.pk)


def test_retry_count_increment(agent: Agent) -> None:
    """S3.11, S3.29"""
    one, two = make_task(agent, priority=1), make_task(agent)
    in_process.mark_running(one, now=NOW)
    in_process.mark_retry(one, "it broke", now=NOW)
    assert [Task.objects.get(pk=id).retry_count for id in (one, two)] == [1, 0]
    assert Task.objects.get(pk=one).state == S.RETRY


def test_blocked_stores_its_reason_and_asks(agent: Agent) -> None:
    """S3.13, S1.8"""
    id = make_task(agent)
    in_process.mark_running(id, now=NOW)
    in_process.mark_blocked(id, "no key", now=NOW)
    task = Task.objects.get(pk=id)
    assert (task.state, task.blocked_reason, task.retry_count) == (S.BLOCKED, "reported", 0)
    assert Escalation.objects.get().task_id == id


def test_failed_is_final_at_once(agent: Agent) -> None:
    id = make_task(agent)
    in_process.mark_running(id, now=NOW)
    in_process.mark_failed(id, "no way", now=NOW)
    assert Task.objects.get(pk=id).state == S.FAILED
    assert DeadLetter.objects.get().reason == "non_retryable"


def test_task_history(agent: Agent) -> None:
    """S3.6: one row for each move, in order, with the error."""
    id = make_task(agent, max_attempts=2)
    for number in range(2):
        at = NOW + MINUTE * number
        in_process.mark_running(id, now=at)
        in_process.mark_retry(id, f"error {number}", now=at)
    rows = TaskHistory.objects.filter(task_id=id).order_by("id")
    assert list(rows.values_list("from_state", "to_state", "error")) == [
        ("queued", "running", None),
        ("running", "retry", "error 0"),
        ("retry", "running", None),
        ("running", "failed", "error 1"),
    ]
    assert rows[0].timestamp == NOW
