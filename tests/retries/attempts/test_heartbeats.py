"""Heartbeats renew leases."""

import pytest

from ledger.journal import SYSTEM
from ledger.models import Agent, Attempt
from ledger.tokens import TrustedCaller
from retries.attempts import heartbeats, leases
from tests.factories import MINUTE, NOW
from tests.retries.moves import attempt_of, claim, make_task

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
