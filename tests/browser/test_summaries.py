"""A plan's retry summary in a browser: whole in every theme and width."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import expect

from ledger.models import Agent
from tests.browser.conftest import Visitor, assert_whole
from tests.retries.renderings.stories import add, attempt, sample

HOSTILE = "<script>document.title = 'owned'</script>" + "w" * 150


@pytest.fixture
def plan(coder: Agent, now: datetime) -> str:
    """The address of the sample's plan with a hostile task in it."""
    made, _ = sample(coder, now=now - timedelta(hours=1))
    task = add(made, coder, 6, title=HOSTILE, now=now)
    attempt(coder, task, now=now, error=HOSTILE, root_cause_guess=HOSTILE)
    return "/plans/03-01/summary/"


def test_the_page_is_whole(visit: Callable[..., Visitor], plan: str) -> None:
    page = assert_whole(visit().signed_in(), plan)
    expect(page.locator("#retry-details tbody tr")).to_have_count(6)
