"""Releases queue a task again without counting the attempt."""

import pytest

from ledger.journal import SYSTEM
from ledger.models import Agent, Task
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries.attempts import releases
from retries.models import Escalation
from tests.factories import NOW
from tests.retries.moves import attempt_of, claim, make_task

pytestmark = pytest.mark.django_db
S = TaskState


def test_release_does_not_count_and_the_tenth_asks_a_person(agent: Agent) -> None:
    """S3.49"""
    id = make_task(agent)
    caller = TrustedCaller(SYSTEM, agent=agent)
    for number in range(1, 10):
        attempt = attempt_of(claim(agent))
        row = releases.release(attempt, caller=caller, now=NOW)
        assert (row["state"], row["attempt_limit"], row["retry_count"]) == ("queued", 3 + number, 0)
    releases.release(attempt_of(claim(agent)), caller=caller, now=NOW)
    assert Task.objects.get(pk=id).state == S.ESCALATED
    assert Escalation.objects.get().reason == "releases_exhausted"
