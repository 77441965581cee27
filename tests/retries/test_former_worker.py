"""What a person has answered is offered first to the worker that had it last (api.md §4.5)."""

from typing import Any
from uuid import UUID

import pytest

from ledger.journal import SYSTEM
from ledger.models import Agent, Plan, Task
from ledger.tokens import TrustedCaller
from retries import sweeps
from retries.attempts import finishing, questions, releases
from retries.attempts.report_fields import Report
from retries.claims import ClaimResult
from retries.escalations.lifecycle import Question
from retries.models import Escalation
from tests.factories import NOW, make_agent
from tests.ledger.plans.test_import_writer import imported
from tests.retries.escalations.test_task_effects import (
    LATER,
    UNDO,
    about,
    answer,
    attempt_of,
    claim,
    make_task,
    undo,
)

pytestmark = pytest.mark.django_db


def given_up(agent: Agent, *, worker_id: str = "ci-7", **more: Any) -> Escalation:
    """The question about a task that this worker has failed at."""
    id = make_task(agent, max_attempts=1, on_exhausted="escalate", **more)
    attempt = attempt_of(claim(agent, task=id, worker_id=worker_id))
    finishing.finish_attempt(
        attempt, Report(status="failure"), caller=TrustedCaller(SYSTEM, agent=agent), now=NOW
    )
    return about(id)


def asked(agent: Agent) -> Escalation:
    """The question that a worker asked itself."""
    id = make_task(agent)
    attempt = attempt_of(claim(agent, task=id, worker_id="ci-7"))
    question = Question(text="Which table?", choices=[])
    return questions.ask(attempt, question, caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)


def got(found: ClaimResult) -> list[UUID]:
    return [row["id"] for row in found.rows]


@pytest.mark.parametrize(
    ("make", "action", "words"),
    [(given_up, "retry", ""), (given_up, "fix", "Trim first"), (asked, "answer", "orders")],
)
def test_it_goes_before_all_that_waits(agent: Agent, make: Any, action: str, words: str) -> None:
    question = make(agent)
    urgent = [make_task(agent, priority=9) for _ in range(2)]
    answer(question, action, words)
    assert got(claim(agent, now=LATER, worker_id="ci-9")) == [urgent[0]]
    assert got(claim(agent, now=LATER, worker_id="ci-7")) == [question.task_id]
    assert got(claim(agent, now=LATER, worker_id="ci-8")) == [urgent[1]]


def test_nobody_waits_for_its_worker(agent: Agent) -> None:
    question = given_up(agent)
    answer(question, "retry")
    other = make_task(agent)
    assert got(claim(agent, now=LATER, worker_id="ci-9")) == [question.task_id]
    assert got(claim(agent, now=LATER, worker_id="ci-7")) == [other]


def test_an_answer_of_the_page_is_offered_when_it_can_no_more_be_undone(agent: Agent) -> None:
    question = given_up(agent)
    done = answer(question, "retry", undo_for=UNDO)
    urgent = [make_task(agent, priority=9) for _ in range(3)]
    assert got(claim(agent, now=LATER, worker_id="ci-7", resume=False)) == [urgent[0]]
    found = claim(agent, now=LATER + UNDO, worker_id="ci-7", resume=False)
    assert got(found) == [question.task_id]
    other = given_up(agent, worker_id="ci-8")
    undo(answer(other, "retry", undo_for=UNDO))
    assert got(claim(agent, now=LATER + UNDO, worker_id="ci-8")) == [urgent[1]]
    assert Escalation.objects.get(pk=other.pk).offered_to is None
    assert Escalation.objects.get(pk=done.pk).offered_to == "ci-7"


def test_with_several_at_once_it_is_among_them_and_once(agent: Agent) -> None:
    """Also where it is at the head of the queue itself."""
    answer(question := given_up(agent), "retry")
    others = [make_task(agent, priority=p) for p in (3, 2, 1)]
    found = claim(agent, now=LATER, worker_id="ci-7", limit=3)
    assert sorted(got(found)) == sorted([question.task_id, *others[:2]])
    answer(question := given_up(agent, priority=5), "retry")
    found = claim(agent, now=LATER, worker_id="ci-7", limit=3)
    assert sorted(got(found)) == sorted([question.task_id, others[2]])


def test_an_offer_is_over_when_anybody_has_begun_it(agent: Agent) -> None:
    """Given back by its new worker it is one task among others, and the clock forgets the offer."""
    question = given_up(agent)
    answer(question, "retry")
    taken = attempt_of(claim(agent, now=LATER, worker_id="ci-9"))
    urgent = make_task(agent, priority=9)
    releases.release(taken, caller=TrustedCaller(SYSTEM, agent=agent), reason="shutdown", now=LATER)
    assert Task.objects.get(pk=question.task_id).state == "queued"
    assert got(claim(agent, now=LATER, worker_id="ci-7")) == [urgent]
    assert sweeps.run("escalations", now=LATER)["offers_over"] == 1
    assert sweeps.run("escalations", now=LATER)["offers_over"] == 0
    assert Escalation.objects.get().offered_to is None


def test_the_clock_keeps_what_still_waits(agent: Agent) -> None:
    answer(question := given_up(agent), "retry")
    assert sweeps.run("escalations", now=LATER)["offers_over"] == 0
    make_task(agent, priority=9)
    assert got(claim(agent, now=LATER, worker_id="ci-7")) == [question.task_id]


def test_the_same_gates_hold_it(agent: Agent) -> None:
    """A paused plan, a paused agent; a worker of that name of another agent gets nothing."""
    imported({"max_attempts": 1})
    made = Task.objects.get()
    attempt = attempt_of(claim(agent, worker_id="ci-7"))
    finishing.finish_attempt(
        attempt, Report(status="failure"), caller=TrustedCaller(SYSTEM, agent=agent), now=NOW
    )
    answer(about(made.pk), "retry")
    assert claim(make_agent("other"), now=LATER, worker_id="ci-7").rows == []
    Plan.objects.update(paused_at=NOW)
    assert claim(agent, now=LATER, worker_id="ci-7").reason == "plan_paused"
    Plan.objects.update(paused_at=None)
    Agent.objects.update(paused=True)
    assert claim(agent, now=LATER, worker_id="ci-7").reason == "agent_paused"
    Agent.objects.update(paused=False)
    assert got(claim(agent, now=LATER, worker_id="ci-7")) == [made.pk]
