"""Actions on many rows in a browser: pick, count, start, follow, undo and stop."""

from collections.abc import Callable
from datetime import datetime, timedelta

from django.utils import timezone
from playwright.sync_api import expect

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Task
from ledger.states import TaskState
from retries.models import Escalation, Operation
from retries.operations.running import run_batch, take
from retries.tasks import actions as task_actions
from tests.browser.conftest import (
    UNDO_TIME,
    Visitor,
    assert_whole,
    assert_whole_as_it_is,
    axe_findings,
    shoot,
    wait_for_boxes,
)
from tests.dashboard.worked import buried, enqueued, make_task
from tests.factories import make_agent
from tests.retries.operations.worlds import run, start

HOSTILE = "<script>document.title = 'owned'</script>" + "w" * 150


def test_picked_rows_are_counted_aborted_and_undone(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """Keys pick rows; the question counts; the message's Undo takes it back while nothing began."""
    for number in range(3):
        enqueued(coder, f"Task {number}", now=now)
    done = make_task(TaskState.DONE, HOSTILE, agent=coder, now=now - timedelta(minutes=1))
    visitor = visit()
    page = visitor.sign_in("/tasks/")
    expect(page.locator(".bulk")).to_be_hidden()
    for keys in ("j", "x", "j", "x"):
        page.keyboard.press(keys)
    expect(page.locator(".bulk")).to_be_visible()
    expect(page.locator("[data-pick]:checked")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.locator(".bulk")).to_be_hidden()
    page.check("[data-pick-all]")
    assert axe_findings(page) == []
    shoot(page, "bulk-bar")
    page.click(".bulk button:has-text('Abort')")
    expect(page.locator("#effect")).to_contain_text("3 tasks will be aborted.")
    expect(page.locator("#counts")).to_contain_text("left as it is")
    assert_whole_as_it_is(page)
    shoot(page, "question-390-dark")
    page.set_viewport_size({"width": 1440, "height": 900})
    shoot(page, "question-1440")
    page.fill("#reason", "not needed any more")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("3 tasks will be aborted in 300 s.")
    expect(page).to_have_url(f"{visitor.url}/tasks/")
    page.click("#toasts button:has-text('Undo')")
    expect(page.locator("#toasts")).to_contain_text("Undone. No task was changed.")
    operation = run(Operation.objects.get(), now=timezone.now() + UNDO_TIME)
    assert (operation.state, operation.reason) == ("undone", "not needed any more")
    assert set(Task.objects.exclude(pk=done.pk).values_list("state", flat=True)) == {"queued"}


def test_picked_tasks_are_retried_with_an_instruction(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """The text is asked for first, and sent to each of them when the time to undo is over."""
    before = now - timedelta(minutes=1)
    asked = [make_task(TaskState.ESCALATED, agent=coder, now=before) for _ in range(2)]
    make_task(TaskState.FAILED, HOSTILE, agent=coder, now=before)
    visitor = visit()
    page = visitor.sign_in("/tasks/")
    page.check("[data-pick-all]")
    shoot(page, "tasks-bulk-390")
    page.click(".bulk button:has-text('Retry with instruction')")
    expect(page.locator("#effect")).to_contain_text("2 tasks will be retried with an instruction.")
    expect(page.locator("#fix")).to_be_focused()
    assert_whole_as_it_is(page)
    shoot(page, "instruction-390-dark")
    page.set_viewport_size({"width": 1440, "height": 900})
    shoot(page, "instruction-1440")
    page.click("#operation-question button.btn--primary")
    expect(page.locator("#fix")).to_be_focused()  # the browser asks for the text
    page.fill("#fix", "Install lxml first")
    page.click("#operation-question button.btn--primary")
    expect(page.locator("#toasts")).to_contain_text("2 tasks will be retried with an instruction")
    operation = run(Operation.objects.get(), now=timezone.now() + UNDO_TIME)
    assert {Task.objects.get(pk=task.pk).state for task in asked} == {"queued"}
    page.goto(f"{visitor.url}/operations/{operation.pk}/")
    expect(page.locator(".detail__side")).to_contain_text("Install lxml first")
    page.goto(f"{visitor.url}/escalations/{Escalation.objects.get(task=asked[0]).pk}/")
    expect(page.locator("main")).to_contain_text("Install lxml first")


# with the marks that keep the direction of a name to itself
TARGET = "\u2068tester\u2069 · never checked in · 0 waiting · 0 running"


def test_all_matching_tasks_are_reassigned_and_it_is_undone(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """The agents are offered with what they do now, and fewer tasks only if some are theirs."""
    make_agent("tester")
    make_agent("an-agent-with-a-name-of-sixty-four-characters-" + "x" * 17)
    for number in range(3):
        enqueued(coder, f"Task {number}", now=now - timedelta(minutes=1))
    visitor = visit()
    page = visitor.sign_in("/tasks/?q=agent:coder")
    page.keyboard.press("Shift+A")
    page.click(".bulk button:has-text('Reassign')")
    expect(page.locator("#effect")).to_contain_text("3 tasks can be reassigned.")
    expect(page.locator("#agent option").last).to_have_text(TARGET)
    assert_whole_as_it_is(page)
    shoot(page, "reassign-390-dark")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.select_option("#agent", "tester")
    shoot(page, "reassign-1440")
    page.click("#operation-question button.btn--primary")
    expect(page.locator("#toasts")).to_contain_text("3 tasks will be reassigned")
    page.click("#toasts button:has-text('Undo')")
    expect(page.locator("#toasts")).to_contain_text("Undone. No task was changed.")
    run(Operation.objects.get(), now=timezone.now() + UNDO_TIME)
    assert Task.objects.filter(agent=coder).count() == 3
    tasks = Task.objects.all()
    run(start("task.reassign", tasks, options={"agent": "tester"}, now=now), now=now + UNDO_TIME)
    page.goto(f"{visitor.url}/tasks/?q=agent:tester")
    expect(page.locator("#rows [data-row]")).to_have_count(3)


def test_an_operation_is_followed_stopped_and_read(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """The page follows its worker without a reload, asks before it stops, and tells the result."""
    before = now - timedelta(minutes=2)
    for number in range(30):
        enqueued(coder, f"{HOSTILE} {number}", now=before)
    visitor = visit()
    page = visitor.sign_in("/tasks/?q=agent:coder")
    page.locator("[data-pick]").first.check()
    expect(page.locator("#bulk-form")).to_contain_text("All 30 matching")
    page.keyboard.press("Shift+A")
    expect(page.locator("#bulk-form .bulk__some")).to_be_hidden()
    shoot(page, "everything-matching")
    page.keyboard.press("Escape")
    expect(page.locator("#bulk-form")).to_be_hidden()
    assert not page.is_checked("[data-pick-matching]")
    page.keyboard.press("Shift+A")
    page.click("#bulk-form button:has-text('Abort')")
    expect(page.locator("#effect")).to_contain_text("30 tasks will be aborted.")
    page.click("#operation-question button.btn--danger-solid")
    expect(page.locator("#operation h2.title")).to_have_text("Aborting 30 tasks")
    operation = Operation.objects.get()
    first = operation.items.order_by("id").first()
    assert first
    task_actions.skip([first.subject_id], stamp=Stamp(SYSTEM, now))
    later = timezone.now() + UNDO_TIME
    take(operation.pk, now=later)
    run_batch(operation.pk, now=later)
    expect(page.locator(".opnum b")).to_have_text("25")
    shoot(page, "operation-running")
    page.keyboard.press("s")
    expect(page.locator("#asked")).to_contain_text("5 tasks will be left as they are.")
    page.click("#asked button:has-text('Stop')")
    expect(page.locator("#operation .st").first).to_have_text("Stopped")
    expect(page.locator("#refused")).to_contain_text("State is now “skipped”")
    path = f"/operations/{operation.pk}/"
    assert_whole(visitor, path)
    shoot(page, "operation-390")
    page.set_viewport_size({"width": 1440, "height": 900})
    shoot(page, "operation-1440")
    queued = Task.objects.filter(state="queued")
    run(start("task.prioritize", queued, options={"priority": 5}, now=now), now=now + UNDO_TIME)
    assert_whole(visitor, "/operations/")
    shoot(page, "operations-390")
    page.set_viewport_size({"width": 1440, "height": 900})
    shoot(page, "operations-1440")


def test_everything_works_without_a_script(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    enqueued(coder, "Task", now=now - timedelta(minutes=1))
    visitor = visit(java_script_enabled=False)
    page = visitor.sign_in("/tasks/")
    page.check("[data-pick]")
    page.click(".bulk button:has-text('Skip')")
    page.click("#operation-question button.btn--danger-solid")
    expect(page.locator("#toasts")).to_contain_text("1 task will be skipped in 300 s.")
    page.goto(f"{visitor.url}/operations/{Operation.objects.get().pk}/")
    page.click("button:has-text('Undo') >> nth=0")
    expect(page.locator("#toasts")).to_contain_text("Undone.")


def test_a_cause_is_whole_on_a_phone_and_its_group_is_dismissed(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """The cause wraps instead of being cut off, beside the two actions on all of its group."""
    error = "psycopg.errors.InsufficientPrivilege: permission denied for table ledger_entries"
    for number in range(3):
        buried(f"Letter {number}", agent=coder, now=now - timedelta(minutes=1), error=error)
    page = visit(width=390).sign_in("/dead-letters/")
    wait_for_boxes(
        page,
        ["#groups .grp > a code"],
        lambda boxes: boxes[0]["height"] > 20 and boxes[0]["x"] + boxes[0]["width"] <= 390,
    )
    page.wait_for_function(
        """() => {
            const link = document.querySelector("#groups .grp > a");
            return Math.max(link.scrollWidth - link.clientWidth, link.scrollHeight - link.clientHeight) <= 1;
        }"""
    )
    shoot(page, "deadletters-390")
    page.click("#groups button:has-text('Dismiss all 3')")
    expect(page.locator("#effect")).to_contain_text("3 dead letters will be dismissed.")


def test_the_audit_log_is_whole_and_filters(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """Rows open to their fields, and a filter is one click and one link away."""
    before = now - timedelta(minutes=2)
    for number in range(3):
        enqueued(coder, f"{HOSTILE} {number}", now=before)
    run(start("task.abort", Task.objects.all(), reason=HOSTILE, now=before), now=before + UNDO_TIME)
    visitor = visit()
    page = visitor.sign_in("/settings/audit/")
    expect(page.locator("#records > li")).to_have_count(4)
    page.click("nav.aud__nouns a:has-text('Operation')")
    expect(page.locator("#records > li")).to_have_count(1)
    page.click("#records summary")
    expect(page.locator("#records .fields").first).to_contain_text("operation.started")
    shoot(page, "audit-1440")
    assert_whole(visitor, "/settings/audit/")
    shoot(page, "audit-390")


def test_a_dead_letters_own_page_replays_and_dismisses(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    visitor = visit().signed_in()
    for key, verb, state in (("r", "Replay", "replayed"), ("d", "Dismiss", "dismissed")):
        letter = buried(f"To {verb}", agent=coder, now=now)
        page = visitor.open(f"/dead-letters/{letter.pk}/")
        page.keyboard.press(key)
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        dialog.get_by_role("button", name=verb).click()
        expect(page.locator("#toasts")).to_contain_text(f"1 dead letter {state}")
        expect(page.locator(f"[data-key={key}]")).to_have_count(0)
        letter.refresh_from_db()
        assert letter.closed_at
    assert Task.objects.filter(replay_of__title="To Replay").count() == 1
    assert visitor.complaints == []
