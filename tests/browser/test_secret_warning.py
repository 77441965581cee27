"""A person who types a secret into an answer is told what Tenfour does with it."""

from collections.abc import Callable
from datetime import datetime, timedelta

from playwright.sync_api import expect

from ledger.models import Agent
from ledger.states import TaskState
from retries.models import Escalation
from tests.browser.conftest import Visitor, assert_whole_as_it_is
from tests.dashboard.escalations.test_escalations import ignored
from tests.dashboard.worked import make_task
from tests.secret_texts import TOKEN


def test_the_form_warns_while_a_secret_is_typed(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    start = now - timedelta(minutes=3)
    task = make_task(TaskState.ESCALATED, "Build", agent=coder, now=start)
    asked = Escalation.objects.get(task=task)
    visitor = visit()
    page = visitor.sign_in(f"/escalations/{asked.pk}/")
    warning = page.locator("#fix-secret")
    expect(warning).to_have_text("")
    page.fill("#fix", f"Set API_KEY={TOKEN} in .env")
    expect(warning).to_contain_text("Only this task's agent will see it")
    assert_whole_as_it_is(page)
    page.fill("#fix", "Pin uuid@9")
    expect(warning).to_have_text("")
    page.fill("#fix", f"Set API_KEY={TOKEN} in .env")
    page.click("#send-fix")
    answer = page.locator(f"#answer-{asked.pk}")
    expect(answer).to_contain_text("which is masked here")
    expect(answer).not_to_contain_text(TOKEN)
    assert_whole_as_it_is(page)

    other = ignored(coder, "Check the lock", now=start)
    page = visitor.open(f"/escalations/{other.pk}/")
    page.fill("#fix", f"Set API_KEY={TOKEN} in .env")
    expect(page.locator("#fix-secret")).to_contain_text("everyone in this project can read it")
    assert visitor.complaints == []
