"""The page keeps itself current, and says so when it can't."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from django.contrib.sessions.models import Session
from playwright.sync_api import Route, expect

from config.requests.browser_sessions import SessionStore
from ledger import instructions
from ledger.models import Agent
from tests.browser.conftest import Visitor
from tests.browser.page_clock import Polls, stop_clock
from tests.factories import pull, send


def test_news_come_without_a_reload(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    visitor = visit()
    page = visitor.sign_in()
    page.evaluate("window.untouched = true")
    expect(page.locator("#none")).to_be_visible()
    id = send(coder, "Hello there", now=now)
    row = page.locator(f"#ins-{id}")
    expect(row).to_contain_text("Queued")
    expect(page).to_have_title("1 waiting · Instructions · Tenfour")
    expect(page.locator("#side a[data-go=i] .nav__count")).to_contain_text("1")
    pull(coder, now=now + timedelta(milliseconds=1))
    expect(row).to_contain_text("again in")
    expect(row).to_have_class(re.compile("is-changed"))
    instructions.acknowledge_instruction(id)
    expect(row).to_contain_text("Acknowledged")
    expect(page.locator("#ladder")).to_contain_text("1 answered")
    assert page.evaluate("window.untouched")
    assert visitor.complaints == []


def test_nothing_moves_under_its_readers_hands(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    send(coder, "Select me", now=now)
    page = visit().sign_in()
    stop_clock(page)
    page.reload()
    polls = Polls(page)
    polls.let_one_pass()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.t-name a'))")
    id = send(coder, "Comes later", now=now)
    polls.let_pass(20)
    expect(page.locator("#live")).to_contain_text("Held while text is selected")
    page.keyboard.press("?")
    expect(page.locator("#keys-dialog")).to_be_visible()
    polls.let_pass(20)
    expect(page.locator("#live")).to_contain_text("Held while a dialog is open")
    page.evaluate("getSelection().empty()")
    polls.let_pass(20)
    expect(page.locator(f"#ins-{id}")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#keys-dialog")).to_be_hidden()
    polls.let_one_pass()


def test_typing_a_filter_survives_news(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    page = visit().sign_in()
    page.fill("#query", "agent:co")
    expect(page.locator("#completion")).to_be_visible()
    page.keyboard.press("Escape")  # the list of completions holds the news back
    expect(page.locator("#completion")).to_be_hidden()
    id = send(coder, now=now)
    expect(page.locator(f"#ins-{id}")).to_be_visible()
    page.keyboard.type("der")
    expect(page.locator("#query")).to_have_value("agent:coder")


def test_a_pause_holds_and_is_kept(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    page = visit().sign_in()
    page.keyboard.press("p")
    expect(page.locator("#live")).to_contain_text("Paused")
    stop_clock(page)
    page.reload()
    expect(page.locator("#live")).to_contain_text("Paused")
    polls = Polls(page)
    id = send(coder, now=now)
    polls.let_pass(20)
    assert polls.sent == []
    expect(page.locator(f"#ins-{id}")).to_have_count(0)
    page.click("#live")
    polls.let_pass_until(page.locator(f"#ins-{id}").is_visible)
    expect(page.locator("#live")).to_contain_text("Live")


def test_a_lost_connection_is_told_and_found_again(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    visitor = visit()
    page = visitor.sign_in()
    stop_clock(page)
    page.reload()
    polls = Polls(page)

    def away(route: Route) -> None:
        route.abort()

    page.route("**/*since=*", away)
    polls.let_one_pass()
    expect(page.locator("#live")).to_contain_text("Live")
    polls.let_pass(10)
    expect(page.locator("#live")).to_contain_text("Reconnecting")
    expect(page.locator("#lost")).to_be_hidden()
    polls.let_pass(30)
    expect(page.locator("#lost")).to_contain_text(
        "Live updates stopped. This page shows the state of"
    )
    page.unroute("**/*since=*")
    id = send(coder, now=now)
    page.click("text=Try now")
    polls.let_pass_until(page.locator(f"#ins-{id}").is_visible)
    expect(page.locator("#lost")).to_be_hidden()
    expect(page.locator("#live")).to_contain_text("Live")


def test_a_server_that_fails_changes_nothing(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    id = send(coder, now=now)
    page = visit().sign_in()
    stop_clock(page)
    page.reload()
    polls = Polls(page)
    page.route("**/*since=*", lambda route: route.fulfill(status=500, body="Traceback"))
    polls.let_one_pass()
    polls.let_pass(10)
    expect(page.locator("#live")).to_contain_text("Reconnecting")
    assert "Traceback" not in page.content()
    expect(page.locator(f"#ins-{id}")).to_be_visible()


def test_a_session_that_ended_is_told(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    page = visit().sign_in()
    stop_clock(page)
    page.goto(page.url + "?q=agent:coder")
    polls = Polls(page)
    for key in Session.objects.values_list("pk", flat=True):
        SessionStore(key).delete()
    polls.let_pass_until(page.locator("#signed-out").is_visible)
    expect(page.locator("#signed-out")).to_contain_text("You are signed out.")
    expect(page.locator("#live")).to_contain_text("Signed out")
    expect(page.locator("#username")).to_have_count(0)
    polls.sent.clear()
    polls.let_pass(20)
    assert polls.sent == []
    page.click("#signed-out a")
    page.fill("#username", "mara")
    page.fill("#password", "tenfour-tenfour-tenfour")
    page.click("button:has-text('Sign in')")
    expect(page).to_have_url(re.compile(r"/instructions/\?q=agent%3Acoder$"))


def test_a_quiet_page_asks_less_often(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    page = visit().sign_in()
    stop_clock(page)
    page.reload()
    polls = Polls(page)
    polls.let_pass(80)
    polls.sent.clear()
    polls.let_pass(20)
    assert 1 <= len(polls.sent) <= 3
    polls.sent.clear()
    with page.expect_response("**/*since=*"):
        page.mouse.click(5, 5)
    assert len(polls.sent) == 1


def test_a_page_of_one_is_live_too(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    id = send(coder, now=now)
    page = visit().sign_in()
    page.goto(page.url + f"{id}/")
    pull(coder, now=now)
    expect(page.locator("#instruction")).to_contain_text("Delivered to coder")
