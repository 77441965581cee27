"""The Agents pages in a real browser: whole in every dress, live, and workable without a script."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from ledger import instructions
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Agent, Event, Instruction, Task
from ledger.tokens import TrustedCaller
from retries import breaker_actions, claims
from tests.browser.conftest import BREAKER_OPEN_S, Visitor, assert_whole, axe_findings
from tests.dashboard.worked import claimed, enqueued
from tests.factories import as_name, make_agent, make_token, pull, send, tick

HOSTILE = ["<script>document.title = 'owned'</script>", "w" * 64, "\u202etxt.exe \u05d0\u200f"]
Visit = Callable[..., Visitor]


@pytest.fixture
def fleet(coder: Agent, now: datetime) -> Agent:
    """A silent agent with hostile company; returns the one that has a history."""
    make_token("agent", agent=coder, name="laptop")
    Agent.objects.filter(pk=coder.pk).update(last_seen_at=now - timedelta(seconds=20))
    for number in range(8):
        at = now - timedelta(hours=number, minutes=9)
        id = send(coder, f"Step {number}", now=at, max_retries=0)
        pull(coder, now=at)
        if number % 4:
            instructions.acknowledge_instruction(id, now=at + timedelta(seconds=3 * number))
        else:
            tick(at + timedelta(minutes=1))
    for name in HOSTILE:
        silent = make_agent(as_name(name))
        send(silent, name, now=now - timedelta(hours=1))
    Agent.objects.filter(name=HOSTILE[0]).update(paused=True)
    return coder


def choose(page: Page, action: str) -> None:
    """Choose an action of the menu beside an agent's state."""
    page.locator(".detail__acts summary").click()
    page.locator(".detail__acts").get_by_role("button", name=action).click()


def test_the_pages_are_whole(visit: Visit, fleet: Agent, now: datetime) -> None:
    """Also with an open breaker."""
    visitor = visit().signed_in()
    agent = f"/agents/{fleet.pk}/"
    assert_whole(visitor, "/agents/?q=nobody")
    assert_whole(visitor, f"{agent}?ask=reset", part="#asked")
    assert_whole(visitor, f"{agent}stop/")
    breaker_actions.trip([fleet], reason="it breaks " * 9, stamp=Stamp(SYSTEM, now))
    assert_whole(visitor, "/agents/")
    assert_whole(visitor, agent)
    assert_whole(visitor, f"{agent}?ask=close", part="#asked")


def test_a_silent_agent_that_asks_is_silent_no_more(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    send(coder, "Wake up", now=now - timedelta(hours=1))
    page = visit().sign_in("/agents/?q=state:silent")
    row = page.locator(f"#agent-{coder.pk}")
    expect(row).to_contain_text("never")
    expect(page.locator("#group-silent")).to_contain_text("1 instruction waiting")
    expect(page).to_have_title("1 silent · Agents · Tenfour")
    pull(coder, now=now)
    expect(row).to_have_count(0)
    expect(page.locator("#no-match")).to_contain_text("No agents with waiting work are silent")


def test_reset_asks_and_the_safe_choice_has_the_focus(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    send(coder, "Wait", now=now)
    visitor = visit()
    page = visitor.sign_in(f"/agents/{coder.pk}/")
    choose(page, "Cancel pending…")
    dialog = page.locator(f"#reset-{coder.pk}")
    expect(dialog).to_contain_text("This cancels 1 instruction")
    expect(dialog.get_by_role("button", name="Keep them")).to_be_focused()
    assert axe_findings(page) == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert Instruction.objects.get().state == "queued"
    choose(page, "Cancel pending…")
    dialog.get_by_role("button", name="Cancel all pending").click()
    expect(page.locator("#toasts")).to_contain_text("Cancelled 1 instruction for coder.")
    assert Instruction.objects.get().state == "cancelled"
    assert Event.objects.get(kind=Kind.AGENT_RESET).actor_name == "mara"
    assert visitor.complaints == []


def test_a_breaker_is_tripped_and_closed_by_hand(visit: Visit, coder: Agent) -> None:
    visitor = visit()
    page = visitor.sign_in(f"/agents/{coder.pk}/")
    choose(page, "Trip breaker…")
    page.get_by_role("button", name="Trip breaker", exact=True).click()
    expect(page.locator("#breaker")).to_contain_text("half open in")
    assert claims.claim(TrustedCaller(SYSTEM, agent=coder)).reason == "breaker_open"
    page.keyboard.press("h")
    dialog = page.locator(f"#keep-open-{coder.pk}")
    expect(dialog).to_contain_text("gets no tasks and no probe")
    assert axe_findings(page) == []
    dialog.get_by_role("button", name="Keep it open", exact=True).click()
    expect(page.locator("#breaker")).to_contain_text("kept open since")
    expect(page.locator("[data-countdown]")).to_have_count(0)
    choose(page, "Close breaker…")
    page.get_by_role("button", name="Close breaker", exact=True).click()
    expect(page.locator("#breaker")).to_contain_text("Closed")
    assert claims.claim(TrustedCaller(SYSTEM, agent=coder)).reason == "no_task"
    assert Event.objects.filter(kind__startswith="agent.breaker", actor_name="mara").count() == 3
    assert visitor.complaints == []


def test_all_of_it_without_a_script(visit: Visit, fleet: Agent, now: datetime) -> None:
    send(fleet, "Wait", now=now)
    visitor = visit(java_script_enabled=False)
    page = visitor.sign_in("/agents/")
    page.fill("#query", "coder")
    page.click("button:has-text('Filter')")
    row = page.locator(f"#agent-{fleet.pk}")
    expect(page.locator(".fleet [data-row]")).to_have_count(1)
    row.locator("summary").click()
    row.get_by_role("button", name="Pause").click()
    expect(page.locator("#toasts")).to_contain_text("coder is paused.")
    expect(row).to_contain_text("Paused")
    expect(page).to_have_url(re.compile("q=coder"))
    row.get_by_role("button", name="Resume").click()
    expect(page.locator("#toasts")).to_contain_text("coder is resumed.")
    row.locator("summary").click()
    row.get_by_role("link", name="Cancel pending").click()
    expect(page.locator("#asked")).to_contain_text("This cancels 1 instruction")
    page.locator("#asked").get_by_role("button", name="Cancel all pending").click()
    expect(page.locator("#toasts")).to_contain_text("Cancelled 1 instruction for coder.")
    expect(page).not_to_have_url(re.compile("ask="))
    # from the agent's own page: asked too
    choose(page, "Cancel pending…")
    expect(page.locator("#asked")).to_contain_text("Nothing is waiting for coder now")
    page.get_by_role("link", name="Keep them").click()
    expect(page.locator("#asked")).to_have_count(0)


def test_keys_move_and_open(visit: Visit, fleet: Agent) -> None:
    page = visit().sign_in("/agents/")
    page.keyboard.press("j")
    expect(page.locator(".fleet [data-row]").first).to_have_attribute("data-cursor", "")
    page.keyboard.press("/")
    expect(page.locator("#query")).to_be_focused()
    page.keyboard.type("coder\n")
    page.wait_for_url("**/agents/?q=coder")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/agents/{fleet.pk}/?q=coder")  # the list that its neighbors are of
    page.keyboard.type("ga")  # in one call, so that the second is in time
    page.wait_for_url("**/agents/")


def test_a_row_has_one_action_and_a_menu(visit: Visit, fleet: Agent, now: datetime) -> None:
    breaker_actions.trip([fleet], reason="", stamp=Stamp(SYSTEM, now))
    visitor = visit()
    page = visitor.sign_in("/agents/")
    row = page.locator(f"#agent-{fleet.pk}")
    expect(row.locator("button:visible")).to_have_text(["Probe now coder"])
    left = int(row.locator("[data-countdown]").get_attribute("data-countdown") or 0)
    assert 0 < left <= BREAKER_OPEN_S
    row.locator("summary").click()
    expect(row.get_by_role("link", name="Close breaker…")).to_be_visible()
    expect(row.get_by_role("link", name="Keep it open…")).to_be_visible()
    assert axe_findings(page) == []
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(row.get_by_role("link", name="Close breaker…")).to_be_focused()
    other = page.locator(".fleet [data-row]").last
    other.locator("summary").press("Enter")  # one is open at a time
    expect(row.get_by_role("link", name="Close breaker…")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(page.locator("details.menu[open]")).to_have_count(0)
    page.keyboard.press("j")
    expect(row).to_have_attribute("data-cursor", "")
    page.keyboard.press("b")
    expect(page.locator("#toasts")).to_contain_text("The next task of coder is the probe.")
    expect(page.locator("#group-half-open")).to_contain_text("Half open")
    page.keyboard.press("j")
    page.keyboard.press("Shift+P")
    expect(page.locator("#toasts")).to_contain_text("coder is paused.")
    assert visitor.complaints == []


@pytest.mark.parametrize("has_scripts", [True, False])
def test_an_agent_is_stopped_and_its_work_handed_over(
    visit: Visit, coder: Agent, now: datetime, has_scripts: bool
) -> None:
    """OPR-8: with two keys, also without a script; OPR-7: a silent target warns when chosen."""
    tester = make_agent("tester")
    make_agent("coder-web")
    Agent.objects.filter(pk=tester.pk).update(last_seen_at=now)
    running = claimed(coder, enqueued(coder, now=now), now=now)
    waiting = enqueued(coder, now=now)
    visitor = visit(java_script_enabled=has_scripts)
    page = visitor.sign_in(f"/agents/{coder.pk}/")
    if has_scripts:
        page.keyboard.press("Shift+H")
    else:
        page.get_by_role("link", name="Stop and hand over…").click()
    expect(page.locator("#agent option:checked")).to_contain_text("tester")
    warning = page.locator(".opwarn")
    expect(warning).to_be_hidden()
    page.select_option("#agent", "coder-web")
    expect(warning).to_contain_text("This agent gets no work now.")
    page.select_option("#agent", "tester")
    page.locator("#reason").press("Enter")
    toast = page.locator("#toasts")
    expect(toast).to_contain_text("coder is paused. 2 tasks will be aborted (1) or handed over (1)")
    expect(page.locator("#agent")).to_contain_text("Paused")
    if has_scripts:
        page.locator("body").press("z")
    else:
        toast.get_by_role("button", name="Undo").click()
    expect(toast).to_contain_text("Undone. coder is resumed.")
    assert Task.objects.get(pk=waiting).agent == coder and running
    assert visitor.complaints == []
