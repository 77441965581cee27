"""What a person answers to the question about a budget, and what frees its tasks without one."""

from datetime import timedelta
from typing import Any

import pytest

from ledger.errors import Invalid, InvalidTransition
from ledger.journal import Actor, Stamp
from ledger.models import Agent, Attempt, Budget, Event, Failure, Plan, Project, Task
from retries.budgets import asking, counting, editing
from retries.escalations import answering, choices, expiry
from retries.escalations.lifecycle import AlreadyResolved
from retries.escalations.options import list_options, name_answers
from retries.escalations.record import render_escalation
from retries.models import Escalation
from retries.retry_context.history import load_histories
from retries.tasks import actions as task_actions
from tests.dashboard.worked import make_plan
from tests.factories import MINUTE, NOW
from tests.retries.budgets.spending import current, set_budget, spend
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db

PERSON = Stamp(Actor("user", "1", "mara"), NOW)
DAY = timedelta(days=1)


@pytest.fixture
def asked(agent: Agent) -> Escalation:
    """A question about a project's budget of 1,000 tokens."""
    set_budget(agent)
    for _ in range(3):
        make_task(agent)
    spend(agent)
    return Escalation.objects.get()


def answer(asked: Escalation, text: str, **more: Any) -> Escalation:
    return answering.answer(
        asked.pk,
        choices.parse(text),
        among=Escalation.objects.all(),
        stamp=PERSON,
        channel="api",
        **more,
    )


def test_the_question_says_the_figures_and_how_to_grant_more(asked: Escalation) -> None:
    text = render_escalation(asked)
    assert "It waits for a budget that is used up." in text
    assert "> The budget of the project is used up: 1,000 of 1,000 tokens." in text
    assert "- `grant: <amount>`" in text and "- `skip`" in text
    assert [str(each.name) for each in list_options(asked)] == [
        *("grant", "fix", "retry", "skip", "abort")
    ]
    assert [str(name) for name, _ in name_answers(asked)] == [
        *("grant", "fix", "retry", "skip", "abort")
    ]


def test_a_grant_queues_the_task_and_frees_the_others(asked: Escalation, agent: Agent) -> None:
    before = Task.objects.get(pk=asked.task_id)
    answered = answer(asked, "grant: 2,500 tokens")
    assert (answered.action, answered.fix) == ("grant", "2,500 tokens")
    task = Task.objects.get(pk=asked.task_id)
    assert (task.state, task.attempt_limit) == ("queued", before.attempt_limit)
    budget = Budget.objects.get()
    assert (budget.granted, budget.limit_now(NOW), budget.reached_at) == (2500, 3500, None)
    assert Event.objects.get(kind="budget.granted").actor_name == "mara"
    assert len(claim(agent, limit=5).rows) == 2
    with pytest.raises(AlreadyResolved):
        answer(asked, "grant: 1 tokens")
    assert Budget.objects.get().granted == 2500


def test_a_retry_without_a_grant_goes_on_at_the_old_limit(asked: Escalation, agent: Agent) -> None:
    option = next(each for each in list_options(asked) if each.name == "retry")
    assert "at the old limit" in option.description
    answer(asked, "retry")
    assert Task.objects.get(pk=asked.task_id).state == "queued"
    assert claim(agent).reason == "budget_used"
    # no one is asked again at the same limit
    assert expiry.process_due(now=NOW)["expired"] == 0
    assert Escalation.objects.count() == 1


def test_a_retry_from_the_page_can_be_undone(asked: Escalation) -> None:
    answer(asked, "retry", undo_for=timedelta(seconds=10))
    assert Task.objects.get(pk=asked.task_id).state == "retry"
    answering.undo(asked.pk, among=Escalation.objects.all(), stamp=PERSON)
    task = Task.objects.get(pk=asked.task_id)
    assert (task.state, task.attempt_limit) == ("escalated", 3)


@pytest.mark.parametrize(("text", "state"), [("skip", "skipped"), ("abort", "aborted")])
def test_skip_and_abort_end_the_task_alone(
    asked: Escalation, agent: Agent, text: str, state: str
) -> None:
    answer(asked, text)
    assert Task.objects.get(pk=asked.task_id).state == state
    assert Task.objects.filter(state="queued").count() == 1
    assert claim(agent).reason == "budget_used"


def test_a_fix_guides_the_next_attempt(asked: Escalation, agent: Agent) -> None:
    answer(asked, "fix: use the small model")
    editing.change_budget(
        Budget.objects.get().pk, amount=Budget.objects.get().amount * 9, stamp=PERSON
    )
    assert claim(agent, task=asked.task_id).rows
    history = load_histories([asked.task_id])[asked.task_id]
    assert "use the small model" in str(history)


def test_a_grant_is_no_guidance_for_the_agent(agent: Agent) -> None:
    set_budget(agent)
    id = make_task(agent)
    fail(agent, attempt_of(claim(agent)), now=NOW, usage={"input_tokens": 1000})
    asked = Escalation.objects.get()
    assert asked.task_id == id
    answer(asked, "grant: 5000 tokens")
    assert claim(agent).rows
    assert "5000" not in str(load_histories([id])[id])


@pytest.mark.parametrize("text", ["grant: 5 USD", "grant: lots", "grant: 0 tokens"])
def test_a_grant_needs_an_amount_of_the_budgets_unit(asked: Escalation, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        answer(asked, text)
    assert refused.value.more["errors"][0]["pointer"] == "/instruction"
    assert Escalation.objects.get().is_open and Budget.objects.get().granted == 0


def test_only_a_question_about_a_budget_takes_a_grant(agent: Agent) -> None:
    make_task(agent, max_attempts=1, on_exhausted="escalate")
    fail(agent, attempt_of(claim(agent)), now=NOW)
    asked = Escalation.objects.get()
    assert "grant" not in [str(each.name) for each in list_options(asked)]
    with pytest.raises(Invalid, match="waits for a budget"):
        answer(asked, "grant: 5000 tokens")


def test_a_grant_that_is_not_enough_asks_again(asked: Escalation, agent: Agent) -> None:
    budget = Budget.objects.get()
    budget.used = 9000
    budget.save()
    answer(asked, "grant: 10 tokens")
    assert claim(agent).reason == "budget_used"
    assert asking.ask_pending(now=NOW) == 1
    assert Escalation.objects.open().count() == 1


def test_a_raised_limit_withdraws_the_question(asked: Escalation, agent: Agent) -> None:
    budget = Budget.objects.get()
    editing.change_budget(budget.pk, amount=budget.amount + 1, stamp=PERSON)
    assert Escalation.objects.get().state == "withdrawn"
    assert Task.objects.get(pk=asked.task_id).state == "queued"
    assert len(claim(agent, limit=5).rows) == 2


def test_a_removed_budget_withdraws_the_question(asked: Escalation, agent: Agent) -> None:
    editing.remove_budget(Budget.objects.get().pk, stamp=PERSON)
    assert Escalation.objects.get().state == "withdrawn"
    assert Project.objects.get(pk=agent.project_id).spent_until is None
    assert len(claim(agent, limit=5).rows) == 2


def test_the_next_day_frees_the_tasks_and_the_question(agent: Agent) -> None:
    budget = set_budget(agent, period="day")
    for _ in range(3):
        make_task(agent)
    spend(agent)
    asked = Escalation.objects.get()
    assert asked.expires_at == current(budget).ends_at(NOW)
    tomorrow = NOW + DAY
    assert expiry.process_due(now=tomorrow)["expired"] == 1
    assert Escalation.objects.get().state == "expired"
    assert len(claim(agent, now=tomorrow, limit=5).rows) == 2


def test_a_grant_per_day_holds_for_the_day(agent: Agent) -> None:
    budget = set_budget(agent, period="day")
    for _ in range(2):
        make_task(agent)
    spend(agent)
    answer(Escalation.objects.get(), "grant: 4000 tokens")
    assert current(budget).limit_now(NOW) == 5000
    assert current(budget).limit_now(NOW + DAY) == 1000


def test_a_question_whose_task_ends_is_asked_about_another_task(
    asked: Escalation, agent: Agent
) -> None:
    task_actions.abort([asked.task_id], stamp=PERSON)
    assert Escalation.objects.get().state == "withdrawn"
    assert [asking.ask_pending(now=NOW) for _ in range(2)] == [1, 0]
    again = Escalation.objects.open().get()
    assert (again.reason, again.task_id == asked.task_id) == ("budget_used", False)
    answer(again, "grant: 5000 tokens")
    assert claim(agent).rows


def test_a_budget_that_only_stopped_asks_again(asked: Escalation) -> None:
    budget = Budget.objects.get()
    for at_limit, is_asked in (("stop", False), ("ask", True)):
        editing.change_budget(budget.pk, at_limit=at_limit, stamp=PERSON)
        assert Escalation.objects.open().exists() is is_asked


@pytest.mark.parametrize("scope", ["task", "plan", "project"])
def test_an_agent_whose_retry_waits_for_a_budget_asks_seldom(agent: Agent, scope: str) -> None:
    plan, (id, other) = make_plan("03-01", [("One", []), ("Two", [])], agent=agent, now=NOW)
    running = attempt_of(claim(agent, task=id))
    of = {"task": {"task": id}, "plan": {"plan": plan.pk}, "project": {}}[scope]
    budget = set_budget(agent, at_limit="stop", **of)
    Budget.objects.filter(pk=budget.pk).update(used=5000)
    counting.refresh_stops([current(budget)], now=NOW)
    fail(agent, running, now=NOW, message="stopped")
    spend(agent, task=other) if scope == "task" else None
    assert Task.objects.get(pk=id).due_at == NOW
    found = claim(agent, now=NOW + MINUTE)
    assert (found.reason, found.next_due_at) == ("budget_used", None)
    assert found.retry_after_s > 1


def test_a_task_that_is_over_does_not_wait_for_a_budget(agent: Agent) -> None:
    set_budget(agent, at_limit="stop")
    id = make_task(agent)
    spend(agent)
    with pytest.raises(InvalidTransition) as refused:
        claim(agent, task=id)
    assert refused.value.more["current"] == "done" and "budget" not in refused.value.detail


def test_stop_asks_no_one(agent: Agent) -> None:
    budget = set_budget(agent, at_limit="stop")
    for _ in range(2):
        make_task(agent)
    spend(agent)
    assert not Escalation.objects.exists() and claim(agent).reason == "budget_used"
    editing.change_budget(budget.pk, at_limit="ask", stamp=PERSON)
    assert Escalation.objects.get().is_open
    editing.change_budget(budget.pk, at_limit="stop", stamp=PERSON)
    assert not Escalation.objects.open().exists()


def test_a_task_that_uses_up_its_own_budget_asks_about_itself(agent: Agent) -> None:
    id = make_task(agent)
    make_task(agent)
    set_budget(agent, task=id)
    decision = fail(agent, attempt_of(claim(agent, task=id)), now=NOW, usage={"input_tokens": 1000})
    assert decision["task"]["state"] == "escalated"
    assert Escalation.objects.get().task_id == id
    assert len(claim(agent, limit=5).rows) == 1
    answer(Escalation.objects.get(), "grant: 1 token")
    assert claim(agent, now=NOW + DAY).rows[0]["id"] == id


def test_what_is_asked_to_stop_has_not_failed(agent: Agent) -> None:
    plan, ids = make_plan("03-01", [(f"Task {n}", []) for n in range(3)], agent=agent, now=NOW)
    running = attempt_of(claim(agent, task=ids[1]))
    set_budget(agent, plan=plan.pk, at_limit="stop")
    spend(agent, task=ids[0])
    decision = fail(agent, running, now=NOW, message="stopped")
    assert (decision["decision"], decision["reason"]) == ("wait", "budget_used")
    task = Task.objects.get(pk=ids[1])
    assert (task.state, task.retry_count, task.attempt_limit) == ("retry", 0, 2)
    assert not Failure.objects.exists()
    assert Attempt.objects.get(pk=running).outcome == "released"
    assert not claim(agent, now=NOW + DAY).rows
    assert Plan.objects.get().spent_until


def test_a_check_that_failed_has_failed_all_the_same(agent: Agent) -> None:
    id = make_task(agent, payload={"verify": {"command": "make test"}})
    running = attempt_of(claim(agent, task=id))
    other = make_task(agent)
    set_budget(agent, at_limit="stop")
    spend(agent, task=other)
    ran = {"command": "make test", "exit_code": 1, "output": "1 failed"}
    fail(agent, running, now=NOW, verification=ran, exit_code=1)
    assert Failure.objects.get().message == "it broke"


def test_the_system_is_the_one_that_asks(asked: Escalation) -> None:
    assert (asked.raised_by_type, asked.raised_by_name) == ("system", "budgets")
    moved = Event.objects.get(kind="task.escalated")
    assert (moved.from_state, moved.to_state, moved.data["reason"]) == (
        "queued",
        "escalated",
        "budget_used",
    )
