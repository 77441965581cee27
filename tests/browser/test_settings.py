"""The settings page in a browser: whole in every theme and width."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.conftest import Visitor, assert_whole


def test_the_page_is_whole(visit: Callable[..., Visitor]) -> None:
    """S1.2"""
    page = assert_whole(visit().signed_in(), "/settings/")
    expect(page.locator("#limits tbody tr")).to_have_count(3)
