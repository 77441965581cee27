"""Failures put together as they come in, and what people do with a pattern (S1.12–S1.14)."""

from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from ledger.errors import Invalid
from ledger.journal import SYSTEM, Actor
from ledger.models import Agent, DeadLetter, Event, Project, Task
from ledger.states import TaskState
from ledger.tasks import Backoff
from ledger.tokens import TrustedCaller
from retries import deadletters
from retries.attempts import questions
from retries.escalations.lifecycle import Question
from retries.failures import patterns
from retries.models import Escalation, FailurePattern, Grouped
from retries.states import PATTERN_MOVES, Answer, PatternState
from tests.elsewhere import blocked
from tests.factories import MINUTE, NOW, make_agent, make_project
from tests.retries.test_tasks_flow import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db
S = PatternState
MARA = Actor("user", "1", "mara")
HOUR = timedelta(hours=1)


def broken(agent: Agent, message: str = "Cannot find module 'uuid'", **more: object) -> UUID:
    """A task whose only attempt has failed with that message."""
    now = more.pop("now", NOW)
    id = make_task(agent, now=now, max_attempts=1, **more)
    fail(agent, attempt_of(claim(agent, now=now)), now=now, message=message)
    return id


def only() -> FailurePattern:
    return FailurePattern.objects.get()


def kinds() -> list[str]:
    rows = Event.objects.filter(subject_type="pattern").order_by("id")
    return [f"{row.kind} {row.actor_name}" for row in rows]


def test_failures_that_say_the_same_are_one_pattern(agent: Agent) -> None:
    other = make_agent("reviewer")
    broken(agent)
    broken(other, "Cannot find module 'left-pad'", now=NOW + HOUR)
    broken(agent, "bash: cargo: command not found")
    pattern = FailurePattern.objects.get(template="Cannot find module ‹text›")
    assert (pattern.state, pattern.example) == (S.OPEN, "Cannot find module 'uuid'")
    assert (pattern.first_seen, pattern.last_seen) == (NOW, NOW + HOUR)
    assert set(pattern.grouped.values_list("agent__name", "at")) == {
        ("coder", NOW),
        ("reviewer", NOW + HOUR),
    }
    assert FailurePattern.objects.count() == 2 and Grouped.objects.count() == 3


def test_each_project_has_its_own(agent: Agent) -> None:
    elsewhere: Project = make_project("elsewhere")
    broken(agent)
    broken(make_agent("coder", project=elsewhere))
    assert FailurePattern.objects.values("project").distinct().count() == 2


def test_what_a_command_printed_tells_where_the_message_does_not(agent: Agent) -> None:
    id = make_task(agent, max_attempts=1)
    fail(
        agent,
        attempt_of(claim(agent)),
        now=NOW,
        message="npm test returned exit code 1",
        verification={"command": "npm test", "exit_code": 1, "output": "TypeError: x is null"},
    )
    assert only().template == "TypeError: x is null"
    assert Grouped.objects.get().failure.task_id == id


def test_within_a_minute_a_known_pattern_is_only_read(agent: Agent) -> None:
    broken(agent)
    broken(agent, now=NOW + MINUTE - timedelta(seconds=1))
    assert only().last_seen == NOW
    broken(agent, now=NOW + MINUTE)
    assert only().last_seen == NOW + MINUTE


def test_a_resolved_pattern_that_comes_again_is_regressed(agent: Agent) -> None:
    broken(agent)
    assert patterns.resolve([only().pk], note="npm ci", actor=MARA, now=NOW) == [only().pk]
    assert (only().state, only().note, only().state_by_name) == (S.RESOLVED, "npm ci", "mara")
    broken(agent, now=NOW + timedelta(seconds=1))
    assert (only().state, only().state_at) == (S.REGRESSED, NOW + timedelta(seconds=1))
    broken(agent, now=NOW + MINUTE * 2)
    assert only().state == S.REGRESSED
    assert kinds() == ["pattern.resolved mara", "pattern.regressed tenfour"]


def test_an_ignored_pattern_is_open_again_once_its_time_is_over(agent: Agent) -> None:
    broken(agent)
    patterns.ignore([only().pk], until=NOW + HOUR, actor=MARA, now=NOW)
    broken(agent, now=NOW + HOUR - timedelta(seconds=1))
    assert (only().state, only().ignored_until) == (S.IGNORED, NOW + HOUR)
    broken(agent, now=NOW + HOUR)
    assert (only().state, only().ignored_until) == (S.OPEN, None)
    assert kinds() == ["pattern.ignored mara", "pattern.reopened tenfour"]


def test_one_ignored_for_good_stays_so(agent: Agent) -> None:
    broken(agent)
    patterns.ignore([only().pk], actor=MARA, now=NOW)
    broken(agent, now=NOW + timedelta(days=400))
    assert only().state == S.IGNORED


def test_a_time_that_is_past_is_refused(agent: Agent) -> None:
    broken(agent)
    with pytest.raises(Invalid, match="in the future"):
        patterns.ignore([only().pk], until=NOW, actor=MARA, now=NOW)
    assert only().state == S.OPEN and not kinds()


@pytest.mark.parametrize("state", S)
def test_only_legal_moves_are_made(agent: Agent, state: PatternState) -> None:
    verbs = {S.IGNORED: patterns.ignore, S.RESOLVED: patterns.resolve, S.OPEN: patterns.reopen}
    broken(agent)
    for to, verb in verbs.items():
        FailurePattern.objects.update(**{"state": state})
        before = len(kinds())
        changed = verb([only().pk], actor=MARA, now=NOW)
        legal = to in PATTERN_MOVES[state]
        assert bool(changed) == legal and len(kinds()) - before == legal
        assert only().state == (to if legal else state)


def test_all_that_stands_still_because_of_a_pattern_is_tried_again(agent: Agent) -> None:
    buried = broken(agent)
    asked = broken(agent, "Cannot find module 'x'", on_exhausted="escalate")
    waits = make_task(agent)
    fail(agent, attempt_of(claim(agent)), now=NOW, message="Cannot find module 'y'")
    other = broken(agent, "disk full")
    pattern = FailurePattern.objects.get(template__startswith="Cannot")
    again = patterns.retry([pattern.pk], actor=MARA, channel="page", now=NOW)
    assert [letter.task_id for letter in again.replayed] == [buried]
    assert again.made_due == [waits]
    assert [each.task_id for each in again.answered] == [asked]
    assert Escalation.objects.get().action == Answer.RETRY
    assert DeadLetter.objects.get(task=other).closed_at is None
    assert Task.objects.get(replay_of=buried).state == TaskState.QUEUED
    assert not patterns.retry([pattern.pk], actor=MARA, channel="page", now=NOW)


def test_the_last_failure_of_a_task_says_what_it_stands_still_for(agent: Agent) -> None:
    id = make_task(agent, max_attempts=2)
    fail(agent, attempt_of(claim(agent)), now=NOW, message="disk full")
    later = NOW + MINUTE
    fail(agent, attempt_of(claim(agent, now=later)), now=later, message="no network")
    first, last = FailurePattern.objects.order_by("first_seen")
    assert not patterns.stuck_tasks([first.pk])
    assert [task.pk for task in patterns.stuck_tasks([last.pk])] == [id]


def test_what_another_attempt_is_no_answer_to_is_left_to_a_person(agent: Agent) -> None:
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
        letters.values_list("pk", flat=True), among=DeadLetter.objects.all(), actor=MARA, now=NOW
    )
    assert not patterns.stuck_tasks([only().pk])
    assert not patterns.retry([only().pk], actor=MARA, channel="page", now=NOW)
    assert Escalation.objects.open().count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_question_that_is_closed_meanwhile_holds_up_no_other(
    agent: Agent, elsewhere: Any
) -> None:
    ids = [broken(agent, "disk full", on_exhausted="escalate") for _ in range(2)]
    first, second = (Escalation.objects.get(task=id) for id in ids)
    pattern = only().pk
    with transaction.atomic():
        Escalation.objects.filter(pk=first.pk).update(state="expired", closed_at=NOW)
        future = elsewhere(lambda: patterns.retry([pattern], actor=MARA, channel="page", now=NOW))
        with blocked(future):
            pass
    assert [each.pk for each in future.result(10).answered] == [second.pk]


@pytest.mark.django_db(transaction=True)
def test_agents_that_fail_the_same_way_do_not_wait_for_each_other(agent: Agent) -> None:
    broken(agent)
    other = make_agent("reviewer")
    with transaction.atomic(), ThreadPoolExecutor(1) as pool:
        broken(agent)  # in a transaction that is still open

        def fails_too() -> None:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("set lock_timeout = '500ms'")
                broken(other)
            finally:
                connection.close()

        pool.submit(fails_too).result(timeout=20)
    assert only().grouped.count() == 3


@pytest.mark.django_db(transaction=True)
def test_two_first_failures_at_once_make_one_pattern(agent: Agent) -> None:
    other = make_agent("reviewer")

    def fails_too() -> None:
        try:
            broken(other)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            broken(agent)  # a pattern that nobody else can see yet
            second = pool.submit(fails_too)
            wait([second], timeout=1)
            assert not second.done()
        second.result(timeout=20)
    assert only().grouped.count() == 2


def test_a_person_is_named_and_a_system_is_too(agent: Agent) -> None:
    broken(agent)
    patterns.resolve([only().pk], actor=SYSTEM, now=NOW)
    patterns.reopen([only().pk], actor=MARA, now=NOW)
    assert kinds() == ["pattern.resolved tenfour", "pattern.reopened mara"]
    assert (only().state, only().state_by_name) == (S.OPEN, "mara")
