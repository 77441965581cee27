"""Standing instructions in a browser: whole in every theme and width, tried before switched on."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import expect

from ledger.instructions import acknowledge_instruction
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Instruction, StandingInstruction
from ledger.signal_matching import report_signal
from ledger.standing_instructions.editing import On, pause_rules
from ledger.tokens import TrustedCaller
from retries.tasks.holds import hold_stop
from tests.browser.conftest import OWN, Visitor, assert_whole
from tests.factories import as_name, make_agent, pull, tick
from tests.ledger.standing_instructions.rules import make_rule

HOSTILE = "<script>document.title = 'owned'</script>" + "w" * 300
NEW = "/instructions/standing/new/"


@pytest.fixture
def busy(coder: Agent, now: datetime) -> dict[str, str]:
    """The addresses of a rule that was followed and ignored, and of a hostile one."""
    rule = make_rule(hold_stop=True)
    long = make_rule(
        HOSTILE, on=On(event="signal", type="w" * 64, match={"path": "w" * 900}), expect=None
    )
    make_rule("Say where you are.", on=On(event="every", interval_s=900), expect=None, paused=True)
    off = make_rule("Run the linter.", on=On(event="session_start"), agent=coder, expect=None)
    pause_rules([off.id], stamp=Stamp(SYSTEM, now))
    gemini = make_agent(as_name(HOSTILE))
    for back in reversed(range(6)):
        at = now - timedelta(days=back, minutes=9)
        for agent in (coder, gemini):
            caller = TrustedCaller(SYSTEM, agent=agent)
            data = {"path": f"src/{'w' * 40 * back}{back}.py", "tool": "Edit"}
            [id] = report_signal("fs_write", data, caller=caller, now=at).sent
            for reminders in range(back % 4):
                pull(agent, now=at + timedelta(minutes=reminders))
                tick(at + timedelta(minutes=reminders + 1))
            if agent == gemini and back == 1:
                for _ in range(8):
                    hold_stop(agent, stamp=Stamp(SYSTEM, at))
            elif back:
                acknowledge_instruction(id, now=at + timedelta(minutes=9))
    report_signal("w" * 64, {"path": "w" * 900}, caller=TrustedCaller(SYSTEM, agent=coder), now=now)
    return {"rule": f"/instructions/standing/{rule.id}/", "hostile": str(long.id)}


def test_the_pages_are_whole(visit: Callable[..., Visitor], busy: dict[str, str]) -> None:
    visitor = visit().signed_in()
    for path, part in {
        "/instructions/standing/": OWN,
        "/instructions/standing/?q=state:foo+nothing": OWN,
        "{rule}?days=30": OWN,
        "{rule}?ask=retire": "#asked",
        "/instructions/standing/{hostile}/": OWN,
        "/instructions/standing/{hostile}/edit/": OWN,
        NEW: OWN,
    }.items():
        assert_whole(visitor, path.format(**busy), part=part)


def test_a_rule_is_tried_before_it_is_switched_on(
    visit: Callable[..., Visitor], coder: Agent
) -> None:
    """From the list by key: a recipe, a trial that fires, one that does not, and on."""
    visitor = visit()
    page = visitor.sign_in("/instructions/standing/")
    expect(page.locator("#none")).to_contain_text("No rules yet")
    page.keyboard.press("n")
    page.wait_for_url(f"**{NEW}")
    expect(page.locator("[name=minutes]")).to_be_hidden()
    page.click("button:has-text('Tests after changes')")
    expect(page.locator("#rule-content")).to_have_value("Run the tests after changing code.")
    page.keyboard.press("t")
    expect(page.locator("#outcome")).to_contain_text("It would fire")
    expect(page.locator("#outcome")).to_contain_text("src/invoices/render.py is in src/**")
    page.fill("#rule-sample", '{"type": "fs_write", "data": {"path": "tests/a.py"}}')
    page.click("#trial button:has-text('Try the rule')")
    expect(page.locator("#outcome")).to_contain_text("It would not fire")
    expect(page.locator("#outcome")).to_contain_text("tests/a.py is not in src/**")
    assert not StandingInstruction.objects.exists() and not Instruction.objects.exists()
    page.select_option("[name=event]", "every")
    expect(page.locator("[name=minutes]")).to_be_visible()
    expect(page.locator("#rule-signal")).to_be_hidden()
    page.select_option("[name=event]", "signal")
    page.click("button:has-text('Save and turn on')")
    expect(page.locator("#rule .detail__line")).to_contain_text("On")
    page.keyboard.press("Shift+P")
    expect(page.locator("#rule .detail__line")).to_contain_text("Paused")
    assert StandingInstruction.objects.get().state == "paused"
    assert visitor.complaints == []


def test_the_form_works_without_scripts(visit: Callable[..., Visitor], coder: Agent) -> None:
    page = visit(java_script_enabled=False).sign_in(NEW)
    page.click("button:has-text('Docs with the API')")
    page.click("button:has-text('Condition')")
    page.fill("[name=match_field_1]", "tool")
    page.fill("[name=match_value_1]", "Edit")
    page.click("#trial button:has-text('Try the rule')")
    expect(page.locator("#outcome")).to_contain_text("tool is Edit")
    page.click("button:has-text('Save as draft')")
    expect(page.locator("#rule .detail__line")).to_contain_text("Draft")
    made = StandingInstruction.objects.get()
    assert made.match == {"path": {"glob": "**/openapi.json"}, "tool": "Edit"}


def test_keys_pause_undo_try_and_save_and_a_draft_survives(
    visit: Callable[..., Visitor], coder: Agent
) -> None:
    rule = make_rule()
    visitor = visit()
    page = visitor.sign_in("/instructions/standing/")
    page.keyboard.press("j")
    page.keyboard.press("Shift+P")
    row = page.locator(f"#rule-{rule.id}")
    expect(row).to_contain_text("Paused")
    expect(row).to_have_attribute("data-cursor", "")
    page.click("#toasts button:has-text('Undo')")
    expect(row).to_contain_text("On")
    assert StandingInstruction.objects.get().state == "active"
    page.keyboard.press("?")
    expect(page.locator("#keys-dialog")).to_contain_text("Pause or switch on")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("t")
    page.wait_for_url("**/edit/#trial")
    page.goto(page.url.partition("/instructions")[0] + NEW)
    page.fill("#rule-content", "Say it twice.")
    page.fill("#rule-signal", "fs_write")
    page.select_option("[name=expect]", "ack")
    page.check("[name=hold_stop]")
    page.fill("[name=match_field_0]", "path")
    page.fill("[name=match_value_0]", "a.py")
    page.click("button:has-text('Condition')")
    page.fill("[name=match_field_1]", "tool")
    page.fill("[name=match_value_1]", "Edit")
    page.goto(page.url.partition("/instructions")[0] + "/instructions/standing/")
    page.goto(page.url.partition("/instructions")[0] + NEW)
    expect(page.locator("[name=match_value_1]")).to_have_value("Edit")
    expect(page.locator("#rule-content")).to_have_value("Say it twice.")
    expect(page.locator("[name=hold_stop]")).to_be_checked()
    page.focus("#rule-content")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#rule .detail__line")).to_contain_text("On")
    made = StandingInstruction.objects.get(content="Say it twice.")
    assert (made.match, made.hold_stop) == ({"path": "a.py", "tool": "Edit"}, True)
    page.goto(page.url.partition("/instructions")[0] + NEW)
    expect(page.locator("#rule-content")).to_have_value("")
    assert visitor.complaints == []
