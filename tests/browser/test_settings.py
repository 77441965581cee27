"""The settings page in a browser: whole in every theme and width."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.conftest import Visitor, assert_whole


def test_the_page_is_whole(visit: Callable[..., Visitor]) -> None:
    """S1.2"""
    page = assert_whole(visit().signed_in(), "/settings/")
    expect(page.locator("#limits tbody tr")).to_have_count(3)


# where the column is, and how much of its current entry can be seen
COLUMN = """() => {
    const [nav, page] = ["nav.setnav", ".settings__page"].map(
        (each) => document.querySelector(each).getBoundingClientRect());
    const entry = document.querySelector(".setnav [aria-current]").getBoundingClientRect();
    return {
        beside: nav.right <= page.left + 1,
        above: nav.bottom <= page.top + 1,
        seen: entry.left >= nav.left && entry.right <= nav.right + 1,
    };
}"""


def test_the_column_stands_beside_the_page_and_above_it_on_a_phone(
    visit: Callable[..., Visitor],
) -> None:
    """On a phone, the strip is scrolled to the current page; Tab goes through it before the page."""
    visitor = visit().signed_in()
    page = visitor.page()
    for width, beside in ((390, False), (900, True), (1440, True)):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(f"{visitor.url}/settings/audit/")
        found = page.evaluate(COLUMN)
        assert found == {"beside": beside, "above": not beside, "seen": True}, width
    column = page.get_by_role("navigation", name="Settings")
    column.get_by_role("link", name="People").focus()
    page.keyboard.press("Tab")
    expect(column.get_by_role("link", name="Tokens")).to_be_focused()
    page.keyboard.press("Enter")
    expect(column.locator("[aria-current=page]")).to_have_text("Tokens")
    expect(page.get_by_role("heading", name="Tokens", level=1)).to_be_visible()
