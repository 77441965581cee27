"""The inbox at volume in a browser: 70 open escalations, worked by keys and on a phone."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from ledger.models import Agent
from retries.models import Escalation, Operation
from tests.browser.conftest import (
    THREE_WIDTHS,
    UNDO_TIME,
    Visitor,
    assert_whole,
    assert_whole_as_it_is,
    axe_findings,
    overflow,
    set_width,
    shoot,
    wait_for_boxes,
    wait_until,
)
from tests.dashboard.escalations.test_escalations import address, ignored, jonas_answers
from tests.dashboard.escalations.test_inbox import LXML, TABLE, escalated
from tests.dashboard.escalations.test_task_escalations import asked
from tests.dashboard.worked import enqueued
from tests.factories import make_agent
from tests.retries.failures.test_suggestions import fixed
from tests.retries.operations.worlds import run

URL = "/escalations/"
MINUTE = timedelta(minutes=1)
HOSTILE = "<script>document.title = 'owned'</script>" + "w" * 150
LONG = "Backfill the ledger entries of every invoice of 2024 and check the totals of each currency"
DENIED = "permission denied for table ledger_entries"
FIX = 'Add lxml to the test dependencies, then run "uv sync"'


@pytest.fixture
def lxml(coder: Agent, mara: User, now: datetime) -> list[Escalation]:
    """The largest group of 70 open escalations, oldest first; its fix worked before."""
    User.objects.create_superuser("jonas")
    fixed(coder, FIX, works=True, now=now - 300 * MINUTE, message=LXML)
    agents = [coder, make_agent("tester"), make_agent("codex-on-the-build-machine-in-the-cellar")]
    group = []
    for number in range(23):
        at = now - (240 - 10 * number) * MINUTE
        group.append(escalated(agents[number % 3], f"{LONG} {number}", LXML, now=at))
    for number in range(30):
        error = TABLE if number < 18 else DENIED
        escalated(agents[number % 2], f"Step {number}", error, now=now - (60 - number) * MINUTE)
    for number in range(5):
        error = f"{'abcde'[number]} {HOSTILE}"
        escalated(agents[1], f"{HOSTILE} {number}", error, now=now - MINUTE)
    for number in range(6):
        asked(agents[1], now=now - number * MINUTE)
        ignored(make_agent(f"silent-{number}"), HOSTILE, now=now - number * MINUTE)
    for _ in range(3):
        enqueued(coder, "Close the month", now=now, needs=[group[2].task_id])
    assert Escalation.objects.open().count() == 70
    return group


def lines(page: Page) -> list[str]:
    return [str(each.get_attribute("id")) for each in page.locator("li[data-row]:visible").all()]


def follow(page: Page, keys: str, to: Escalation) -> None:
    """Press keys that open an escalation."""
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_url(re.compile(str(to.pk)))
    expect(page.locator(f"#esc-{to.pk}")).to_have_attribute("data-cursor", "")


def test_seventy_questions_are_worked_by_keys(
    visit: Callable[..., Visitor], lxml: list[Escalation], now: datetime
) -> None:
    """Deep link, J and K, assign, snooze, filter, one answer and its undo."""
    visitor = visit()
    page = visitor.sign_in(address(lxml[9]))
    current = page.locator(f"#esc-{lxml[9].pk}")
    expect(current).to_be_in_viewport()
    expect(page.locator(".egroup details[open]")).to_have_count(1)
    expect(page.locator(".egroups__end")).to_contain_text("All 70")
    # the fix that worked for the same error is filled in, and its preview follows it
    expect(page.locator("#fix")).to_have_value(FIX)
    expect(page.locator("#fix-hint")).to_contain_text("worked 1 of 1")
    expect(page.locator("#preview")).not_to_have_attribute("open", "")
    page.locator("#preview summary").click()
    expect(page.locator("#told")).to_contain_text("Add lxml to the test dependencies")
    shoot(page, "inbox-1440")
    # no title is cut at 17 characters: the pane of the list has room for three times as many
    name = page.locator(f"#esc-{lxml[9].pk} .eline__name")
    assert int(name.evaluate("each => each.clientWidth")) > 220
    # the one that most tasks wait for comes first, so what follows the ninth is the tenth
    follow(page, "j", lxml[10])
    follow(page, "k", lxml[9])
    page.keyboard.press("m")
    expect(page.locator("#assign-menu summary")).to_contain_text("You")
    page.click("#assign-menu summary")
    page.click("#assign-menu button:has-text('jonas')")
    expect(page.locator("#assign-menu summary")).to_contain_text("jonas")
    page.keyboard.press("h")
    expect(page.locator("#snooze-menu .menu__it").first).to_be_focused()
    shoot(page, "inbox-snooze")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(str(lxml[10].pk)))
    expect(page.locator("#toasts")).to_contain_text("Snoozed until")
    expect(page.locator("#filters")).to_contain_text("Open 69")
    expect(page.locator("#filters")).to_contain_text("Snoozed 1")
    # an answer opens the next line of the group; Z takes it back
    page.keyboard.press("f")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(f"{lxml[11].pk}.*answered={lxml[10].pk}"))
    expect(page.locator("#escalation-title")).to_be_focused()
    page.keyboard.press("z")
    page.wait_for_url(re.compile(str(lxml[10].pk)))
    expect(page.locator(".answer")).to_contain_text("Answer undone.")
    page.wait_for_load_state()
    # a filter narrows the groups, and each count leaves out its own
    page.keyboard.press("/")
    expect(page.locator("input[name=q]:focus")).to_have_count(1)
    page.keyboard.type("agent:tester reason:failed")
    page.keyboard.press("Enter")
    page.wait_for_url("**/escalations/?q=agent*")
    expect(page.locator(".egroups__end")).to_contain_text("of 69")
    page.click("#filter-menu summary")
    expect(page.locator("#filter-menu")).to_contain_text("coder")
    shoot(page, "inbox-filtered")
    page.keyboard.press("Escape")
    page.click(".fchip:has-text('Asks')")
    expect(page.locator("#escalation-title")).to_have_text("Clean up")
    # what the filter hides stands above the list
    page.goto(f"{visitor.url}{address(lxml[0])}?q=reason:asks")
    expect(page.locator("#escalation-list")).to_contain_text("Not in this filter")
    page.keyboard.press("o")
    page.wait_for_url("**/tasks/**")
    page.keyboard.press("e")
    page.wait_for_url(re.compile(f"/escalations/{lxml[0].pk}/"))
    # E opens the oldest from any page, although more tasks wait for another one
    page.goto(f"{visitor.url}/patterns/")
    page.keyboard.press("e")
    page.wait_for_url("**/escalations/?group=none&sort=oldest")
    expect(page.locator("li[data-cursor]")).to_have_attribute("id", f"esc-{lxml[0].pk}")
    assert visitor.complaints == []


def test_keys_go_on_beyond_the_lines_of_a_page(
    visit: Callable[..., Visitor], lxml: list[Escalation]
) -> None:
    """J and K reach every line of a long group, and the next page of a list without groups."""
    visitor = visit()
    page = visitor.sign_in(f"{address(lxml[18])}?sort=oldest")
    for number in (19, 20, 21, 22):
        follow(page, "j", lxml[number])
    for number in (21, 20, 19):
        follow(page, "k", lxml[number])
    flat = list(Escalation.objects.order_by("id"))
    page.goto(f"{visitor.url}{address(flat[24])}?group=none&sort=oldest")
    expect(page.locator("li[data-row]")).to_have_count(25)
    follow(page, "j", flat[25])
    expect(page.locator("li[data-row]")).to_have_count(25)
    follow(page, "k", flat[24])
    assert visitor.complaints == []


def test_the_answered_are_read_from_the_first_by_keys(
    visit: Callable[..., Visitor], lxml: list[Escalation], now: datetime
) -> None:
    answered = [jonas_answers(each, "retry", now) for each in lxml[:4]]
    visitor = visit()
    page = visitor.sign_in(f"{URL}?state=answered")
    page.get_by_role("link", name="Oldest").click()
    page.wait_for_url("**/escalations/?*sort=oldest")
    *_, earlier, last = Escalation.objects.exclude(state="open").order_by("-closed_at", "-id")
    expect(page.locator("li[data-cursor]")).to_have_attribute("id", f"esc-{last.pk}")
    follow(page, "j", earlier)
    assert "sort=oldest" in page.url
    expect(page.get_by_role("link", name="Oldest")).to_have_attribute("aria-current", "true")
    page.fill("#query", "lxml")
    page.keyboard.press("Enter")
    expect(page.locator("#list-pager")).to_contain_text(f"{len(answered) + 1} found")
    assert "sort=oldest" in page.url and visitor.complaints == []


def test_one_answer_for_a_group(
    visit: Callable[..., Visitor], lxml: list[Escalation], now: datetime
) -> None:
    """B counts, X leaves one out, the review is a dialog, and the result is true."""
    visitor = visit()
    page = visitor.sign_in(address(lxml[3]))
    page.keyboard.press("b")
    expect(page.locator("[data-picked]")).to_have_text("23 of 23 selected")
    expect(page.locator("#fix")).to_have_value(FIX)
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("[data-picked]")).to_have_text("22 of 23 selected")
    for place in ("#all-title", ".answerbar", "#review"):
        expect(page.locator(place)).to_contain_text("22")
    shoot(page, "answer-all-1440")
    page.keyboard.press("Control+Enter")
    dialog = page.locator("#review-dialog")
    expect(dialog).to_contain_text("Send this fix to 22 tasks?")
    expect(dialog.get_by_role("button", name="Keep editing")).to_be_focused()
    shoot(page, "answer-all-review")
    assert_whole_as_it_is(page)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("#fix")).to_have_value(FIX)
    assert_whole_as_it_is(page)
    page.set_viewport_size({"width": 1440, "height": 900})
    assert not Operation.objects.exists()
    for waiting in (True, False):
        page.keyboard.press("Control+Enter")
        expect(dialog).to_be_visible()
        page.keyboard.press("Control+Enter")
        expect(page.locator("h2.title")).to_have_text("Answering 22 escalations")
        if waiting:
            page.keyboard.press("z")
            expect(page.locator("h2.title")).to_have_text("Answer 22 escalations: undone")
            with page.expect_navigation():
                page.click("text=Open the filter")
            page.keyboard.press("b")
            page.locator("[data-row] [data-leave]").first.uncheck()
    run(Operation.objects.latest("id"), now=timezone.now() + UNDO_TIME)
    expect(page.locator("h2.title")).to_have_text("Answered 22 escalations")
    shoot(page, "answer-all-result")
    page.click("text=Open the filter")
    expect(page.locator("#filters")).to_contain_text("Open 48")
    assert visitor.complaints == []


def test_the_inbox_at_volume_is_whole(
    visit: Callable[..., Visitor], lxml: list[Escalation]
) -> None:
    visitor = visit().signed_in()
    assert_whole(visitor, URL, widths=THREE_WIDTHS)
    page = assert_whole(visitor, f"{address(lxml[2])}?sort=oldest", widths=THREE_WIDTHS)
    # on a phone the evidence comes before the form, and what is told next is folded
    wait_for_boxes(
        page,
        ["#last-error", "#attempts-title", "#answering", "#preview"],
        lambda boxes: boxes == sorted(boxes, key=lambda box: box["y"]),
    )
    expect(page.locator("#told")).to_be_hidden()
    expect(page.locator(".answerbar")).to_be_in_viewport()
    expect(page.locator(".answerbar")).to_contain_text("Review the fix")
    shoot(page, "inbox-390-one")
    page.click(".answerbar a:has-text('Review the fix')")
    expect(page.locator("#fix")).to_be_in_viewport()
    page.locator("#fix-hint button:has-text('Clear')").click()
    expect(page.locator("#fix")).to_have_value("")
    page.click(".backbar a:has-text('Inbox')")
    expect(page.locator("#entries")).to_be_visible()
    shoot(page, "inbox-390-list")
    wait_until(page, lambda: overflow(page) == 0)
    assert axe_findings(page) == []


def test_many_are_answered_and_ticked_by_keys(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """OPR-2: B and Enter answer 12 equal ones; X, J and X tick two; an idle key says so."""
    deaf = make_agent("deaf")
    for number in range(12):
        ignored(deaf, f"Run `df -h .` {HOSTILE}", now=now - (number + 1) * MINUTE)
    singles = [escalated(coder, f"s{n}", f"{'xyz'[n] * 6} is gone", now=now) for n in range(3)]
    visitor = visit()
    page = visitor.sign_in(URL)
    expect(page.locator(".egroups__h h2")).to_have_text(["New in the last hour · 15"])
    set_width(page, 390)
    assert page.locator("#entries").evaluate("each => each.getBoundingClientRect().top") < 230
    shoot(page, "inbox-390-first")
    page.locator("[data-pick]").first.check()
    expect(page.locator("#bulk-form")).to_be_visible()
    shoot(page, "inbox-390-ticked")
    page.locator("[data-pick]").first.uncheck()
    set_width(page, 1440)
    page.keyboard.press("b")
    expect(page.locator("h2.title")).to_have_text("Answer 12 matching escalations?")
    expect(page.get_by_role("radio", name="Send again")).to_be_focused()
    shoot(page, "inbox-answer-many")
    assert_whole_as_it_is(page)
    set_width(page, 1440)
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("12 escalations will be answered")
    run(Operation.objects.get(), now=timezone.now() + UNDO_TIME)
    assert Escalation.objects.filter(action="retry").count() == 12

    page.goto(f"{visitor.url}{URL}?q=agent:elsewhere")
    page.keyboard.press("b")
    expect(page.locator("#toasts")).to_contain_text("No escalation here to answer")
    page.goto(f"{visitor.url}{address(singles[0])}")
    page.keyboard.press("b")
    expect(page.locator("#toasts")).to_contain_text("select")
    page.keyboard.press("x")
    expect(page.locator("#bulk-form")).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator(f"#esc-{singles[1].pk} .eline")).to_be_focused()
    page.keyboard.press("x")
    expect(page.locator("[data-pick]:checked")).to_have_count(2)
    shoot(page, "inbox-ticked")
    assert_whole_as_it_is(page)
    set_width(page, 1440)
    page.keyboard.press("h")
    expect(page.locator("h2.title")).to_have_text("Snooze 2 selected escalations?")
    expect(page.get_by_role("radio", name="In 1 hour")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("2 escalations will be snoozed")
    run(Operation.objects.latest("id"), now=timezone.now() + UNDO_TIME)
    assert Escalation.objects.exclude(snoozed_until=None).count() == 2
    page.reload()
    page.keyboard.press("Shift+A")
    expect(page.locator("[data-pick-matching]")).to_be_checked()
    page.keyboard.press("Escape")
    expect(page.locator("#bulk-form")).to_be_hidden()
    assert visitor.complaints == []
