"""Dead letters are replayed as new tasks."""

import pytest

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, DeadLetter, Task
from ledger.states import TaskState
from retries import deadletters, in_process
from tests.factories import NOW
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db
S = TaskState


def test_a_replay_takes_the_place_of_the_old_task(agent: Agent) -> None:
    old = make_task(agent, max_attempts=1)
    waits = make_task(agent, needs=[old])
    fail(agent, attempt_of(claim(agent)), now=NOW)
    assert Task.objects.get(pk=waits).state == S.BLOCKED
    letters = deadletters.replay(
        [DeadLetter.objects.get().pk], among=DeadLetter.objects.all(), stamp=Stamp(SYSTEM, NOW)
    )
    new = letters[0].replayed_as_id
    assert Task.objects.get(pk=old).replaced_by_id == new
    in_process.report_success(attempt_of(claim(agent, task=new)), stamp=Stamp(SYSTEM, NOW))
    assert Task.objects.get(pk=waits).state == S.QUEUED
    assert not deadletters.replay(
        [letters[0].pk], among=DeadLetter.objects.all(), stamp=Stamp(SYSTEM, NOW)
    )
