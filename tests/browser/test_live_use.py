"""A poll never disturbs a person who uses the page, and moves nothing sideways."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from ledger.instructions import acknowledge_instruction
from ledger.journal import SYSTEM
from ledger.models import Agent, Instruction, Session, Task
from ledger.sessions.message_parts import Text
from ledger.signal_matching import report_signal
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from tests.browser.conftest import HAS_SETTLED, Visitor, poll
from tests.browser.page_clock import Polls, stop_clock
from tests.dashboard.notifications.deliveries import make_channel, make_delivery
from tests.dashboard.sessions.conversations import make_session
from tests.dashboard.worked import buried, enqueued, failed, make_plan, make_task
from tests.factories import send
from tests.ledger.standing_instructions.rules import make_rule

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
        before = page.locator("[data-live]").inner_html()
        enqueued(coder, f"News {number}", now=now)
        polls.let_pass(20)
        assert page.locator("[data-live]").inner_html().count("News") == before.count("News"), path
        expect(page.locator("#live")).to_contain_text("Held while ")
        end()
        polls.let_one_pass()
        polls.let_pass_until(lambda: "Live" in page.locator("#live").inner_text())


def test_a_held_page_tells_why_and_how_much_waits(
    visit: Callable[..., Visitor], task: Task, coder: Agent, now: datetime
) -> None:
    """OPR-4: it was green for as long as a row was selected; let go, it shows the rest at once."""
    visitor = visit()
    page = visitor.sign_in("/tasks/")
    light, rows = page.locator("#live"), page.locator("[data-live] [data-row]")
    page.locator("[data-pick]").first.check()
    expect(light).to_contain_text("Held while 1 row is selected")
    for number in range(3):
        enqueued(coder, f"News {number}", now=now)
    expect(light).to_contain_text("3 changes waiting")
    expect(light).to_have_class(re.compile("live--held"))
    expect(rows).to_have_count(1)
    page.locator("[data-pick]").first.uncheck()
    expect(rows).to_have_count(4)
    expect(light).to_contain_text("Live")
    expect(light).not_to_contain_text("waiting")
    assert visitor.complaints == []


def test_a_hidden_tab_tells_of_new_escalations(
    visit: Callable[..., Visitor], task: Task, coder: Agent, now: datetime
) -> None:
    """In its title, and with a notification after a click that allows it; both name no task."""
    visitor = visit()
    page = visitor.signed_in().open("/settings/profile/")
    page.context.add_init_script(NOTIFICATION)
    page.reload()
    assert page.evaluate("Notification.permission") == "default"
    page.get_by_role("button", name="Notify me in this browser").click()
    expect(page.locator("[data-notify-state]")).to_have_text("On.")
    page.goto(f"{visitor.url}/agents/")
    expect(page).to_have_title(re.compile(r"^[^(]"))
    page.evaluate(HIDE, True)
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    make_task(TaskState.ESCALATED, "<b>Hostile</b>", agent=coder, now=now)
    poll(page)
    expect(page).to_have_title(re.compile(r"^\(2\) [^(]+$"))
    assert page.evaluate("window.told") == ["1 new escalation, 2 open"]
    page.evaluate(HIDE, False)
    expect(page).to_have_title(re.compile(r"^[^(]"))
    assert visitor.complaints == []


# a headless browser refuses every notification
NOTIFICATION = """
    window.told = [];
    window.Notification = class { constructor(title, options) { window.told.push(options.body); } };
    Notification.permission = localStorage.getItem("tenfour-notify") ? "granted" : "default";
    Notification.requestPermission = async () => (Notification.permission = "granted");
"""


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
    moved = {}
    for path, more in LIVE_LISTS.items():
        MORE[more](coder, timezone.now())
        page.goto(visitor.url + path)
        page.click("#live")
        expect(page.locator("#live")).to_contain_text("Paused")
        edges = page.evaluate(EDGES)
        assert edges, path
        for _ in range(10):  # one more digit in the counts
            MORE[more](coder, timezone.now())
        with page.expect_response(lambda answer: "since=" in answer.url):
            page.click("#live")
        page.wait_for_function(HAS_SETTLED, arg="light")
        after = page.evaluate(EDGES)
        if left := [each for each in edges if each not in after]:
            moved[path] = left
    assert moved == {}
    assert visitor.complaints == []


def test_news_leave_the_form_of_a_range_alone(
    visit: Callable[..., Visitor], coder: Agent, mara: User, now: datetime
) -> None:
    """Its select keeps the focus and the choice while rows appear below it."""
    channel = make_channel(project=coder.project, now=now)
    visitor = visit()
    page = visitor.sign_in("/settings/deliveries/?range=yes")
    which, start = page.get_by_label("Which deliveries"), page.get_by_label("From, UTC")
    start.fill("2026-01-02T03:04")
    which.select_option(index=1)
    chosen = which.input_value()
    which.focus()
    make_delivery(channel, now=now, title="A new delivery")
    expect(page.get_by_text("A new delivery").first).to_be_visible()
    expect(which).to_be_focused()
    expect(which).to_have_value(chosen)
    expect(start).to_have_value("2026-01-02T03:04")
    assert visitor.complaints == []


# what makes another row of each live list
MORE: dict[str, Callable[[Agent, datetime], object]] = {
    "task": lambda agent, now: enqueued(agent, "Another task", now=now),
    "instruction": lambda agent, now: send(agent, "Another instruction", now=now),
    "letter": lambda agent, now: buried(agent=agent, now=now, error="it broke"),
    "plan": lambda agent, now: make_plan(
        f"r-{uuid4().hex[:6]}", [("One", [])], agent=agent, now=now
    ),
    "session": lambda agent, now: make_session(agent, [("user", [Text("Hi")])], now=now),
    "rule": lambda agent, now: make_rule(),
    "question": lambda agent, now: make_task(
        TaskState.ESCALATED, "Why", agent=agent, now=now, why={"type": "verification_failed"}
    ),
}
LIVE_LISTS = {
    "/tasks/": "task",
    "/agents/": "task",
    "/instructions/": "instruction",
    "/dead-letters/": "letter",
    "/patterns/": "letter",
    "/plans/": "plan",
    "/sessions/": "session",
    "/instructions/standing/": "rule",
    "/escalations/": "question",
    "/activity/": "task",
    "/": "question",
}


def list_rows(page: Page, of: str) -> list[str]:
    ids: list[str] = page.locator(f"{of} > [data-row]").evaluate_all(
        "all => all.map(one => one.id)"
    )
    return ids


def test_rows_keep_their_place_under_the_pointer(
    visit: Callable[..., Visitor], coder: Agent, mara: User, now: datetime
) -> None:
    """Sessions: what changes is shown in its row, and what would move is counted and waits."""
    sessions = [
        make_session(coder, [("user", [Text(f"Prompt {n}")])], now=now - n * MINUTE)
        for n in range(4)
    ]
    visitor = visit()
    page = visitor.sign_in("/sessions/")
    order = list_rows(page, "#session-rows")
    page.hover("#session-rows tr:nth-child(2)")
    last = Session.objects.filter(pk=sessions[3].pk)
    last.update(title="Active again", last_message_at=now + MINUTE, updated_at=now + MINUTE)
    make_session(coder, [("user", [Text("A new one")])], now=now + 2 * MINUTE)
    button = page.locator("[data-news]")
    expect(button).to_have_text("2 more active")
    assert list_rows(page, "#session-rows") == order
    expect(page.locator(f"#session-{sessions[3].pk}")).to_contain_text("Active again")
    button.click()
    expect(button).to_be_hidden()
    expect(page.locator("#session-rows tr")).to_have_count(5)
    assert list_rows(page, "#session-rows")[1:] == [order[3], *order[:3]]
    # without a click, too, as soon as the pointer is elsewhere
    page.hover("#session-rows tr:nth-child(2)")
    order = list_rows(page, "#session-rows")
    last.update(last_message_at=now + 3 * MINUTE, updated_at=now + 3 * MINUTE)
    expect(button).to_have_text("1 more active")
    assert list_rows(page, "#session-rows") == order
    page.mouse.move(0, 0)
    expect(button).to_be_hidden()
    assert list_rows(page, "#session-rows")[0] == f"session-{sessions[3].pk}"
    assert visitor.complaints == []


def test_a_focused_row_is_not_moved(
    visit: Callable[..., Visitor], coder: Agent, mara: User, now: datetime
) -> None:
    """The list of rules, the instructions of a rule, and the inbox."""
    rule = make_rule()

    def fire() -> None:  # a rule sends nothing while its last instruction is open
        for each in Instruction.objects.filter(acknowledged_at=None):
            acknowledge_instruction(each.pk)
        caller = TrustedCaller(SYSTEM, agent=coder)
        report_signal("fs_write", {"path": "src/a.py"}, caller=caller, now=timezone.now())

    def escalate() -> None:
        make_task(TaskState.ESCALATED, "One more", agent=coder, now=timezone.now())

    fire()
    escalate()
    visitor = visit()
    page = visitor.sign_in("/settings/")
    for path, rows, link, change in (
        ("/instructions/standing/", "#rule-rows", "a", make_rule),
        (f"/instructions/standing/{rule.pk}/", "#firing-rows", "a", fire),
        ("/escalations/", "#entries", ".eline, summary", escalate),
    ):
        page.goto(visitor.url + path)
        count = len(page.locator(f"{rows} [data-row]").all())
        page.locator(f"{rows} >> {link}").first.focus()
        change()
        expect(page.locator("[data-news]")).to_have_text("1 new")
        expect(page.locator(f"{rows} [data-row]")).to_have_count(count)
        page.click("[data-news]")
        expect(page.locator("[data-news]")).to_be_hidden()
        expect(page.locator(f"{rows} [data-row]")).to_have_count(count + 1)
    assert visitor.complaints == []


def test_a_hidden_tab_asks_twice_a_minute(
    visit: Callable[..., Visitor], coder: Agent, mara: User
) -> None:
    page = visit().sign_in("/agents/")
    stop_clock(page)
    page.reload()
    polls = Polls(page)
    polls.let_one_pass()
    page.evaluate(HIDE, True)
    polls.wait_for_answers()
    polls.sent.clear()
    polls.let_pass(60)
    assert len(polls.sent) in (1, 2)
    with page.expect_response(lambda response: "since=" in response.url):
        page.evaluate(HIDE, False)  # at once, not at the next time
    polls.let_one_pass()


HIDE = """isHidden => {
    Object.defineProperty(document, "hidden", { get: () => isHidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
