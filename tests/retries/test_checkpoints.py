"""Checkpoints of plans ask a person once their needs are met."""

from typing import Any

import pytest

from ledger.access.audit import audit
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, DeadLetter, Task
from ledger.states import TaskState
from ledger.tasks import Change
from ledger.tokens import TrustedCaller
from retries import breaker_actions, claims, deadletters
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.escalations import answering, expiry
from retries.escalations.answering import HumanRequired
from retries.escalations.record import render_escalation
from retries.models import Escalation
from retries.plans import aborting, restarting
from retries.states import Answer
from retries.tasks import actions as task_actions
from tests.factories import MINUTE, NOW
from tests.ledger.plans.test_import_writer import do, imported, task
from tests.retries.attempts.test_questions import ask, withdraw
from tests.retries.moves import attempt_of, claim, fail, kinds, make_task
from tests.retries.plans.runs import CHECKPOINT, MARA, answer, plan

pytestmark = pytest.mark.django_db
ONE, TWO = {"ref": "task-1"}, {"ref": "task-2"}


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
    """The transaction that meets the last need of a checkpoint asks its question."""
    first: dict[str, Any] = {}
    if end in ("answer", "dismiss"):
        first = {"max_attempts": 1} | ({"on_exhausted": "dead_letter"} if end == "dismiss" else {})
    imported(first, {}, {**CHECKPOINT, "needs": ["task-1", "task-2"]})
    do(agent, "03-01:task-2")
    check = task("03-01:task-3")
    assert check.state == TaskState.BLOCKED and not Escalation.objects.exists()
    if end == "done":
        do(agent, "03-01:task-1")
    elif end == "verified":
        said = Report(exit_code=0, verification={"exit_code": 0})
        live = attempt_of(claim(agent))
        finishing.finish_attempt(live, said, caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)
    elif end == "skip":
        task_actions.skip([task("03-01:task-1").pk], stamp=Stamp(MARA, NOW))
    else:
        fail(agent, attempt_of(claim(agent)), now=NOW)
        if end == "answer":
            answer(Answer.SKIP)
        else:
            letters = DeadLetter.objects.all()
            deadletters.dismiss([letters.get().pk], among=letters, stamp=Stamp(MARA, NOW))
    asked = Escalation.objects.open().get()
    assert (asked.task_id, asked.reason) == (check.pk, "agent_question")
    assert kinds(check.pk) == ["task.created", "task.escalated"]
    assert task("03-01:task-3").state == TaskState.ESCALATED
    assert list(audit()) == []


def test_a_checkpoint_that_is_replayed_asks_again(agent: Agent) -> None:
    imported(CHECKPOINT)
    Escalation.objects.update(expires_at=NOW, on_expiry="fail")
    expiry.process_due(now=NOW)
    letters = DeadLetter.objects.all()
    replayed = deadletters.replay([letters.get().pk], among=letters, stamp=Stamp(MARA, NOW))
    new = Task.objects.get(pk=replayed[0].replayed_as_id)
    assert new.state == TaskState.ESCALATED
    asked = Escalation.objects.open().get()
    assert (asked.task_id, asked.question) == (new.pk, "Which one?")
    assert list(audit()) == []


def test_a_checkpoint_that_is_let_go_on_asks(agent: Agent) -> None:
    imported({}, {**CHECKPOINT, "needs": "task-1"})
    task_actions.skip([task("03-01:task-1").pk], dependents="block", stamp=Stamp(MARA, NOW))
    check = task("03-01:task-2")
    assert check.blocked_reason == "dependency_skipped" and not Escalation.objects.exists()
    assert task_actions.unblock([check.pk], stamp=Stamp(MARA, NOW)) == [check.pk]
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
    aborting.abort([plan().pk], stamp=Stamp(MARA, NOW))
    restarting.restart(plan().pk, carry_over=NOW, stamp=Stamp(SYSTEM, NOW))
    asked = Escalation.objects.open().get()
    assert asked.is_of_checkpoint and not asked.is_of_agent
    assert (asked.task, asked.attempts, asked.attempt_limit) == (task(ref), 1, 3)
    assert "Its plan asks a question." in render_escalation(asked)
    with pytest.raises(HumanRequired):
        withdraw(asked)
    # taken back, the answer finds the task as it was asked about
    answer(Answer.RETRY, undo_for=MINUTE)
    undone = answering.undo(asked.pk, among=Escalation.objects.all(), stamp=Stamp(MARA, NOW))
    assert undone.is_open and undone.is_of_checkpoint
    answer(Answer.ANSWER, "a")
    assert task(ref).attempt_limit == 3  # the question has cost none
    assert list(audit()) == []


def test_a_checkpoint_that_a_merge_frees_asks_once(agent: Agent) -> None:
    imported(ONE, {**TWO, **CHECKPOINT, "needs": "task-1"})
    imported(ONE, {**TWO, **CHECKPOINT}, mode="merge")
    assert Escalation.objects.open().get().task == task("03-01:task-2")
    imported(ONE, {**TWO, **CHECKPOINT, "needs": "task-1"}, mode="merge")
    assert Escalation.objects.open().count() == 1
    assert list(audit()) == []


@pytest.mark.parametrize("reason", ["queued", "dependency", "breaker_open"])
def test_a_task_that_a_merge_turns_into_a_checkpoint_asks(agent: Agent, reason: str) -> None:
    """No agent gets it before a person has answered."""
    rest: list[Any] = [TWO] if reason == "dependency" else []
    imported(ONE, *rest)
    id = task("03-01:task-1").pk
    if reason == "breaker_open":
        breaker_actions.trip([agent], reason="Look", stamp=Stamp(MARA, NOW))
        assert claim(agent, task=id).reason == "breaker_open"
        assert task("03-01:task-1").blocked_reason == "breaker_open"
    needs = {"needs": "task-2"} if rest else {}
    done = imported({**ONE, **CHECKPOINT, **needs}, *rest, mode="merge")
    assert "type" in done.diff.changed["03-01:task-1"]
    breaker_actions.reset([agent], stamp=Stamp(MARA, NOW))
    assert claims.unblock_tasks(stamp=Stamp(SYSTEM, NOW)) == 0
    if rest:
        assert task("03-01:task-1").blocked_reason == "dependency"
        assert not Escalation.objects.exists()
        do(agent, "03-01:task-2")
    asked = Escalation.objects.get()
    assert (asked.task_id, asked.reason, asked.question) == (id, "agent_question", "Which one?")
    assert task("03-01:task-1").state == TaskState.ESCALATED and claim(agent).rows == []
    assert kinds(id)[-2:] == ["task.blocked", "task.escalated"]
    assert list(audit()) == []
    answer(Answer.ANSWER, "a")
    assert claim(agent).rows[0]["id"] == id


def test_a_dry_run_shows_that_a_task_becomes_a_checkpoint(agent: Agent) -> None:
    imported(ONE)
    done = imported({**ONE, **CHECKPOINT}, mode="merge", dry_run=True)
    assert done.tasks[0]["state"] == TaskState.ESCALATED
    assert task("03-01:task-1").state == TaskState.QUEUED and not Escalation.objects.exists()


def test_a_merge_leaves_an_open_question_and_asks_no_answered_one_again(agent: Agent) -> None:
    imported({**ONE, **CHECKPOINT})
    done = imported(ONE, mode="merge")
    assert done.diff.untouched == ["03-01:task-1"]
    assert task("03-01:task-1").type == CHECKPOINT["type"]
    answer(Answer.ANSWER, "a")
    imported({**ONE, **CHECKPOINT, "type": "checkpoint:human-action"}, mode="merge")
    assert task("03-01:task-1").state == TaskState.QUEUED
    assert not Escalation.objects.open().exists()
    assert list(audit()) == []


def test_a_checkpoint_that_a_merge_turns_into_a_task_asks_nobody(agent: Agent) -> None:
    imported(ONE, {**TWO, **CHECKPOINT, "needs": "task-1"})
    imported(ONE, {**TWO, "needs": "task-1"}, mode="merge")
    do(agent, "03-01:task-1")
    assert task("03-01:task-2").state == TaskState.QUEUED and not Escalation.objects.exists()
    assert list(audit()) == []


def test_a_checkpoint_keeps_an_attempt_for_its_answer(agent: Agent) -> None:
    """It carries on an attempt, its question costs none, and its budget is lowered meanwhile."""
    imported(CHECKPOINT)
    answer(Answer.RETRY)
    ask(agent, attempt_of(claim(agent)))
    aborting.abort([plan().pk], stamp=Stamp(MARA, NOW))
    restarting.restart(plan().pk, carry_over=NOW, stamp=Stamp(SYSTEM, NOW))
    row = task("03-01:task-1")
    change = Change(max_attempts=1)
    task_actions.change(row.pk, change, version=row.version, stamp=Stamp(MARA, NOW))
    row.refresh_from_db()
    assert (row.state, row.attempts, row.attempt_limit) == (TaskState.ESCALATED, 1, 1)
    answer(Answer.ANSWER, "a")
    assert claim(agent).rows[0]["attempt_limit"] == 2


def test_a_type_of_a_task_on_its_own_is_only_a_word(agent: Agent) -> None:
    id = make_task(agent, type="checkpoint:decision")
    assert Task.objects.get(pk=id).state == TaskState.QUEUED
