"""The page of policies in a browser: whole when empty and with figures, switched without a script."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from ledger.models import Agent, Task
from retries.models import RetryPolicy
from retries.policies import editing, replay
from tests.browser.conftest import Visitor, assert_whole, assert_whole_as_it_is
from tests.factories import make_project
from tests.retries.policies.test_replay import MISSING, QUOTA, task, work

HOSTILE = "<script>document.title='owned'</script>‮ " + "x" * 90
PATH = "/settings/policies/"


def test_the_page_is_whole_and_switches(
    visit: Callable[..., Visitor], coder: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.settings.policy_queries.FIGURES_SECONDS", 0)
    visitor = visit().signed_in()
    page = assert_whole(visitor, PATH)
    expect(page.locator(".policy__few")).to_have_count(4)
    monkeypatch.setattr(replay, "LEAST_TASKS", 3)
    monkeypatch.setattr(
        "tests.retries.policies.test_replay.NOW", timezone.now() - timedelta(days=1)
    )
    RetryPolicy.objects.create(project=coder.project)
    for _ in range(3):
        work(coder, task(coder), (MISSING, []), (MISSING, []), ("", None))
        work(coder, task(coder), *[(QUOTA, [])] * 4)
    Task.objects.update(title=HOSTILE)

    def show_lost(page: Page) -> None:
        page.locator("summary").click()

    page = assert_whole(visitor, PATH, act=show_lost)
    expect(page.locator(".policy__lost li")).to_have_count(3)
    row = page.locator("#policy-ask_on_same_failure")
    row.locator("select").select_option("all")
    row.get_by_role("button", name="Switch").click()
    expect(page.locator("#asked")).to_contain_text("3 successes of 3")
    assert_whole_as_it_is(page, part="#asked")
    page.locator("#asked").get_by_label("Reason").fill(HOSTILE)
    page.get_by_role("button", name="Switch on").click()
    expect(row).to_contain_text("On for all tasks")
    assert editing.read_policies(coder.project_id).ask_on_same_failure == "all"
    assert_whole(visitor, PATH, part="#policy-ask_on_same_failure")
    make_project("ops & more")
    page = visit(java_script_enabled=False).signed_in().open(PATH)
    page.locator("#choose").get_by_role("link", name="ops & more").click()
    expect(page.locator("#policies-title")).to_have_text("Policies of ops & more")
    page.locator("#policy-obey_waits select").select_option("off")
    page.locator("#policy-obey_waits").get_by_role("button", name="Switch").click()
    page.locator("#asked").get_by_label("Reason").fill("quiet hours")
    page.get_by_role("button", name="Switch off").click()
    expect(page.locator("#policy-obey_waits")).to_contain_text("quiet hours")
