"""The forms of tasks and the page of their types, in every width and scheme."""

from collections.abc import Callable
from datetime import datetime

from playwright.sync_api import expect

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Task
from ledger.states import TaskState
from ledger.tasks import type_pauses
from tests.browser.conftest import Visitor, assert_whole, set_width, shoot
from tests.dashboard.worked import enqueued, make_task

LONG = "Reconcile the ledger of all invoices " * 5


def test_a_task_is_enqueued_from_an_earlier_payload(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    for n in range(3):
        enqueued(coder, LONG[:200], now=now, payload={"n": n, "text": "w" * 300})
    visitor = visit().signed_in()
    page = assert_whole(visitor, "/tasks/new/?type=code")
    for width in (1440, 390):
        set_width(page, width)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            shoot(page, f"new-{width}-{scheme}")
    page.get_by_label("Title").fill("Mine")
    page.locator(".earlier .btn").nth(2).click()
    expect(page.get_by_label("Payload")).to_have_value(
        '{\n  "n": 0,\n  "text": "' + "w" * 300 + '"\n}'
    )
    expect(page.get_by_label("Title")).to_have_value("Mine")
    page.get_by_label("Attempts in a round").fill("3000")
    page.evaluate("document.querySelector('main form').noValidate = true")
    page.get_by_label("Title").press("Enter")
    expect(page.get_by_text("Input should be less than or equal to 100.")).to_be_visible()
    shoot(page, "new-error")
    page.get_by_label("Attempts in a round").fill("4")
    page.locator("main form .btn--primary").dblclick()
    expect(page.locator("h1")).not_to_have_text("New task")
    made = Task.objects.get(title="Mine")
    assert (made.payload["n"], made.max_attempts) == (0, 4)


def test_a_type_is_paused_and_a_retry_changed(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    task = make_task(TaskState.RETRY, "Sum up", agent=coder, now=now)
    note = "the build server is down " * 9
    type_pauses.set_paused(
        "w" * 64, paused=True, project_id=coder.project_id, note=note, stamp=Stamp(SYSTEM, now)
    )
    visitor = visit().signed_in()
    for path in ("/tasks/types/", f"/tasks/{task.pk}/change-and-retry/"):
        page = assert_whole(visitor, path)
        for width in (1440, 390):
            set_width(page, width)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                shoot(page, f"{path.strip('/').rpartition('/')[2]}-{width}-{scheme}")
    page = visitor.open("/tasks/types/")
    page.get_by_role("button", name="Pause code").click()
    expect(page.get_by_text("The type code is paused.")).to_be_visible()
    page = visitor.open("/tasks/")
    expect(page.get_by_text("on hold, type paused").first).to_be_visible()
    shoot(page, "tasks-paused")


def test_columns_are_pinned(visit: Callable[..., Visitor], coder: Agent, now: datetime) -> None:
    make_task(TaskState.FAILED, "Sum up", agent=coder, now=now)
    visitor = visit().signed_in()
    page = visitor.open("/dead-letters/")
    expect(page.locator("thead th:visible", has_text="Agent")).to_have_count(1)
    page.locator("#columns-menu summary").click()
    shoot(page, "columns")
    page.locator("#columns-menu").get_by_label("Agent").uncheck()
    page.get_by_role("button", name="Pin these columns").click()
    expect(page.get_by_text("Your columns are saved.")).to_be_visible()
    expect(page.locator("thead th:visible", has_text="Agent")).to_have_count(0)
    cells = page.locator("tbody tr[data-row]").first.locator("> :visible")
    assert cells.count() == page.locator("thead tr > :visible").count()
    for width in (390, 1440):
        set_width(page, width)
        shoot(page, f"hidden-{width}")
    page = visitor.open("/tasks/")
    page.locator("#columns-menu summary").click()
    page.locator("#columns-menu").get_by_label("Type").check()
    page.get_by_role("button", name="Pin these columns").click()
    expect(page.locator("thead th", has_text="Type")).to_be_visible()
    shoot(page, "tasks-pinned")
