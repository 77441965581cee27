"""The settings page in a browser: whole in every theme and width."""

from collections.abc import Callable

from playwright.sync_api import expect
from pytest_django import Settings

from tests.browser.conftest import Visitor, assert_whole, set_width, wait_until


def test_the_page_is_whole(visit: Callable[..., Visitor]) -> None:
    """S1.2"""
    page = assert_whole(visit().signed_in(), "/settings/")
    expect(page.locator("#limits tbody tr")).to_have_count(3)


# parts of the page that scroll sideways, and rows whose value is out of sight or below their name
STACKED = """() => {
    const rows = [...document.querySelectorAll(".limits tbody tr")];
    const value = (row) => row.querySelector("td.r:not(.limits__default)").getBoundingClientRect();
    return {
        scrolls: [...document.querySelectorAll(".settings__page *")].filter(
            (each) => each.scrollWidth > each.clientWidth && getComputedStyle(each).overflowX === "auto"
        ).length,
        rows: rows.length,
        unseen: rows.filter((row) => {
            const box = value(row);
            const name = row.querySelector("th").getBoundingClientRect();
            return box.right > innerWidth || box.left < name.right || box.top > name.bottom;
        }).length,
        labels: [...document.querySelectorAll(".limits__label")].filter((each) => each.checkVisibility()).length,
    };
}"""


def test_limits_are_read_without_scrolling_sideways(
    visit: Callable[..., Visitor], settings: Settings
) -> None:
    """On a phone, each value stands beside its name, and what the value means stands below."""
    settings.TENFOUR = settings.TENFOUR | {"TASK_MAX_ATTEMPTS": 5}
    page = visit().signed_in().open("/settings/")
    for width in (320, 390, 768, 900, 1440):
        set_width(page, width)
        found = page.evaluate(STACKED)
        assert found["rows"] > 50
        assert (found["scrolls"], found["unseen"]) == (0, 0), width
        assert bool(found["labels"]) == (width < 1440), width
    set_width(page, 390)
    expect(page.locator("#mechanisms tr", has_text="max_attempts")).to_contain_text("Default 3")


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
        expected = {"beside": beside, "above": not beside, "seen": True}
        wait_until(
            page,
            lambda: page.evaluate(COLUMN) == expected,  # noqa: B023
            lambda: (width, page.evaluate(COLUMN)),  # noqa: B023
        )
    column = page.get_by_role("navigation", name="Settings")
    column.get_by_role("link", name="People").focus()
    page.keyboard.press("Tab")
    expect(column.get_by_role("link", name="Tokens")).to_be_focused()
    page.keyboard.press("Enter")
    expect(column.locator("[aria-current=page]")).to_have_text("Tokens")
    expect(page.get_by_role("heading", name="Tokens", level=1)).to_be_visible()
