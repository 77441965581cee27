"""The first page in a real browser: whole in every dress, live, and readable without a script."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from ledger import instructions
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Instruction
from retries import breaker_actions
from retries.models import Escalation
from tests.browser.conftest import Visitor, assert_whole, poll
from tests.factories import as_name, make_agent, make_project, pull, send, tick

HOSTILE = ["<script>document.title = 'owned'</script>", "w" * 8192, "\u202etxt.exe \u05d0\u200f"]
Visit = Callable[..., Visitor]


@pytest.fixture
def day(coder: Agent, now: datetime) -> None:
    """A day with everything: acknowledged, reminded, ignored, silent."""
    for content in HOSTILE:
        agent = make_agent(as_name(content))
        send(agent, content, now=now - timedelta(hours=2), max_retries=0, on_failed="escalate")
        pull(agent, now=now - timedelta(hours=2))
        tick(now - timedelta(hours=1))
        send(agent, f"{content[:99]} again", now=now - timedelta(hours=1))
    for number in range(10):
        at = now - timedelta(hours=number, minutes=12)
        id = send(coder, f"Step {number}", now=at)
        for _ in range(number % 3):
            pull(coder, now=at)
            tick(at := at + timedelta(minutes=1))
        pull(coder, now=at)
        instructions.acknowledge_instruction(id, now=at + timedelta(seconds=2))


def test_the_page_is_whole(visit: Visit, day: None) -> None:
    page = assert_whole(visit().signed_in(), "/")
    expect(page.locator("#new")).to_contain_text("Nothing new in the last hour")
    expect(page.locator("#needs-you")).to_contain_text("3 of 3 that need an answer")


def test_an_agent_is_connected_from_the_very_first_page(
    visit: Visit, transactional_db: None
) -> None:
    """By keys: a name that survives polls, then the lines; Overview has the light until it ends."""
    make_project()
    visitor = visit().signed_in()
    page = assert_whole(visitor, "/", widths=[1440, 390])
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator("#untouched")).to_be_visible()
    page.keyboard.press("c")
    page.keyboard.press("Control+a")
    page.keyboard.type("painter")
    make_agent("another")  # a poll brings what is new and leaves the form alone
    poll(page)
    page.get_by_label("curl").check(force=True)
    expect(page.locator("#agent")).to_have_value("painter")
    page.get_by_role("button", name="Create token").click()
    expect(page.locator(".way--curl")).to_be_visible()
    secret = page.locator("#token").inner_text()
    page = assert_whole(visitor, "/", widths=[1440, 390])
    expect(page.locator("#light")).to_contain_text("Waiting for the first call")
    assert secret not in page.content()
    page.get_by_role("link", name="Show the lines for painter").click()
    expect(page.locator("#prefix")).to_be_visible()
    instructions.acknowledge_instruction(Instruction.objects.get().pk, now=timezone.now())
    expect(visitor.open("/").locator("#tiles")).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_the_first_steps_are_hidden_and_shown_again(
    visit: Visit, transactional_db: None, scripts: bool
) -> None:
    make_project()
    visitor = visit(java_script_enabled=scripts).signed_in()
    page = visitor.open("/")
    page.get_by_role("button", name="Hide").click()
    expect(page.locator("#hidden-steps")).to_be_visible()
    expect(page.locator("#untouched")).to_have_count(0)
    if scripts:
        assert_whole(visitor, "/", widths=[1440, 390])
    page = visitor.open("/")
    expect(page.locator("#hidden-steps")).to_be_visible()
    page.get_by_role("button", name="Show the first steps").click()
    expect(page.locator("#untouched")).to_be_visible()


def test_what_needs_you_comes_without_a_reload(visit: Visit, coder: Agent, now: datetime) -> None:
    visitor = visit()
    page = visitor.sign_in("/")
    expect(page).to_have_title("Overview · Tenfour")
    page.evaluate("window.untouched = true")
    at = now - timedelta(minutes=9)
    send(coder, "Ignored", now=at, max_retries=0, on_failed="escalate")
    expect(page.locator("#feed")).to_contain_text("tenfour sent coder “Ignored”")
    pull(coder, now=at)
    tick(now)
    expect(page.locator("#new")).to_contain_text("1 of 1 open")
    expect(page).to_have_title("1 needs an answer · Overview · Tenfour")
    expect(page.locator("#side a[data-go=e] .nav__count")).to_contain_text("1")
    assert page.evaluate("window.untouched")
    page = assert_whole(visitor, "/", widths=[1440, 390])  # on the phone, too: OPR-3
    expect(page.locator(".lead__name")).to_be_in_viewport(ratio=1)
    page.keyboard.press("e")
    page.wait_for_url("**/escalations/**")
    assert visitor.complaints == []


def test_a_bar_tells_its_numbers_in_the_readers_time(visit: Visit, day: None) -> None:
    visitor = visit(timezone_id="Asia/Kolkata")
    page = visitor.sign_in("/")
    bar = page.locator("#chart-instructions .bar").last
    bar.focus()
    started = page.evaluate(
        "iso => new Date(iso).toTimeString().slice(0, 5)", bar.get_attribute("data-from")
    )
    expect(page.locator(".tip")).to_contain_text(f"{started} to ")
    expect(page.locator(".tip")).to_contain_text("First delivery")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#chart-instructions .bar").nth(46)).to_be_focused()


def test_a_range_is_chosen_by_key_and_kept_by_polls(visit: Visit, day: None, coder: Agent) -> None:
    breaker_actions.trip([coder], reason="Look", stamp=Stamp(SYSTEM))
    visitor = visit()
    page = visitor.sign_in("/")
    left = page.locator("#tripped [data-countdown]")
    expect(left).to_contain_text("s")
    expect(page.locator("#chart-tasks .open-mark")).to_have_count(1)
    page.keyboard.press("3")
    page.wait_for_url("**/?range=30d")
    expect(page.locator("#range h2")).to_have_text("Last 30 days")
    expect(page.locator("#chart-tasks .bar")).to_have_count(30)
    make_agent("another")
    poll(page)
    expect(page.locator("#feed")).to_contain_text("registered another")
    expect(page.locator("#range h2")).to_have_text("Last 30 days")
    assert visitor.complaints == []


def test_it_can_be_read_without_a_script(visit: Visit, day: None) -> None:
    page = visit(java_script_enabled=False).sign_in("/")
    expect(page.locator("#tiles")).to_contain_text("Time to answer")
    page.get_by_role("link", name="Answer the oldest").click()
    page.wait_for_url(f"**/escalations/{Escalation.objects.order_by('id')[0].pk}/")
