"""Plans are completed, and reopened by a replay."""

import pytest

from ledger.access.audit import audit
from ledger.journal import Stamp
from ledger.models import Agent, DeadLetter
from ledger.plans import editing as facts
from ledger.states import TaskState
from retries import deadletters
from retries.plans import completing
from tests.factories import NOW
from tests.ledger.plans.test_import_writer import do, imported, task
from tests.retries.moves import attempt_of, claim, fail, kinds
from tests.retries.plans.runs import MARA, plan

pytestmark = pytest.mark.django_db


def test_a_plan_is_over_when_its_tasks_are_and_a_replay_reopens_it(agent: Agent) -> None:
    imported({"max_attempts": 1, "on_exhausted": "dead_letter"}, {})
    fail(agent, attempt_of(claim(agent)), now=NOW)
    assert completing.complete_plans(now=NOW) == {"completed": 0, "reopened": 0}
    do(agent, "03-01:task-2")
    assert completing.complete_plans(now=NOW) == {"completed": 1, "reopened": 0}
    assert completing.complete_plans(now=NOW) == {"completed": 0, "reopened": 0}
    assert plan().state == "completed"
    letter = DeadLetter.objects.get()
    deadletters.replay([letter.pk], among=DeadLetter.objects.all(), stamp=Stamp(MARA, NOW))
    one = task("03-01:task-1")
    assert (one.run, one.replay_of, one.state) == (1, letter.task, TaskState.QUEUED)
    assert facts.count_tasks(plan())["failed"] == 0
    assert completing.complete_plans(now=NOW) == {"completed": 0, "reopened": 1}
    assert plan().state == "active"
    do(agent, "03-01:task-1")
    completing.complete_plans(now=NOW)
    assert kinds(plan().pk) == ["plan.imported", "plan.completed", "plan.updated", "plan.completed"]
    assert list(audit()) == []
