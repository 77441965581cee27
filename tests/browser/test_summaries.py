"""A plan's retry summary in a browser: whole in every theme and width."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import expect

from ledger.models import Agent
from tests.browser.conftest import Visitor, axe_findings, overflow
from tests.retries.renderings.stories import add, attempt, sample

HOSTILE = "<script>document.title = 'owned'</script>" + "w" * 150


@pytest.fixture
def plan(coder: Agent, now: datetime) -> str:
    """The address of the sample's plan with a hostile task in it."""
    made, _ = sample(coder, now=now - timedelta(hours=1))
    task = add(made, coder, 6, title=HOSTILE, now=now)
    attempt(coder, task, now=now, error=HOSTILE, root_cause_guess=HOSTILE)
    return "/plans/03-01/summary/"


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_whole(
    visit: Callable[..., Visitor], plan: str, scheme: str, width: int
) -> None:
    visitor = visit(width=width, color_scheme=scheme)
    page = visitor.sign_in()
    page.goto(visitor.url + plan)
    page.wait_for_load_state("networkidle")
    expect(page.locator("#retry-details tbody tr")).to_have_count(6)
    assert visitor.complaints == []
    assert overflow(page) == 0
    assert axe_findings(page) == []
    assert page.title() != "owned"
