"""Many at once: locks are held on one connection and tried from others."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from ledger.access.audit import audit
from ledger.errors import InvalidTransition
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Attempt, Breaker, DeadLetter, Event, Task
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries import claims, in_process
from retries.attempts import finishing, heartbeats, leases, releases
from retries.attempts.live_attempt import LeaseLost
from retries.attempts.report_fields import Report
from retries.breaker import CircuitBreakerOpen
from tests.elsewhere import at_once, blocked
from tests.factories import MINUTE, NOW
from tests.retries.moves import attempt_of, claim, make_task
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)


def test_every_task_is_claimed_once(agent: Agent) -> None:
    ids = {make_task(agent) for _ in range(24)}

    def work(_: int) -> list[UUID]:
        got = []
        while rows := claim(agent).rows:
            got.append(rows[0]["id"])
        return got

    found = at_once(6, work)
    taken = [id for each in found for id in each]
    assert sorted(taken) == sorted(ids)
    assert Attempt.objects.filter(outcome=None).count() == 24
    assert list(audit()) == []


def test_a_claim_passes_over_a_row_that_somebody_holds(agent: Agent) -> None:
    first, second = make_task(agent), make_task(agent)
    with transaction.atomic():
        Task.objects.select_for_update().get(pk=first)
        (found,) = at_once(1, lambda _: claim(agent))
        assert found.rows[0]["id"] == second


@pytest.mark.parametrize("state", [TaskState.QUEUED, TaskState.RETRY])
@pytest.mark.parametrize("gate", ["closed", "half_open"])
def test_a_named_task_that_somebody_holds_is_claimed_later(
    agent: Agent, elsewhere: Callable[..., Any], state: TaskState, gate: str
) -> None:
    """The claim does not wait, and does not say that the task can't be started."""
    id = make_task(agent)
    Task.objects.filter(pk=id).update(state=state, due_at=NOW)
    Breaker.objects.create(agent=agent, state=gate, opened_at=NOW, updated_at=NOW)
    with transaction.atomic():
        Task.objects.select_for_update().get(pk=id)
        found = elsewhere(lambda: claim(agent, task=id, worker_id="one")).result(PATIENCE_S)
        assert (found.rows, found.reason, found.retry_after_s) == ([], "no_task", 1)
        started = elsewhere(lambda: claims.start(id, stamp=Stamp(SYSTEM, NOW)))
        with pytest.raises(claims.TaskLocked):
            started.result(PATIENCE_S)
    assert claim(agent, task=id, worker_id="one").rows[0]["id"] == id


@pytest.mark.parametrize("state", [TaskState.RUNNING, TaskState.RETRY])
def test_a_named_task_that_cannot_start_is_refused_although_somebody_holds_it(
    agent: Agent, elsewhere: Callable[..., Any], state: TaskState
) -> None:
    id = make_task(agent)
    claim(agent)
    if state == TaskState.RETRY:
        in_process.report_failure(
            Attempt.objects.get().pk, "it broke", stamp=Stamp(SYSTEM, NOW + MINUTE)
        )
    with transaction.atomic():
        Task.objects.select_for_update().get(pk=id)
        refused = elsewhere(lambda: claim(agent, task=id))
        with pytest.raises(InvalidTransition) as problem:
            refused.result(PATIENCE_S)
    assert problem.value.more["current"] == state


def test_a_retry_is_claimed_although_a_task_before_it_is_held(agent: Agent) -> None:
    """The head of the queue that counts is the first task that no one holds."""
    urgent, retry, later = make_task(agent, priority=9), make_task(agent), make_task(agent)
    Task.objects.filter(pk=retry).update(state=TaskState.RETRY, due_at=NOW)
    with transaction.atomic():
        Task.objects.select_for_update().get(pk=urgent)
        found = [at_once(1, lambda _: claim(agent))[0] for _ in range(2)]
        assert [each.rows[0]["id"] for each in found] == [retry, later]
    assert claim(agent).rows[0]["id"] == urgent


def test_a_retry_waits_for_tasks_of_a_higher_priority(agent: Agent) -> None:
    urgent, retry, alike = make_task(agent, priority=9), make_task(agent), make_task(agent)
    Task.objects.filter(pk=retry).update(state=TaskState.RETRY, due_at=NOW)
    assert [claim(agent).rows[0]["id"] for _ in range(3)] == [urgent, retry, alike]


def test_two_reports_at_once_have_one_winner(agent: Agent) -> None:
    """S3.21"""
    id = make_task(agent)
    attempt = attempt_of(claim(agent))
    said = [Report(status="failure", message=f"worker {n}") for n in range(4)]

    def work(n: int) -> Any:
        return finishing.finish_attempt(
            attempt, said[n], caller=TrustedCaller(SYSTEM, agent=agent), now=NOW
        )

    found = at_once(4, work)
    assert sum(not isinstance(each, Exception) for each in found) == 1
    task = Task.objects.get(pk=id)
    assert (task.retry_count, task.failures.count()) == (1, 1)


def test_success_against_the_end_of_the_lease(agent: Agent) -> None:
    """The row decides: either it is done, or it is a timeout and the report is told so."""
    later = NOW + MINUTE * 6
    for _ in range(5):
        id = make_task(agent)
        attempt = attempt_of(claim(agent, task=id))
        report, _ = at_once(
            2,
            lambda n, attempt=attempt: (
                in_process.report_success(attempt, stamp=Stamp(SYSTEM, later))
                if n == 0
                else leases.expire(now=later)
            ),
        )
        task = Task.objects.get(pk=id)
        is_late = isinstance(report, LeaseLost)
        assert task.state == (TaskState.RETRY if is_late else TaskState.DONE)
        kinds = [*Event.objects.filter(subject_id=id).order_by("id").values_list("kind", flat=True)]
        ended = ["task.retry_scheduled", "task.reported_late"] if is_late else ["task.completed"]
        assert kinds == ["task.created", "task.claimed", *ended]


def test_a_heartbeat_between_the_look_and_the_turn_saves_the_attempt(
    agent: Agent, elsewhere: Callable[..., Any]
) -> None:
    """A caller whose lease was renewed keeps it, although the sweep saw the old lease."""
    id, later = make_task(agent), NOW + MINUTE * 6
    attempt = attempt_of(claim(agent))
    with transaction.atomic():
        heartbeats.renew_lease(attempt, caller=TrustedCaller(SYSTEM, agent=agent), now=later)
        swept = elsewhere(lambda: leases.expire(now=later))
        with blocked(swept):
            pass
    assert swept.result(PATIENCE_S) == 0
    assert Task.objects.get(pk=id).state == TaskState.RUNNING
    assert leases.expire(now=later + MINUTE * 6) == 1


def test_an_attempt_begins_after_one_that_its_claim_did_not_see(
    agent: Agent, elsewhere: Callable[..., Any]
) -> None:
    """While a claim waits, another worker takes the next task and releases it a second later."""
    caller = TrustedCaller(SYSTEM, agent=agent)
    held, task = make_task(agent, priority=9), make_task(agent)
    own = attempt_of(claim(agent, worker_id="one"))

    def take_and_release() -> None:
        attempt = attempt_of(claim(agent, worker_id="two"))
        releases.release(attempt, caller=caller, now=NOW + timedelta(seconds=1))

    with transaction.atomic():
        Attempt.objects.select_for_update().get(pk=own)
        claimed = elsewhere(lambda: claim(agent, worker_id="one"))
        with blocked(claimed):
            elsewhere(take_and_release).result(PATIENCE_S)
        in_process.report_success(own, stamp=Stamp(SYSTEM, NOW))
    assert claimed.result(PATIENCE_S).rows[0]["id"] == task != held
    first, second = Attempt.objects.filter(task=task).order_by("number")
    assert second.started_at >= first.ended_at
    assert list(audit()) == []


def test_two_needs_that_end_together_free_their_dependent(agent: Agent) -> None:
    for _ in range(5):
        needs = [make_task(agent) for _ in range(3)]
        waits = make_task(agent, needs=needs)
        attempts = [attempt_of(claim(agent, task=each)) for each in needs]
        at_once(
            3,
            lambda n, attempts=attempts: in_process.report_success(
                attempts[n], stamp=Stamp(SYSTEM, NOW)
            ),
        )
        task = Task.objects.get(pk=waits)
        assert (task.state, task.unmet) == (TaskState.QUEUED, 0)


def test_one_probe_when_ten_ask_at_once(agent: Agent) -> None:
    """A half-open breaker lets one attempt through, and frees its slot whatever ends it."""
    for _ in range(12):
        make_task(agent)
    Breaker.objects.create(agent=agent, state="open", failures=5, opened_at=NOW, updated_at=NOW)
    early = claim(agent, now=NOW + timedelta(seconds=59))
    assert (early.reason, early.retry_after_s) == ("breaker_open", 1)
    now = NOW + timedelta(seconds=61)
    found = at_once(10, lambda _: claim(agent, now=now))
    assert [each for each in found if isinstance(each, Exception)] == []
    got = [each for each in found if each.rows]
    assert len(got) == 1 and Attempt.objects.filter(outcome=None).count() == 1
    assert all(each.reason == "breaker_open" for each in found if not each.rows)
    releases.release(attempt_of(got[0]), caller=TrustedCaller(SYSTEM, agent=agent), now=now)
    assert len(claim(agent, now=now).rows) == 1


def test_an_open_breaker_blocks_what_is_asked_for_by_name(agent: Agent) -> None:
    """S3.41, S3.42"""
    id = make_task(agent)
    Breaker.objects.create(agent=agent, state="open", failures=5, opened_at=NOW, updated_at=NOW)
    with pytest.raises(CircuitBreakerOpen, match="Circuit breaker 'coder' is OPEN"):
        claims.start(id, stamp=Stamp(SYSTEM, NOW))
    task = Task.objects.get(pk=id)
    assert (task.state, task.blocked_reason) == (TaskState.BLOCKED, "breaker_open")
    assert leases.half_open_breakers(now=NOW + timedelta(seconds=59)) == {
        "half_open": 0,
        "unblocked": 0,
    }
    assert leases.half_open_breakers(now=NOW + timedelta(seconds=60)) == {
        "half_open": 1,
        "unblocked": 1,
    }
    task.refresh_from_db()
    assert (task.state, task.blocked_reason) == (TaskState.QUEUED, None)
    assert Event.objects.get(kind="task.unblocked").data == {"reason": "breaker_open"}
    assert not DeadLetter.objects.exists()


def test_five_failures_open_the_breaker(agent: Agent) -> None:
    """S3.31"""
    for number in range(5):
        make_task(agent)
        assert claim(agent).rows, number
        live = Attempt.objects.get(outcome=None)
        in_process.report_failure(live.pk, "it broke", stamp=Stamp(SYSTEM, NOW))
    assert Breaker.objects.get().state == "open"
    assert claim(agent).reason == "breaker_open"
