"""The Activity page in a real browser: whole in every dress, live, held still for its reader."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from ledger import instructions
from ledger.journal import Actor, Stamp
from ledger.models import Agent, Event
from tests.browser.conftest import Visitor, assert_whole
from tests.factories import as_name, make_agent, pull, send, tick

HOSTILE = ["<script>document.title = 'owned'</script>", "w" * 8192, "\u202etxt.exe \u05d0\u200f"]
Visit = Callable[..., Visitor]


@pytest.fixture
def story(coder: Agent, now: datetime) -> None:
    """A day on which everything happened, to hostile names too."""
    for content in HOSTILE:
        agent = make_agent(as_name(content))
        send(agent, content, stamp=Stamp(Actor("token", "1", content[:64]), now))
    for number in range(4):
        at = now - timedelta(minutes=20 * number + 10)
        id = send(coder, f"Step {number}", now=at, max_retries=number, on_failed="escalate")
        for _ in range(number + 1):
            pull(coder, now=at)
            tick(at := at + timedelta(minutes=1))
        instructions.acknowledge_instruction(id, now=at)


def first(page: Page) -> str:
    return str(page.locator(".log__row").first.get_attribute("id"))


def test_the_pages_are_whole(visit: Visit, story: None) -> None:
    visitor = visit().signed_in()
    for path in ("/activity/", "/activity/?q=kind:foo+kind:token"):
        assert_whole(visitor, path, act=open_rows)


def open_rows(page: Page) -> None:
    for row in page.locator(".log summary").all()[:6]:
        row.click()


def test_news_are_inserted_and_counted_while_a_row_is_open(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    visitor = visit()
    page = visitor.sign_in("/activity/")
    send(coder, "First news", now=now)
    expect(page.locator(".log__row")).to_have_count(2)
    page.locator(".log summary").first.click()
    expect(page.locator("details[open]")).to_contain_text("queued")
    top = first(page)
    send(coder, "Second news", now=now)
    send(coder, "Third news", now=now)
    expect(page.locator("#fresh")).to_have_text("2 new")
    assert first(page) == top
    page.locator("details[open] > summary").click()
    expect(page.locator(".log__row").first).to_contain_text("Third news")
    expect(page.locator("#fresh")).to_be_hidden()
    expect(page.locator(".log__row")).to_have_count(4)
    assert visitor.complaints == []


def test_a_paused_log_counts_and_goes_on(visit: Visit, coder: Agent, now: datetime) -> None:
    page = visit().sign_in("/activity/?q=agent:coder")
    page.keyboard.press("p")
    expect(page.locator("#live")).to_contain_text("Paused")
    top = first(page)
    send(coder, "News", now=now)
    expect(page.locator("#fresh")).to_have_text("1 new")
    assert first(page) == top
    page.keyboard.press("p")
    expect(page.locator(".log__row").first).to_contain_text("News")
    expect(page.locator("#fresh")).to_be_hidden()


def test_the_line_of_news_leads_to_them(visit: Visit, coder: Agent, now: datetime) -> None:
    page = visit().sign_in("/activity/?q=kind:instruction,agent")
    page.locator(".log summary").first.click()
    send(coder, "News", now=now)
    page.click("#fresh a")
    expect(page.locator(".log__row").first).to_contain_text("News")
    expect(page).to_have_url(re.compile("q=kind(:|%3A)instruction"))


def test_keys_move_open_and_filter(visit: Visit, story: None) -> None:
    page = visit().sign_in("/activity/")
    for key in "jj":
        page.keyboard.press(key)
    expect(page.locator(".log__row").nth(1)).to_have_attribute("data-cursor", "")
    page.keyboard.press("Enter")
    expect(page.locator(".log__row").nth(1).locator("details")).to_have_attribute("open", "")
    page.keyboard.press("/")
    page.keyboard.type("kind:instruction.failed\n")
    page.wait_for_url("**/activity/?q=kind*")
    expect(page.locator(".log__row code").first).to_have_text("instruction.failed")


def test_a_range_is_dragged_over_the_bars(visit: Visit, story: None) -> None:
    """Also chosen by keys; a click is no range, Escape lets go, and the log shows only the range."""
    visitor = visit()
    page = visitor.sign_in("/activity/?q=kind:instruction")
    count = page.locator(".log__row").count()
    plot = page.locator("#range")
    box = plot.bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    page.mouse.click(box["x"] + box["width"] / 2, middle)
    expect(page.locator("#range-hint")).to_contain_text("Drag over the bars")
    plot.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".loghist__chosen")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".loghist__chosen")).to_be_hidden()
    page.mouse.move(box["x"] + box["width"] * 0.2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.99, middle, steps=4)
    expect(page.locator("#range-hint")).to_contain_text(" to ")
    page.mouse.up()
    page.wait_for_url(re.compile("since.*until"))
    shown = page.locator("#query").input_value()
    since, until = re.findall(r"(?:since|until):(\S+)", shown)
    assert shown.startswith("kind:instruction since:") and since < until
    events = Event.objects.filter(kind__startswith="instruction.", at__gte=f"{since}Z")
    inside = events.filter(at__lt=f"{until}Z").exclude(kind="instruction.requeued").count()
    assert 0 < inside < count
    expect(page.locator(".log__row")).to_have_count(inside)
    page.locator("#range").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_function("shown => document.querySelector('#query').value !== shown", arg=shown)
    assert visitor.complaints == []


def test_the_oldest_first_also_with_a_filter_and_on_a_phone(visit: Visit, story: None) -> None:
    visitor = visit()
    page = visitor.sign_in("/activity/")
    expect(page.get_by_role("link", name="Newest")).to_have_attribute("aria-current", "true")
    page.get_by_role("link", name="Oldest").click()
    page.wait_for_url("**/activity/?sort=oldest")
    oldest = Event.objects.order_by("id")[0]
    assert first(page) == f"ev-{oldest.pk}"
    page.keyboard.press("/")
    page.keyboard.type("kind:instruction\n")
    page.wait_for_url(re.compile(r"q=kind.*sort=oldest"))
    sent = Event.objects.filter(kind__startswith="instruction.").order_by("id")[0]
    assert first(page) == f"ev-{sent.pk}"
    assert_whole(visitor, "/activity/?sort=oldest")


def test_all_of_it_without_a_script(visit: Visit, story: None) -> None:
    page = visit(java_script_enabled=False).sign_in("/activity/")
    page.locator(".facet", has_text="instruction").click()
    page.wait_for_url("**/activity/?q=kind*")
    page.fill("#query", "kind:instruction.failed agent:coder")
    page.click("button:has-text('Filter')")
    row = page.locator(".log__row").first
    row.locator("summary").click()
    expect(row).to_contain_text('"retry_count"')
    row.get_by_role("link", name="Open the instruction").click()
    event = Event.objects.filter(kind="instruction.failed").latest("id")
    page.wait_for_url(f"**/instructions/{event.subject_id}/")
