"""What every list with a filter has: views, an export, and the nearest of an unknown name."""

import csv
from collections.abc import Callable
from datetime import datetime

import pytest
from playwright.sync_api import expect

from ledger.journal import Stamp, person
from ledger.models import Agent, SavedView
from retries.tasks import actions as task_actions
from tests.browser.conftest import Visitor, axe_findings, overflow, set_width
from tests.dashboard.notifications.deliveries import make_channel, make_delivery
from tests.dashboard.worked import enqueued
from tests.factories import make_project
from tests.ledger.standing_instructions.rules import make_rule

# the page, a query that leaves one row, and one with an unknown name and its nearest
LISTS = {
    "rules": ("/instructions/standing/", "holds:yes tests", "agent:coder,codre", "agent:coder"),
    "deliveries": ("/settings/deliveries/", "code:503", "-event:task.faild", "event:task.failed"),
    "audit": ("/settings/audit/", "kind:task", "actor:mara,maar", "actor:mara"),
}
WIDTHS = (1920, 1440, 1100, 768, 390, 320)


@pytest.fixture
def paths(coder: Agent, mara: object, now: datetime) -> None:
    make_rule("Run the tests", agent=coder, hold_stop=True)
    make_rule("Run the linter", agent=coder)
    channel = make_channel(project=make_project(), now=now)
    for code in (200, 503):
        make_delivery(channel, codes=(code,), now=now)
    task_actions.skip([enqueued(coder, now=now)], stamp=Stamp(person(mara), now))


@pytest.mark.parametrize("noun", LISTS)
def test_a_list_is_saved_exported_and_corrected(
    visit: Callable[..., Visitor], paths: None, noun: str
) -> None:
    path, query, wrong, nearest = LISTS[noun]
    visitor = visit()
    page = visitor.sign_in(f"{path}?q={query}")
    page.click("#views-menu summary")
    page.fill("#view-name", "Mine")
    assert axe_findings(page) == []
    page.get_by_role("button", name="Save view").click()
    expect(page.locator("#toasts")).to_contain_text("“Mine” is saved for everyone in default.")
    expect(page.locator("#views-menu summary")).to_have_text("Mine")
    assert SavedView.objects.get().query == query
    page.click("#export-menu summary")
    assert axe_findings(page) == []
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    with download.value.path().open() as file:
        assert len(list(csv.DictReader(file))) == 1
    page.goto(f"{visitor.url}{path}?q={wrong}")
    note = page.locator(".listing__note")
    expect(note).to_contain_text("Did you mean")
    stuck = {}
    for width in WIDTHS:
        set_width(page, width)
        if found := overflow(page):
            stuck[width] = found
    assert stuck == {} and axe_findings(page) == []
    set_width(page, 1440)
    note.get_by_role("link", name=nearest).first.click()
    expect(note).to_have_count(0)
    assert visitor.complaints == []
