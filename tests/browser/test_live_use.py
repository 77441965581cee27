"""A poll never disturbs a person who uses the page, and moves nothing sideways."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from ledger.models import Agent, Task
from ledger.states import TaskState
from tests.browser.conftest import HAS_SETTLED, Visitor
from tests.browser.page_clock import Polls, stop_clock
from tests.dashboard.worked import enqueued, failed, make_task

MINUTE = timedelta(minutes=1)
EDGES = """() => Array.from(document.querySelectorAll("main th, [data-row] > td, .nav__item, h1, .seg a"))
    .filter((each) => each.getClientRects().length)
    .map((each) => { const box = each.getBoundingClientRect(); return [Math.round(box.left), each.className]; })"""


@pytest.fixture
def task(coder: Agent, mara: User, now: datetime) -> Task:
    return make_task(TaskState.ESCALATED, "Look here", agent=coder, now=now - 9 * MINUTE)


def test_nothing_is_refreshed_under_a_person(
    visit: Callable[..., Visitor], task: Task, coder: Agent, now: datetime
) -> None:
    visitor = visit()
    page = visitor.sign_in("/agents/")
    stop_clock(page)
    polls = Polls(page)
    uses: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        (
            "/tasks/",
            lambda: page.locator("[data-pick]").first.check(),
            lambda: page.locator("[data-pick]").first.uncheck(),
        ),
        (
            "/agents/",
            lambda: page.locator("details.menu > summary").first.click(),
            lambda: page.keyboard.press("Escape"),
        ),
        (
            f"/tasks/{task.pk}/",
            lambda: page.evaluate(
                "getSelection().selectAllChildren(document.querySelector('#task h2'))"
            ),
            lambda: page.evaluate("getSelection().empty()"),
        ),
        (
            "/tasks/",
            lambda: page.evaluate(FILL_IN),
            lambda: page.evaluate("document.querySelector('#half').remove()"),
        ),
    ]
    for number, (path, begin, end) in enumerate(uses):
        page.goto(visitor.url + path)
        expect(page.locator("#live")).to_contain_text("Live")
        begin()
        polls.sent.clear()
        polls.let_pass(20)
        assert polls.sent == [], (number, path)
        end()
        polls.let_one_pass()


# a field of the live part that was typed into and left
FILL_IN = """() => {
    document.querySelector("[data-live]").insertAdjacentHTML("beforeend", '<p id="half"><input></p>');
    document.querySelector("#half input").value = "half a thought";
}"""


def test_news_keep_what_is_closed_and_move_nothing_sideways(
    visit: Callable[..., Visitor], coder: Agent, mara: User, now: datetime
) -> None:
    id = enqueued(coder, "Look here", now=now - 9 * MINUTE, max_attempts=9)
    failed(coder, id, now=now - 8 * MINUTE, message="first")
    for number in range(8):
        enqueued(coder, f"Task {number}", now=now - MINUTE)
    visitor = visit()
    page = visitor.sign_in(f"/tasks/{id}/")
    opened = page.locator("#task details[open]")
    before = opened.count() - 1
    opened.first.evaluate("(each) => { each.open = false; }")
    Task.objects.filter(pk=id).update(title="Changed", updated_at=now)
    expect(page.locator("#task")).to_contain_text("Changed")
    expect(opened).to_have_count(before)
    for path in ("/tasks/", "/agents/"):
        page.goto(visitor.url + path)
        edges = page.evaluate(EDGES)
        assert edges
        for number in range(8, 14):  # one more digit in the counts
            enqueued(coder, f"Task {number} {path}", now=now)
        with page.expect_response(lambda answer: "since=" in answer.url and answer.status == 200):
            page.mouse.click(5, 5)
        page.wait_for_function(HAS_SETTLED, arg="light")
        assert {tuple(each) for each in edges} <= {tuple(each) for each in page.evaluate(EDGES)}
    assert visitor.complaints == []
