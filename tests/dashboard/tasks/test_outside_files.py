"""The pages of a task and of its plan say that an attempt changed other files."""

import pytest
from django.test import Client

from ledger.models import Agent
from tests.conftest import Api
from tests.ledger.plans.test_import_writer import imported, task
from tests.retries.api.calls import claim
from tests.retries.attempts.test_outside_files import report

pytestmark = pytest.mark.django_db


def test_the_pages_say_it(coder: Api, agent: Agent, browser: Client) -> None:
    plan = imported({"files": ["src/"]}, {"files": ["lib/"]}).plan
    paths = ["<b>x", "src/a", "b", "c", "d"]
    report(coder, claim(coder)["data"][0]["attempt"]["id"], *paths)
    page = browser.get(f"/tasks/{task('03-01:task-1').pk}/").content.decode()
    assert (
        "Attempt 1 changed 4 files outside of the task’s files: &lt;b&gt;x, b, c and 1 mo" in page
    )
    assert "coder changed 4 files outside of the task’s files" in page
    listed = browser.get(f"/plans/{plan.pk}/").content.decode()
    assert listed.count("4 files outside of its files") == 1
    activity = browser.get("/activity/?q=kind:task.files_outside").content.decode()
    assert "coder changed 4 files outside of the task’s files" in activity
