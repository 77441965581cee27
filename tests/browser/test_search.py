"""The command palette in a browser: results while typing, keys, recent items, without a script."""

from collections.abc import Callable
from datetime import datetime

from playwright.sync_api import Page, expect

from ledger.models import Agent
from tests.browser.conftest import Visitor, assert_whole, axe_findings
from tests.dashboard.worked import make_task
from tests.factories import send

HOSTILE = "<img src=x onerror=alert(1)> lxml " + "w" * 120


def open_palette(page: Page, key: str = "Control+k") -> None:
    page.keyboard.press(key)
    expect(page.locator("#palette")).to_be_visible()
    expect(page.locator("#palette-box")).to_be_focused()


def test_the_palette(visit: Callable[..., Visitor], coder: Agent, now: datetime) -> None:
    why = {"message": "ModuleNotFoundError: No module named 'lxml'"}
    failed = make_task("failed", "Nightly import", agent=coder, now=now, why=why)
    hostile = make_task("queued", HOSTILE, agent=coder, now=now)
    told = send(coder, "Add lxml to pyproject.toml", now=now)
    visitor = visit()
    page = visitor.signed_in().open(f"/tasks/{failed.pk}/")
    page.goto(f"{visitor.url}/settings/")
    open_palette(page, "/")
    # before typing: what was opened last, pages and actions
    expect(page.locator("#hits")).to_contain_text("Nightly import")
    expect(page.locator("#hits")).to_contain_text("Go to Escalations")
    page.keyboard.type("lxml")
    chosen = page.locator('#hits [aria-selected="true"]')
    expect(chosen).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator("#hits")).to_contain_text("Add lxml to pyproject.toml")
    expect(page.locator("#hits mark").first).to_have_text("lxml")
    page.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("Nightly import")
    page.keyboard.press("ArrowUp")
    # Tab keeps one kind, Backspace in the empty box lifts that
    page.keyboard.press("Tab")
    expect(page.locator("#palette-kind")).to_have_text("tasks")
    expect(page.locator("#hits")).not_to_contain_text("pyproject.toml")
    page.keyboard.press("Escape")
    expect(page.locator("#palette-kind")).to_be_hidden()
    expect(page.locator("#palette-box")).to_have_value("")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    # a pasted short id and Enter land on its page
    open_palette(page)
    page.keyboard.insert_text(f"…{str(told)[-8:]}")
    expect(chosen).to_contain_text("Instruction")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/instructions/{told}/")
    # so does Enter before the answer is there
    open_palette(page)
    page.keyboard.insert_text(str(hostile.pk))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tasks/{hostile.pk}/")
    # an action by its key
    open_palette(page)
    page.keyboard.insert_text("new instruction")
    expect(chosen).to_contain_text("New instruction")
    page.keyboard.press("Alt+1")
    page.wait_for_url("**/instructions/new/")
    # a search that fails says so, and can be tried again
    page.route("**/search/**", lambda route: route.abort())
    open_palette(page)
    expect(page.locator("#palette [data-failed]")).to_contain_text("Search did not answer.")
    expect(page.locator("#hits")).to_contain_text("Nightly import")
    page.unroute("**/search/**")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#hits")).to_contain_text("Go to Tasks")
    visitor.complaints = [each for each in visitor.complaints if "ERR_FAILED" not in each]
    assert visitor.complaints == []


def test_search_is_whole(visit: Callable[..., Visitor], coder: Agent, now: datetime) -> None:
    """With the palette open over a page, and as a page."""
    make_task("queued", HOSTILE, agent=coder, now=now)
    make_task("failed", "Nightly import of lxml", agent=coder, now=now)
    send(coder, HOSTILE, now=now)
    visitor = visit().signed_in()
    assert_whole(visitor, "/search/?q=lxml", part="html")

    def search(page: Page) -> None:
        open_palette(page)
        page.keyboard.insert_text("lxml")
        expect(page.locator("#hits")).to_contain_text("Nightly import of lxml")

    assert_whole(visitor, "/settings/", act=search)
    page = visitor.page()
    # nothing found: the nearest word is a result that Enter opens, beside an action that posts
    page.locator("#palette-box").fill("nighly")
    chosen = page.locator('#hits [aria-selected="true"]')
    expect(chosen).to_have_text("Did you mean nightly?")
    expect(page.locator("#palette-status")).to_have_text("Nothing found")
    assert axe_findings(page) == []
    page.locator("#palette-box").fill("pause coder")
    expect(page.locator("#hits form button")).to_contain_text("Pause agent coder")
    assert axe_findings(page) == []
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("coder")
    coder.refresh_from_db()
    assert coder.paused
    plain = visit(java_script_enabled=False)
    page = plain.signed_in().open("/settings/")
    page.locator("#q").fill("lxml")
    page.locator("#q").press("Enter")
    expect(page.locator("#search-page")).to_contain_text("Nightly import of lxml")
