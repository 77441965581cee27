"""Insight in a browser: whole in every theme and width, and worked without JavaScript."""

from collections.abc import Callable
from datetime import datetime

from playwright.sync_api import expect

from ledger.models import Agent
from retries.models import AckTarget, ContextExperiment
from tests.browser.conftest import THREE_WIDTHS, Visitor, assert_whole, set_width
from tests.dashboard.insight.worlds import (
    make_answers,
    make_costs,
    make_experiment,
    make_outcomes,
    make_policies,
    make_predictions,
    make_targets,
    make_times,
)
from tests.dashboard.worked import enqueued
from tests.factories import as_name, make_agent, make_project
from tests.retries.renderings.stories import make_plan

# elements that hide a part of their height
CUT = """all => all.filter((each) => /auto|scroll|hidden/.test(getComputedStyle(each).overflowY)
    && each.scrollHeight > each.clientHeight + 40 && each.clientHeight > 40).map(each => each.className)"""


def test_the_page_is_whole(visit: Callable[..., Visitor], coder: Agent, now: datetime) -> None:
    """Empty, and with experiments of all kinds, hostile titles and several projects."""
    visitor = visit().signed_in()
    page = assert_whole(visitor, "/insight/")
    expect(page.locator("#experiments")).to_contain_text("No experiment has run here.")
    make_project("other")
    hostile = make_agent(as_name("<b>" + "w" * 60))
    make_experiment(coder, "known", (486, 355, 54, 22), now=now, ends=True)
    make_experiment(coder, "nothing", (448, 313, 50, 36), now=now, ends=True)
    make_experiment(coder, "standing", (300, 200, 49, 20), now=now, ends=False)
    make_answers(coder, now=now)
    make_targets(coder, now=now)
    make_times(coder, make_plan(coder), now=now)
    make_outcomes(coder, now=now)
    make_costs(coder, now=now)
    make_policies(coder, now=now)
    make_predictions(hostile, now=now, count=12)

    page = assert_whole(
        visitor,
        "/insight/",
        widths=THREE_WIDTHS,
        act=lambda page: page.locator(".page summary").first.click(),
    )
    expect(page.locator(".exp")).to_have_count(3)
    expect(page.locator(".prs li")).to_have_count(9)
    set_width(page, 1440)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("#periods")).to_have_attribute("data-cursor", "")
    page.keyboard.press("1")
    page.wait_for_url("**/insight/?range=24h")
    expect(page.locator("#cost")).to_contain_text("No agent reported its usage in the last 24 h.")
    page.keyboard.press("3")
    expect(page.locator("#cost")).to_contain_text("$1,318")


def test_an_experiment_is_started_and_ended_without_script(
    visit: Callable[..., Visitor], coder: Agent
) -> None:
    page = visit(java_script_enabled=False).sign_in("/insight/")
    page.click("text=Start an experiment…")
    page.select_option("#start-element", "known")
    page.fill("#start-reason", "do they help?")
    page.click("button:has-text('Start experiment')")
    expect(page.locator("body")).to_contain_text("Experiment started in default")
    page.click("text=Details, end…")
    page.fill("[id^=end-]", "enough")
    page.click("button:has-text('End experiment')")
    expect(page.locator("body")).to_contain_text("Every task gets whole contexts again.")
    assert ContextExperiment.objects.get().end_reason == "enough"


def test_it_is_opened_by_key(visit: Callable[..., Visitor], coder: Agent) -> None:
    page = visit().sign_in("/settings/")
    page.keyboard.type("gn")  # in one call, so that the second is in time
    page.wait_for_url("**/insight/")


def test_a_target_is_set_and_removed(visit: Callable[..., Visitor], coder: Agent) -> None:
    visitor = visit()
    page = visitor.sign_in("/insight/")
    page.click("text=Set a target…")
    page.get_by_label("Share, in percent").fill("99")
    page.get_by_label("Within, in seconds").fill("60")
    page.get_by_role("button", name="Set target").click()
    expect(page.locator("#toasts")).to_contain_text("Target of coder set.")
    target = AckTarget.objects.get()
    assert (target.percent, target.within_s) == (99, 60)
    page.click("text=Set a target…")
    page.get_by_role("button", name="Remove target").click()
    expect(page.locator("#toasts")).to_contain_text("coder has no such target.")
    assert not AckTarget.objects.exists() and visitor.complaints == []


def test_a_printed_page_has_all_rows(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """OPR-16: paper has no part that scrolls."""
    for _ in range(30):
        enqueued(coder, now=now)
    visitor = visit().signed_in()
    page = visitor.open("/insight/")
    page.evaluate("window.print = () => { document.title = 'printed' }")
    page.get_by_role("button", name="Print").click()
    assert page.title() == "printed"
    page.emulate_media(media="print")
    for path in ("/insight/", "/tasks/", "/settings/tokens/"):
        page = visitor.open(path)
        cut = page.eval_on_selector_all(".shell, .pane, main, main *", CUT)
        assert cut == [], path
        assert page.evaluate("document.documentElement.scrollHeight") > 900 or path != "/tasks/"
