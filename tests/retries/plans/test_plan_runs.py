"""Plans stopped, started anew and over; checkpoints ask people."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from dashboard.escalations import evidence as escalation_evidence
from dashboard.plans import detail_queries as plan_queries
from dashboard.tasks import detail_queries
from ledger.audit import audit
from ledger.errors import InvalidTransition
from ledger.journal import SYSTEM, Actor
from ledger.models import Agent, DeadLetter, Event, Need, Plan, Task
from ledger.plans import editing as facts
from ledger.states import TaskState
from ledger.tasks import fetch_task
from ledger.tasks.lineage import fetch_lineages
from ledger.tokens import TrustedCaller
from retries import deadletters, in_process, task_actions
from retries.attempts import finishing, heartbeats, questions
from retries.attempts.report_fields import Report
from retries.escalations import answering, expiry
from retries.escalations.answering import HumanRequired
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import Question
from retries.escalations.record import Record, build_facts, render_escalation
from retries.failures import suggestions
from retries.models import Escalation, FailurePattern
from retries.plans import aborting, completing, restarting
from retries.renderings import log_queries, state_queries
from retries.renderings.scope import RenderingScope
from retries.retry_context import history
from retries.states import Answer
from tests.factories import MINUTE, NOW
from tests.ledger.plans.test_import_writer import do, imported, states, task
from tests.retries.attempts.test_questions import ask, withdraw
from tests.retries.test_tasks_flow import attempt_of, claim, fail, kinds, make_task

pytestmark = pytest.mark.django_db
S = TaskState
MARA = Actor("user", "1", "mara")
CHECKPOINT = {"type": "checkpoint:decision", "options": ["a", "b"], "action": "Which one?"}


def plan() -> Plan:
    return Plan.objects.get(ref="03-01")


def answer(action: Answer, words: str = "", *, now: Any = NOW, **more: Any) -> None:
    asked = Escalation.objects.open().get()
    answering.answer(
        asked.pk,
        Choice(action, words),
        among=Escalation.objects.all(),
        actor=MARA,
        channel="page",
        now=now,
        **more,
    )


# ---- stopped


def test_abort(agent: Agent) -> None:
    """S1.46: partial state kept, no further task begins, questions are withdrawn."""
    imported({}, {}, {"needs": "task-2"}, {"max_attempts": 1}, CHECKPOINT)
    do(agent, "03-01:task-1")
    running = attempt_of(claim(agent, task=task("03-01:task-2").pk))
    fail(agent, attempt_of(claim(agent, task=task("03-01:task-4").pk)), now=NOW)
    assert Escalation.objects.open().count() == 2
    changed = aborting.abort([plan().pk], reason="wrong branch", actor=MARA, now=NOW)
    assert [each.state for each in changed] == ["aborted"]
    assert states() == {
        "task-1": S.DONE,
        "task-2": S.RUNNING,
        "task-3": S.ABORTED,
        "task-4": S.ABORTED,
        "task-5": S.ABORTED,
    }
    assert set(Escalation.objects.values_list("state", flat=True)) == {"withdrawn"}
    said = Event.objects.get(kind="plan.aborted")
    assert said.data["reason"] == "wrong branch"
    assert (said.data["aborted"], said.data["running"]) == (3, 1)
    told = finishing.finish_attempt(
        running, Report(), caller=TrustedCaller(SYSTEM, agent=agent), now=NOW
    )
    assert told.decision["decision"] == "aborted"
    assert claim(agent).rows == []
    assert aborting.abort([plan().pk], now=NOW) == []
    assert list(audit()) == []


def test_the_answer_abort_stops_the_whole_plan(agent: Agent) -> None:
    """S1.46"""
    imported({"max_attempts": 1}, {}, CHECKPOINT)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    asked = Escalation.objects.get(task=task("03-01:task-1"))
    answering.answer(
        asked.pk,
        Choice(Answer.ABORT),
        among=Escalation.objects.all(),
        actor=MARA,
        channel="page",
        now=NOW,
    )
    assert plan().state == "aborted" and set(states().values()) == {S.ABORTED}
    asked.refresh_from_db()
    assert (asked.state, asked.action) == ("resolved", "abort")
    assert kinds(asked.pk) == ["escalation.opened", "escalation.resolved"]


# ---- started anew


def test_a_restart_runs_what_is_not_done_from_the_start(agent: Agent) -> None:
    """S1.34"""
    imported({}, {"needs": "task-1"}, {"needs": "task-2"}, ref="03-01")
    imported({"needs": "03-01"}, ref="03-02")
    do(agent, "03-01:task-1")
    fail(agent, attempt_of(claim(agent, task=task("03-01:task-2").pk)), now=NOW)
    aborting.abort([plan().pk], now=NOW)
    old = {row.ref: row for row in Task.objects.filter(plan=plan())}
    again = restarting.restart(plan().pk, now=NOW + MINUTE)
    assert (again.run, again.state) == (2, "active") and again == plan()
    assert states() == {"task-1": S.DONE, "task-2": S.QUEUED, "task-3": S.BLOCKED}
    two = task("03-01:task-2")
    assert (two.run, two.retry_count, two.attempts, two.attempt_limit) == (2, 0, 0, 3)
    assert task("03-01:task-1") == old["03-01:task-1"] and task("03-01:task-1").run == 1
    assert Task.objects.get(pk=old["03-01:task-2"].pk).replaced_by == two
    assert kinds(plan().pk) == ["plan.imported", "plan.aborted", "plan.restarted"]
    assert list(audit()) == []
    do(agent, "03-01:task-2")
    do(agent, "03-01:task-3")
    assert states("03-02") == {"task-1": S.QUEUED}
    assert list(audit()) == []


def test_a_restart_carries_over_what_was_begun_since(agent: Agent) -> None:
    """S1.35: what was begun in the session of that time goes on with its counters."""
    imported({}, {}, {})
    early = fail(agent, attempt_of(claim(agent, task=task("03-01:task-1").pk)), now=NOW)
    assert early["decision"] == "wait"
    later = NOW + MINUTE
    for _ in range(3):
        found = claim(agent, task=task("03-01:task-2").pk, now=later)
        fail(agent, attempt_of(found), now=later, message="late")
    aborting.abort([plan().pk], now=later)
    old = task("03-01:task-2")
    restarting.restart(plan().pk, carry_over=later, now=later)
    one, two, three = (task(f"03-01:task-{n}") for n in (1, 2, 3))
    assert (one.attempts, one.retry_count, three.attempts) == (0, 0, 0)
    assert (two.attempts, two.retry_count, two.attempt_limit) == (3, 3, 4)
    assert two.carries == old and old.failures.count() == 3
    assert fetch_lineages([two.pk, one.pk]) == {two.pk: two.pk, old.pk: two.pk, one.pk: one.pk}
    assert [each.attempt for each in history.load_histories([two.pk])[two.pk].failures] == [
        1,
        2,
        3,
    ]
    found = claim(agent, task=two.pk, now=later)
    assert found.rows[0]["attempt_number"] == 4
    fail(agent, attempt_of(found), now=later + MINUTE, message="later still")
    everywhere(two.pk, old.pk)
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
    """The first task after its plan was stopped and restarted: it goes on with what it was."""
    aborting.abort([plan().pk], now=now)
    restarting.restart(plan().pk, carry_over=NOW, now=now)
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
    aborting.abort([plan().pk], now=NOW + MINUTE)
    live = task("03-01:task-1").current_attempt
    assert live
    progress = {"message": "wrote tests"}
    heartbeats.renew_lease(
        live, caller=TrustedCaller(SYSTEM, agent=agent), progress=progress, now=NOW + MINUTE
    )
    finishing.finish_attempt(
        live, Report(), caller=TrustedCaller(SYSTEM, agent=agent), now=NOW + MINUTE
    )
    restarting.restart(plan().pk, carry_over=NOW, now=NOW + 2 * MINUTE)
    two = carried_over(agent, now=NOW + 3 * MINUTE)
    assert suggestions.list_worked_fixes(pattern.pk) == []
    told = history.render_next_context(fetch_task(two.pk))
    assert "User provided fix: Trim first</instruction>" in told and "wrote tests" in told
    found = claim(agent, task=two.pk, now=NOW + 4 * MINUTE)
    in_process.report_success(attempt_of(found), now=NOW + 5 * MINUTE)
    assert [str(each) for each in suggestions.list_worked_fixes(pattern.pk)] == ["worked 1 of 1"]


def test_a_fix_is_for_the_failure_of_the_run_before(agent: Agent) -> None:
    """What was asked in the run that goes on is about what had failed before it."""
    pattern = failed_once(agent)
    two = carried_over(agent, now=NOW + MINUTE)
    live = attempt_of(claim(agent, task=two.pk, now=NOW + MINUTE))
    asks, caller = Question(text="How?", choices=[]), TrustedCaller(SYSTEM, agent=agent)
    questions.ask(live, asks, caller=caller, now=NOW + MINUTE)
    answer(Answer.FIX, "Trim first", now=NOW + 2 * MINUTE)
    again = attempt_of(claim(agent, task=two.pk, now=NOW + 3 * MINUTE))
    in_process.report_success(again, now=NOW + 4 * MINUTE)
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
    (row,) = plan_queries.list_tasks(plan(), [two.pk])
    assert row.outcomes == ["failure", "failure"] == detail_queries.find_task(two.pk).outcomes
    assert state_queries.compute_stats(about).escalations == 2


def test_a_restart_is_refused_while_anything_is_under_way(agent: Agent) -> None:
    imported({}, {})
    with pytest.raises(InvalidTransition, match="Abort it first"):
        restarting.restart(plan().pk, now=NOW)
    live = attempt_of(claim(agent))
    aborting.abort([plan().pk], now=NOW)
    with pytest.raises(InvalidTransition, match="task-1 is still running"):
        restarting.restart(plan().pk, now=NOW)
    finishing.finish_attempt(live, Report(), caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)
    restarting.restart(plan().pk, now=NOW)
    do(agent, "03-01:task-1")
    do(agent, "03-01:task-2")
    completing.complete_plans(now=NOW)
    with pytest.raises(InvalidTransition, match="nothing to run again"):
        restarting.restart(plan().pk, now=NOW)


def test_open_dead_letters_count_as_replayed_by_a_restart(agent: Agent) -> None:
    imported({"max_attempts": 1, "on_exhausted": "dead_letter"}, {"needs": "task-1"})
    fail(agent, attempt_of(claim(agent)), now=NOW)
    aborting.abort([plan().pk], now=NOW)
    restarting.restart(plan().pk, now=NOW)
    letter = DeadLetter.objects.get()
    assert (letter.closed_as, letter.replayed_as) == ("replayed", task("03-01:task-1"))
    needed = Need.objects.get(task=task("03-01:task-2"))
    assert needed.need == task("03-01:task-1")
    assert list(audit()) == []


# ---- over


def test_a_plan_is_over_when_its_tasks_are_and_a_replay_reopens_it(agent: Agent) -> None:
    imported({"max_attempts": 1, "on_exhausted": "dead_letter"}, {})
    fail(agent, attempt_of(claim(agent)), now=NOW)
    assert completing.complete_plans(now=NOW) == {"completed": 0, "reopened": 0}
    do(agent, "03-01:task-2")
    assert completing.complete_plans(now=NOW) == {"completed": 1, "reopened": 0}
    assert completing.complete_plans(now=NOW) == {"completed": 0, "reopened": 0}
    assert plan().state == "completed"
    letter = DeadLetter.objects.get()
    deadletters.replay([letter.pk], among=DeadLetter.objects.all(), actor=MARA, now=NOW)
    one = task("03-01:task-1")
    assert (one.run, one.replay_of, one.state) == (1, letter.task, S.QUEUED)
    assert facts.count_tasks(plan())["failed"] == 0
    assert completing.complete_plans(now=NOW) == {"completed": 0, "reopened": 1}
    assert plan().state == "active"
    do(agent, "03-01:task-1")
    completing.complete_plans(now=NOW)
    assert kinds(plan().pk) == [
        "plan.imported",
        "plan.completed",
        "plan.updated",
        "plan.completed",
    ]
    assert list(audit()) == []


# ---- checkpoints


def test_a_checkpoint_without_needs_asks_at_once(agent: Agent) -> None:
    imported(CHECKPOINT)
    asked = Escalation.objects.get()
    assert (asked.task, asked.reason, asked.state) == (
        task("03-01:task-1"),
        "agent_question",
        "open",
    )
    assert task("03-01:task-1").payload["options"] == [{"name": "a"}, {"name": "b"}]
    assert claim(agent).rows == []
    assert list(audit()) == []


@pytest.mark.parametrize("end", ["done", "verified", "skip", "answer", "dismiss"])
def test_a_checkpoint_asks_when_its_last_need_is_met(agent: Agent, end: str) -> None:
    """Whoever meets the last need of a checkpoint: it is asked in the same transaction."""
    first: dict[str, Any] = {}
    if end in ("answer", "dismiss"):
        first = {"max_attempts": 1} | ({"on_exhausted": "dead_letter"} if end == "dismiss" else {})
    imported(first, {}, {**CHECKPOINT, "needs": ["task-1", "task-2"]})
    do(agent, "03-01:task-2")
    check = task("03-01:task-3")
    assert check.state == S.BLOCKED and not Escalation.objects.exists()
    if end == "done":
        do(agent, "03-01:task-1")
    elif end == "verified":
        said = Report(exit_code=0, verification={"exit_code": 0})
        live = attempt_of(claim(agent))
        finishing.finish_attempt(live, said, caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)
    elif end == "skip":
        task_actions.skip([task("03-01:task-1").pk], actor=MARA, now=NOW)
    else:
        fail(agent, attempt_of(claim(agent)), now=NOW)
        if end == "answer":
            answer(Answer.SKIP)
        else:
            letters = DeadLetter.objects.all()
            deadletters.dismiss([letters.get().pk], among=letters, actor=MARA, now=NOW)
    asked = Escalation.objects.open().get()
    assert (asked.task_id, asked.reason) == (check.pk, "agent_question")
    assert kinds(check.pk) == ["task.created", "task.escalated"]
    assert task("03-01:task-3").state == S.ESCALATED
    assert list(audit()) == []


def test_a_checkpoint_that_is_replayed_asks_again(agent: Agent) -> None:
    imported(CHECKPOINT)
    Escalation.objects.update(expires_at=NOW, on_expiry="fail")
    expiry.process_due(now=NOW)
    letters = DeadLetter.objects.all()
    replayed = deadletters.replay([letters.get().pk], among=letters, actor=MARA, now=NOW)
    new = Task.objects.get(pk=replayed[0].replayed_as_id)
    assert new.state == S.ESCALATED
    asked = Escalation.objects.open().get()
    assert (asked.task_id, asked.question) == (new.pk, "Which one?")
    assert list(audit()) == []


def test_a_checkpoint_that_is_let_go_on_asks(agent: Agent) -> None:
    imported({}, {**CHECKPOINT, "needs": "task-1"})
    task_actions.skip([task("03-01:task-1").pk], dependents="block", actor=MARA, now=NOW)
    check = task("03-01:task-2")
    assert check.blocked_reason == "dependency_skipped" and not Escalation.objects.exists()
    assert task_actions.unblock([check.pk], actor=MARA, now=NOW) == [check.pk]
    assert Escalation.objects.open().get().task_id == check.pk
    assert kinds(check.pk) == ["task.created", "task.blocked", "task.escalated"]
    assert list(audit()) == []


@pytest.mark.parametrize("needs", [{}, {"needs": "task-1"}])
def test_a_checkpoint_that_is_carried_over_asks_as_its_plan(agent: Agent, needs: Any) -> None:
    """S1.35: the attempts that it carries on make it no question of its agent's."""
    imported(*[{} for _ in needs], {**CHECKPOINT, **needs})
    ref = f"03-01:task-{1 + len(needs)}"
    if needs:
        do(agent, "03-01:task-1")
    answer(Answer.RETRY)
    ask(agent, attempt_of(claim(agent)))
    assert Escalation.objects.open().get().is_of_agent
    aborting.abort([plan().pk], actor=MARA, now=NOW)
    restarting.restart(plan().pk, carry_over=NOW, now=NOW)
    asked = Escalation.objects.open().get()
    assert asked.is_of_checkpoint and not asked.is_of_agent
    assert (asked.task, asked.attempts, asked.attempt_limit) == (task(ref), 1, 3)
    assert "Its plan asks a question." in render_escalation(asked)
    with pytest.raises(HumanRequired):
        withdraw(asked)
    # taken back, the answer finds the task as it was asked about
    answer(Answer.RETRY, undo_for=MINUTE)
    undone = answering.undo(asked.pk, among=Escalation.objects.all(), actor=MARA, now=NOW)
    assert undone.is_open and undone.is_of_checkpoint
    answer(Answer.ANSWER, "a")
    assert task(ref).attempt_limit == 3  # the question has cost none
    assert list(audit()) == []


def test_what_an_aborted_plan_gave_up_is_not_replayed(agent: Agent) -> None:
    """None of its tasks may begin before it is restarted; the others of a list are."""
    imported({"max_attempts": 1, "on_exhausted": "dead_letter"}, {})
    fail(agent, attempt_of(claim(agent)), now=NOW)
    other = make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent, task=other)), now=NOW)
    aborting.abort([plan().pk], actor=MARA, now=NOW)
    letters = DeadLetter.objects.all()
    ids = list(letters.values_list("pk", flat=True))
    done = deadletters.replay(ids, among=letters, actor=MARA, now=NOW)
    assert [letter.task_id for letter in done] == [other]
    assert DeadLetter.objects.open().get().task == task("03-01:task-1")
    assert states() == {"task-1": S.FAILED, "task-2": S.ABORTED}
    restarting.restart(plan().pk, now=NOW)
    assert not DeadLetter.objects.open().exists()
    assert list(audit()) == []


def test_a_checkpoint_that_a_merge_frees_asks_once(agent: Agent) -> None:
    imported({}, {**CHECKPOINT, "needs": "task-1"})
    imported({}, CHECKPOINT, mode="merge")
    assert Escalation.objects.open().get().task == task("03-01:task-2")
    imported({}, {**CHECKPOINT, "needs": "task-1"}, mode="merge")
    assert Escalation.objects.open().count() == 1
    assert list(audit()) == []


def test_a_type_of_a_task_on_its_own_is_only_a_word(agent: Agent) -> None:
    id = make_task(agent, type="checkpoint:decision")
    assert Task.objects.get(pk=id).state == S.QUEUED
