"""The buttons of a plan."""

from datetime import datetime
from uuid import UUID, uuid4

import pytest
from django.test import Client

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Plan, Task
from retries import in_process
from tests.dashboard.plans.conftest import IMPORT, MARKDOWN, URL, address, form
from tests.dashboard.seen import html, said, words


def do(client: Client, plan: Plan, verb: str, **data: str) -> str:
    return said(client, f"{address(plan)}{verb}/", data)


def test_a_plan_is_paused_and_resumed(
    browser: Client, under_way: tuple[Plan, list[UUID]], agent: Agent, now: datetime
) -> None:
    plan, _ = under_way
    assert "Pause plan" in words(browser.get(address(plan)))
    assert "Plan paused. Agents get no more of its tasks" in do(browser, plan, "pause")
    plan.refresh_from_db()
    assert plan.state == "paused"
    assert "Nothing changed. The plan changed in the meantime." in do(browser, plan, "pause")
    page = words(browser.get(address(plan)))
    assert "Resume plan" in page and "Pause plan" not in page
    assert "mara paused “ 03-01 Ledger ”" in page
    assert "Plan resumed." in do(browser, plan, "resume")


def test_abort_asks_first_and_lists_what_it_stops(
    browser: Client, under_way: tuple[Plan, list[UUID]]
) -> None:
    """S1.46: running tasks are told to stop, others are aborted, questions are withdrawn."""
    plan, ids = under_way
    response = browser.post(f"{address(plan)}abort/", follow=True)
    assert response.redirect_chain[-1][0] == f"{address(plan)}?ask=abort"
    asked = words(response)
    assert "Abort this plan?" in asked and "1 running task is told to stop" in asked
    assert "4 pending tasks are aborted. 1 open question is withdrawn." in asked
    assert Plan.objects.get(pk=plan.pk).state == "active"
    assert "Plan aborted." in do(browser, plan, "abort", confirmed="yes", reason="wrong branch")
    states = [Task.objects.get(pk=id).state for id in ids]
    assert states == ["done", "aborted", "aborted", "aborted", "running", "aborted"]
    page = words(browser.get(address(plan)))
    assert "mara aborted it : wrong branch" in page
    assert "Restart…" not in page and "can restart after running tasks end" in page


@pytest.mark.parametrize("carried", [False, True])
def test_a_restart_starts_a_new_run(
    browser: Client, under_way: tuple[Plan, list[UUID]], agent: Agent, now: datetime, carried: bool
) -> None:
    """S1.34, S1.35: counters start at 0, unless they are carried over."""
    plan, ids = under_way
    do(browser, plan, "abort", confirmed="yes")
    attempt = Task.objects.get(pk=ids[4]).current_attempt
    in_process.report_success(attempt, {}, stamp=Stamp(SYSTEM, now))  # type: ignore[arg-type]
    asked = words(browser.get(address(plan), {"ask": "restart"}))
    assert "Restart this plan?" in asked and "start over as run 2." in asked
    none = do(browser, plan, "restart", confirmed="yes", counters="carry", carry_over="soon")
    assert "Nothing changed. Enter the date and time" in none
    more = {"counters": "carry", "carry_over": "2020-01-01T00:00"} if carried else {}
    assert "Plan restarted as run 2." in do(browser, plan, "restart", confirmed="yes", **more)
    new = Task.objects.current().get(ref="03-01:task-2")
    assert new.pk != ids[1] and new.attempts == (1 if carried else 0)
    pips = '<i class="f"></i><i></i>' if carried else "<i></i></span>"
    assert pips in html(browser.get(address(plan)))
    page = words(browser.get(address(plan)))
    assert (
        "Previous runs 1 Run 1" in page
        and "run 2" in page
        and "mara restarted it as run 2, with" in page
    )


def test_actions_need_an_operator_a_post_and_an_existing_plan(
    browser: Client, under_way: tuple[Plan, list[UUID]]
) -> None:
    plan, _ = under_way
    assert browser.get(f"{address(plan)}pause/").status_code == 405
    assert browser.post(f"{address(plan)}explode/").status_code == 404
    assert browser.post(f"{URL}{uuid4()}/pause/").status_code == 404
    assert Client().post(f"{address(plan)}pause/").status_code == 302
    assert Plan.objects.get(pk=plan.pk).state == "active"


def test_proposed_commands_are_confirmed_on_the_plan_page(browser: Client, agent: Agent) -> None:
    """A task that has changed since the page was loaded is not confirmed."""
    task = MARKDOWN.partition("<tasks>\n")[2].partition("</tasks>")[0]
    browser.post(IMPORT, form(MARKDOWN.replace(task, task * 3), confirmed="yes"))
    plan = Plan.objects.get()
    one, two, three = Task.objects.order_by("ref")
    page = words(browser.get(f"{URL}{plan.pk}/"))
    assert "Proposed commands 3" in page and "$ npm test -- Error" in page
    verb, seen = f"{URL}{plan.pk}/commands/", [f"{task.pk}:{task.version}" for task in (one, two)]
    done = browser.post(verb, {"one": seen[0], "all": seen}, follow=True)
    assert "Confirmed 1 command." in words(done) and "Proposed commands 2" in words(done)
    stale = browser.post(verb, {"all": [f"{two.pk}:{two.version + 1}", "x"]}, follow=True)
    assert "Nothing changed." in words(stale)
    browser.post(verb, {"all": seen})
    verified = [Task.objects.get(pk=task.pk).payload["verify"] for task in (one, two, three)]
    assert [each.get("command") for each in verified] == ["npm test -- Error"] * 2 + [None]
    assert Client().post(verb, {"all": seen}).status_code in (302, 403)
