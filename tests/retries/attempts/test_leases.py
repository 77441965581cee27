"""Leases that expire, and outages of the sweep that expires them."""

from datetime import timedelta

import pytest

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Failure, Task
from ledger.states import TaskState
from ledger.tasks import Backoff
from ledger.tokens import TrustedCaller
from retries import in_process
from retries.attempts import heartbeats, leases
from retries.attempts.live_attempt import LeaseLost
from retries.tasks import actions as task_actions
from tests.factories import MINUTE, NOW
from tests.retries.moves import attempt_of, claim, fail, kinds, make_task

pytestmark = pytest.mark.django_db
S = TaskState


def test_an_expired_lease_is_a_timeout_and_its_report_is_too_late(agent: Agent) -> None:
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
        in_process.report_success(attempt, stamp=Stamp(SYSTEM, NOW + MINUTE * 6))
    with pytest.raises(LeaseLost):
        heartbeats.renew_lease(
            attempt, caller=TrustedCaller(SYSTEM, agent=agent), now=NOW + MINUTE * 6
        )
    task.refresh_from_db()
    assert task.state == S.RETRY


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_retry_that_comes_due_is_journaled_once(agent: Agent, by_hand: bool) -> None:
    id = make_task(agent, backoff=Backoff(base_delay_ms=60_000, max_delay_ms=60_000, jitter=False))
    fail(agent, attempt_of(claim(agent)), now=NOW)
    due = NOW if by_hand else NOW + MINUTE
    assert leases.note_due_retries(now=NOW) == {"due": 0}
    if by_hand:
        assert task_actions.retry_now([id], stamp=Stamp(SYSTEM, due)) == [id]
    for expected in (0 if by_hand else 1, 0):
        assert leases.note_due_retries(now=due) == {"due": expected}
    assert kinds(id)[-2:] == ["task.retry_scheduled", "task.due"]
    # the next retry is noted, too
    fail(agent, attempt_of(claim(agent, now=due)), now=due)
    assert leases.note_due_retries(now=due + 2 * MINUTE) == {"due": 1}
    assert kinds(id).count("task.due") == 2


def test_an_outage_of_the_sweep_expires_no_lease(agent: Agent) -> None:
    make_task(agent)
    claim(agent)
    did = leases.expire_leases(now=NOW + MINUTE * 60)
    assert (did["extended"], did["expired"]) == (1, 0)
    # its deadline, an hour after the claim, passed meanwhile too
    assert leases.expire(now=NOW + MINUTE * 64) == 0
    assert Task.objects.get().state == S.RUNNING
    assert leases.expire(now=NOW + MINUTE * 65) == 1
