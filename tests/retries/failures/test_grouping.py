"""How each failure joins its pattern (S1.12–S1.14)."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection, transaction

from ledger.journal import Actor, Stamp
from ledger.models import Agent, Event, Project
from retries.failures import patterns
from retries.models import FailurePattern, Grouped
from retries.states import PatternState
from tests.elsewhere import blocked
from tests.factories import MINUTE, NOW, make_agent, make_project
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.waiting import PATIENCE_S

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


def test_similar_failures_share_a_pattern(agent: Agent) -> None:
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


def test_each_project_has_its_own_patterns(agent: Agent) -> None:
    elsewhere: Project = make_project("elsewhere")
    broken(agent)
    broken(make_agent("coder", project=elsewhere))
    assert FailurePattern.objects.values("project").distinct().count() == 2


def test_the_output_counts_if_the_message_is_generic(agent: Agent) -> None:
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


def test_a_known_pattern_is_only_read_within_a_minute(agent: Agent) -> None:
    broken(agent)
    broken(agent, now=NOW + MINUTE - timedelta(seconds=1))
    assert only().last_seen == NOW
    broken(agent, now=NOW + MINUTE)
    assert only().last_seen == NOW + MINUTE


def test_a_failure_makes_a_resolved_pattern_regressed(agent: Agent) -> None:
    broken(agent)
    assert patterns.resolve([only().pk], note="npm ci", stamp=Stamp(MARA, NOW)) == [only().pk]
    assert (only().state, only().note, only().state_by_name) == (S.RESOLVED, "npm ci", "mara")
    broken(agent, now=NOW + timedelta(seconds=1))
    assert (only().state, only().state_at) == (S.REGRESSED, NOW + timedelta(seconds=1))
    broken(agent, now=NOW + MINUTE * 2)
    assert only().state == S.REGRESSED
    assert kinds() == ["pattern.resolved mara", "pattern.regressed tenfour"]


def test_a_failure_reopens_an_ignored_pattern_after_its_time(agent: Agent) -> None:
    broken(agent)
    patterns.ignore([only().pk], until=NOW + HOUR, stamp=Stamp(MARA, NOW))
    broken(agent, now=NOW + HOUR - timedelta(seconds=1))
    assert (only().state, only().ignored_until) == (S.IGNORED, NOW + HOUR)
    broken(agent, now=NOW + HOUR)
    assert (only().state, only().ignored_until) == (S.OPEN, None)
    assert kinds() == ["pattern.ignored mara", "pattern.reopened tenfour"]


def test_a_permanently_ignored_pattern_stays_ignored(agent: Agent) -> None:
    broken(agent)
    patterns.ignore([only().pk], stamp=Stamp(MARA, NOW))
    broken(agent, now=NOW + timedelta(days=400))
    assert only().state == S.IGNORED


@pytest.mark.django_db(transaction=True)
def test_agents_with_the_same_failure_do_not_wait_for_each_other(agent: Agent) -> None:
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

        pool.submit(fails_too).result(timeout=PATIENCE_S)
    assert only().grouped.count() == 3


@pytest.mark.django_db(transaction=True)
def test_two_simultaneous_first_failures_create_one_pattern(agent: Agent) -> None:
    other = make_agent("reviewer")

    def fails_too() -> None:
        try:
            broken(other)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            broken(agent)  # a pattern that no one else can see yet
            second = pool.submit(fails_too)
            with blocked(second):
                pass
        second.result(timeout=PATIENCE_S)
    assert only().grouped.count() == 2
