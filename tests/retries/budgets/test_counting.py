"""Reports count for the budgets of their task, its plan and its project: once, and to the token."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st

from ledger.authorization.principal import Principal
from ledger.database import sql
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Budget, Event, Plan, Project, Task
from ledger.models.budget import FOREVER
from ledger.pools import membership
from ledger.tokens import TrustedCaller
from retries.attempts import fast_path, finishing
from retries.attempts.report_fields import Report
from retries.budgets import asking, counting, editing, prices, reading
from retries.budgets.amounts import parse_amount
from retries.budgets.prices import Usage
from retries.budgets.shipped_prices import Price
from retries.models import Escalation, PlanForecast
from tests.dashboard.worked import make_plan
from tests.elsewhere import at_once, blocked
from tests.factories import NOW, make_agent, make_project
from tests.retries.budgets.spending import SONNET, current, report, set_budget, spend
from tests.retries.moves import attempt_of, claim, make_task
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


def kinds(budget: Budget) -> list[str]:
    found = Event.objects.filter(subject_id=budget.pk).order_by("id")
    return list(found.values_list("kind", flat=True))


def test_a_report_counts_for_its_task_its_plan_and_its_project(agent: Agent) -> None:
    plan, (first, second) = make_plan("03-01", [("One", []), ("Two", [])], agent=agent, now=NOW)
    budgets = [
        set_budget(agent, 10_000),
        set_budget(agent, 10_000, period="day"),
        set_budget(agent, 10_000, plan=plan.pk),
        set_budget(agent, 10_000, task=first),
        set_budget(agent, 10_000, task=second),
    ]
    spend(agent, task=first, usage={"input_tokens": 700, "cached_tokens": 600, "output_tokens": 50})
    assert [current(each).used for each in budgets] == [750, 750, 750, 750, 0]
    spend(agent, task=second)
    assert [current(each).used for each in budgets] == [1750, 1750, 1750, 750, 1000]


def test_another_project_has_its_own_budget(agent: Agent) -> None:
    other = make_agent("other", project=make_project("other"))
    budgets = [set_budget(agent, 10_000), set_budget(other, 10_000)]
    make_task(other)
    spend(other)
    assert [current(each).used for each in budgets] == [0, 1000]


def test_a_repeated_report_counts_once(agent: Agent) -> None:
    budget = set_budget(agent, 10_000)
    for status in ("success", "failure"):
        make_task(agent)
        attempt = attempt_of(claim(agent))
        answers = [report(agent, attempt, status=status, now=NOW) for _ in range(3)]
        assert answers[0] == answers[1] == answers[2]
    assert current(budget).used == 2000


def test_a_late_report_and_one_without_usage_count_nothing(agent: Agent) -> None:
    budget = set_budget(agent, 10_000)
    make_task(agent)
    spend(agent, usage=None)
    assert current(budget).used == 0


@pytest.mark.parametrize(
    ("is_own", "usage", "most"),
    [(False, True, [1, 1]), (True, False, [1, 1]), (True, True, [4, 3])],
)
def test_a_success_takes_one_statement_and_two_more_if_its_usage_counts(
    agent: Agent, is_own: bool, usage: bool, most: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first report that counts also takes the statement that finds it out."""
    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def execute_and_note(*args: Any, **kwargs: Any) -> Any:
        sent.append(str(args[1]))
        return execute(*args, **kwargs)

    monkeypatch.setattr(psycopg.Cursor, "execute", execute_and_note)
    fast_path.counted.keys.clear()
    other = make_agent("other", project=make_project("other"))
    budget = set_budget(agent if is_own else other, 10_000)
    said = Report(usage={"input_tokens": 5} if usage else None)
    caller = TrustedCaller(SYSTEM, agent=agent)
    took = []
    for _ in most:
        make_task(agent)
        attempt = attempt_of(claim(agent))
        sent.clear()
        finishing.finish_attempt(attempt, said, caller=caller, now=NOW)
        took.append(len([each for each in sent if "SAVEPOINT" not in each]))
    assert took == most
    assert current(budget).used == (10 if is_own and usage else 0)


def test_reports_take_one_statement_again_once_no_budget_is_left(agent: Agent) -> None:
    budget, caller = set_budget(agent, 10_000), TrustedCaller(SYSTEM, agent=agent)
    make_task(agent)
    spend(agent)
    assert caller in fast_path.counted
    budget.delete()
    make_task(agent)
    spend(agent)
    assert caller not in fast_path.counted


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"input_tokens": 1_000_000, "model": "claude-sonnet-4-5"}, "3"),
        ({"input_tokens": 1_000_000, "model": "anthropic/claude-sonnet-4-5-20250929"}, "3"),
        ({"output_tokens": 1_000_000, "model": "claude-opus-4-1-20250805"}, "75"),
        ({"input_tokens": 10**6, "cached_tokens": 10**6, "model": "gpt-5"}, "0.125"),
        (
            {
                "input_tokens": 10**6,
                "cache_write_tokens": 10**6,
                "model": "claude-haiku-4-5-20251001",
            },
            "1.25",
        ),
        # a cost that the report names comes first, also for models without a price
        ({"input_tokens": 1_000_000, "model": "claude-sonnet-4-5", "cost_usd": 0.5}, "0.5"),
        ({"input_tokens": 1_000_000, "model": "own", "cost_usd": 0}, "0"),
        ({"input_tokens": 1_000_000, "model": "own"}, None),
        ({"input_tokens": 1_000_000}, None),
    ],
)
def test_dollars_are_what_the_report_says_or_else_by_the_price(
    agent: Agent, usage: dict[str, Any], cost: str | None
) -> None:
    budget = set_budget(agent, 1000, unit="usd")
    tokens = set_budget(agent, 10**9)
    make_task(agent)
    spend(agent, usage=usage)
    found = current(budget)
    assert found.used == Decimal(cost or 0)
    assert (found.unpriced, found.unpriced_model) == (
        (0, "") if cost is not None else (1, usage.get("model", ""))
    )
    assert current(tokens).used == 1_000_000


def test_the_price_of_the_day_holds_and_a_projects_own_comes_first(project: Project) -> None:
    stamp, million = Stamp(SYSTEM, NOW), Usage(model="claude-sonnet-4-5", input=10**6)

    def cost_on(at: datetime) -> Decimal | None:
        return prices.find_cost(million, project_id=project.pk, now=at)

    def set_price(day: date, dollars: int) -> None:
        price = Price(*(Decimal(dollars),) * 4)
        prices.set_price(project, "Claude-Sonnet-4-5", starts_on=day, price=price, stamp=stamp)

    assert cost_on(NOW) == 3 and cost_on(datetime(2024, 1, 1, tzinfo=UTC)) is None
    set_price(NOW.date(), 7)
    set_price(NOW.date() + DAY, 9)
    assert [cost_on(NOW - DAY), cost_on(NOW), cost_on(NOW + DAY)] == [3, 7, 9]
    set_price(NOW.date(), 8)
    assert cost_on(NOW) == 8
    listed = prices.list_prices(project.pk)
    assert [(each.model, each.price.input) for each in listed[:2]] == [
        ("claude-sonnet-4-5", 9),
        ("claude-sonnet-4-5", 8),
    ]
    assert all(each.is_replaced for each in listed[2:] if each.model == "claude-sonnet-4-5")
    first = listed[0].id
    assert first
    prices.remove_price(project.pk, first, stamp=stamp)
    assert cost_on(NOW + DAY) == 8
    assert prices.find_cost(million, project_id=make_project("other").pk, now=NOW) == 3


def test_notices_come_once_and_the_limit_is_reached_once(agent: Agent) -> None:
    budget = set_budget(agent, 1000, at_limit="stop")
    for _ in range(12):
        make_task(agent)
    for tokens, told in ((799, 0), (1, 1), (100, 1), (100, 2), (50, 2)):
        if current(budget).reached_at:  # what runs still reports
            Project.objects.update(spent_until=None)
        spend(agent, tokens=tokens)
        assert len(kinds(budget)) == 1 + told
    assert kinds(budget) == ["budget.set", "budget.near", "budget.reached"]
    event = Event.objects.get(kind="budget.reached")
    assert (event.data["used"], event.data["limit"], event.data["name"]) == (
        1000,
        1000,
        "the project",
    )
    assert "1,000 of 1,000 tokens" in event.data["text"]


def test_what_jumps_over_the_notice_tells_only_that_it_is_used_up(agent: Agent) -> None:
    budget = set_budget(agent, 1000, at_limit="stop")
    make_task(agent)
    spend(agent, tokens=5000)
    assert kinds(budget) == ["budget.set", "budget.reached"]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_a_day_ends_at_midnight_in_its_zone(agent: Agent, zone: str) -> None:
    budget = set_budget(agent, 1000, period="day", zone=zone, at_limit="stop")
    for _ in range(3):
        make_task(agent)
    spend(agent)
    until = current(budget).ends_at(NOW)
    assert until and Project.objects.get(pk=agent.project_id).spent_until == until
    empty = claim(agent, now=until - SECOND)
    assert (empty.rows, empty.reason, empty.waits_until) == ([], "budget_used", until)
    assert claim(agent, now=until).rows
    assert current(budget).used_now(until) == 0


def test_a_new_day_counts_from_zero_and_tells_again(agent: Agent) -> None:
    budget = set_budget(agent, 1000, period="day", at_limit="stop")
    for day in range(3):
        make_task(agent)
        spend(agent, now=NOW + day * DAY)
        assert current(budget).used == 1000
    assert kinds(budget) == ["budget.set", *["budget.reached"] * 3]


def test_what_was_used_before_a_budget_was_set_counts(agent: Agent) -> None:
    plan, (first, _) = make_plan("03-01", [("One", []), ("Two", [])], agent=agent, now=NOW)
    spend(agent, task=first, usage=SONNET)
    assert set_budget(agent, 5000, plan=plan.pk).used == 1000
    assert set_budget(agent, 5000, task=first).used == 1000
    assert set_budget(agent, 5000, period="day").used == 1000
    assert set_budget(agent, 5, unit="usd", plan=plan.pk).used == Decimal("0.0042")
    assert set_budget(agent, 5000, period="day", plan=plan.pk, now=NOW + DAY).used == 0
    assert set_budget(agent, 5000).used == 0  # a project's in total counts from now on
    full = set_budget(agent, 10, period="day", task=first)
    assert full.reached_at and Task.objects.get(pk=first).spent_until == full.ends_at(NOW)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("at_limit", ["ask", "stop"])
def test_two_reports_that_cross_the_limit_at_once_ask_once(agent: Agent, at_limit: str) -> None:
    plan, _ = make_plan("03-01", [(f"Task {n}", []) for n in range(9)], agent=agent, now=NOW)
    budgets = [
        set_budget(agent, 4000, plan=plan.pk, at_limit=at_limit),
        set_budget(agent, 4000, at_limit=at_limit, period="day"),
    ]
    running = [attempt_of(claim(agent)) for _ in range(6)]
    found = at_once(6, lambda n: report(agent, running[n], tokens=1000))
    assert [each["decision"] for each in found] == ["done"] * 6
    assert [current(each).used for each in budgets] == [6000, 6000]
    for each in budgets:
        assert kinds(each).count("budget.reached") == 1
        assert kinds(each).count("budget.near") <= 1
    # each budget asks about a task of its own
    assert Escalation.objects.open().count() == (2 if at_limit == "ask" else 0)
    assert Task.objects.filter(state="escalated").count() == Escalation.objects.count()
    assert claim(agent).reason == "budget_used"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("count", [2, 6])
def test_reports_at_once_lose_no_token(agent: Agent, count: int) -> None:
    budgets = [set_budget(agent, 10**6), set_budget(agent, 100, unit="usd")]
    for _ in range(count):
        make_task(agent)
    running = [attempt_of(claim(agent)) for _ in range(count)]
    at_once(count, lambda n: report(agent, running[n], usage=SONNET))
    assert [current(each).used for each in budgets] == [1000 * count, count * Decimal("0.0042")]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 900), st.sampled_from(["report", "grant", "raise"])
        ),
        max_size=12,
    )
)
def test_counters_follow_a_plain_model(steps: list[tuple[int, int, str]]) -> None:
    """Any mix of days, reports, grants and raises counts as a list of numbers would."""
    budget = Budget(
        period="day", unit="tokens", amount=Decimal(1000), used=Decimal(0), granted=Decimal(0)
    )
    budget.zone, budget.unpriced, budget.unpriced_model = "UTC", 0, ""
    day, used, granted, amount, told = 0, 0, 0, 1000, 0
    for later, number, verb in steps:
        if later and verb == "report":
            day, used, granted, told = day + later, 0, 0, 0
        now = NOW + day * DAY
        counting.turn_day(budget, now=now)
        if verb == "report":
            budget.used += number
            used += number
        elif verb == "grant":
            budget.granted += number
            granted += number
        else:
            budget.amount += number
            amount += number
        was_reached = bool(told)
        kinds = [str(kind) for kind in counting.mark(budget, now=now)]
        told = used >= amount + granted
        assert ("budget.reached" in kinds) is (told and not was_reached)
        assert (budget.used, budget.limit_now(now)) == (used, amount + granted)
        assert (budget.reached_at is not None) is told is budget.is_used_up(now)


@pytest.mark.parametrize(
    "text",
    ["", "5", "tokens", "-5 tokens", "1.5 tokens", "1e9 tokens", "0 USD", "$5 tokens", "9" * 60],
)
def test_an_amount_needs_a_unit_and_a_number_in_range(text: str) -> None:
    with pytest.raises(Invalid):
        parse_amount(text)


def test_the_end_of_a_total_budget_is_never(agent: Agent) -> None:
    plan, _ = make_plan("03-01", [("One", []), ("Two", [])], agent=agent, now=NOW)
    budget = set_budget(agent, 500, plan=plan.pk, at_limit="stop")
    spend(agent)
    assert Plan.objects.get().spent_until == FOREVER
    assert claim(agent).waits_until is None
    editing.remove_budget(budget.pk, stamp=Stamp(SYSTEM, NOW))
    assert Plan.objects.get().spent_until is None and claim(agent).rows


def test_a_question_waits_for_a_task_that_waits(agent: Agent) -> None:
    budget = set_budget(agent, 1000)
    make_task(agent)
    spend(agent)
    assert not Escalation.objects.exists() and current(budget).asked_at is None
    assert asking.ask_pending(now=NOW) == 0
    id = make_task(agent)
    assert [asking.ask_pending(now=NOW) for _ in range(2)] == [1, 0]
    asked = Escalation.objects.get()
    assert (asked.task_id, asked.reason, asked.state) == (id, "budget_used", "open")
    assert "1,000 of 1,000 tokens" in asked.question and "grant: 500000 tokens" in asked.question


def test_budgets_without_a_waiting_task_keep_no_other_one_waiting(agent: Agent) -> None:
    plan, _ = make_plan("03-01", [("One", [])], agent=agent, now=NOW)
    over = [make_task(agent) for _ in range(2)]
    for id in over:
        set_budget(agent, task=id)
        spend(agent, task=id)
    set_budget(agent, plan=plan.pk)
    spend(agent)
    budget = set_budget(agent)
    make_task(agent), spend(agent)
    make_task(agent)
    past = set_budget(agent, task=make_task(agent), period="day")
    Budget.objects.filter(pk=past.pk).update(used=5000, reached_at=NOW - DAY, day=NOW - DAY)
    assert sql.run(asking.PENDING, now=NOW, of=None) == [{"id": budget.pk}]


@pytest.mark.django_db(transaction=True)
def test_two_grants_at_once_free_the_project(agent: Agent, elsewhere: Any) -> None:
    tokens = set_budget(agent, at_limit="stop")
    dollars = set_budget(agent, 1, unit="usd", at_limit="stop")
    make_task(agent)
    spend(agent, usage={"input_tokens": 1000, "cost_usd": 5})
    assert Project.objects.get(pk=agent.project_id).spent_until == FOREVER
    stamp = Stamp(SYSTEM, NOW)
    with transaction.atomic():
        editing.grant(tokens.pk, Decimal(5000), stamp=stamp)
        other = elsewhere(lambda: editing.grant(dollars.pk, Decimal(50), stamp=stamp))
        with blocked(other):
            pass
    other.result(PATIENCE_S)
    assert Project.objects.get(pk=agent.project_id).spent_until is None


def test_a_zone_whose_day_is_yesterday_keeps_what_is_used(agent: Agent) -> None:
    """At noon in UTC, it is the next day in Kiritimati alone."""
    budget = set_budget(agent, period="day", at_limit="stop", zone="Pacific/Kiritimati")
    make_task(agent)
    spend(agent)
    editing.change_budget(budget.pk, zone="America/New_York", stamp=Stamp(SYSTEM, NOW))
    found = current(budget)
    assert found.is_used_up(NOW) and claim(agent).reason == "budget_used"
    assert found.ends_at(NOW) == Project.objects.get(pk=agent.project_id).spent_until


@pytest.mark.parametrize("in_pools", [True, False])
def test_an_agent_sees_the_budgets_of_the_tasks_that_it_sees(agent: Agent, in_pools: bool) -> None:
    stamp = Stamp(SYSTEM, NOW)
    pool = membership.create("pool", project=agent.project, stamp=stamp)
    if in_pools:
        membership.add_members(pool, [agent], stamp=stamp)
    other = make_agent("other")
    plan, (mine, _) = make_plan("03-01", [("One", []), ("Two", [])], agent=agent, now=NOW)
    seen = [set_budget(agent), set_budget(agent, task=mine), set_budget(agent, plan=plan.pk)]
    waits = set_budget(agent, task=make_task(pool))
    set_budget(agent, task=make_task(other))
    foreign = make_agent("foreign", project=make_project("elsewhere"))
    set_budget(foreign)
    principal = Principal(
        kind="agent",
        token_id=agent.pk,
        name="t",
        project_id=agent.project_id,
        project_name="default",
        agent_id=agent.pk,
        agent_name=agent.name,
        scopes=frozenset(),
        in_pools=in_pools,
    )
    expected = {*seen, waits} if in_pools else set(seen)
    assert set(Budget.objects.visible_to(principal)) == expected


def test_of_many_budgets_those_near_their_limits_are_listed_first(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_LISTED", 3)
    ids = [make_task(agent) for _ in range(4)]
    budgets = [set_budget(agent, task=id) for id in ids]
    spend(agent, task=ids[1], tokens=900)
    spend(agent, task=ids[0], now=NOW + SECOND)
    whole = set_budget(agent)
    listed = [line.budget for line in reading.list_of_project(agent.project, now=NOW)]
    assert listed == [whole, budgets[0], budgets[1]]
    whole.delete()
    listed = [line.budget for line in reading.list_of_project(agent.project, now=NOW)]
    assert listed == [budgets[0], budgets[1], budgets[3]]


def test_a_notice_of_a_plan_names_what_it_is_forecast_to_use(agent: Agent) -> None:
    plan, _ = make_plan("03-01", [("One", []), ("Two", [])], agent=agent, now=NOW)
    made = {"plan": plan, "project": agent.project, "run": 1, "is_kept": False, "made_at": NOW}
    costs = {"low_cost": 900.4, "median_cost": 1200, "high_cost": 1500, "cost_unit": "tokens"}
    PlanForecast.objects.create(**made, **costs, cases=30)
    total = set_budget(agent, 1000, plan=plan.pk)
    others = [set_budget(agent, 1000, plan=plan.pk, period="day"), set_budget(agent, 1000)]
    spend(agent)
    text = Event.objects.get(subject_id=total.pk, kind="budget.reached").data["text"]
    assert text.endswith("The whole plan is forecast to use 900 to 1,500 tokens (80%).")
    assert "forecast to use" in Escalation.objects.filter(task__plan=plan).first().question
    for each in others:
        event = Event.objects.get(subject_id=each.pk, kind="budget.reached")
        assert "forecast" not in event.data["text"]
