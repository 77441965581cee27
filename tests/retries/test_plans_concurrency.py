"""Two at once on one plan: each waits for the other, and sees what it did."""

from typing import Any

import pytest
from django.db import transaction

from ledger.access.audit import audit
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Attempt, Event, Plan, Task
from ledger.planfile.model import DependencyCycle
from ledger.plans import import_writer as facts
from ledger.plans.import_diff import ImportOptions, ImportResult, PlanChanged
from ledger.states import TaskState
from retries import in_process
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import AlreadyResolved
from retries.models import Escalation
from retries.plans import aborting, completing, restarting
from retries.states import Answer
from tests.elsewhere import at_once, blocked
from tests.factories import NOW, make_project
from tests.ledger.plans.test_import_writer import imported, plan_file, states, task
from tests.retries.moves import attempt_of, claim
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)
S = TaskState


def test_the_same_plan_imported_by_two_is_there_once(agent: Agent) -> None:
    found = at_once(4, lambda _: imported({}, {"needs": "task-1"}))
    assert [type(each) for each in found] == [ImportResult] * 4, found
    assert sorted(each.unchanged for each in found) == [False, True, True, True]
    assert Plan.objects.count() == 1 and Task.objects.count() == 2
    assert Event.objects.filter(kind="plan.imported").count() == 1


def test_two_contents_of_one_plan_have_one_winner(agent: Agent) -> None:
    found = at_once(2, lambda n: imported({"title": f"of {n}"}))
    assert sorted(type(each).__name__ for each in found) == ["ImportResult", "PlanChanged"]
    assert any(isinstance(each, PlanChanged) for each in found)
    assert Task.objects.count() == 1


def test_two_plans_that_need_each_other(agent: Agent) -> None:
    def work(n: int) -> ImportResult:
        own, other = ("03-01", "03-02") if n else ("03-02", "03-01")
        return imported({"needs": other}, ref=own, allow_missing_needs=True)

    found = at_once(2, work)
    assert sorted(type(each).__name__ for each in found) == ["DependencyCycle", "ImportResult"]
    assert any(isinstance(each, DependencyCycle) for each in found)
    assert Plan.objects.count() == 1 and list(audit()) == []


def test_an_abort_sees_what_is_claimed_just_now(agent: Agent, elsewhere: Any) -> None:
    """S1.46: no task of an aborted plan keeps running, no matter who claims first."""
    plan = imported({}).plan
    with transaction.atomic():
        found = claim(agent)
        future = elsewhere(lambda: aborting.abort([plan.pk], stamp=Stamp(SYSTEM, NOW)))
        with blocked(future):
            pass
    future.result(PATIENCE_S)
    assert Task.objects.get().abort_requested_at is not None
    told = in_process.report_success(attempt_of(found), stamp=Stamp(SYSTEM, NOW))
    assert told.decision["decision"] == "aborted" and states() == {"task-1": S.ABORTED}
    assert list(audit()) == []


def test_aborts_and_claims_at_once(agent: Agent) -> None:
    for n in range(4):
        plan = imported({}, {}, {}, ref=f"04-0{n}").plan

        def work(who: int, plan: Plan = plan) -> object:
            return aborting.abort([plan.pk], stamp=Stamp(SYSTEM, NOW)) if who == 0 else claim(agent)

        found = at_once(3, work)
        assert [each for each in found if isinstance(each, Exception)] == []
        left = Task.objects.filter(plan=plan).exclude(state=S.ABORTED)
        assert all(row.state == S.RUNNING and row.abort_requested_at for row in left)
        for attempt in Attempt.objects.filter(outcome=None):
            in_process.report_success(attempt.pk, stamp=Stamp(SYSTEM, NOW))
    assert list(audit()) == []


def test_two_answers_that_abort_one_plan_do_not_lock_each_other_out(
    agent: Agent, elsewhere: Any
) -> None:
    """Each waits for the first question of the plan before it holds its own."""
    imported(*[{"type": "checkpoint:decision"}] * 2)
    first, second = Escalation.objects.order_by("id")

    def abort(asked: Escalation) -> Escalation:
        every, who = Escalation.objects.all(), Actor("user", "1", "mara")
        choice = Choice(Answer.ABORT)
        return answering.answer(asked.pk, choice, among=every, stamp=Stamp(who, NOW), channel="api")

    with transaction.atomic():
        list(Escalation.objects.filter(pk=first.pk).select_for_update())
        future = elsewhere(lambda: abort(second))
        with blocked(future):
            list(Escalation.objects.filter(pk=second.pk).select_for_update(nowait=True))
        abort(first)
    with pytest.raises(AlreadyResolved):
        future.result(PATIENCE_S)
    second.refresh_from_db()
    assert second.state == "withdrawn" and set(states().values()) == {S.ABORTED}
    assert list(audit()) == []


def test_a_merge_does_not_change_what_is_claimed_just_now(agent: Agent, elsewhere: Any) -> None:
    imported({"title": "old"})
    with transaction.atomic():
        claim(agent)
        future = elsewhere(lambda: imported({"ref": 1, "title": "new"}, mode="merge"))
        with blocked(future):
            pass
    assert future.result(PATIENCE_S).diff.untouched == ["03-01:task-1"]
    assert task("03-01:task-1").title == "old"


def test_two_restarts_and_two_clocks(agent: Agent) -> None:
    plan = imported({}, {"needs": "task-1"}).plan
    aborting.abort([plan.pk], stamp=Stamp(SYSTEM, NOW))
    found = at_once(2, lambda _: restarting.restart(plan.pk, stamp=Stamp(SYSTEM, NOW)))
    assert sorted(type(each).__name__ for each in found) == ["InvalidTransition", "Plan"]
    assert Task.objects.current().count() == 2 and Plan.objects.get().run == 2
    aborting.abort([plan.pk], stamp=Stamp(SYSTEM, NOW))
    Plan.objects.update(aborted_at=None)
    did = at_once(3, lambda _: completing.complete_plans(now=NOW))
    assert sum(each["completed"] for each in did) == 1
    assert Event.objects.filter(kind="plan.completed").count() == 1


def test_imports_of_other_projects_do_not_wait(agent: Agent) -> None:
    other = make_project("other")
    file, options = plan_file({}, ref="05-01"), ImportOptions(register=True)
    with transaction.atomic():
        facts.import_plan(agent.project, file, stamp=Stamp(SYSTEM, NOW))
        (done,) = at_once(
            1, lambda _: facts.import_plan(other, file, options=options, stamp=Stamp(SYSTEM, NOW))
        )
        assert isinstance(done, ImportResult), done
