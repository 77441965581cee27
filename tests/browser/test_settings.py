"""The settings page in a browser: whole in every theme and width."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visitor, axe_findings, overflow


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_whole(visit: Callable[..., Visitor], scheme: str, width: int) -> None:
    """S1.2"""
    visitor = visit(width=width, color_scheme=scheme)
    page = visitor.sign_in()
    page.goto(visitor.url + "/settings/")
    page.wait_for_load_state("networkidle")
    expect(page.locator("#limits tbody tr")).to_have_count(3)
    assert visitor.complaints == []
    assert overflow(page) == 0
    assert axe_findings(page) == []
