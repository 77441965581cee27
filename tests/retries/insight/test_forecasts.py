"""Forecasts of plans: the simulation by hand, and what a real history stores, shows and scores."""

from datetime import timedelta
from math import inf
from random import Random
from typing import Any

import pytest

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Agent, Attempt, Plan, Task
from ledger.states import TaskState
from retries.insight.forecasts import reading, stored
from retries.insight.forecasts.cases import AnswerCase, Case, End, History
from retries.insight.forecasts.reading import build_history, read_surroundings
from retries.insight.forecasts.simulation import OpenTask, Outlook, Simulation, Slots, forecast
from retries.insight.forecasts.stored import LEAST_PLANS, make_forecasts, read_forecast
from retries.models import PlanForecast
from tests.factories import NOW, make_agent, make_project
from tests.retries.moves import make_task
from tests.retries.renderings.stories import add, attempt, begin, end, make_plan

MINUTE = timedelta(minutes=1)
# Every attempt takes a minute and costs a dollar, in plans that do not differ at all.
SAME = [Case((("type", "auto"),), n // 5, False, 60.0, cost=1.0) for n in range(200)]
ONE = [Slots(1)]


def task(*needs: int, **more: Any) -> OpenTask:
    return OpenTask(0, (("type", "auto"),), needs, **more)


def ahead(
    tasks: list[OpenTask],
    agents: list[Slots] = ONE,
    *,
    cases: list[Case] = SAME,
    answers: tuple[AnswerCase, ...] = (),
) -> Outlook:
    return forecast(tasks, agents, History(cases, answers), plan="new", seed="one")


def median(found: Outlook) -> float:
    assert found.seconds is not None
    assert found.seconds.low <= found.seconds.median <= found.seconds.high
    return found.seconds.median


def test_tasks_in_a_row_take_the_sum_and_those_at_once_the_longest() -> None:
    chain = [task(), task(0), task(1), task(2)]
    assert median(ahead(chain)) == pytest.approx(240, rel=0.01)
    assert median(ahead(chain, [Slots(4)])) == pytest.approx(240, rel=0.01)
    free = [task() for _ in range(4)]
    assert median(ahead(free)) == pytest.approx(240, rel=0.01)
    assert median(ahead(free, [Slots(2)])) == pytest.approx(120, rel=0.01)
    assert median(ahead(free, [Slots(4)])) == pytest.approx(60, rel=0.01)
    found = ahead(free)
    assert found.cost is not None and found.cost.median == pytest.approx(4, rel=0.01)
    assert found.cases == 200


def test_known_waits_and_the_tasks_of_other_plans_come_first() -> None:
    assert median(ahead([task()], [Slots(1, waits_s=600)])) == pytest.approx(660, rel=0.01)
    assert median(ahead([task(starts_in_s=900)])) == pytest.approx(960, rel=0.01)
    others = [task(is_own=False) for _ in range(3)]
    found = ahead([*others, task()])
    assert median(found) == pytest.approx(240, rel=0.01)
    assert found.cost is not None and found.cost.median == pytest.approx(1, rel=0.01)
    # those behind it in the queue cost it nothing
    assert median(ahead([task(), *others])) == pytest.approx(60, rel=0.01)


def test_a_running_attempt_has_its_rest_ahead() -> None:
    assert median(ahead([task(running_s=45)])) == pytest.approx(15, rel=0.2)
    # longer than any before: the longer it has run, the longer it goes on
    late, later = median(ahead([task(running_s=600)])), median(ahead([task(running_s=6_000)]))
    assert later == pytest.approx(10 * late, rel=0.1)


def test_failures_cost_attempts_and_the_last_one_asks_a_person() -> None:
    failed = [Case((), n, False, 60.0, End.FAILED, wait_s=30.0) for n in range(500)]
    answers = (AnswerCase(1_000.0, 0),) * 20
    # 60 + 30 + 60, and then the answer, which goes on without the task
    found = ahead([task(attempts_left=2)], cases=failed, answers=answers)
    assert median(found) == pytest.approx(1_150, rel=0.05)
    assert found.cost is None  # no attempt told its cost
    # a checkpoint is a question from the start
    found = ahead([task(is_checkpoint=True)], answers=answers)
    assert median(found) == 1_000


def test_a_released_attempt_lets_its_agent_wait() -> None:
    limited = [Case((), n, False, 60.0, End.RELEASED, wait_s=600.0) for n in range(50)]
    done = [Case((), n, False, 60.0) for n in range(50)]
    with_limits = median(ahead([task() for _ in range(10)], cases=limited + done))
    assert with_limits > 10 * 60 + 3 * 600
    assert median(ahead([task()], cases=limited)) < inf
    # agents wait together where they share their account
    pair = [OpenTask(n % 2, (), is_own=n % 2 == 0) for n in range(20)]

    def together(*accounts: str) -> float:
        agents = [Slots(1, account=each) for each in accounts]
        return median(ahead(pair, agents, cases=limited + done))

    assert together("one", "one") > 1.1 * together("one", "two")


def test_few_cases_or_answers_give_no_forecast() -> None:
    assert ahead([task()], cases=SAME[:19]) == Outlook(None, None, 19)
    assert ahead([task()], cases=SAME[:20]).seconds is not None
    asked = [task(asked_s=60.0)]
    found = ahead(asked, answers=(AnswerCase(600.0, 1),) * 19)
    assert found == Outlook(None, None, 19, is_missing_answers=True)
    assert ahead(asked, answers=(AnswerCase(600.0, 1),) * 20).seconds is not None


def test_the_narrowest_group_with_enough_cases_counts() -> None:
    slow = [Case((("type", "auto"),), n, False, 600.0) for n in range(20)]
    fast = [Case((("type", "docs"),), n, False, 6.0) for n in range(480)]
    assert median(ahead([task()], cases=slow + fast)) > 300
    assert median(ahead([task()], cases=slow[1:] + fast)) < 300


def test_a_plan_that_has_been_slow_stays_so_and_the_interval_knows() -> None:
    usual = [Case((), n // 5, False, 60.0 + n % 5) for n in range(200)]
    slow = [Case((), "new", False, 240.0) for _ in range(10)]
    assert median(ahead([task()], cases=[*slow, *usual])) > 2 * median(ahead([task()], cases=usual))


def test_the_same_state_gives_the_same_forecast() -> None:
    mixed = [Case((), n // 5, False, 10.0 + n % 90, cost=n % 7) for n in range(200)]
    first, second = (ahead([task(), task(0), task()], cases=mixed) for _ in range(2))
    assert first == second


def test_a_running_attempt_ends_like_the_longer_ones_of_the_past() -> None:
    # one in ten takes an hour, and all others a minute
    cases = [Case((), n // 5, False, 60.0 if n % 10 else 3_600.0) for n in range(200)]
    found = ahead([task(running_s=600)], cases=cases).seconds
    assert found is not None and found.high < 2 * 3_600
    assert found.median == pytest.approx(3_000, rel=0.5)


def test_the_short_attempts_of_a_plan_count_less_while_others_run() -> None:
    cases = [Case((), n // 5, False, 60.0 + n % 5) for n in range(200)]
    cases += [Case((), "new", False, 20.0)] * 2
    history = History(cases)
    assert history.estimate_effect("new").mean < history.estimate_effect("new", running=18).mean < 0


def test_the_pace_of_a_plan_is_not_that_of_others() -> None:
    usual = [Case((), n // 5, False, 60.0 + n % 5) for n in range(200)]
    slow = [Case((), "new", False, 240.0) for _ in range(10)]
    others = [task(is_own=False) for _ in range(50)]
    alone, behind = (median(ahead([*t, task()], cases=[*slow, *usual])) for t in ([], others))
    # each of the others takes 60 seconds, or what the slow plan adds to their group
    assert behind - alone < 50 * 90


def told(number: int, **more: Any) -> Row:
    """An attempt as it is read."""
    names = ("plan_id", "pattern_id", "usd")
    usual = {"task_id": number, "agent_id": 1, "type": "auto", "title": "", "plan_title": ""}
    ends = {"is_retry": False, "seconds": 60.0, "how": "done", "wait_s": 0.0, "tokens": 0.0}
    return dict.fromkeys(names) | usual | ends | more


def test_tasks_without_a_plan_do_not_widen_the_intervals_of_plans() -> None:
    plans = [told(n, plan_id=n // 10, seconds=60.0 + n % 5) for n in range(200)]
    alone = [told(n, seconds=55.0 if n % 2 else 65.0) for n in range(200)]
    history, _ = build_history([*plans, *alone], [])
    assert history.size == 400
    assert set(history.records) == set(range(20))


def test_an_attempt_that_costs_nothing_tells_its_cost() -> None:
    free, unit = build_history([told(n, usd=0.0, tokens=5.0) for n in range(20)], [])
    assert (unit, free.find((), is_retry=False).cost_rate) == ("usd", 0.0)
    untold, unit = build_history([told(n, tokens=float(n < 19)) for n in range(20)], [])
    assert (unit, untold.find((), is_retry=False).cost_rate) == ("tokens", None)


def test_a_retry_of_a_type_is_like_its_type_before_it_is_like_other_retries() -> None:
    slow = [Case((("type", "auto"),), n, False, 600.0) for n in range(40)]
    fast = [Case((("type", "docs"),), n, True, 6.0) for n in range(40)]
    assert median(ahead([task(is_retry=True)], cases=slow + fast)) > 300


def test_agents_of_one_account_wait_together_in_any_number() -> None:
    agents = [Slots(1, account=name) for name in ("one", "two", "one")] + [Slots(1)] * 2
    simulation = Simulation([task()], agents, History(SAME), plan="new", random=Random(0))
    assert simulation.sharing == [[0, 2], [1], [0, 2], [3], [4]]


# ---- with a database


@pytest.fixture
def history(agent: Agent) -> Plan:
    """A plan of 24 tasks, each done within 45 seconds, one after the other, for a dollar."""
    plan = make_plan(agent, "01-01", title="Weekly", now=NOW)
    at = NOW
    for number in range(24):
        id = add(plan, agent, number, now=NOW)
        at = attempt(agent, id, now=at, usage={"cost_usd": 1.0})
    Plan.objects.filter(pk=plan.pk).update(completed_at=at)
    return plan


def under_way(agent: Agent, tasks: int = 4, *, now: Any = NOW, ref: str = "03-01") -> Plan:
    plan = make_plan(agent, ref, title="Weekly", now=now)
    ids: list[Any] = []
    for number in range(tasks):
        ids.append(add(plan, agent, number, now=now, needs=ids[-1:]))
    return plan


@pytest.mark.django_db
def test_a_plan_under_way_is_forecast_from_like_tasks(agent: Agent, history: Plan) -> None:
    now = NOW + 60 * MINUTE
    plan = under_way(agent, now=now)
    assert read_forecast(plan).reason == "not_made"
    assert make_forecasts(now=now) == {"made": 1, "left": 0, "ended": 0}
    found = read_forecast(plan)
    assert found.ends_at and found.cost
    assert found.ends_at.low < found.ends_at.median < found.ends_at.high
    assert (found.ends_at.median - now).total_seconds() == pytest.approx(180, rel=0.1)
    assert (found.reason, found.cases, found.spent, found.cost_unit) == (None, 24, 0, "usd")
    assert found.cost.median == pytest.approx(4, rel=0.1)
    # nothing has changed, and nothing is computed until its time is over
    assert make_forecasts(now=now + MINUTE)["made"] == 0
    assert make_forecasts(now=now + stored.REST + MINUTE)["made"] == 1
    # with a task done it is shorter, what was spent counts, and the first forecast is kept
    first = Task.objects.get(plan=plan, ref="03-01:task-0")
    later = attempt(agent, first.pk, now=now + 20 * MINUTE, usage={"cost_usd": 3.0})
    assert make_forecasts(now=later)["made"] == 1
    found = read_forecast(plan)
    assert found.ends_at and found.cost and found.spent == 3.0
    assert (found.ends_at.median - later).total_seconds() < 160
    assert found.cost.median == pytest.approx(6, rel=0.1)
    kept = PlanForecast.objects.get(is_kept=True)
    assert (kept.plan_id, kept.made_at, kept.high_at) == (plan.pk, later, found.ends_at.high)


@pytest.mark.django_db
def test_what_keeps_a_plan_from_a_forecast_is_named(agent: Agent, history: Plan) -> None:
    now = NOW + 60 * MINUTE
    plan = under_way(agent, now=now)

    def reason() -> tuple[str | None, bool]:
        Task.objects.filter(plan=plan).update(updated_at=now)
        make_forecasts(now=now)
        found = read_forecast(plan)
        return found.reason, found.ends_at is not None

    assert reason() == (None, True)
    Agent.objects.update(paused=True)
    assert reason() == ("agent_paused", False)
    Agent.objects.update(paused=False)
    last = Task.objects.get(plan=plan, ref="03-01:task-3")
    Task.objects.filter(pk=last.pk).update(unmet=2)  # of which one is a task not imported yet
    assert reason() == ("stuck", False)
    Task.objects.filter(pk=last.pk).update(unmet=1)
    first = Task.objects.get(plan=plan, ref="03-01:task-0")
    for n in range(first.max_attempts):
        attempt(agent, first.pk, now=now + n * MINUTE, error="it broke")
    assert Task.objects.get(pk=first.pk).state == TaskState.ESCALATED
    now += 10 * MINUTE
    assert reason() == ("few_answers", False)
    # a paused plan has none, and gets one again once it goes on
    Plan.objects.filter(pk=plan.pk).update(paused_at=now)
    make_forecasts(now=now)
    assert not PlanForecast.objects.filter(plan=plan).exists()
    assert read_forecast(Plan.objects.get(pk=plan.pk)).reason == "not_under_way"


@pytest.mark.django_db
def test_19_attempts_are_too_few(agent: Agent, history: Plan) -> None:
    Attempt.objects.filter(pk__in=Attempt.objects.values("pk")[:5]).delete()
    now = NOW + 60 * MINUTE
    plan = under_way(agent, now=now)
    make_forecasts(now=now)
    found = read_forecast(plan)
    assert (found.reason, found.cases, found.ends_at) == ("few_cases", 19, None)


@pytest.mark.django_db
def test_waits_slots_and_other_work_are_read(agent: Agent, history: Plan) -> None:
    now = NOW + 60 * MINUTE
    under_way(agent, 2, now=now)
    make_task(agent, type="auto", priority=5, now=now)
    idle = make_agent("idle")
    make_task(idle, type="auto", priority=5, now=now)  # it takes no task of the plan
    Agent.objects.filter(pk=agent.pk).update(waits_until=now + 10 * MINUTE, concurrency=7)
    Agent.objects.filter(pk=idle.pk).update(concurrency=3)
    plan = Plan.objects.get(ref="03-01")
    Task.objects.filter(ref="03-01:task-1").update(not_before=now + 30 * MINUTE)

    def read() -> tuple[list[OpenTask], list[Slots]]:
        found = read_surroundings(agent.project_id, [plan.pk], now=now)
        return found.build(plan.pk, found.find_needed(plan.pk))

    # it ran one at a time
    (other, first, second), slots = read()
    assert slots == [Slots(1, 600.0)]
    assert [each.is_own for each in (other, first, second)] == [False, True, True]
    assert (second.needs, second.starts_in_s) == ((1,), 1_800.0)
    begun = begin(agent, Task.objects.get(ref="03-01:task-0").pk, now=now + 11 * MINUTE)
    now += 12 * MINUTE
    first = read()[0][1]
    assert (first.running_s, first.is_retry, first.attempts_left) == (60.0, False, 3)
    end(agent, begun, now=now, error="it broke")
    now += MINUTE
    first = read()[0][1]
    assert (first.running_s, first.is_retry, first.attempts_left) == (None, True, 2)


@pytest.mark.django_db
def test_what_a_plan_needs_of_others_is_simulated(agent: Agent, history: Plan) -> None:
    now = NOW + 60 * MINUTE
    idle = make_agent("idle")
    Agent.objects.filter(pk=idle.pk).update(concurrency=3)
    before = make_plan(agent, "02-01", now=now)
    base = add(before, idle, 0, now=now)
    between = add(before, idle, 1, now=now, needs=[base])
    plan = make_plan(agent, "03-01", now=now)
    add(plan, agent, 0, now=now, needs=[between])
    # what another plan's task needs is outside: it can't come before
    elsewhere = add(before, make_agent("elsewhere"), 2, now=now)
    blocked = add(before, agent, 3, now=now, needs=[elsewhere], priority=5)
    add(before, agent, 4, now=now, needs=[blocked], priority=5)
    found = read_surroundings(agent.project_id, [plan.pk], now=now)
    needed = found.find_needed(plan.pk)
    assert not found.is_stuck(needed)
    tasks, slots = found.build(plan.pk, needed)
    assert [(each.needs, each.is_own) for each in tasks] == [
        ((), False),
        ((0,), False),
        ((1,), True),
    ]
    asked = add(before, agent, 5, now=now, max_attempts=1, priority=9)
    attempt(agent, asked, now=now, error="it broke")
    now += MINUTE
    found = read_surroundings(agent.project_id, [plan.pk], now=now)
    tasks, slots = found.build(plan.pk, needed)
    assert (tasks[0].asked_s, tasks[0].is_own) == (15.0, False)
    # the idle agent has never run, and its concurrency is all that is known
    assert set(slots) == {Slots(3), Slots(1)}
    Agent.objects.filter(pk=idle.pk).update(paused=True)
    make_forecasts(now=now)
    assert read_forecast(plan).reason == "stuck"
    now += MINUTE
    assert plan.pk not in [row["id"] for row in sql.run(stored.DUE, of=None, before=NOW)]


@pytest.mark.django_db
def test_many_tasks_of_others_leave_a_plan_whole(
    agent: Agent, history: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_OTHERS", 2)
    monkeypatch.setattr(reading, "LEAST_OTHERS", 1)
    now = NOW + 60 * MINUTE
    for _ in range(5):
        make_task(agent, type="auto", priority=5, now=now)
    before = under_way(agent, 4, now=now, ref="02-01")
    plan = under_way(agent, 6, now=now)
    assert make_forecasts(now=now)["made"] == 2
    found = read_surroundings(agent.project_id, [before.pk, plan.pk], now=now)
    tasks, _ = found.build(plan.pk, found.find_needed(plan.pk))
    assert [each.is_own for each in tasks] == [False] * 2 + [True] * 6
    # a plan that has ended since has nothing to forecast
    assert found.find_needed(history.pk) == {}


@pytest.mark.django_db
def test_the_project_with_the_oldest_forecast_comes_first(agent: Agent, history: Plan) -> None:
    now = NOW + 60 * MINUTE
    other = make_agent("other", project=make_project("other"))
    plans = [under_way(each, 1, now=now, ref="05-01") for each in (agent, other)]
    make_forecasts(now=now)
    for early in plans:
        PlanForecast.objects.update(made_at=now)
        PlanForecast.objects.filter(plan=early).update(made_at=now - MINUTE)
        due = sql.run(stored.DUE, of=None, before=now + MINUTE)
        assert due[0]["id"] == early.pk


@pytest.mark.django_db
def test_a_late_plan_counts_as_outside_though_a_person_stops_it(
    agent: Agent, history: Plan
) -> None:
    now = NOW + 60 * MINUTE
    plan = under_way(agent, now=now)
    at = attempt(agent, Task.objects.get(ref="03-01:task-0").pk, now=now)
    make_forecasts(now=at)
    kept = PlanForecast.objects.get(plan=plan, is_kept=True)
    assert kept.high_at
    Plan.objects.filter(pk=plan.pk).update(aborted_at=kept.high_at + MINUTE)
    make_forecasts(now=kept.high_at + 2 * MINUTE)
    assert PlanForecast.objects.get(plan=plan).is_kept


@pytest.mark.django_db
def test_replaced_tasks_and_few_cases_make_no_work(agent: Agent) -> None:
    now = NOW + 60 * MINUTE
    plan = under_way(agent, 3, now=now)
    first, second, _ = Task.objects.filter(plan=plan).order_by("pk")
    attempt(agent, first.pk, now=now, usage={"cost_usd": 3.0})
    Task.objects.filter(pk=first.pk).update(replaced_by=second)
    now += MINUTE
    Task.objects.filter(plan=plan).update(updated_at=now)
    [row] = sql.run(stored.DUE, of=None, before=now)
    assert (row["total"], row["over"], row["usd"]) == (2, 0, 0.0)
    # few cases stay few when an agent is paused
    assert make_forecasts(now=now)["made"] == 1
    assert read_forecast(plan).reason == "few_cases"
    Agent.objects.update(paused=True)
    assert make_forecasts(now=now)["made"] == 0
    # a plan without an open task keeps no other from its turn
    Task.objects.filter(plan=plan).update(replaced_by=second)
    assert sql.run(stored.DUE, of=None, before=now + MINUTE) == []


def test_the_plans_of_a_reading_have_bounded_tasks() -> None:
    def open_tasks(*counts: int) -> list[int]:
        plans = stored.choose_plans({"total": count + 7, "over": 7} for count in counts)
        return [plan["total"] - 7 for plan in plans]

    assert open_tasks(stored.MOST_OPEN + 1, 1) == [stored.MOST_OPEN + 1]
    assert open_tasks(1, 2, stored.MOST_OPEN, 3) == [1, 2]


@pytest.mark.django_db
def test_the_share_of_ends_inside_their_intervals_is_counted_from_20_plans_on(
    agent: Agent, history: Plan
) -> None:
    now = NOW + 60 * MINUTE
    plan = under_way(agent, now=now)
    make_forecasts(now=now)

    def keep(number: int, ended: Any, **more: Any) -> None:
        PlanForecast.objects.create(
            plan=make_plan(agent, f"09-{number:02}", now=NOW, completed_at=ended),
            project=agent.project,
            run=1,
            is_kept=True,
            made_at=NOW,
            cases=20,
            low_at=NOW + MINUTE,
            median_at=NOW + 2 * MINUTE,
            high_at=NOW + 3 * MINUTE,
            ended_at=ended,
            **more,
        )

    for n in range(LEAST_PLANS - 2):
        keep(n, NOW + 2 * MINUTE)
    keep(50, NOW + 4 * MINUTE)
    found = read_forecast(plan).calibration
    assert (found.plans, found.inside, found.share) == (19, 18, None)
    keep(51, None)  # it goes on, and its interval is over
    found = read_forecast(plan).calibration
    assert (found.plans, found.inside, found.share) == (20, 18, 0.9)


@pytest.mark.django_db
def test_the_end_of_a_plan_is_compared_with_its_kept_forecast(agent: Agent, history: Plan) -> None:
    now = NOW + 60 * MINUTE
    plan = under_way(agent, now=now)
    at = attempt(agent, Task.objects.get(ref="03-01:task-0").pk, now=now)
    make_forecasts(now=at)
    assert PlanForecast.objects.filter(plan=plan).count() == 2
    for number in (1, 2, 3):
        at = attempt(agent, Task.objects.get(ref=f"03-01:task-{number}").pk, now=at)
    Plan.objects.filter(pk=plan.pk).update(completed_at=at)
    assert make_forecasts(now=at)["ended"] == 1
    kept = PlanForecast.objects.get(plan=plan)
    assert kept.low_at and kept.high_at
    assert kept.is_kept and kept.ended_at == at and kept.low_at <= at <= kept.high_at
    # an abort is a decision that no forecast knows of
    other = under_way(agent, now=at, ref="04-01")
    attempt(agent, Task.objects.get(ref="04-01:task-0").pk, now=at)
    make_forecasts(now=at + MINUTE)
    assert PlanForecast.objects.filter(plan=other).count() == 2
    Plan.objects.filter(pk=other.pk).update(aborted_at=at + MINUTE)
    make_forecasts(now=at + 2 * MINUTE)
    assert not PlanForecast.objects.filter(plan=other).exists()
