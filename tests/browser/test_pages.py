"""Each page in light and dark, on a desk and on a phone: nothing complains, nothing sticks out."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Route, expect

from dashboard.lists.pagination import PAGE
from ledger import instructions
from ledger.journal import Actor, Stamp
from ledger.models import Agent, Instruction
from tests.browser.conftest import (
    PASSWORD,
    TWO_FRAMES,
    WIDTHS,
    Visitor,
    assert_whole,
    assert_whole_as_it_is,
    set_width,
    wait_for_boxes,
    wait_until,
)
from tests.factories import as_name, make_agent, make_project, pull, send, tick

# the properties that change by a transition
NOTE_TRANSITIONS = """() => {
    window.transitions = [];
    addEventListener("transitionrun", (event) => window.transitions.push(event.propertyName));
}"""
HOSTILE = ["<script>document.title = 'owned'</script>", "w" * 8192, "\u202etxt.exe \u05d0\u200f"]


@pytest.fixture
def busy(coder: Agent, now: datetime) -> str:
    """The id of one of the instructions of a busy, hostile day."""
    for number, content in enumerate(HOSTILE):
        agent = make_agent(as_name(content))
        send(
            agent,
            content,
            stamp=Stamp(Actor("token", "1", content[:64]), now - timedelta(minutes=9)),
        )
        if number:
            pull(agent, now=now)
    for number in range(6):
        at = now - timedelta(minutes=8)
        id = send(coder, f"Step {number}", now=at)
        for _ in range(number):
            pull(coder, now=at)
            tick(at := at + timedelta(minutes=1))
        pull(coder, now=at)
        if number < 4:
            instructions.acknowledge_instruction(id, now=at + timedelta(seconds=number + 1))
    return str(id)


def test_the_pages_are_whole(visit: Callable[..., Visitor], busy: str) -> None:
    visitor = visit().signed_in()
    for path in (
        "/instructions/",
        "/instructions/?open={}",
        "/instructions/?q=state:foo+agent:nobody",
        "/instructions/{}/",
    ):
        assert_whole(visitor, path.format(busy))
    page = visitor.open("/instructions/")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.focus("[data-tip][tabindex='0']")
    expect(page.locator(".tip")).to_contain_text("over 60 s")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".tip")).to_contain_text("30 to 60 s")
    # a phone starts with the list; the day's figures are folded above it
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator("#ladder")).to_be_hidden()
    expect(page.locator("[data-row]").first).to_be_in_viewport()
    page.click("#day > summary")
    expect(page.locator("#ladder")).to_be_visible()
    assert_whole(visit(), "/sign-in/", part="html")


def test_signing_in_and_out(visit: Callable[..., Visitor], coder: Agent) -> None:
    visitor = visit()
    page = visitor.open("/instructions/?q=agent:coder")
    page.fill("#username", "mara")
    page.fill("#password", "wrong")
    page.click("button:has-text('Sign in')")
    expect(page.get_by_role("alert")).to_contain_text("Incorrect username or password.")
    page.fill("#password", "tenfour-tenfour-tenfour")
    page.click("button:has-text('Sign in')")
    page.wait_for_url("**/instructions/?q=agent:coder")
    page.click("button[aria-label='Sign out']")
    page.wait_for_url("**/sign-in/")
    expect(page.locator("main")).to_contain_text("You are signed out.")


def test_a_fade_between_pages_that_ends_early_is_no_error(
    visit: Callable[..., Visitor], coder: Agent
) -> None:
    """A person who signs in or follows a link has left while the old page is still shown."""
    hurry = "to => addEventListener('pageswap', () => { location.href = to }, {once: true})"
    visitor = visit(reduced_motion="no-preference")
    page = visitor.open("/sign-in/?next=/agents/")
    page.fill("#username", "mara")
    page.fill("#password", PASSWORD)
    page.evaluate(hurry, "/activity/")
    page.locator("button:has-text('Sign in')").dispatch_event("click")
    page.wait_for_url("**/activity/")
    for to in ("/instructions/", "/activity/", "/instructions/"):
        page.evaluate(hurry, to)
        page.locator("[data-go=a]").dispatch_event("click")
        page.wait_for_url(f"**{to}")
    expect(page.locator("#live")).to_contain_text("Live")
    assert visitor.complaints == []


def test_the_theme_is_chosen_and_kept(visit: Callable[..., Visitor], coder: Agent) -> None:
    light, dark = "rgb(246, 246, 244)", "rgb(11, 12, 13)"
    page = visit(color_scheme="light").sign_in()
    toggle, body = page.locator("[data-theme-toggle]"), page.locator("body")
    expect(toggle).to_have_attribute("aria-label", "Theme: system")
    for theme, background in (("light", light), ("dark", dark)):
        with page.expect_response("**/settings/profile/save/"):
            toggle.click()
        expect(toggle).to_have_attribute("aria-label", f"Theme: {theme}")
        expect(body).to_have_css("background-color", background)
    page.reload()
    expect(toggle).to_have_attribute("title", "Theme: dark")
    expect(body).to_have_css("background-color", dark)
    toggle.click()
    expect(body).to_have_css("background-color", light)


def test_the_keyboard_walks_and_opens(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    ids = [str(send(coder, f"Step {number}", now=now)) for number in range(3)][::-1]
    page = visit().sign_in()
    page.keyboard.press("j")
    page.keyboard.press("j")
    row, keys = page.locator("[data-cursor]"), page.locator("#keys-dialog")
    expect(row).to_have_id(f"ins-{ids[1]}")
    page.keyboard.press("Enter")
    expect(page.locator("#trail")).to_be_visible()
    expect(page).to_have_url(re.compile(rf"\?open={ids[1]}$"))
    expect(row).to_have_id(f"ins-{ids[1]}")  # it survives the swap
    page.keyboard.press("Enter")
    expect(page.locator("#trail")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("jp?")
    expect(page.locator("#query")).to_have_value("jp?")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(keys).to_be_visible()
    page.click("[data-keys-switch]")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    page.keyboard.press("?")
    page.evaluate(TWO_FRAMES)
    expect(keys).to_be_hidden()


def test_a_key_that_comes_before_the_scripts_waits_for_them(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    ids = [send(coder, f"Step {number}", now=now) for number in range(3)][::-1]
    visitor = visit().signed_in()
    page, late = visitor.page(), list[Route]()
    page.route("**/keyboard*.js", lambda route: late.append(route))
    page.goto(f"{visitor.url}/instructions/", wait_until="commit")
    expect(page.locator("[data-row]")).to_have_count(3)
    for key in "jj":
        page.keyboard.press(key)
    wait_until(page, lambda: bool(late))
    late[0].continue_()
    expect(page.locator("[data-cursor]")).to_have_id(f"ins-{ids[1]}")
    page.keyboard.press("k")
    expect(page.locator("[data-cursor]")).to_have_id(f"ins-{ids[0]}")


def test_the_link_of_an_opened_row_stands_beside_its_buttons(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    id = send(coder, "Look here", now=now)
    pull(coder, now=now)
    page = visit().sign_in(f"/instructions/?open={id}")
    for width in WIDTHS:
        set_width(page, width)
        wait_for_boxes(
            page,
            [".trail__foot > a", ".trail__acts > form:last-of-type > button"],
            lambda boxes: boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] > boxes[1]["x"],
        )


def test_less_motion_paints_no_half_changed_page(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """With less motion, nothing moves on its own after the window got narrow."""
    send(coder, "Look here", now=now)
    page = visit().sign_in()
    page.evaluate(NOTE_TRANSITIONS)
    set_width(page, 390)
    page.evaluate(TWO_FRAMES)
    assert page.evaluate("() => window.transitions") == []


def test_n_begins_a_new_instruction_everywhere(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    start = now - timedelta(minutes=2)
    id = send(coder, max_retries=0, on_failed="escalate", now=start)
    pull(coder, now=start)
    tick(now)
    make_project("other")
    visitor = visit()
    page = visitor.sign_in("/instructions/")
    page.keyboard.press("n")
    expect(page.locator("#new-dialog")).to_be_visible()
    one = [f"/instructions/{id}/", f"/agents/{coder.pk}/"]
    for path in ["/", "/escalations/", "/agents/", "/activity/", *one]:
        page.goto(f"{visitor.url}{path}?project=default")
        page.keyboard.press("?")
        expect(page.locator("#keys-dialog")).to_contain_text("New instruction N")
        rows = page.locator(".keymap dl > div")
        assert not rows.evaluate_all("all => all.some(row => row.scrollHeight > row.clientHeight)")
        page.keyboard.press("Escape")
        page.keyboard.press("n")
        page.wait_for_url("**/instructions/new/?project=default")
    page.fill("#send-content", "Half a thought")
    page.locator("#send-content").blur()
    page.keyboard.press("n")
    expect(page.locator("#send-agent")).to_be_focused()
    expect(page.locator("#send-content")).to_have_value("Half a thought")
    assert visitor.complaints == []


def test_a_pasted_id_lands_on_its_page(visit: Callable[..., Visitor], coder: Agent) -> None:
    id = send(coder, "Found me")
    page = visit().sign_in()
    page.fill("#q", f" {id} ")
    page.press("#q", "Enter")
    page.wait_for_url(f"**/instructions/{id}/")
    expect(page.locator("h1")).to_have_text("Found me")


def test_a_phone_opens_the_sidebar(visit: Callable[..., Visitor], coder: Agent) -> None:
    page = visit(width=390, height=844).sign_in()
    expect(page.locator("#side")).to_be_hidden()
    page.click("text=More")
    expect(page.locator("#side")).to_be_visible()
    expect(page.locator("button[aria-label='Sign out']")).to_be_visible()


def test_without_script_everything_works(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    ids = [str(send(coder, f"Step {number}", now=now)) for number in range(60)][::-1]
    visitor = visit(java_script_enabled=False)
    page = visitor.sign_in()
    expect(page.locator("[data-row]")).to_have_count(PAGE)
    page.click("text=Older")
    expect(page.locator("[data-row]")).to_have_count(60 - PAGE)
    page.click("text=Newer")
    page.click(f"#ins-{ids[0]} a")
    expect(page.locator("#trail")).to_contain_text("Sent by tenfour")
    page.click(".seg a:has-text('Gave up')")
    expect(page.locator("main")).to_contain_text("No instructions match")
    page.fill("#query", '"Step 7"')
    page.click("button:has-text('Filter')")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.click("a:has-text('reload')")
    page.click(f"#ins-{ids[52]} a")
    page.click("#trail a:has-text('Open')")
    expect(page.locator("h1")).to_have_text("Step 7")
    page.click("button[aria-label='Sign out']")
    expect(page.locator("h1")).to_contain_text("Sign in")
    assert not visitor.complaints


def test_a_given_up_instruction_is_edited_and_sent(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    id = send(coder, "Run the tests", max_retries=0, now=now - timedelta(minutes=5))
    pull(coder, now=now - timedelta(minutes=4))
    tick(now)
    visitor = visit()
    page = visitor.sign_in(f"/instructions/{id}/")
    page.keyboard.press("f")
    page.wait_for_url(f"**/{id}/edit/")
    text = page.get_by_label("Instruction", exact=True)
    expect(text).to_have_value("Run the tests")
    assert_whole_as_it_is(page)
    page.set_viewport_size({"width": 1440, "height": 900})
    text.fill("   ")
    page.get_by_role("button", name="Send instruction").click()
    expect(text).to_have_attribute("aria-invalid", "true")
    text.fill("Run make test")
    page.get_by_role("button", name="Send instruction").click()
    expect(page.locator("#toasts")).to_contain_text("Sent with your text")
    assert f"{Instruction.objects.latest('id').pk}/" in page.url
    sent = Instruction.objects.exclude(pk=id).get()
    assert (sent.content, sent.state) == ("Run make test", "queued")
