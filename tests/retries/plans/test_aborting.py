"""Plans are aborted, by people and by answers."""

import pytest

from ledger.access.audit import audit
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, DeadLetter, Event
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries import deadletters
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.plans import aborting, restarting
from retries.states import Answer
from tests.factories import NOW
from tests.ledger.plans.test_import_writer import do, imported, states, task
from tests.retries.moves import attempt_of, claim, fail, kinds, make_task
from tests.retries.plans.runs import CHECKPOINT, MARA, plan

pytestmark = pytest.mark.django_db


def test_abort(agent: Agent) -> None:
    """S1.46: partial state kept, no further task begins, questions are withdrawn."""
    imported({}, {}, {"needs": "task-2"}, {"max_attempts": 1}, CHECKPOINT)
    do(agent, "03-01:task-1")
    running = attempt_of(claim(agent, task=task("03-01:task-2").pk))
    fail(agent, attempt_of(claim(agent, task=task("03-01:task-4").pk)), now=NOW)
    assert Escalation.objects.open().count() == 2
    changed = aborting.abort([plan().pk], reason="wrong branch", stamp=Stamp(MARA, NOW))
    assert [each.state for each in changed] == ["aborted"]
    assert states() == {
        "task-1": TaskState.DONE,
        "task-2": TaskState.RUNNING,
        "task-3": TaskState.ABORTED,
        "task-4": TaskState.ABORTED,
        "task-5": TaskState.ABORTED,
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
    assert aborting.abort([plan().pk], stamp=Stamp(SYSTEM, NOW)) == []
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
        stamp=Stamp(MARA, NOW),
        channel="page",
    )
    assert plan().state == "aborted" and set(states().values()) == {TaskState.ABORTED}
    asked.refresh_from_db()
    assert (asked.state, asked.action) == ("resolved", "abort")
    assert kinds(asked.pk) == ["escalation.opened", "escalation.resolved"]


def test_what_an_aborted_plan_gave_up_is_not_replayed(agent: Agent) -> None:
    """None of its tasks may begin before it is restarted; the others of a list are."""
    imported({"max_attempts": 1, "on_exhausted": "dead_letter"}, {})
    fail(agent, attempt_of(claim(agent)), now=NOW)
    other = make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent, task=other)), now=NOW)
    aborting.abort([plan().pk], stamp=Stamp(MARA, NOW))
    letters = DeadLetter.objects.all()
    ids = list(letters.values_list("pk", flat=True))
    done = deadletters.replay(ids, among=letters, stamp=Stamp(MARA, NOW))
    assert [letter.task_id for letter in done] == [other]
    assert DeadLetter.objects.open().get().task == task("03-01:task-1")
    assert states() == {"task-1": TaskState.FAILED, "task-2": TaskState.ABORTED}
    restarting.restart(plan().pk, stamp=Stamp(SYSTEM, NOW))
    assert not DeadLetter.objects.open().exists()
    assert list(audit()) == []
