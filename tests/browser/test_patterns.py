"""Patterns in a browser: whole in every theme and width, worked by key alone."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import expect

from ledger.models import Agent
from retries.models import FailurePattern
from retries.states import PatternState
from tests.browser.conftest import Visitor, assert_whole
from tests.dashboard.worked import buried
from tests.factories import as_name, make_agent
from tests.retries.failures.test_suggestions import fixed

HOSTILE = "<script>document.title = 'owned'</script>" + "w" * 150


@pytest.fixture
def busy(coder: Agent, now: datetime) -> dict[str, str]:
    """The address of a pattern of two agents, beside a hostile one."""
    at = now - timedelta(minutes=4)
    for agent in (coder, make_agent(as_name(HOSTILE))):
        buried(HOSTILE, agent=agent, now=at, error=HOSTILE, why={"suggested_fix": HOSTILE})
    buried("Stem", agent=coder, now=at, error="Cannot find module 'uuid'")
    fixed(coder, HOSTILE, works=True, now=at, message=HOSTILE)
    fixed(coder, "Run npm ci", works=True, now=at + timedelta(minutes=4))
    hostile, plain = FailurePattern.objects.order_by("id")
    return {"hostile": f"/patterns/{hostile.pk}/", "plain": f"/patterns/{plain.pk}/"}


def test_the_pages_are_whole_and_promote_a_fix_without_a_script(
    visit: Callable[..., Visitor], busy: dict[str, str]
) -> None:
    visitor = visit().signed_in()
    for path in ("/patterns/", "/patterns/?q=state:ignored", "{hostile}"):
        assert_whole(visitor, path.format(**busy))
    page = visit(java_script_enabled=False).signed_in().open(busy["plain"])
    page.locator("#fixes").get_by_role("button", name="Promote").click()
    expect(page.locator("#fixes")).to_contain_text("promoted by mara")


def test_by_key_alone(visit: Callable[..., Visitor], busy: dict[str, str]) -> None:
    """From any page to the patterns, into one, and resolved."""
    page = visit().sign_in()
    page.keyboard.type("gf")  # in one call, so that the second is in time
    page.wait_for_url("**/patterns/")  # and until it is loaded: keys need its script
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/patterns/*/")
    expect(page.locator("h2").first).to_contain_text("Cannot find module")
    expect(page.locator("#why")).to_contain_text("Every error has the text of the title.")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Retry 1 stuck task?")).to_be_visible()
    page.get_by_role("link", name="Cancel").click()
    page.wait_for_url("**/patterns/*/")
    page.keyboard.press("s")
    expect(page.locator(".detail__line")).to_contain_text("Resolved")
    row = FailurePattern.objects.get(template__startswith="Cannot")
    assert (row.state, row.state_by_name) == (PatternState.RESOLVED, "mara")
