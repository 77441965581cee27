"""Heartbeats tell usage so far: budgets count it once, and stop the attempt at its next step."""

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from ledger.database import sql
from ledger.database.sql import Row
from ledger.journal import SYSTEM
from ledger.models import Agent, Attempt, Budget, Event, Task
from ledger.tokens import TrustedCaller
from retries.attempts import heartbeats, leases
from retries.models import Escalation
from tests.factories import MINUTE, NOW
from tests.retries.budgets.spending import SONNET, current, report, set_budget, spend
from tests.retries.moves import attempt_of, claim, make_task

pytestmark = pytest.mark.django_db


def beat(agent: Agent, attempt: UUID, now: Any = NOW, **usage: Any) -> Row:
    caller = TrustedCaller(SYSTEM, agent=agent)
    return heartbeats.renew_lease(attempt, caller=caller, usage=usage or None, now=now)


def begin(agent: Agent) -> UUID:
    make_task(agent)
    return attempt_of(claim(agent))


def test_what_heartbeats_tell_is_cumulative_and_the_report_replaces_it(agent: Agent) -> None:
    budget = set_budget(agent, 10_000)
    attempt = begin(agent)
    for told, used in ((300, 300), (500, 500), (500, 500), (0, 500)):
        beat(agent, attempt, **({"input_tokens": told} if told else {}))
        assert current(budget).used == used
    report(agent, attempt, tokens=700)
    assert current(budget).used == 700
    assert Attempt.objects.get().usage == {"input_tokens": 700, "output_tokens": 0}
    report(agent, attempt, tokens=700)
    assert current(budget).used == 700


@pytest.mark.parametrize("has_budget", [True, False])
def test_a_heartbeat_that_tells_less_counts_nothing(agent: Agent, has_budget: bool) -> None:
    budget = set_budget(agent, 1_000_000) if has_budget else None
    attempt = begin(agent)
    for told in (
        {"input_tokens": 800_000, "output_tokens": 100_000},
        {"input_tokens": 4_000, "output_tokens": 1_000},
        {"input_tokens": 899_999, "cost_usd": 9.5},
    ):
        beat(agent, attempt, **told)
        assert Attempt.objects.get().usage == {"input_tokens": 800_000, "output_tokens": 100_000}
    assert budget is None or current(budget).used == 900_000
    beat(agent, attempt, input_tokens=950_000, cost_usd=2.5)
    beat(agent, attempt, input_tokens=950_000, cost_usd=1)
    assert Attempt.objects.get().usage == {"input_tokens": 950_000, "cost_usd": 2.5}
    report(agent, attempt, tokens=400)
    assert budget is None or current(budget).used == 400


def test_a_report_that_says_less_gives_back(agent: Agent) -> None:
    budget = set_budget(agent, 1000)
    attempt = begin(agent)
    assert beat(agent, attempt, input_tokens=1200)["stop_reason"] == "budget_used"
    report(agent, attempt, tokens=400)
    found = current(budget)
    assert (found.used, found.reached_at) == (400, None)
    make_task(agent)
    assert claim(agent).rows, "the project has room again"


@pytest.mark.parametrize("ends", ["report", "lease"])
def test_what_heartbeats_told_stays_without_a_report_of_usage(agent: Agent, ends: str) -> None:
    budget = set_budget(agent, 10_000)
    attempt = begin(agent)
    beat(agent, attempt, **SONNET)
    if ends == "report":
        report(agent, attempt, usage=None)
    else:
        assert leases.expire(now=NOW + MINUTE * 60) == 1
    assert current(budget).used == 1000
    assert Attempt.objects.get(pk=attempt).usage == SONNET


def test_a_crossed_budget_stops_this_attempt_and_the_others(agent: Agent) -> None:
    budget = set_budget(agent, 1000, at_limit="stop")
    first, second = begin(agent), begin(agent)
    assert beat(agent, first, input_tokens=900)["abort_requested"] is False
    told = beat(agent, first, input_tokens=1001)
    assert (told["abort_requested"], told["stop_reason"]) == (True, "budget_used")
    assert beat(agent, second)["stop_reason"] == "budget_used"
    kinds = Event.objects.filter(subject_id=budget.pk).order_by("id")
    assert list(kinds.values_list("kind", flat=True))[1:] == ["budget.near", "budget.reached"]
    stopped = report(agent, first, status="failure", tokens=1001)
    assert (stopped["decision"], stopped["reason"]) == ("wait", "budget_used")
    assert current(budget).used == 1001


def test_an_abort_comes_before_the_budget(agent: Agent) -> None:
    set_budget(agent, 100)
    attempt = begin(agent)
    Task.objects.update(abort_requested_at=NOW)
    assert beat(agent, attempt, input_tokens=200)["stop_reason"] == "abort"


def test_a_person_is_asked_about_a_task_that_waits(agent: Agent) -> None:
    set_budget(agent, 1000)
    attempt = begin(agent)
    make_task(agent)
    beat(agent, attempt, input_tokens=1000)
    assert [each.reason for each in Escalation.objects.all()] == ["budget_used"]


def test_dollars_are_counted_by_what_each_heartbeat_says(agent: Agent) -> None:
    budget = set_budget(agent, 100, unit="usd")
    attempt = begin(agent)
    beat(agent, attempt, input_tokens=1_000_000, model="own")
    assert (current(budget).used, current(budget).unpriced) == (0, 1)
    beat(agent, attempt, input_tokens=2_000_000, model="own")
    assert current(budget).unpriced == 1
    beat(agent, attempt, input_tokens=2_000_000, model="claude-sonnet-4-5")
    assert (current(budget).used, current(budget).unpriced) == (6, 0)
    report(agent, attempt, usage={"input_tokens": 1_000_000, "cost_usd": 4.5})
    assert current(budget).used == Decimal("4.5")


def test_a_budget_that_is_set_meanwhile_counts_it_once(agent: Agent) -> None:
    attempt = begin(agent)
    beat(agent, attempt, input_tokens=300)
    task = Task.objects.get().pk
    budgets = [set_budget(agent, 10_000, task=task), set_budget(agent, 10_000, period="day")]
    assert [current(each).used for each in budgets] == [300, 300]
    beat(agent, attempt, input_tokens=400)
    report(agent, attempt, tokens=500)
    assert [current(each).used for each in budgets] == [500, 500]


def test_a_new_day_counts_what_was_used_in_it(agent: Agent) -> None:
    budget = set_budget(agent, 10_000, period="day")
    make_task(agent, lease_s=86_400, timeout_s=604_800)
    attempt = attempt_of(claim(agent))
    beat(agent, attempt, input_tokens=300)
    later = NOW + timedelta(hours=23)
    beat(agent, attempt, now=later, input_tokens=350)
    report(agent, attempt, tokens=400, now=later)
    found = Budget.objects.get(pk=budget.pk)
    expected = 100 if found.day != NOW.date() else 400
    assert found.used_now(later) == expected


@pytest.mark.parametrize(("has_budget", "is_own"), [(False, False), (True, False), (True, True)])
def test_a_heartbeat_that_counts_for_no_budget_takes_one_statement(
    agent: Agent, has_budget: bool, is_own: bool
) -> None:
    attempt = begin(agent)
    own = Task.objects.get().pk
    if has_budget:
        set_budget(agent, 10_000, task=own if is_own else make_task(agent))
    caller = TrustedCaller(SYSTEM, agent=agent)
    params = {"attempt": attempt, "progress": None, "output": None, "extend": None, "now": NOW}
    usage = Jsonb({"input_tokens": 300})
    statement = heartbeats.USED_SO_FAR[TrustedCaller]
    [row] = sql.run(statement, **params, usage=usage, **caller.params)
    assert row["is_uncounted"] is is_own
    stored = None if is_own else {"input_tokens": 300}
    assert Attempt.objects.get(pk=attempt).usage == stored


def test_a_report_after_a_heartbeat_of_an_attempt_without_budget_is_counted_once(
    agent: Agent,
) -> None:
    attempt = begin(agent)
    beat(agent, attempt, input_tokens=300)
    budget = set_budget(agent, 10_000)
    report(agent, attempt, tokens=500)
    # A project's budget in total counts from when it was set.
    assert current(budget).used == 200
    make_task(agent)
    spend(agent, tokens=50)
    assert current(budget).used == 250
