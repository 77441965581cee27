"""Tasks and Dead letters in a browser: whole in every theme and width, picked by key."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Project, Task
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries.attempts import heartbeats
from retries.tasks import actions as people
from tests.browser.conftest import OWN, Visitor, assert_whole, axe_findings, poll, shoot
from tests.browser.page_clock import Polls, stop_clock
from tests.dashboard.worked import MARA, buried, claimed, enqueued, failed, make_plan, make_task
from tests.factories import make_agent, make_project, send

HOSTILE = "<script>document.title = 'owned'</script>" + "w" * 150


@pytest.fixture
def busy(coder: Agent, now: datetime) -> dict[str, str]:
    """Addresses of one of each."""
    at = now - timedelta(minutes=4)
    for state in TaskState:
        make_task(state, f"A {state.value} one", agent=coder, now=at, type="code")
    need = enqueued(coder, "What comes first", now=at)
    why = {"message": HOSTILE * 20, "details": "\u202etxt.exe", "suggested_fix": HOSTILE}
    task = make_task(
        TaskState.RETRY,
        HOSTILE,
        agent=coder,
        now=at,
        why=why,
        needs=[],
        payload={HOSTILE: [1, "x"]},
    )
    enqueued(coder, HOSTILE, now=at, needs=[task.pk, need])
    live = enqueued(coder, HOSTILE, now=at)
    heartbeats.renew_lease(
        claimed(coder, live, now=at),
        output=f"{HOSTILE}\n" * 20,
        caller=TrustedCaller(SYSTEM, agent=coder),
        now=now,
    )
    letter = buried(HOSTILE, agent=coder, now=at, error=HOSTILE * 10)
    return {
        "task": f"/tasks/{task.pk}/",
        "live": f"/tasks/{live}/",
        "letter": f"/dead-letters/{letter.pk}/",
    }


def test_the_pages_are_whole(visit: Callable[..., Visitor], busy: dict[str, str]) -> None:
    visitor = visit().signed_in()
    for path in ("/tasks/", "{task}", "/dead-letters/", "{letter}"):
        assert_whole(visitor, path.format(**busy))
    for path, part in {
        "/tasks/?q=state:foo": OWN,
        "{task}?ask=skip": "#asked",
        "{live}": "#output",
        "{letter}?ask=dismiss": "#asked",
    }.items():
        assert_whole(visitor, path.format(**busy), part=part)


def test_a_list_that_is_picked_from_stands_still(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    enqueued(coder, "Old", now=now)
    visitor = visit()
    page = visitor.sign_in()
    stop_clock(page)
    page.goto(f"{visitor.url}/tasks/")
    page.check("[data-pick]")
    page.locator("h1").click()
    enqueued(coder, "New", now=now)
    polls = Polls(page)
    polls.let_pass(20)
    expect(page.locator("tr[data-row]")).to_have_count(1)
    page.keyboard.press("Escape")
    polls.let_pass_until(lambda: page.locator("tr[data-row]").count() == 2)


@pytest.fixture
def failures(coder: Agent, now: datetime) -> None:
    """Tasks that failed in two patterns, one of them with a long name."""
    at = now - timedelta(minutes=5)
    for n, message in enumerate(("the disk is full", "the disk is full", HOSTILE)):
        why = {"message": message, "type": "verification_failed"}
        make_task(TaskState.FAILED, f"Write {n}", agent=coder, now=at, why=why)
    make_task(TaskState.DONE, agent=coder, now=now - timedelta(days=3))


@pytest.mark.parametrize("scripts", [True, False])
def test_the_list_is_filtered_by_pattern_and_by_the_time_of_a_change(
    visit: Callable[..., Visitor], failures: None, now: datetime, scripts: bool
) -> None:
    """The counts stay for any value of their own key; two days come from a form."""
    page = visit(java_script_enabled=scripts).sign_in("/tasks/")
    facets = page.get_by_role("navigation", name="Filter tasks")
    rows = page.locator("tr[data-row]")
    facets.get_by_role("link", name="the disk is full 2").click()
    expect(rows).to_have_count(2)
    expect(facets.locator("[aria-current]")).to_have_text(["All 2", "the disk is full 2"])
    facets.get_by_role("link", name="Last hour 2").click()
    expect(facets.get_by_role("link", name="Last hour")).to_have_attribute("aria-current", "true")
    facets.get_by_role("link", name="the disk is full 2").click()
    expect(rows).to_have_count(3)
    expect(facets.get_by_role("link", name="Last 7 days 4")).to_be_visible()
    first, last = (f"{now + timedelta(days=days):%F}" for days in (-1, 1))
    facets.locator("summary").click()
    if scripts:
        assert axe_findings(page) == []
        shoot(page, "tasks-dates-1440")
    facets.get_by_label("From").fill(first)
    facets.get_by_label("To", exact=True).fill(last)
    facets.get_by_role("button", name="Show").click()
    expect(facets.get_by_role("link", name=f"{first} to {last} 3")).to_be_visible()
    expect(rows).to_have_count(3)


def test_days_that_are_being_chosen_are_left_alone(
    visit: Callable[..., Visitor], failures: None, coder: Agent, now: datetime
) -> None:
    visitor = visit()
    page = visitor.sign_in()
    stop_clock(page)
    page.goto(f"{visitor.url}/tasks/")
    page.click("#facet-dates summary")
    enqueued(coder, "New", now=now)
    polls = Polls(page)
    polls.let_pass(20)
    expect(page.locator("#facet-dates")).to_have_attribute("open", "")
    expect(page.locator("tr[data-row]")).to_have_count(4)
    page.keyboard.press("Escape")
    polls.let_pass_until(lambda: page.locator("tr[data-row]").count() == 5)


@pytest.mark.parametrize("scripts", [True, False])
def test_compared_attempts_show_only_what_differs(
    visit: Callable[..., Visitor], coder: Agent, now: datetime, scripts: bool
) -> None:
    """A link hides the rows that are equal; a page without its parameter shows all."""
    at = now - timedelta(hours=3)
    id = enqueued(coder, "Sum up", now=at, max_attempts=5)
    for n in range(2):
        why = {"message": f"{n} of 3 differ", "files_modified": [{"path": "a.py"}]}
        at += timedelta(minutes=10)
        failed(coder, id, now=at, type="verification_failed", retry_after_s=0, **why)
    visitor = visit(java_script_enabled=scripts)
    page = visitor.sign_in(f"/tasks/{id}/")
    names = page.locator("#compared tbody th")
    expect(names).to_have_text(["Duration", "Error", "Files", "Told"])
    page.get_by_role("link", name="Only differences").click()
    expect(names).to_have_text(["Error"])
    expect(page.locator("#equal-rows")).to_have_text(
        "Hidden because all attempts match: duration, files, told."
    )
    if scripts:
        assert_whole(visitor, f"/tasks/{id}/?differences=only")
        page.set_viewport_size({"width": 1440, "height": 900})
        shoot(page, "differences-1440")
    page = visitor.open(f"/tasks/{id}/")
    expect(names).to_have_text(["Duration", "Error", "Files", "Told"])


def test_one_is_skipped_by_its_key(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    task = make_task(agent=coder, now=now)
    visitor = visit()
    page = visitor.sign_in()
    page.goto(f"{visitor.url}/tasks/{task.pk}/")
    page.keyboard.press("s")
    expect(page.locator("#skip-dialog")).to_be_visible()
    page.click("#skip-dialog button:has-text('Skip task')")
    expect(page.locator("#task-header .st")).to_have_text("Skipped")


def test_the_last_lines_are_followed_until_they_are_read(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """With the switch off, the lines in view stand still while new ones come."""
    task = enqueued(coder, "Print", now=now)
    attempt = claimed(coder, task, now=now)

    def show(count: int) -> None:
        lines = "".join(f"line {number}\n" for number in range(count))
        known = TrustedCaller(SYSTEM, agent=coder)
        heartbeats.renew_lease(attempt, output=lines, caller=known, now=timezone.now())

    visitor = visit()
    page = visitor.signed_in().open(f"/tasks/{task}/")
    expect(page.locator("#output")).to_contain_text("Nothing printed yet.")
    box, follow = page.locator("#output .tail"), page.get_by_role("switch", name="Follow")
    for count, is_on in ((60, True), (70, True), (80, False), (90, True)):
        if follow.is_checked() != is_on:
            page.keyboard.press("f")
        show(count)
        poll(page)
        expect(box).to_contain_text(f"line {count - 1}")
        page.wait_for_function(
            "isOn => (document.querySelector('#output .tail').scrollTop >= -4) === isOn", arg=is_on
        )
        expect(follow).to_be_checked(checked=is_on)
    assert axe_findings(page) == [] and visitor.complaints == []


def test_the_query_box_completes(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    make_task("failed", "Broken one", agent=coder, now=now)
    make_task("queued", "Waiting one", agent=coder, now=now)
    Project.objects.filter(pk=coder.project_id).update(search_keys=["payload.Order"])
    visitor = visit()
    page = visitor.sign_in("/tasks/")
    page.keyboard.press("/")
    page.keyboard.type("-pay")
    page.keyboard.press("Tab")
    expect(page.locator("#query")).to_have_value("-payload.")
    expect(page.locator("#completion")).to_have_text("payload.Order:")
    page.keyboard.type("oR")
    expect(page.locator("#completion")).to_have_text("payload.Order:")
    page.keyboard.press("Tab")
    expect(page.locator("#query")).to_have_value("-payload.Order:")
    page.fill("#query", "")
    page.keyboard.type("sta")
    chosen = page.locator('#completion [aria-selected="true"]')
    expect(chosen).to_contain_text("state:")
    page.keyboard.press("Tab")
    expect(chosen).to_contain_text("state:needs-you")
    page.keyboard.type("f")
    expect(chosen).to_have_text("state:failed1")
    page.keyboard.press("Tab")
    expect(page.locator("#query")).to_have_value("state:failed ")
    page.keyboard.type("-agent:c")
    expect(chosen).to_contain_text("agent:coder")
    assert axe_findings(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("#completion")).to_be_hidden()
    for _ in "-agent:c":
        page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tasks/?q=state*")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    expect(page.locator("tr[data-row]")).to_contain_text("Broken one")
    for menu in ("#views-menu", "#export-menu", "#columns-menu"):
        page.click(f"{menu} summary")
        assert axe_findings(page) == [], menu
    assert visitor.complaints == []


def test_a_title_shows_forty_characters(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    """At 1440 px, in each list, also with the project beside it."""
    title = "Backfill the ledger entries of every invoice of 2024, with the totals of each currency"
    for agent in (coder, make_agent("codex", project=make_project("other"))):
        for number in range(2):
            make_task(TaskState.ESCALATED, title, agent=agent, now=now)
            buried(title, agent=agent, now=now)
            make_plan(f"0{number}-01", [("One", [])], agent=agent, now=now, title=title)
            send(agent, f"{title} {number}", now=now)
    visitor, shown = visit(), {}
    page = visitor.sign_in()
    for path in ("/tasks/", "/dead-letters/", "/plans/", "/instructions/", "/escalations/"):
        page.goto(visitor.url + path)
        name = page.locator("td.t-name, .eline__name").filter(has_text=title[:20])
        shown[path] = int(name.first.evaluate(COUNT_SHOWN))
    assert {path: count for path, count in shown.items() if count < 40} == {}


# the characters of a title up to the edge that cuts it
COUNT_SHOWN = """(cell) => {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    let node = walker.nextNode();
    while (!node.data.includes("Backfill")) node = walker.nextNode();
    let edge = innerWidth;
    for (let each = node.parentElement; each; each = each.parentElement) {
        if (getComputedStyle(each).overflowX === "visible") continue;
        edge = Math.min(edge, each.getBoundingClientRect().right);
    }
    const start = node.data.indexOf("Backfill"), range = document.createRange();
    return Array.from(node.data).filter((_, at) => {
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        return at >= start && range.getBoundingClientRect().right <= edge + 1;
    }).length;
}"""


def test_one_is_retried_unblocked_and_aborted_by_its_keys(
    visit: Callable[..., Visitor], coder: Agent, now: datetime
) -> None:
    retry = make_task(TaskState.RETRY, agent=coder, now=now)
    skipped = enqueued(coder, now=now)
    blocked = enqueued(coder, now=now, needs=[skipped])
    people.skip([skipped], dependents="block", stamp=Stamp(MARA, now))
    queued = enqueued(coder, now=now)
    visitor = visit()
    page = visitor.sign_in(f"/tasks/{retry.pk}/")
    page.keyboard.press("r")
    expect(page.get_by_role("button", name="Retry now")).to_have_count(0)
    page.goto(f"{visitor.url}/tasks/{blocked}/")
    page.keyboard.press("u")
    expect(page.locator("#toasts")).to_contain_text("1 task unblocked")
    page.goto(f"{visitor.url}/tasks/{queued}/")
    page.keyboard.press("a")
    page.get_by_role("button", name="Abort task").click()
    expect(page.locator("#toasts")).to_contain_text("aborted")
    states = [Task.objects.get(pk=id).state for id in (blocked, queued)]
    assert states == ["queued", "aborted"] and visitor.complaints == []
    retry.refresh_from_db()
    assert retry.due_at is None or retry.due_at <= timezone.now()
