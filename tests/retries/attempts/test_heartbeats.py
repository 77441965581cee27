"""Heartbeats renew leases."""

import pytest

from ledger.journal import SYSTEM
from ledger.models import Agent, Attempt, Task
from ledger.tasks.spec import Backoff
from ledger.tokens import TrustedCaller
from retries.attempts import heartbeats, leases
from retries.attempts.live_attempt import LeaseLost
from tests.factories import MINUTE, NOW
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db


def test_heartbeats_renew_the_lease(agent: Agent) -> None:
    make_task(agent)
    attempt = attempt_of(claim(agent))
    caller = TrustedCaller(SYSTEM, agent=agent)
    beat = heartbeats.renew_lease(
        attempt, caller=caller, progress={"percent": 40}, now=NOW + MINUTE * 4
    )
    assert beat["lease_expires_at"] == NOW + MINUTE * 9 and beat["abort_requested"] is False
    assert leases.expire(now=NOW + MINUTE * 8) == 0
    assert Attempt.objects.get().progress == {"percent": 40}


@pytest.mark.parametrize(
    ("output", "stored"),
    [
        ("one\ntwo\n", "one\ntwo\n"),
        ("", ""),
        # as a terminal shows it
        ("10 %\r50 %\r100 %\nok\r\nlast\r", "100 %\nok\nlast"),
        ("\x1b[31mred\x1b[0m \x00\u202eevil\ud800\n", "red evil\n"),
        ("password=hunter2hunter2\n", "password=[redacted:secret]\n"),
        ("x" * 10 + "\n" + "ä" * 2045 + "\n", "ä" * 2045 + "\n"),
        ("ä" * 5000, "ä" * 2048),
    ],
)
def test_last_lines_are_short_clean_and_without_secrets(output: str, stored: str) -> None:
    assert heartbeats.last_lines(output) == stored


def test_last_lines_stay_when_the_attempt_ends(agent: Agent) -> None:
    make_task(agent)
    attempt = attempt_of(claim(agent))
    caller = TrustedCaller(SYSTEM, agent=agent)
    assert Attempt.objects.get().last_output == ""
    heartbeats.renew_lease(attempt, caller=caller, output="one\n", progress={"n": 1}, now=NOW)
    heartbeats.renew_lease(attempt, caller=caller, now=NOW)
    fail(agent, attempt, now=NOW + MINUTE)
    row = Attempt.objects.get()
    assert (row.last_output, row.progress, row.outcome) == ("one\n", {"n": 1}, "failure")
    with pytest.raises(LeaseLost):
        heartbeats.renew_lease(attempt, caller=caller, output="two\n", now=NOW + MINUTE)
    assert Attempt.objects.get().last_output == "one\n"


def test_a_heartbeat_past_the_deadline_is_refused(agent: Agent) -> None:
    make_task(agent, timeout_s=60)
    attempt = attempt_of(claim(agent, worker_id="w1"))
    caller = TrustedCaller(SYSTEM, agent=agent)
    heartbeats.renew_lease(attempt, caller=caller, now=NOW + MINUTE / 2)
    with pytest.raises(LeaseLost, match="has passed its deadline, 2026-11-21T12:01:00"):
        heartbeats.renew_lease(attempt, caller=caller, now=NOW + MINUTE)
    assert Attempt.objects.get().heartbeats == 1
    # nor does a claim hand it out again
    assert claim(agent, worker_id="w1", now=NOW + MINUTE).reason == "no_task"


def test_an_attempt_starts_after_the_end_of_the_one_before(agent: Agent) -> None:
    """The clocks of two servers differ."""
    id = make_task(agent, backoff=Backoff(base_delay_ms=0))
    fail(agent, attempt_of(claim(agent)), now=NOW + MINUTE)
    Task.objects.filter(pk=id).update(due_at=NOW)
    row = claim(agent, now=NOW + MINUTE / 2).rows[0]
    assert row["attempt_started_at"] == NOW + MINUTE
    one, two = Attempt.objects.order_by("number")
    assert one.ended_at == two.started_at == NOW + MINUTE
    fail(agent, two.pk, now=NOW + MINUTE / 2)
    two.refresh_from_db()
    assert two.ended_at == two.started_at
