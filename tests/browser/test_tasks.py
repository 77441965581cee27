"""Tasks and Dead letters in a browser: whole in every theme and width, picked by key."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from ledger.journal import SYSTEM
from ledger.models import Agent
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries.attempts import heartbeats
from tests.browser.conftest import Visitor, assert_whole, axe_findings, poll
from tests.browser.page_clock import Polls, stop_clock
from tests.dashboard.worked import buried, claimed, enqueued, make_task

HOSTILE = "<script>document.title = 'owned'</script>" + "w" * 150


@pytest.fixture
def busy(coder: Agent, now: datetime) -> dict[str, str]:
    """Addresses of one of each."""
    at = now - timedelta(minutes=4)
    for state in TaskState:
        make_task(state, f"A {state.value} one", agent=coder, now=at, type="code")
    need = enqueued(coder, "What comes first", now=at)
    why = {"message": HOSTILE * 20, "details": "\u202etxt.exe", "suggested_fix": HOSTILE}
    task = make_task(
        TaskState.RETRY,
        HOSTILE,
        agent=coder,
        now=at,
        why=why,
        needs=[],
        payload={HOSTILE: [1, "x"]},
    )
    enqueued(coder, HOSTILE, now=at, needs=[task.pk, need])
    live = enqueued(coder, HOSTILE, now=at)
    heartbeats.renew_lease(
        claimed(coder, live, now=at),
        output=f"{HOSTILE}\n" * 20,
        caller=TrustedCaller(SYSTEM, agent=coder),
        now=now,
    )
    letter = buried(HOSTILE, agent=coder, now=at, error=HOSTILE * 10)
    return {
        "task": f"/tasks/{task.pk}/",
        "live": f"/tasks/{live}/",
        "letter": f"/dead-letters/{letter.pk}/",
    }


def test_the_pages_are_whole(visit: Callable[..., Visitor], busy: dict[str, str]) -> None:
    visitor = visit().signed_in()
    for path in (
        "/tasks/",
        "/tasks/?q=state:foo",
        "{task}",
        "{task}?ask=skip",
        "{live}",
        "/dead-letters/",
        "{letter}",
        "{letter}?ask=dismiss",
    ):
        assert_whole(visitor, path.format(**busy))


def test_a_list_that_is_picked_from_stands_still(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    enqueued(coder, "Old", now=now)
    visitor = visit()
    page = visitor.sign_in()
    stop_clock(page)
    page.goto(f"{visitor.url}/tasks/")
    page.check("[data-pick]")
    page.locator("h1").click()
    enqueued(coder, "New", now=now)
    polls = Polls(page)
    polls.let_pass(20)
    expect(page.locator("tr[data-row]")).to_have_count(1)
    page.keyboard.press("Escape")
    polls.let_pass_until(lambda: page.locator("tr[data-row]").count() == 2)


def test_one_is_skipped_by_its_key(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    task = make_task(agent=coder, now=now)
    visitor = visit()
    page = visitor.sign_in()
    page.goto(f"{visitor.url}/tasks/{task.pk}/")
    page.keyboard.press("s")
    expect(page.locator("#skip-dialog")).to_be_visible()
    page.click("#skip-dialog button:has-text('Skip task')")
    expect(page.locator("#task-header .st")).to_have_text("Skipped")


def test_the_last_lines_are_followed_until_they_are_read(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """With the switch off, the lines in view stand still while new ones come."""
    task = enqueued(coder, "Print", now=now)
    attempt = claimed(coder, task, now=now)

    def show(count: int) -> None:
        lines = "".join(f"line {number}\n" for number in range(count))
        known = TrustedCaller(SYSTEM, agent=coder)
        heartbeats.renew_lease(attempt, output=lines, caller=known, now=timezone.now())

    visitor = visit()
    page = visitor.signed_in().open(f"/tasks/{task}/")
    expect(page.locator("#output")).to_contain_text("Nothing printed yet.")
    box, follow = page.locator("#output .tail"), page.get_by_role("switch", name="Follow")
    for count, is_on in ((60, True), (70, True), (80, False), (90, True)):
        if follow.is_checked() != is_on:
            page.keyboard.press("f")
        show(count)
        poll(page)
        expect(box).to_contain_text(f"line {count - 1}")
        page.wait_for_function(
            "isOn => (document.querySelector('#output .tail').scrollTop >= -4) === isOn", arg=is_on
        )
        expect(follow).to_be_checked(checked=is_on)
    assert axe_findings(page) == [] and visitor.complaints == []


def test_the_query_box_completes(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    make_task("failed", "Broken one", agent=coder, now=now)
    make_task("queued", "Waiting one", agent=coder, now=now)
    visitor = visit()
    page = visitor.sign_in("/tasks/")
    page.keyboard.press("/")
    page.keyboard.type("sta")
    chosen = page.locator('#completion [aria-selected="true"]')
    expect(chosen).to_contain_text("state:")
    page.keyboard.press("Tab")
    expect(chosen).to_contain_text("state:needs-you")
    page.keyboard.type("f")
    expect(chosen).to_have_text("state:failed1")
    page.keyboard.press("Tab")
    expect(page.locator("#query")).to_have_value("state:failed ")
    page.keyboard.type("-agent:c")
    expect(chosen).to_contain_text("agent:coder")
    assert axe_findings(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("#completion")).to_be_hidden()
    for _ in "-agent:c":
        page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tasks/?q=state*")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    expect(page.locator("tr[data-row]")).to_contain_text("Broken one")
    for menu in ("#views-menu", "#export-menu", "#columns-menu"):
        page.click(f"{menu} summary")
        assert axe_findings(page) == [], menu
    assert visitor.complaints == []
