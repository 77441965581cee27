"""How people ignore, resolve, reopen and retry patterns (S1.12–S1.14)."""

from typing import Any

import pytest
from django.db import transaction

from ledger.errors import Invalid
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, DeadLetter, Task
from ledger.states import TaskState, Who
from ledger.tasks import Backoff
from ledger.tokens import TrustedCaller
from retries import deadletters
from retries.attempts import questions
from retries.escalations.lifecycle import Question
from retries.failures import patterns
from retries.failures.stuck_tasks import stuck_tasks
from retries.models import Escalation, FailurePattern
from retries.states import PATTERN_MOVES, Answer, PatternState, allowed_pattern_moves
from tests.elsewhere import blocked
from tests.factories import MINUTE, NOW
from tests.retries.failures.test_grouping import MARA, S, broken, kinds, only
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db


def test_a_past_time_is_refused(agent: Agent) -> None:
    broken(agent)
    with pytest.raises(Invalid, match="in the future"):
        patterns.ignore([only().pk], until=NOW, stamp=Stamp(MARA, NOW))
    assert only().state == S.OPEN and not kinds()


@pytest.mark.parametrize("state", S)
def test_only_legal_moves_succeed(agent: Agent, state: PatternState) -> None:
    verbs = {S.IGNORED: patterns.ignore, S.RESOLVED: patterns.resolve, S.OPEN: patterns.reopen}
    broken(agent)
    for to, verb in verbs.items():
        FailurePattern.objects.update(**{"state": state})
        before = len(kinds())
        changed = verb([only().pk], stamp=Stamp(MARA, NOW))
        legal = to in allowed_pattern_moves(state, Who.PERSON)
        assert bool(changed) == legal and len(kinds()) - before == legal
        assert only().state == (to if legal else state)


@pytest.mark.parametrize("state", S)
def test_a_failure_makes_the_move_of_an_agent(agent: Agent, state: PatternState) -> None:
    """The table of the moves says what a new failure does, and who else moves a pattern there."""
    broken(agent)
    until = NOW if state == S.IGNORED else None
    FailurePattern.objects.update(**{"state": state, "ignored_until": until})
    broken(agent)
    moved = allowed_pattern_moves(state, Who.AGENT)
    assert only().state == (moved[0] if moved else state) and len(moved) <= 1
    assert len(kinds()) == len(moved)
    assert set(PATTERN_MOVES) == set(S)


def test_retry_covers_all_stuck_tasks_of_a_pattern(agent: Agent) -> None:
    buried = broken(agent)
    asked = broken(agent, "Cannot find module 'x'", on_exhausted="escalate")
    waits = make_task(agent)
    fail(agent, attempt_of(claim(agent)), now=NOW, message="Cannot find module 'y'")
    other = broken(agent, "disk full")
    pattern = FailurePattern.objects.get(template__startswith="Cannot")
    again = patterns.retry([pattern.pk], stamp=Stamp(MARA, NOW), channel="page")
    assert [letter.task_id for letter in again.replayed] == [buried]
    assert again.made_due == [waits]
    assert [each.task_id for each in again.answered] == [asked]
    assert Escalation.objects.get().action == Answer.RETRY
    assert DeadLetter.objects.get(task=other).closed_at is None
    assert Task.objects.get(replay_of=buried).state == TaskState.QUEUED
    assert not patterns.retry([pattern.pk], stamp=Stamp(MARA, NOW), channel="page")


def test_a_task_is_stuck_because_of_its_last_failure(agent: Agent) -> None:
    id = make_task(agent, max_attempts=2)
    fail(agent, attempt_of(claim(agent)), now=NOW, message="disk full")
    later = NOW + MINUTE
    fail(agent, attempt_of(claim(agent, now=later)), now=later, message="no network")
    first, last = FailurePattern.objects.order_by("first_seen")
    assert not stuck_tasks([first.pk])
    assert [task.pk for task in stuck_tasks([last.pk])] == [id]


def test_retry_leaves_questions_to_a_person(agent: Agent) -> None:
    """Neither a question of an agent, nor whether something took effect, nor what was dismissed."""
    caller = TrustedCaller(SYSTEM, agent=agent)
    asks = make_task(agent, max_attempts=3, backoff=Backoff(base_delay_ms=0, jitter=False))
    fail(agent, attempt_of(claim(agent)), now=NOW, message="disk full")
    question = Question(text="Drop the table?", choices=[])
    questions.ask(attempt_of(claim(agent, task=asks)), question, caller=caller, now=NOW)
    unsure = broken(agent, "disk full", on_exhausted="escalate")
    Escalation.objects.filter(task=unsure).update(reason="needs_confirmation")
    letters = DeadLetter.objects.filter(task=broken(agent, "disk full"))
    deadletters.dismiss(
        letters.values_list("pk", flat=True), among=DeadLetter.objects.all(), stamp=Stamp(MARA, NOW)
    )
    assert not stuck_tasks([only().pk])
    assert not patterns.retry([only().pk], stamp=Stamp(MARA, NOW), channel="page")
    assert Escalation.objects.open().count() == 2


@pytest.mark.django_db(transaction=True)
def test_retry_skips_an_escalation_that_was_closed_meanwhile(agent: Agent, elsewhere: Any) -> None:
    ids = [broken(agent, "disk full", on_exhausted="escalate") for _ in range(2)]
    first, second = (Escalation.objects.get(task=id) for id in ids)
    pattern = only().pk
    with transaction.atomic():
        Escalation.objects.filter(pk=first.pk).update(state="expired", closed_at=NOW)
        future = elsewhere(
            lambda: patterns.retry([pattern], stamp=Stamp(MARA, NOW), channel="page")
        )
        with blocked(future):
            pass
    assert [each.pk for each in future.result(PATIENCE_S).answered] == [second.pk]


def test_the_journal_names_the_actor(agent: Agent) -> None:
    broken(agent)
    patterns.resolve([only().pk], stamp=Stamp(SYSTEM, NOW))
    patterns.reopen([only().pk], stamp=Stamp(MARA, NOW))
    assert kinds() == ["pattern.resolved tenfour", "pattern.reopened mara"]
    assert (only().state, only().state_by_name) == (S.OPEN, "mara")
