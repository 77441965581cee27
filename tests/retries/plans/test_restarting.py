"""Plans are restarted; new tasks may carry on the attempts of old ones."""

from datetime import datetime
from uuid import UUID

import pytest

from dashboard.escalations import evidence as escalation_evidence
from dashboard.plans import detail_queries as plan_queries
from dashboard.tasks import detail_queries
from ledger.access.audit import audit
from ledger.errors import InvalidTransition
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, DeadLetter, Need, Task
from ledger.states import TaskState
from ledger.tasks import Change, change, fetch_task
from ledger.tasks.lineage import fetch_lineages
from ledger.tokens import TrustedCaller
from retries import in_process
from retries.attempts import finishing, heartbeats, questions
from retries.attempts.report_fields import Report
from retries.escalations.lifecycle import Question
from retries.escalations.record import Record, build_facts, render_escalation
from retries.failures.fixes import suggestions
from retries.models import Escalation, FailurePattern
from retries.plans import aborting, completing, restarting
from retries.renderings import log_queries, state_queries
from retries.renderings.scope import RenderingScope
from retries.retry_context import history
from retries.states import Answer
from tests.factories import MINUTE, NOW
from tests.ledger.plans.test_import_writer import do, imported, states, task
from tests.retries.moves import attempt_of, claim, fail, kinds
from tests.retries.plans.runs import answer, plan

pytestmark = pytest.mark.django_db


def test_a_restart_runs_what_is_not_done_from_the_start(agent: Agent) -> None:
    """S1.34"""
    imported({}, {"needs": "task-1"}, {"needs": "task-2"}, ref="03-01")
    imported({"needs": "03-01"}, ref="03-02")
    do(agent, "03-01:task-1")
    fail(agent, attempt_of(claim(agent, task=task("03-01:task-2").pk)), now=NOW)
    aborting.abort([plan().pk], stamp=Stamp(SYSTEM, NOW))
    old = {row.ref: row for row in Task.objects.filter(plan=plan())}
    again = restarting.restart(plan().pk, stamp=Stamp(SYSTEM, NOW + MINUTE))
    assert (again.run, again.state) == (2, "active") and again == plan()
    assert states() == {
        "task-1": TaskState.DONE,
        "task-2": TaskState.QUEUED,
        "task-3": TaskState.BLOCKED,
    }
    two = task("03-01:task-2")
    assert (two.run, two.retry_count, two.attempts, two.attempt_limit) == (2, 0, 0, 3)
    assert task("03-01:task-1") == old["03-01:task-1"] and task("03-01:task-1").run == 1
    assert Task.objects.get(pk=old["03-01:task-2"].pk).replaced_by == two
    assert kinds(plan().pk) == ["plan.imported", "plan.aborted", "plan.restarted"]
    assert list(audit()) == []
    do(agent, "03-01:task-2")
    do(agent, "03-01:task-3")
    assert states("03-02") == {"task-1": TaskState.QUEUED}
    assert list(audit()) == []


def test_a_restart_carries_over_what_was_begun_since(agent: Agent) -> None:
    """S1.35: a task that was begun in that session keeps its counters."""
    imported({}, {}, {})
    early = fail(agent, attempt_of(claim(agent, task=task("03-01:task-1").pk)), now=NOW)
    assert early["decision"] == "wait"
    later = NOW + MINUTE
    for _ in range(3):
        found = claim(agent, task=task("03-01:task-2").pk, now=later)
        fail(agent, attempt_of(found), now=later, message="late")
    aborting.abort([plan().pk], stamp=Stamp(SYSTEM, later))
    old = task("03-01:task-2")
    restarting.restart(plan().pk, carry_over=later, stamp=Stamp(SYSTEM, later))
    one, two, three = (task(f"03-01:task-{n}") for n in (1, 2, 3))
    assert (one.attempts, one.retry_count, three.attempts) == (0, 0, 0)
    assert (two.attempts, two.retry_count, two.attempt_limit) == (3, 3, 4)
    assert two.carries == old and old.failures.count() == 3
    assert fetch_lineages([two.pk, one.pk]) == {two.pk: two.pk, old.pk: two.pk, one.pk: one.pk}
    assert [each.attempt for each in history.load_histories([two.pk])[two.pk].failures] == [1, 2, 3]
    found = claim(agent, task=two.pk, now=later)
    assert found.rows[0]["attempt_number"] == 4
    fail(agent, attempt_of(found), now=later + MINUTE, message="later still")
    everywhere(two.pk, old.pk)
    assert list(audit()) == []


def test_a_carried_on_task_tells_the_change_of_its_own_payload(agent: Agent) -> None:
    """The former row's change was for an attempt that has ended with it."""
    imported({})
    fail(agent, attempt_of(claim(agent, task=task("03-01:task-1").pk)), now=NOW)
    aborted = task("03-01:task-1")
    change(aborted.pk, Change(payload={"a": 1}), version=aborted.version, stamp=Stamp(SYSTEM, NOW))
    aborting.abort([plan().pk], stamp=Stamp(SYSTEM, NOW))
    restarting.restart(plan().pk, carry_over=NOW, stamp=Stamp(SYSTEM, NOW))
    row = task("03-01:task-1")
    assert row.carries == aborted

    def told() -> str:
        of = {"id": row.pk, "type": row.type, "attempts": row.attempts, "attempt_limit": 3}
        past = history.load_histories([row.pk])[row.pk]
        return history.render_next_context(of, history=past) or ""

    assert '<failure attempt="1">' in told() and "payload was changed" not in told()
    changed = Change(payload=row.payload | {"b": 2})
    change(row.pk, changed, version=row.version, stamp=Stamp(SYSTEM, NOW))
    assert "Since then, the task's payload was changed: /b." in told()
    assert list(audit()) == []


def everywhere(id: UUID, old: UUID) -> None:
    """The three failures before and the one after a restart are told as one story."""
    asked = Escalation.objects.open().get(task=id)
    record = Record(Task.objects.get(pk=id))
    for message in ("late", "later still"):
        assert message in render_escalation(asked, record)
    assert [row.number for row in build_facts(asked, record).rows] == [1, 2, 3, 4]
    assert [each.attempt for each in state_queries.load_failures(fetch_lineages([id]))[id]] == [
        1,
        2,
        3,
        4,
    ]
    tried = log_queries.load_attempts([old, id])
    assert [list(tried[each]) for each in (old, id)] == [[1, 2, 3], [1, 2, 3, 4]]
    assert [each.number for each in detail_queries.list_attempts(Task.objects.get(pk=id))] == [
        1,
        2,
        3,
        4,
    ]
    assert len(detail_queries.list_attempts(Task.objects.get(pk=old))) == 3
    shown = escalation_evidence.collect_task(asked, record)
    assert [each.attempt.number for each in shown.failures] == [4, 3, 2, 1]
    assert suggestions.find_last_failures([id])[id].message == "later still"


def carried_over(agent: Agent, *, now: datetime) -> Task:
    """The first task after its plan was stopped and restarted, with its earlier values."""
    aborting.abort([plan().pk], stamp=Stamp(SYSTEM, now))
    restarting.restart(plan().pk, carry_over=NOW, stamp=Stamp(SYSTEM, now))
    found = task("03-01:task-1")
    assert found.carries
    return found


def failed_once(agent: Agent) -> FailurePattern:
    """A plan whose first task has failed and needs a person; the pattern of its failure."""
    imported({"max_attempts": 1}, {})
    fail(agent, attempt_of(claim(agent, task=task("03-01:task-1").pk)), now=NOW, message="late")
    return FailurePattern.objects.get()


def test_a_fix_is_told_and_counts_in_the_run_that_goes_on(agent: Agent) -> None:
    """S1.35, S1.47: two restarts later it is the fix of the attempt that was made with it."""
    pattern = failed_once(agent)
    answer(Answer.FIX, "Trim first", now=NOW + MINUTE)
    claim(agent, task=task("03-01:task-1").pk, now=NOW + MINUTE)
    aborting.abort([plan().pk], stamp=Stamp(SYSTEM, NOW + MINUTE))
    live = task("03-01:task-1").current_attempt
    assert live
    progress = {"message": "wrote tests"}
    heartbeats.renew_lease(
        live, caller=TrustedCaller(SYSTEM, agent=agent), progress=progress, now=NOW + MINUTE
    )
    finishing.finish_attempt(
        live, Report(), caller=TrustedCaller(SYSTEM, agent=agent), now=NOW + MINUTE
    )
    restarting.restart(plan().pk, carry_over=NOW, stamp=Stamp(SYSTEM, NOW + 2 * MINUTE))
    two = carried_over(agent, now=NOW + 3 * MINUTE)
    assert suggestions.list_worked_fixes(pattern.pk) == []
    told = history.render_next_context(fetch_task(two.pk))
    assert "User provided fix: Trim first</instruction>" in told and "wrote tests" in told
    found = claim(agent, task=two.pk, now=NOW + 4 * MINUTE)
    in_process.report_success(attempt_of(found), stamp=Stamp(SYSTEM, NOW + 5 * MINUTE))
    assert [str(each) for each in suggestions.list_worked_fixes(pattern.pk)] == ["worked 1 of 1"]


def test_a_fix_is_for_the_failure_of_the_run_before(agent: Agent) -> None:
    """A question in the carried run is about the failures before it."""
    pattern = failed_once(agent)
    two = carried_over(agent, now=NOW + MINUTE)
    live = attempt_of(claim(agent, task=two.pk, now=NOW + MINUTE))
    asks, caller = Question(text="How?", choices=[]), TrustedCaller(SYSTEM, agent=agent)
    questions.ask(live, asks, caller=caller, now=NOW + MINUTE)
    answer(Answer.FIX, "Trim first", now=NOW + 2 * MINUTE)
    again = attempt_of(claim(agent, task=two.pk, now=NOW + 3 * MINUTE))
    in_process.report_success(again, stamp=Stamp(SYSTEM, NOW + 4 * MINUTE))
    assert [str(each) for each in suggestions.list_worked_fixes(pattern.pk)] == ["worked 1 of 1"]


def test_the_renderings_count_what_goes_on(agent: Agent) -> None:
    """S1.24, S1.27, S1.35, S1.52, S1.66-68: attempts, failures and questions of the run before."""
    failed_once(agent)
    two = carried_over(agent, now=NOW + MINUTE)
    about = RenderingScope(plan().project_id, plan())
    (entry,) = state_queries.read_active_tasks(about)
    assert (entry.last_attempt_at, len(entry.failures)) == (NOW, 1)
    assert state_queries.compute_stats(about).escalations == 1
    summary = state_queries.build_summary(plan())
    one, _ = summary.tasks
    assert (one.attempts, one.escalations) == (1, 1)
    assert summary.patterns == {"execution_error": 1}
    found = claim(agent, task=two.pk, now=NOW + 2 * MINUTE)
    fail(agent, attempt_of(found), now=NOW + 3 * MINUTE, message="later")
    (entry,) = state_queries.read_active_tasks(about)
    assert (entry.last_attempt_at, len(entry.failures)) == (NOW + 3 * MINUTE, 2)
    answer(Answer.SKIP, now=NOW + 4 * MINUTE)
    (skipped,) = state_queries.list_skipped_tasks(about)
    assert skipped.failures == 2
    one, _ = state_queries.build_summary(plan()).tasks
    assert (one.attempts, one.escalations) == (2, 2)
    shown = state_queries.find_continued_rows(about)
    assert [each.task for each in plan_queries.list_failures(plan().pk, shown)] == [two.pk, two.pk]
    assert len(plan_queries.list_questions(plan().pk, shown)) == 2
    (row,) = plan_queries.list_tasks(plan(), [two.pk], plan_queries.list_carried_rows(plan()))
    attempts = detail_queries.list_attempts(detail_queries.find_task(two.pk))
    assert row.outcomes == ["failure", "failure"] == [each.outcome for each in attempts]
    assert state_queries.compute_stats(about).escalations == 2


def test_a_restart_is_refused_while_anything_is_under_way(agent: Agent) -> None:
    imported({}, {})
    with pytest.raises(InvalidTransition, match="Abort it first"):
        restarting.restart(plan().pk, stamp=Stamp(SYSTEM, NOW))
    live = attempt_of(claim(agent))
    aborting.abort([plan().pk], stamp=Stamp(SYSTEM, NOW))
    with pytest.raises(InvalidTransition, match="task-1 is still running"):
        restarting.restart(plan().pk, stamp=Stamp(SYSTEM, NOW))
    finishing.finish_attempt(live, Report(), caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)
    restarting.restart(plan().pk, stamp=Stamp(SYSTEM, NOW))
    do(agent, "03-01:task-1")
    do(agent, "03-01:task-2")
    completing.complete_plans(now=NOW)
    with pytest.raises(InvalidTransition, match="nothing to run again"):
        restarting.restart(plan().pk, stamp=Stamp(SYSTEM, NOW))


def test_open_dead_letters_count_as_replayed_by_a_restart(agent: Agent) -> None:
    imported({"max_attempts": 1, "on_exhausted": "dead_letter"}, {"needs": "task-1"})
    fail(agent, attempt_of(claim(agent)), now=NOW)
    aborting.abort([plan().pk], stamp=Stamp(SYSTEM, NOW))
    restarting.restart(plan().pk, stamp=Stamp(SYSTEM, NOW))
    letter = DeadLetter.objects.get()
    assert (letter.closed_as, letter.replayed_as) == ("replayed", task("03-01:task-1"))
    needed = Need.objects.get(task=task("03-01:task-2"))
    assert needed.need == task("03-01:task-1")
    assert list(audit()) == []
