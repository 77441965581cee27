"""What waits for other tasks, while these end, are skipped, replayed and waited for at once."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from ledger.access.audit import audit
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, DeadLetter, Event, Need, Task
from ledger.states import TaskState
from retries import deadletters, in_process
from retries.models import Escalation
from retries.tasks import actions as task_actions
from tests.elsewhere import blocked
from tests.factories import NOW
from tests.retries.moves import attempt_of, claim, fail, kinds, make_task
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)


def settle(verb: Callable[..., Any]) -> Any:
    """Replay or dismiss the one dead letter."""
    letter = DeadLetter.objects.get(closed_at=None)
    return verb([letter.pk], among=DeadLetter.objects.all(), stamp=Stamp(SYSTEM, NOW))


def fail_task(agent: Agent, id: UUID) -> None:
    fail(agent, attempt_of(claim(agent, task=id)), now=NOW)


def needs_of(id: UUID) -> list[UUID]:
    return list(Need.objects.filter(task=id).values_list("need_id", flat=True))


def test_a_need_that_ends_while_it_is_waited_for(agent: Agent, elsewhere: Any) -> None:
    """Its end began before the dependent was there, and frees it all the same."""
    need = make_task(agent)
    attempt = attempt_of(claim(agent))
    with transaction.atomic():
        waits = make_task(agent, needs=[need])
        ended = elsewhere(lambda: in_process.report_success(attempt, stamp=Stamp(SYSTEM, NOW)))
        with blocked(ended):
            pass
    assert ended.result(PATIENCE_S).decision["decision"] == "done"
    task = Task.objects.get(pk=waits)
    assert (task.state, task.unmet) == (TaskState.QUEUED, 0)
    assert list(audit()) == []


@pytest.mark.parametrize("verb", [task_actions.skip, deadletters.dismiss])
def test_a_need_that_is_given_up_while_it_is_waited_for(
    agent: Agent, elsewhere: Any, verb: Callable[..., Any]
) -> None:
    need = make_task(agent, max_attempts=1)
    if verb is deadletters.dismiss:
        fail_task(agent, need)

    def give_up() -> Any:
        return (
            settle(verb) if verb is deadletters.dismiss else verb([need], stamp=Stamp(SYSTEM, NOW))
        )

    with transaction.atomic():
        waits = make_task(agent, needs=[need])
        given_up = elsewhere(give_up)
        with blocked(given_up):
            pass
    assert len(given_up.result(PATIENCE_S)) == 1
    assert Task.objects.get(pk=waits).state == TaskState.QUEUED


def test_who_comes_while_a_need_ends_finds_it_met(agent: Agent, elsewhere: Any) -> None:
    need = make_task(agent)
    attempt = attempt_of(claim(agent))
    with transaction.atomic():
        in_process.report_success(attempt, stamp=Stamp(SYSTEM, NOW))
        made = elsewhere(lambda: make_task(agent, needs=[need]))
        with blocked(made):
            pass
    assert Task.objects.get(pk=made.result(PATIENCE_S)).state == TaskState.QUEUED


def test_what_was_replaced_is_waited_for_in_its_replacement(agent: Agent) -> None:
    old = make_task(agent, max_attempts=1)
    fail_task(agent, old)
    middle = settle(deadletters.replay)[0].replayed_as_id
    fail_task(agent, middle)
    newest = settle(deadletters.replay)[0].replayed_as_id
    waits = make_task(agent, needs=[old, middle])
    assert needs_of(waits) == [newest]
    in_process.report_success(attempt_of(claim(agent, task=newest)), stamp=Stamp(SYSTEM, NOW))
    assert Task.objects.get(pk=waits).state == TaskState.QUEUED
    assert Task.objects.get(pk=make_task(agent, needs=[old])).state == TaskState.QUEUED


def test_a_replay_meets_an_enqueue_that_needs_the_old_one(agent: Agent, elsewhere: Any) -> None:
    """Whichever is first, the dependent waits for the new one."""
    old = make_task(agent, max_attempts=1)
    fail_task(agent, old)
    with transaction.atomic():
        before = make_task(agent, needs=[old])
        replayed = elsewhere(lambda: settle(deadletters.replay))
        with blocked(replayed):
            pass
    middle = replayed.result(PATIENCE_S)[0].replayed_as_id
    assert needs_of(before) == [middle]
    fail_task(agent, middle)
    with transaction.atomic():
        newest = settle(deadletters.replay)[0].replayed_as_id
        after = elsewhere(lambda: make_task(agent, needs=[old]))
        with blocked(after):
            pass
    assert needs_of(after.result(PATIENCE_S)) == needs_of(before) == [newest]
    in_process.report_success(attempt_of(claim(agent, task=newest)), stamp=Stamp(SYSTEM, NOW))
    assert set(Task.objects.exclude(state__in=["failed", "done"]).values_list("state")) == {
        (TaskState.QUEUED,)
    }


def test_the_journal_says_what_freed_a_task(agent: Agent) -> None:
    one, two = make_task(agent), make_task(agent)
    waits = make_task(agent, needs=[one])
    makes_do = make_task(agent, needs=[one, two])
    in_process.report_success(attempt_of(claim(agent, task=one)), stamp=Stamp(SYSTEM, NOW))
    task_actions.skip([two], stamp=Stamp(SYSTEM, NOW))
    freed = Event.objects.filter(kind="task.unblocked").values_list("subject_id", "data")
    assert dict(freed) == {
        waits: {"reason": "dependency", "need": str(one)},
        makes_do: {"reason": "dependency", "need": str(two), "without": [str(two)]},
    }


@pytest.mark.parametrize("verb", [task_actions.abort, task_actions.skip])
def test_a_person_who_ends_a_task_waits_for_an_answer_without_its_task(
    agent: Agent, elsewhere: Any, verb: Callable[..., Any]
) -> None:
    """Both take the question before its task, so neither can hold what the other waits for."""
    id = make_task(agent, max_attempts=1, on_exhausted="escalate")
    fail_task(agent, id)
    with transaction.atomic():
        Escalation.objects.select_for_update().get()
        ended = elsewhere(lambda: verb([id], stamp=Stamp(SYSTEM, NOW)))
        with blocked(ended):
            Task.objects.select_for_update(nowait=True).get(pk=id)
    assert id in ended.result(PATIENCE_S)
    assert Escalation.objects.get().state == "withdrawn"


def test_a_replay_leaves_the_needs_of_finished_dependents(agent: Agent) -> None:
    """They are history: only tasks that still wait for the old task wait for the new one."""
    need = make_task(agent, max_attempts=1)
    over, waits = make_task(agent, needs=[need]), make_task(agent, needs=[need])
    fail_task(agent, need)
    task_actions.skip([over], stamp=Stamp(SYSTEM, NOW))
    version = Task.objects.get(pk=need).version
    replayed = settle(deadletters.replay)[0].replayed_as_id
    assert (needs_of(over), needs_of(waits)) == ([need], [replayed])
    old, new = Task.objects.get(pk=need), Task.objects.get(pk=replayed)
    assert (old.replaced_by_id, old.version, old.needed_by) == (replayed, version + 1, 1)
    assert (new.replay_of_id, new.needed_by) == (need, 1)
    assert list(audit()) == []


def test_dependents_wait_and_go_on(agent: Agent) -> None:
    one, two = make_task(agent), make_task(agent)
    third = make_task(agent, needs=[one, two])
    assert Task.objects.get(pk=third).blocked_reason == "dependency"
    in_process.report_success(attempt_of(claim(agent, task=one)), stamp=Stamp(SYSTEM, NOW))
    assert Task.objects.get(pk=third).unmet == 1
    in_process.report_success(attempt_of(claim(agent, task=two)), stamp=Stamp(SYSTEM, NOW))
    task = Task.objects.get(pk=third)
    assert (task.state, task.unmet) == (TaskState.QUEUED, 0)
    assert kinds(third) == ["task.created", "task.unblocked"]
