"""The page of a task shows what its last failed attempt changed, and whether its check is flaky."""

import pytest
from django.test import Client

from ledger.models import Agent
from tests.conftest import Api
from tests.dashboard.seen import words
from tests.retries.retry_context.test_flaky import CHECK, PASSED, SAID, report, start

pytestmark = pytest.mark.django_db


def test_a_task_that_is_done_shows_that_its_check_is_flaky(
    agent: Agent, coder: Api, operator: Api, browser: Client
) -> None:
    second = start(coder, operator)
    report(coder, second, CHECK, PASSED)
    shown = words(browser.get(f"/tasks/{second['task']['id']}/"))
    assert f"{SAID}1 in attempt 2, and with 0 in attempt 2." in shown


def test_the_diff_of_the_newest_failure_is_shown(
    agent: Agent, coder: Api, operator: Api, browser: Client
) -> None:
    second = start(coder, operator)
    path = f"/tasks/{second['task']['id']}/"
    assert "Diff" not in words(browser.get(path))
    diff = "diff --git a/<b> b/<b>\n@@ -1 +1 @@\n-<script>\n+two\n"
    beat = {"diff": diff, "environment": {"branch": "fix"}}
    id = second["attempt"]["id"]
    assert coder("POST", f"/attempts/{id}/heartbeat", beat).status_code == 200
    report(coder, second, CHECK)
    shown = words(browser.get(path))
    assert "branch fix" in shown
    page = browser.get(path).content.decode()
    assert "-&lt;script&gt;\n+two" in page and page.count('id="source"') == 1
