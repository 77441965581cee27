"""The page of a running task follows the output of its attempt, and asks little while it is quiet."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from ledger.journal import SYSTEM
from ledger.models import Agent, Attempt
from ledger.tokens import TrustedCaller
from retries.live_output.storing import append_output
from tests.browser.conftest import Visitor
from tests.browser.page_clock import STEP_S, Polls, stop_clock
from tests.retries.moves import attempt_of, claim, fail, make_task

QUIET_S = 15


@pytest.fixture
def running(coder: Agent, now: datetime) -> tuple[UUID, UUID]:
    id = make_task(coder, now=now, max_attempts=1)
    attempt = attempt_of(claim(coder, now=now))
    Attempt.objects.filter(pk=attempt).update(last_output="three\n")
    return id, attempt


def read_clock(page: Page) -> float:
    return float(page.evaluate("Date.now() / 1000"))


def test_a_new_line_shows_soon_after_a_quiet_time_of_few_questions(
    visit: Callable[..., Visitor], running: tuple[UUID, UUID], coder: Agent, now: datetime
) -> None:
    task, attempt = running

    def send(text: str) -> None:
        caller = TrustedCaller(SYSTEM, agent=coder)
        append_output(attempt, at=0, text=text, caller=caller, now=now)

    send("one\n")
    visitor = visit()
    page = visitor.sign_in()
    stop_clock(page)
    polls = Polls(page, "/output/")
    answers: list[int] = []
    page.on(
        "response", lambda each: answers.append(each.status) if "/output/" in each.url else None
    )
    page.goto(f"{visitor.url}/tasks/{task}/")
    lines = page.locator("#output pre")
    polls.let_pass_until(lambda: lines.inner_text() == "one\n")
    # The pause has grown to its longest.
    polls.let_pass_until(lambda: answers[-4:] == [204] * 4)
    assert all("from=0&size=4" in each for each in polls.sent[-3:])
    begin, asked = read_clock(page), len(polls.sent)
    polls.let_pass(4 * QUIET_S)
    assert len(polls.sent) - asked <= (read_clock(page) - begin) / QUIET_S + 1
    for text in ("one\ntwo\n", "one\ntwo\nthree\n"):
        begin = read_clock(page)
        send(text)
        polls.let_pass_until(lambda text=text: lines.inner_text() == text)  # type: ignore[misc]
        # A step more on each side: the clock moves in steps, and a pause begins after an answer.
        assert read_clock(page) - begin <= QUIET_S + 2 * STEP_S
    fail(coder, attempt, now=now)
    title = page.locator("#output-title")
    polls.let_pass_until(lambda: "last lines" in title.inner_text())
    expect(lines).to_have_text("one two three")
    assert visitor.complaints == []
