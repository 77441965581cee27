"""How long an agent without work waits before it asks again, as its claims and pulls tell it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings

from ledger import instructions, tokens
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Task
from ledger.models.token import TokenKind
from ledger.states import TaskState
from ledger.tokens import Bearer, TrustedCaller, digest_of
from ledger.values.poll_waits import compute_poll_wait
from retries import claims
from retries.attempts import finishing, heartbeats, questions
from retries.attempts.report_fields import Report
from retries.escalations.lifecycle import Question
from retries.models import Escalation
from retries.states import EscalationState
from tests.factories import NOW, send
from tests.retries.moves import make_task

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
Ask = Callable[[Bearer, datetime], int]
IDLE_S = [(0, 2), (29, 2), (30, 3), (100, 10), (300, 30), (86_400, 30), (-60, 2)]


@pytest.fixture
def caller(agent: Agent) -> Bearer:
    """A token of the agent, created at NOW, that may do all that the agent does."""
    _, secret = tokens.issue(
        TokenKind.AGENT, project=agent.project, agent=agent, stamp=Stamp(SYSTEM, NOW)
    )
    return Bearer(digest_of(secret), "")


def ask_for_task(caller: Bearer, now: datetime) -> int:
    found = claims.claim(caller, now=now)
    assert found.rows == []
    return found.retry_after_s


def pull(caller: Bearer, now: datetime) -> int:
    found = instructions.deliver(caller, now=now)
    assert found.rows == []
    return found.retry_after_s


asks = pytest.mark.parametrize("ask", [ask_for_task, pull])


@pytest.mark.parametrize(("idle_s", "wait_s"), IDLE_S)
def test_the_wait_is_a_tenth_of_the_idle_time(idle_s: int, wait_s: int) -> None:
    assert compute_poll_wait(idle_s) == wait_s


@pytest.mark.parametrize(("shortest_s", "waits_s"), [(4, [4, 30, 30]), (45, [45, 45, 45])])
def test_no_wait_is_longer_than_half_a_minute_or_the_shortest(
    monkeypatch: pytest.MonkeyPatch, shortest_s: int, waits_s: list[int]
) -> None:
    monkeypatch.setitem(settings.TENFOUR, "POLL_SECONDS", shortest_s)
    assert [compute_poll_wait(idle_s) for idle_s in (30, 300, 3600)] == waits_s


@asks
def test_an_agent_that_asks_as_told_asks_at_most_6_times_a_minute_after_5_minutes(
    caller: Bearer, ask: Ask
) -> None:
    times, now = [], NOW
    while now < NOW + timedelta(minutes=7):
        wait = timedelta(seconds=ask(caller, now))
        times.append(now)
        now += wait
        # what comes right after an empty response waits for a tenth of the time in which none came
        assert wait <= max(2 * SECOND, (now - NOW) / 10)
    sixth = [each for each in times if timedelta(minutes=5) <= each - NOW < timedelta(minutes=6)]
    assert 1 <= len(sixth) <= 6
    assert times[1] - times[0] == 2 * SECOND


@asks
@pytest.mark.parametrize("work", ["task", "instruction", "heartbeat", "report"])
def test_work_makes_the_wait_short_again(agent: Agent, caller: Bearer, ask: Ask, work: str) -> None:
    later = NOW + timedelta(minutes=50)
    if work in ("heartbeat", "report"):
        make_task(agent)
        attempt = claims.claim(caller, now=NOW).rows[0]["attempt_id"]
        heartbeats.renew_lease(attempt, caller=caller, extend_s=7200, now=NOW)
    assert pull(caller, later - SECOND) == 30
    match work:
        case "task":
            make_task(agent, now=later)
            assert claims.claim(caller, now=later).rows
        case "instruction":
            send(agent, now=later)
            pulled = instructions.deliver(caller, now=later)
            assert len(pulled.rows) == 1 and pulled.retry_after_s == 2
        case "heartbeat":
            heartbeats.renew_lease(attempt, caller=caller, now=later)
        case "report":
            report = Report(status="success")
            finishing.finish_attempt(attempt, report, caller=caller, now=later)
    assert ask(caller, later + SECOND) == 2
    assert ask(caller, later + timedelta(seconds=60)) == 6


@asks
def test_the_calls_of_another_token_are_the_agents_work_too(
    agent: Agent, caller: Bearer, ask: Ask
) -> None:
    _, secret = tokens.issue(
        TokenKind.AGENT, project=agent.project, agent=agent, stamp=Stamp(SYSTEM, NOW)
    )
    later = NOW + timedelta(minutes=10)
    assert ask(caller, later) == 30
    send(agent, now=later)
    assert instructions.deliver(Bearer(digest_of(secret), ""), now=later).rows
    assert ask(caller, later) == 2


def test_a_new_token_begins_with_the_shortest_wait(agent: Agent, caller: Bearer) -> None:
    later = NOW + timedelta(days=7)
    _, secret = tokens.issue(
        TokenKind.AGENT, project=agent.project, agent=agent, stamp=Stamp(SYSTEM, later)
    )
    assert ask_for_task(caller, later) == 30
    assert ask_for_task(Bearer(digest_of(secret), ""), later) == 2


def test_the_next_retry_shortens_the_wait(agent: Agent, caller: Bearer) -> None:
    later = NOW + timedelta(hours=1)
    Task.objects.filter(pk=make_task(agent)).update(
        state=TaskState.RETRY, due_at=later + 7 * SECOND, attempts=1
    )
    assert [ask_for_task(caller, later), pull(caller, later)] == [7, 30]


def test_who_waits_for_an_answer_gets_it_soon(agent: Agent, caller: Bearer) -> None:
    make_task(agent)
    attempt = claims.claim(caller, now=NOW).rows[0]["attempt_id"]
    trusted = TrustedCaller(SYSTEM, agent=agent)
    asked = questions.ask(
        attempt, Question(text="Which region?", choices=[]), caller=trusted, now=NOW
    )
    assert asked.asked_in_id == attempt
    soon, late = NOW + timedelta(minutes=59), NOW + timedelta(minutes=61)
    assert [ask_for_task(caller, soon), ask_for_task(caller, late)] == [2, 30]
    Escalation.objects.update(state=EscalationState.EXPIRED, closed_at=soon)
    assert ask_for_task(caller, soon) == 30


@pytest.mark.parametrize(("ask", "count"), [(ask_for_task, 2), (pull, 1)])
def test_what_finds_nothing_sends_no_further_statement(
    caller: Bearer, ask: Ask, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the agent's last call is stored already, however long it has had no work."""
    later = NOW + timedelta(hours=1)
    ask(caller, later)
    sent: list[Any] = []
    execute = psycopg.Cursor.execute

    def note_and_execute(*args: Any, **kwargs: Any) -> Any:
        sent.append(args[1])
        return execute(*args, **kwargs)

    monkeypatch.setattr(psycopg.Cursor, "execute", note_and_execute)
    assert ask(caller, later + SECOND) == 30
    assert len(sent) == count
