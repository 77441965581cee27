"""The page of budgets and prices, and the lines about budgets on the pages of plans and tasks."""

from datetime import datetime, timedelta

import pytest
from django.test import Client

from ledger.models import Agent, Budget, ModelPrice, Task
from retries.models import Escalation
from tests.dashboard.seen import html, said, words
from tests.dashboard.worked import enqueued, make_plan
from tests.factories import make_project
from tests.retries.budgets.spending import current, report, set_budget
from tests.retries.moves import attempt_of, claim

PATH = "/settings/budgets/"
SAVE, SAVE_PRICE = f"{PATH}save/", f"{PATH}prices/save/"
FORM = {"scope": "project", "name": "", "amount": "2M tokens", "period": "day", "at_limit": "ask"}
PRICE = {"model": "own", "starts_on": "2026-01-01", "input": "2", "output": "4"}
SECOND = timedelta(seconds=1)


def spend(agent: Agent, *, tokens: int, now: datetime, **more: object) -> None:
    report(agent, attempt_of(claim(agent, now=now)), tokens=tokens, now=now, **more)


def test_without_a_budget_the_page_says_so_and_lists_prices(browser: Client, agent: Agent) -> None:
    page = words(browser.get(PATH))
    assert "No budget is set: tasks use what they need." in page
    assert "claude-sonnet-4-5 2025-09-29 3 15 0.3 3.75 shipped" in page
    assert "Not counted in dollars" not in page


def test_a_budget_is_set_raised_granted_and_removed(browser: Client, agent: Agent) -> None:
    assert "Set a budget of the project." in said(browser, SAVE, FORM)
    budget = Budget.objects.get()
    assert (budget.amount, budget.unit, budget.period) == (2_000_000, "tokens", "day")
    assert "0% 0 of 2,000,000 tokens per day (UTC)" in words(browser.get(PATH))
    at = f"{PATH}{budget.pk}/"
    assert "Changed a budget of the project." in said(
        browser, f"{at}change/", {"amount": "3M tokens"}
    )
    assert "Granted more to the project." in said(browser, f"{at}grant/", {"amount": "5k tokens"})
    assert "0 of 3,005,000 tokens per day (UTC) (5,000 tokens granted)" in words(browser.get(PATH))
    refused = said(browser, f"{at}grant/", {"amount": "5 USD"})
    assert "grant an amount in tokens" in refused and "You typed: “5 USD”" in refused
    assert "Removed a budget of the project." in said(browser, f"{at}remove/", {})
    assert not Budget.objects.exists()
    assert browser.post(f"{at}remove/").status_code == 404


def test_a_plan_and_a_task_are_named_by_ref_or_id(
    browser: Client, agent: Agent, now: datetime
) -> None:
    make_plan("03-01", [("One", [])], agent=agent, now=now)
    alone = enqueued(agent, "Alone", now=now)
    for scope, name in (("plan", "03-01"), ("task", "03-01:task-1"), ("task", str(alone))):
        said(browser, SAVE, FORM | {"scope": scope, "name": name, "period": "total"})
    assert Budget.objects.filter(plan__ref="03-01").count() == 1
    assert Budget.objects.filter(task__isnull=False).count() == 2
    page = words(browser.get(PATH))
    assert "plan 03-01" in page and "task Alone" in page and "task One" in page


@pytest.mark.parametrize(
    "typed",
    [
        {"amount": "lots"},
        {"amount": ""},
        {"scope": "plan", "name": "99-99"},
        {"scope": "task", "name": "\0"},
        {"scope": "fleet"},
        {"zone": "Mars/Base"},
        {"period": "week"},
        {"at_limit": "panic"},
    ],
)
def test_a_wrong_form_is_shown_again_with_what_was_typed(
    browser: Client, agent: Agent, typed: dict[str, str]
) -> None:
    response = browser.post(SAVE, FORM | typed)
    page = html(response, 422)
    assert 'role="alert"' in page and not Budget.objects.exists()
    if typed.get("amount"):
        assert 'value="lots"' in page


def test_prices_are_set_and_removed(browser: Client, agent: Agent) -> None:
    assert "Set the price of own from 2026-01-01 on." in said(browser, SAVE_PRICE, PRICE)
    row = ModelPrice.objects.get()
    assert (row.input, row.cache_read, row.created_by_name) == (2, 2, "mara")
    assert "own 2026-01-01 2 4 2 2 mara" in words(browser.get(PATH))
    for wrong in ({"input": "cheap"}, {"starts_on": "soon"}, {"model": ""}, {"output": "NaN"}):
        assert "Nothing was changed." in said(browser, SAVE_PRICE, PRICE | wrong)
    said(browser, SAVE_PRICE, PRICE | {"model": "claude-sonnet-4-5"})
    assert "shipped, replaced" in words(browser.get(PATH))
    removed = said(browser, f"{PATH}prices/{row.pk}/remove/", {})
    assert "Removed the price of own" in removed and ModelPrice.objects.count() == 1


def test_the_page_names_reports_that_have_no_price(
    browser: Client, agent: Agent, now: datetime
) -> None:
    set_budget(agent, 5, unit="usd", now=now)
    enqueued(agent, now=now)
    spend(agent, tokens=0, now=now, usage={"input_tokens": 9, "model": "<b>own</b>"})
    page = browser.get(PATH).content.decode()
    assert "Not counted in dollars:" in page and "&lt;b&gt;own&lt;/b&gt;" in page
    assert "<b>own</b>" not in page


def test_plans_tasks_and_limits_show_what_is_used(
    browser: Client, agent: Agent, now: datetime
) -> None:
    plan, (first, second) = make_plan("03-01", [("One", []), ("Two", [])], agent=agent, now=now)
    budget = set_budget(agent, 1000, plan=plan.pk, at_limit="stop", now=now)
    set_budget(agent, 10_000, period="day", now=now)
    spend(agent, tokens=1040, now=now)
    line = "104% 1,040 of 1,000 tokens in total used up"
    for path in (f"/plans/{plan.pk}/", f"/tasks/{second}/", "/limits/", PATH):
        page = words(browser.get(path))
        assert line in page, path
        assert "1,040 of 10,000 tokens per day (UTC)" in page, path
    assert "its plan’s budget is used up" in words(browser.get(f"/tasks/{second}/"))
    assert "on hold, budget used up" in words(browser.get("/tasks/"))
    assert current(budget).reached_at and first
    assert "The plan 03-01" not in words(browser.get("/activity/"))
    assert "Plan 03-01 has used up a budget: 1,040 of 1,000 tokens in total" in words(
        browser.get("/activity/")
    )


def test_the_question_is_answered_on_its_page(browser: Client, agent: Agent, now: datetime) -> None:
    set_budget(agent, 1000, now=now)
    for _ in range(2):
        enqueued(agent, "Write it", now=now)
    spend(agent, tokens=1000, now=now)
    asked = Escalation.objects.get()
    page = words(browser.get(f"/escalations/{asked.pk}/"))
    assert (
        "a budget is used up" in page and "1,000 of 1,000 tokens" in page and "Grant more" in page
    )
    sent = {"action": "grant", "fix": "5 USD", "version": asked.version}
    wrong = browser.post(f"/escalations/{asked.pk}/answer/", sent)
    assert "grant an amount in tokens" in html(wrong, 422)
    done = browser.post(
        f"/escalations/{asked.pk}/answer/", sent | {"fix": "500 tokens"}, follow=True
    )
    assert done.status_code == 200
    assert "granted more of the budget" in words(browser.get(f"/escalations/{asked.pk}/"))
    assert Task.objects.get(pk=asked.task_id).state == "queued"


def test_another_projects_budget_is_not_found(browser: Client, agent: Agent, now: datetime) -> None:
    make_project("other")
    budget = set_budget(agent, now=now)
    gone = browser.post(f"{PATH}{budget.pk}/remove/?project=other")
    assert gone.status_code == 404 and Budget.objects.exists()
    assert "Choose a project" in words(browser.get(PATH))
