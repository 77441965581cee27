"""The history that is loaded for an attempt, and the number of queries it takes."""

from typing import Any
from uuid import UUID

import pytest
from pytest_django import DjangoAssertNumQueries

from ledger import tasks
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Task
from ledger.states import FailureType
from ledger.tokens import TrustedCaller
from retries import claims
from retries.attempts import finishing, heartbeats, questions, releases
from retries.attempts.report_fields import Report
from retries.escalations import answering, lifecycle
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import Question
from retries.escalations.record import render_escalation
from retries.models import Escalation
from retries.retry_context import history
from retries.retry_context.block import render_retry_context
from retries.states import Answer
from tests.factories import MINUTE, NOW

pytestmark = pytest.mark.django_db
MARA = Actor("user", "1", "mara")


def work(agent: Agent, *, now: Any = NOW, **said: Any) -> UUID:
    """Claim the agent's next task and report how it went; the task's id."""
    row = claims.claim(TrustedCaller(SYSTEM, agent=agent), now=now).rows[0]
    said = {"status": "failure", "type": FailureType.VERIFICATION_FAILED, **said}
    report = Report(**said)
    finishing.finish_attempt(
        row["attempt_id"], report, caller=TrustedCaller(SYSTEM, agent=agent), now=now
    )
    id: UUID = row["id"]
    return id


def exhausted(agent: Agent, attempts: int = 3) -> UUID:
    """A task that a person is asked about, after so many failures."""
    backoff = tasks.Backoff(base_delay_ms=0)
    id = tasks.enqueue(
        agent, "code", max_attempts=attempts, on_exhausted="escalate", backoff=backoff, now=NOW
    )
    for n in range(1, attempts + 1):
        work(agent, message=f"failure {n}")
    return id


def settle(id: UUID, action: Answer, fix: str = "") -> None:
    answering.answer(
        Escalation.objects.open().get(task_id=id).pk,
        Choice(action, fix=fix),
        among=Escalation.objects.all(),
        stamp=Stamp(MARA, NOW + MINUTE),
        channel="api",
    )


def told(id: UUID, **more: Any) -> str:
    row = Task.objects.filter(pk=id).values().get()
    return history.render_next_context(row, **more)


def test_a_fix_that_did_not_help_is_told_with_the_next_answer(agent: Agent) -> None:
    """RTY-10"""
    error = "ModuleNotFoundError: No module named 'polars'"
    id = exhausted(agent)
    for n, fix in enumerate(("Trim the id first.", "Run pip install polars."), 2):
        settle(id, Answer.FIX, fix)
        work(agent, message=error, now=NOW + n * MINUTE)
    tried = "A person's fix for attempt 5 was: \u201cRun pip install polars.\u201d, and it did not help."
    assert tried in told(id)
    settle(id, Answer.FIX, "Then use pip3.")
    block = told(id)
    assert tried in block and "User provided fix: Then use pip3." in block


def test_a_fix_reaches_the_attempt_that_it_grants(agent: Agent) -> None:
    """S1.47, S1.49: attempt 4 of 4, with all three failures before it."""
    id = exhausted(agent)
    assert "user_intervention" not in told(id)
    settle(id, Answer.FIX, "Trim the id first.")
    block = told(id)
    assert '<retry_context attempt="4" max_attempts="4">' in block
    assert "User provided fix: Trim the id first.</instruction>" in block
    assert [f'<failure attempt="{n}">' in block for n in (1, 2, 3, 4)] == [True] * 3 + [False]
    # given back, it is another number, and the person's words stand
    row = claims.claim(TrustedCaller(SYSTEM, agent=agent), now=NOW + MINUTE).rows[0]
    releases.release(row["attempt_id"], caller=TrustedCaller(SYSTEM, agent=agent), now=NOW + MINUTE)
    assert 'attempt="5" max_attempts="5"' in told(id) and "Trim the id first." in told(id)


def test_a_fix_is_valid_until_the_next_escalation(agent: Agent) -> None:
    id = exhausted(agent)
    settle(id, Answer.FIX, "Trim the id first.")
    work(agent, now=NOW + MINUTE, message="failure 4")
    assert "user_intervention" not in told(id)  # it was tried: a person is asked again
    settle(id, Answer.RETRY)
    block = told(id)
    assert 'attempt="5" max_attempts="7"' in block and "user_intervention" not in block
    assert [f"failure {n}" in block for n in range(1, 5)] == [True] * 4


@pytest.mark.parametrize("answer", [Answer.RETRY, Answer.FIX])
def test_a_cleared_blocker_is_told_to_the_next_attempt(agent: Agent, answer: Answer) -> None:
    """RTY-5: another worker can check it; a person reads it in the history of attempts."""
    id = tasks.enqueue(agent, "code", now=NOW)
    blocked = "I need the database password rotated"
    work(agent, status="blocked", message=blocked)
    (asked,) = Escalation.objects.open()
    assert f" | blocked | {blocked} |\n" in render_escalation(asked)
    settle(id, answer, "It is rotated." if answer == Answer.FIX else "")
    block = told(id)
    assert "Attempt 1 was blocked, and a person has cleared the blocker." in block
    assert f'<blocker attempt="1" trust="agent">{blocked}</blocker>' in block
    assert "previous_failures" not in block and "Review" not in block
    work(agent, now=NOW + MINUTE, message="failure 1")
    assert blocked in told(id)  # later attempts know it, too


def test_a_withdrawn_question_changes_nothing(agent: Agent) -> None:
    id = exhausted(agent)
    settle(id, Answer.FIX, "Trim the id first.")
    row = Task.objects.filter(pk=id).values().get()
    lifecycle.open_for_task(row, "impossible", stamp=Stamp(SYSTEM, NOW, ""))
    assert "Trim" not in told(id)
    lifecycle.withdraw([id], stamp=Stamp(SYSTEM, NOW))
    assert "Trim" in told(id)


def ask(agent: Agent, text: str) -> UUID:
    """The agent's next task asks a person this; the task's id."""
    caller = TrustedCaller(SYSTEM, agent=agent)
    row = claims.claim(caller, now=NOW + MINUTE).rows[0]
    question = Question(text=text, choices=[])
    questions.ask(row["attempt_id"], question, caller=caller, now=NOW + MINUTE)
    id: UUID = row["id"]
    return id


def test_a_second_answer_does_not_erase_the_first(agent: Agent) -> None:
    """S1.47: what a person said stands until they say otherwise; each answer has its question."""
    id = exhausted(agent)
    settle(id, Answer.FIX, "Trim the id first.")
    for n in (1, 2):
        ask(agent, f"Which {n}?")
        settle(id, Answer.ANSWER, f"Take {n}.")
    block = told(id)
    said = ["fix: Trim the id first.</", "answered: Take 1.</", "answered: Take 2.</"]
    places = [block.index(each) for each in said]
    assert places == sorted(places)
    assert '<question number="2" trust="agent">Which 1?</question>' in block
    assert '<question number="3" trust="agent">Which 2?</question>' in block
    # an answer that never came takes nothing back
    ask(agent, "Sure?")
    Escalation.objects.open().update(state="expired", closed_at=NOW)
    assert all(each in told(id) for each in said)
    Task.objects.filter(pk=id).update(state="queued", attempt_limit=9)
    ask(agent, "Still?")
    assert all(each in told(id) for each in said)
    settle(id, Answer.RETRY)
    assert "user_intervention" not in told(id)


def test_the_block_can_be_previewed_with_a_fix(agent: Agent) -> None:
    """Rendered by the server's own renderer, as it will be told."""
    id = exhausted(agent)
    shown = told(id, fix="Trim <b>first</b>.")
    assert 'attempt="4" max_attempts="4"' in shown and "Trim &lt;b&gt;first" in shown
    settle(id, Answer.FIX, "Trim <b>first</b>.")
    assert told(id) == shown


def test_the_block_has_the_progress_of_the_previous_attempt(agent: Agent) -> None:
    id = tasks.enqueue(agent, "code", backoff=tasks.Backoff(base_delay_ms=0), now=NOW)
    row = claims.claim(TrustedCaller(SYSTEM, agent=agent), now=NOW).rows[0]
    caller = TrustedCaller(SYSTEM, agent=agent)
    said = {"message": "wrote tests", "percent": 40}
    heartbeats.renew_lease(row["attempt_id"], caller=caller, progress=said, now=NOW)
    finishing.finish_attempt(row["attempt_id"], Report(status="failure"), caller=caller, now=NOW)
    assert "wrote tests (40 %)</last_progress>" in told(id)


def test_many_tasks_take_as_many_queries_as_one(
    agent: Agent, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ids = [exhausted(agent, attempts=2) for _ in range(5)]
    with django_assert_num_queries(3):
        found = history.load_histories(ids)
    assert all(len(found[id].failures) == 2 for id in ids)
    assert [each.attempt for each in found[ids[0]].failures] == [1, 2]
    block = render_retry_context(found[ids[3]], attempt=3, max_attempts=3)
    assert block == told(ids[3])
    with django_assert_num_queries(0):
        assert history.load_histories([]) == {}


def test_a_first_attempt_costs_no_further_query(
    agent: Agent, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    id = tasks.enqueue(agent, "code", now=NOW)
    row = Task.objects.filter(pk=id).values().get()
    with django_assert_num_queries(0):
        assert history.render_next_context(row) == ""
