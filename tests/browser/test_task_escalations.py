"""A task that needs a person, in a browser: words are previewed, sent and taken back."""

from collections.abc import Callable
from datetime import datetime

from django.utils import timezone
from playwright.sync_api import expect

from ledger.models import Agent, Task
from ledger.states import TaskState
from retries.models import Escalation
from tests.browser.conftest import UNDO_TIME, Visitor, assert_whole, assert_whole_as_it_is, poll
from tests.dashboard.escalations.test_escalations import HOSTILE, MINUTE, address
from tests.dashboard.escalations.test_task_escalations import asked, exhausted
from tests.dashboard.worked import enqueued, failed

Visit = Callable[..., Visitor]
FIX = "Round each line <first>"
# The test says when the time of an undo is over.
HOLD_LONG_TIMERS = """() => {
    const start = window.setTimeout;
    window.setTimeout = (run, after, ...more) =>
        after > 100_000 ? (window.runOut = run) : start(run, after, ...more);
}"""


def test_a_fix_is_previewed_sent_taken_back_and_sent_again(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    """S1.47, S1.48"""
    question = exhausted(coder, now=now)
    visitor = visit(reduced_motion="no-preference")
    page = visitor.sign_in(address(question))
    told = page.locator("#told")
    expect(told).to_contain_text('max_attempts="6"')
    page.keyboard.press("f")
    page.keyboard.type(FIX)
    expect(told).to_contain_text("User provided fix: Round each line &lt;first&gt;")
    expect(told).to_contain_text('attempt="4" max_attempts="4"')
    poll(page)
    expect(told).to_contain_text("Round each line")
    page.keyboard.press("Control+Enter")
    toast = page.locator("[data-undo]")
    expect(toast).to_contain_text("Fix sent to coder")
    drains = "el => parseFloat(getComputedStyle(el.querySelector('.toast__bar')).animationDuration)"
    assert 10 < toast.evaluate(drains) <= UNDO_TIME.total_seconds()
    page.keyboard.press("Escape")
    page.keyboard.press("z")
    expect(page.locator(".answer")).to_contain_text("Answer undone.")
    expect(page.locator("#fix")).to_have_value(FIX)
    expect(told).to_contain_text("Round each line")
    assert Task.objects.get().state == TaskState.ESCALATED
    page.evaluate(HOLD_LONG_TIMERS)
    page.click("#send-fix")
    expect(toast).to_be_visible()
    Escalation.objects.update(undo_until=timezone.now())  # it runs out, also on the page
    page.evaluate("window.runOut()")
    expect(toast).to_have_count(0)
    assert Task.objects.get().attempt_limit == 4
    assert Escalation.objects.get().action == "fix" and visitor.complaints == []


def test_skip_asks_about_the_dependents_and_the_safe_choice_has_the_focus(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    """S1.51"""
    question = exhausted(coder, now=now)
    waits = enqueued(coder, "Reconcile", now=now, needs=[question.task_id])
    page = visit().sign_in(address(question))
    page.keyboard.press("s")
    expect(page.locator("#skip-dialog button", has_text="Go back")).to_be_focused()
    page.check("#skip-dialog >> text=Skip it too")
    page.click("#skip-dialog button >> text=/^Skip$/")
    expect(page.locator(".answer")).to_contain_text("Skipped.")
    assert Task.objects.get(pk=waits).state == TaskState.SKIPPED


def test_the_compared_errors_stay_chosen(visit: Visit, coder: Agent, now: datetime) -> None:
    question = exhausted(coder, now=now)
    page = visit().sign_in(address(question))
    expect(page.locator("#diff-3")).to_be_visible()
    page.click("[data-tab='2']")
    expect(page.locator("#diff-2")).to_contain_text("NotNullViolation")
    exhausted(coder, "Another", now=now)
    expect(page).to_have_title("2 need an answer · Escalations · Tenfour")
    expect(page.locator("#diff-2")).to_be_visible()
    expect(page.locator("#diff-3")).to_be_hidden()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#diff-3")).to_be_visible()


def test_it_is_whole(visit: Visit, coder: Agent, now: datetime) -> None:
    text = HOSTILE[1]
    why = {"details": text, "root_cause_guess": text, "suggested_fix": text, "message": text}
    files = [{"path": text, "status": text[:64]}]
    start = now - 5 * MINUTE
    id = enqueued(coder, "v" * 200, now=start, max_attempts=2, on_exhausted="escalate")
    failed(coder, id, now=start, retry_after_s=0, files_modified=files, **why)
    failed(coder, id, now=start + MINUTE, message="other", details="other\n" * 50)
    long = Escalation.objects.get()
    choices = [{"name": "yes", "title": "w" * 200, "description": ""}]
    said = {"title": text[:300], "description": text[:300]}
    form = {
        "a": {"type": "boolean"} | said,
        "b" * 64: {"type": "string", "enum": [text[:200], "x" * 200]} | said,
        "c": {"type": "number"},
    }
    schema = {"type": "object", "properties": form}
    question = asked(coder, now=now, choices=choices, response_schema=schema)
    visitor = visit().signed_in()
    for one in (long, question):
        page = assert_whole(visitor, address(one))
    page.fill("#fix", "yes")
    expect(page.locator("#told")).to_contain_text("User answered: yes")
    page.fill("#response-c", "7.5")
    expect(page.locator("#told")).to_contain_text("c: 7.5")
    page.fill("#response-c", "seven")
    page.click("#send-fix")
    expect(page.locator("#fix-hint")).to_contain_text("'c' must be a number.")
    expect(page.locator("#response-c")).to_be_focused()
    expect(page.locator("#response-c")).to_have_value("seven")
    assert_whole_as_it_is(page)
    page.click("button[value=retry]")
    expect(page.locator("[data-undo]")).to_contain_text("Retry granted to coder")
    assert_whole_as_it_is(page)
    assert all("422" in each for each in visitor.complaints)


def test_without_script_it_is_answered_and_taken_back(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    question = exhausted(coder, now=now)
    page = visit(java_script_enabled=False).sign_in(address(question))
    page.fill("#fix", FIX)
    page.click("#send-fix")
    page.click("[data-undo] button")
    expect(page.locator(".answer")).to_contain_text("Answer undone.")
    expect(page.locator("#fix")).to_have_value(FIX)
    page.click("button:has-text('Skip')")
    page.click(".answer button:has-text('Skip')")
    assert Task.objects.get().state == TaskState.SKIPPED
