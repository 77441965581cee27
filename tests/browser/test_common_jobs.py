"""The five most common jobs take at most four keys or clicks each, beside the text."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from playwright.sync_api import Page, expect

from ledger.models import Agent, DeadLetter, Instruction, Task
from ledger.states import TaskState
from retries.models import Escalation, Operation
from tests.browser.conftest import Visitor
from tests.dashboard.worked import buried, enqueued, make_task
from tests.factories import make_agent

MOST = 4


@dataclass
class Hands:
    """A person at Overview who presses keys and clicks; typed text is not counted."""

    page: Page
    count: int = 0

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.count += 1

    def press_quickly(self, keys: str) -> None:
        """Press keys that belong together, however slow the machine is."""
        self.page.keyboard.type(keys)
        self.count += len(keys)

    def click(self, selector: str) -> None:
        self.page.click(selector)
        self.count += 1

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)


@contextmanager
def job(page: Page, visitor: Visitor) -> Iterator[Hands]:
    page.goto(visitor.url)
    hands = Hands(page)
    yield hands
    assert 0 < hands.count <= MOST


def test_the_five_common_jobs(visit: Callable[..., Visitor], coder: Agent, now: datetime) -> None:
    at = now - timedelta(minutes=5)
    for number in range(3):
        buried(f"Build {number}", agent=coder, now=at, error=f"Cannot find module 'm{number}'")
    wanted = enqueued(make_agent("reviewer"), "Reconcile the March statements", now=at)
    asked = make_task(TaskState.ESCALATED, "Import the bank file", agent=coder, now=at)
    later = make_task(TaskState.ESCALATED, "Export the bank file", agent=coder, now=now)
    enqueued(coder, "Close the month", now=now, needs=[later.pk])
    # E answers a cause of the last hour first
    Escalation.objects.update(opened_at=now - timedelta(hours=2))
    visitor = visit()
    page = visitor.sign_in("/")

    with job(
        page, visitor
    ) as hands:  # answer the oldest with a fix, although more wait for another
        hands.press("e")
        page.wait_for_url("**/escalations/**")
        hands.press("f")
        expect(page.locator("#fix")).to_be_focused()
        hands.type("Use the second file")
        hands.press("Control+Enter")
        expect(page.locator(".toasts--undo")).to_contain_text("Undo")
    assert Escalation.objects.get(task=asked).fix == "Use the second file"

    with job(page, visitor) as hands:  # find a task by words
        hands.press("Control+k")
        hands.type("reconcile march")
        expect(page.locator("#palette")).to_contain_text("Reconcile the March statements")
        hands.press("Enter")
        page.wait_for_url(f"**/tasks/{wanted}/**")

    with job(page, visitor) as hands:  # replay the dead letters of one cause
        hands.press_quickly("gd")
        page.wait_for_url("**/dead-letters/")
        hands.click("text=Replay all 3…")
        expect(page.locator("#effect")).to_contain_text("3 dead letters will be replayed.")
        hands.type("the module is there now")
        hands.press("Enter")
        expect(page.locator("#toasts")).to_contain_text("3 dead letters")
    operation = Operation.objects.get()
    assert (operation.verb, operation.total) == ("dead_letter.replay", 3)
    assert operation.reason == "the module is there now" and DeadLetter.objects.open().count() == 3

    with job(page, visitor) as hands:  # pause an agent
        hands.press("Control+k")
        hands.type("reviewer")
        expect(page.locator("#palette")).to_contain_text("reviewer")
        hands.press("Enter")
        page.wait_for_url("**/agents/*/")
        hands.press("P")
        expect(page.locator("#toasts")).to_contain_text("paused")
    assert Agent.objects.get(paused=True).name == "reviewer"

    with job(page, visitor) as hands:  # send an instruction
        hands.press("n")
        page.wait_for_url("**/instructions/new/")
        hands.click("#send-agent")
        hands.type("coder")
        hands.press("Tab")
        hands.type("Rebase on main")
        hands.click("text=Send instruction")
        page.wait_for_url("**/instructions/*-*/")
    assert Instruction.objects.get().content == "Rebase on main"
    assert Task.objects.get(state=TaskState.ESCALATED).pk == later.pk
