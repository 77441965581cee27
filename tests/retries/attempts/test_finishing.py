"""Reports end attempts: done, retried, failed or escalated."""

from datetime import timedelta

import pytest

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Attempt, DeadLetter, Event, Failure, Task
from ledger.states import TaskState
from retries import in_process
from retries.attempts.finishing import AlreadyReported
from retries.models import Escalation
from tests.factories import MINUTE, NOW
from tests.retries.moves import attempt_of, claim, fail, kinds, make_task

pytestmark = pytest.mark.django_db
S = TaskState
SECOND = timedelta(seconds=1)


def test_done(agent: Agent) -> None:
    """S3.10, S3.14, S3.17"""
    id = make_task(agent)
    found = claim(agent, worker_id="w1")
    assert found.rows[0]["state"] == S.RUNNING
    told = in_process.report_success(
        attempt_of(found), {"branch": "x"}, stamp=Stamp(SYSTEM, NOW + SECOND)
    )
    assert told.decision["decision"] == "done" and told.decision["reason"] == "reported"
    task = Task.objects.get(pk=id)
    assert (task.state, task.result, task.completed_at) == (S.DONE, {"branch": "x"}, NOW + SECOND)
    assert task.started_at == NOW and task.current_attempt is None
    assert Attempt.objects.get().outcome == "success"
    assert kinds(id) == ["task.created", "task.claimed", "task.completed"]


def test_dead_letter_queue(agent: Agent) -> None:
    """S3.7, S3.12, S3.15, S3.20: max 2, the second failure buries it."""
    id = make_task(agent, max_attempts=2)
    first = fail(agent, attempt_of(claim(agent)), now=NOW)
    assert first["decision"] == "wait" and first["reason"] == "attempts_left"
    task = Task.objects.get(pk=id)
    assert (task.state, task.retry_count, task.error) == (S.RETRY, 1, "it broke")
    assert 0.05 <= first["delay_s"] <= 0.15
    assert claim(agent).reason == "no_task"
    assert claim(agent).next_due_at == task.due_at
    later = NOW + SECOND
    second = fail(agent, attempt_of(claim(agent, now=later)), now=later, message="again")
    assert (second["decision"], second["reason"]) == ("failed", "max_retries_exceeded")
    task.refresh_from_db()
    assert (task.state, task.retry_count) == (S.FAILED, 2)
    letter = DeadLetter.objects.get()
    assert (letter.task_id, letter.error, letter.retry_count) == (id, "again", 2)
    assert [f.message for f in Failure.objects.order_by("id")] == ["it broke", "again"]


def test_a_repeated_report_gets_the_same_answer_and_a_different_one_is_refused(
    agent: Agent,
) -> None:
    make_task(agent)
    attempt = attempt_of(claim(agent))
    first = fail(agent, attempt, now=NOW)
    assert fail(agent, attempt, now=NOW + MINUTE)["reason"] == first["reason"]
    with pytest.raises(AlreadyReported):
        fail(agent, attempt, now=NOW, message="something else")
    assert Failure.objects.count() == 1


def test_an_escalation_follows_its_task_in_the_journal(agent: Agent) -> None:
    make_task(agent, max_attempts=1, on_exhausted="escalate")
    decision = fail(agent, attempt_of(claim(agent)), now=NOW)
    kinds_written = ["task.escalated", "escalation.opened"]
    events = Event.objects.filter(kind__in=kinds_written).order_by("id")
    assert list(events.values_list("kind", flat=True)) == kinds_written
    escalation = Escalation.objects.get()
    assert decision["escalation"] == {"id": str(escalation.pk)}
    assert Attempt.objects.get().decision["escalation"] == {"id": str(escalation.pk)}
