"""Plans are paused and resumed."""

import pytest

from ledger import agents
from ledger.errors import InvalidTransition
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent
from ledger.plans import editing as plan_editing
from ledger.states import TaskState
from retries import claims
from tests.factories import NOW
from tests.ledger.plans.test_import_writer import imported, task
from tests.retries.moves import attempt_of, claim, fail, kinds, make_task

pytestmark = pytest.mark.django_db
S = TaskState


def test_a_paused_plan_hands_nothing_out(agent: Agent) -> None:
    done = imported({}, {})
    claim(agent)
    assert [
        each.pk
        for each in plan_editing.pause([done.plan.pk], reason="lunch", stamp=Stamp(SYSTEM, NOW))
    ] == [done.plan.pk]
    assert plan_editing.pause([done.plan.pk], stamp=Stamp(SYSTEM, NOW)) == []
    assert claim(agent).reason == "plan_paused"
    other = make_task(agent)
    assert claim(agent).rows[0]["id"] == other
    assert plan_editing.resume([done.plan.pk], stamp=Stamp(SYSTEM, NOW))[0].state == "active"
    assert claim(agent).rows[0]["ref"] == "03-01:task-2"
    assert kinds(done.plan.pk) == ["plan.imported", "plan.paused", "plan.resumed"]


def test_what_a_paused_plan_holds_is_not_said_to_be_due(agent: Agent) -> None:
    plan = imported({}).plan
    fail(agent, attempt_of(claim(agent)), now=NOW)
    assert task("03-01:task-1").state == S.RETRY
    plan_editing.pause([plan.pk], stamp=Stamp(SYSTEM, NOW))
    empty = claim(agent, now=NOW)
    assert (empty.reason, empty.next_due_at) == ("plan_paused", None)
    plan_editing.resume([plan.pk], stamp=Stamp(SYSTEM, NOW))
    assert claim(agent, now=NOW).rows


def test_a_start_says_that_it_is_the_plan_that_is_paused(agent: Agent) -> None:
    plan = imported({}).plan
    plan_editing.pause([plan.pk], stamp=Stamp(SYSTEM, NOW))
    with pytest.raises(InvalidTransition, match="The task's plan is paused") as refused:
        claims.start(task("03-01:task-1").pk, stamp=Stamp(SYSTEM, NOW))
    assert refused.value.more["current"] == S.QUEUED
    assert refused.value.more["allowed"] == ["running", "blocked"]
    plan_editing.resume([plan.pk], stamp=Stamp(SYSTEM, NOW))
    agents.pause([agent], stamp=Stamp(SYSTEM, NOW))
    with pytest.raises(InvalidTransition, match="The agent coder is paused"):
        claims.start(task("03-01:task-1").pk, stamp=Stamp(SYSTEM, NOW))
