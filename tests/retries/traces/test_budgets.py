"""The usage of spans counts for budgets when it comes; what a report names replaces it."""

from decimal import Decimal

import pytest

from ledger.models import Agent, Attempt, Event
from tests.conftest import Api
from tests.retries.budgets.spending import current, set_budget
from tests.retries.traces.exports import call, claim_in, send_protobuf

pytestmark = pytest.mark.django_db


def report(api: Api, attempt: str, tokens: int | None = None) -> None:
    used = {"model": "claude-sonnet-4-5", "input_tokens": (tokens or 0) - 10, "output_tokens": 10}
    body = {"status": "success"} | ({"usage": used} if tokens else {})
    assert api("POST", f"/attempts/{attempt}/result", body).status_code == 200


@pytest.mark.parametrize(("reported", "used"), [(None, 200), (350, 350), (200, 200), (120, 120)])
def test_spans_and_the_report_count_once(
    reported: int | None, used: int, agent: Agent, coder: Api
) -> None:
    budget = set_budget(agent, 10_000)
    attempt = claim_in(coder, agent)
    for _ in range(2):
        send_protobuf(coder, call(1), call(2))
    assert current(budget).used == 200
    report(coder, attempt, reported)
    assert current(budget).used == used
    # of another attempt all of the report counts
    report(coder, claim_in(coder, agent, "a" * 32), 50)
    assert current(budget).used == used + 50


def test_late_spans_count_unless_the_report_named_usage(agent: Agent, coder: Api) -> None:
    budget = set_budget(agent, 10_000)
    attempt = claim_in(coder, agent)
    report(coder, attempt)
    send_protobuf(coder, call(1))
    assert current(budget).used == 100
    other = claim_in(coder, agent, "a" * 32)
    report(coder, other, 500)
    send_protobuf(coder, call(2, trace="a" * 32))
    assert current(budget).used == 600


def test_dollars_are_those_of_the_spans_or_of_the_price(agent: Agent, coder: Api) -> None:
    budget = set_budget(agent, 100, unit="usd")
    attempt = claim_in(coder, agent)
    send_protobuf(coder, call(1, 1_000_010), call(2, 20, **{"gen_ai.usage.cost": 0.5}))
    # a million tokens in and ten out by the price, and what the other call said
    assert current(budget).used == Decimal("3.50015")
    report(coder, attempt, 1_000_020)
    # the report's tokens by the price, in place of both
    assert current(budget).used == Decimal("3.00018")


def test_each_model_of_an_attempt_has_its_own_price(agent: Agent, coder: Api) -> None:
    budget = set_budget(agent, 100, unit="usd")
    attempt = claim_in(coder, agent)
    model = "gen_ai.response.model"
    send_protobuf(coder, call(1, 1_000_000, **{model: "claude-sonnet-4-5"}))
    send_protobuf(coder, call(2, 1_000_000, **{model: "claude-opus-4-1"}))
    send_protobuf(coder, call(3, **{model: "own"}))
    found = current(budget)
    assert (round(found.used), found.unpriced, found.unpriced_model) == (18, 1, "own")
    task = Attempt.objects.get(pk=attempt).task_id
    later = current(set_budget(agent, 100, unit="usd", task=task))
    assert (later.used, later.unpriced) == (found.used, 1)
    report(coder, attempt, 1_000_000)
    assert [(round(each.used), each.unpriced) for each in (current(budget), current(later))] == [
        (3, 0),
        (3, 0),
    ]


def test_a_running_attempt_can_use_a_budget_up(agent: Agent, coder: Api) -> None:
    budget = set_budget(agent, 150, at_limit="stop")
    attempt = claim_in(coder, agent)
    send_protobuf(coder, call(1))
    assert current(budget).reached_at is None
    send_protobuf(coder, call(2))
    assert current(budget).reached_at is not None
    kinds = Event.objects.filter(subject_id=budget.pk).values_list("kind", flat=True)
    assert "budget.reached" in kinds
    report(coder, attempt)
    assert current(budget).used == 200


def test_a_budget_that_is_set_later_counts_what_spans_brought(agent: Agent, coder: Api) -> None:
    attempt = claim_in(coder, agent)
    send_protobuf(coder, call(1))
    task = Attempt.objects.get(pk=attempt).task_id
    budget = set_budget(agent, 10_000, task=task)
    assert current(budget).used == 100
    report(coder, attempt, 130)
    assert current(budget).used == 130
