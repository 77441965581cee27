"""The inbox in a browser: an ignored instruction reaches a person, whose words are acknowledged."""

import re
from collections.abc import Callable
from datetime import datetime

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, Route, expect
from tenfour import Client

from ledger import instructions
from ledger.journal import Actor, Stamp
from ledger.models import Agent, Instruction
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.states import Answer
from tests.browser.conftest import (
    PASSWORD,
    TWO_FRAMES,
    WIDTHS,
    Visitor,
    assert_whole,
    assert_whole_as_it_is,
    axe_findings,
    poll,
)
from tests.dashboard.escalations.test_escalations import (
    HOSTILE,
    MINUTE,
    address,
    ignored,
    jonas_answers,
)
from tests.factories import as_name, make_agent, make_token, send, tick

Visit = Callable[..., Visitor]
URL = "/escalations/"


@pytest.fixture
def jonas(transactional_db: None) -> User:
    return User.objects.create_superuser("jonas", password=PASSWORD)


def sign_in(visitor: Visitor, name: str, path: str) -> Page:
    page = visitor.open(f"/sign-in/?next={path}")
    page.fill("#username", name)
    page.fill("#password", PASSWORD)
    page.click("button:has-text('Sign in')")
    page.wait_for_url(lambda url: "/sign-in/" not in url)
    return page


def panel(escalation: Escalation) -> str:
    return f"#answer-{escalation.pk}"


# ---- the whole story


def test_an_ignored_instruction_is_answered_by_a_person_and_acknowledged(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    visitor = visit()
    page = visitor.sign_in(URL)
    page.evaluate("window.untouched = true")
    expect(page.locator("#none")).to_contain_text("Nothing needs your attention")
    with Client(visitor.url, make_token("agent", agent=coder)) as agent:
        send(coder, "Check the lock", now=now - MINUTE, max_retries=0, on_failed="escalate")
        assert [one.text for one in agent.instructions.pull()] == ["Check the lock"]
        tick(now + MINUTE)  # it never answered

        expect(page).to_have_title("1 needs an answer · Escalations · Tenfour")
        expect(page.locator("#escalation-title")).to_have_text("Check the lock")
        expect(page.locator("#side a[data-go=e] .nav__count--alert")).to_contain_text("1")
        page.keyboard.press("f")
        expect(page.locator("#fix")).to_be_focused()
        page.keyboard.type("Run `ls .lock`, then say what you see")
        poll(page)
        expect(page.locator("#fix")).to_be_focused()
        page.keyboard.press("Control+Enter")

        expect(page.locator(".answer")).to_contain_text("Your message is first in the queue.")
        expect(page.locator(".answer")).to_contain_text("Nothing else needs your attention.")
        expect(page).to_have_title("Escalations · Tenfour")
        (told,) = agent.instructions.pull()
        assert told.text == "Run `ls .lock`, then say what you see"
        expect(page.locator(".esc__head")).to_contain_text("Delivered, no answer yet")
        agent.instructions.ack(told.id)
    expect(page.locator(".esc__head .lede")).to_contain_text("Acknowledged")
    assert page.evaluate("window.untouched")
    page.click("text=a new instruction")
    expect(page).to_have_url(re.compile(f"/instructions/{told.id}/"))
    assert visitor.complaints == []


# ---- the keyboard


def test_what_ends_it_is_asked_and_the_safe_choice_has_the_focus(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    first = ignored(coder, "one", now=now - MINUTE)
    second = ignored(coder, "two", now=now - MINUTE)
    send(coder, now=now)
    page = visit().sign_in(URL)
    page.keyboard.press("s")
    expect(page.locator("#skip-dialog")).to_be_visible()
    expect(page.locator("#skip-dialog button", has_text="Go back")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#skip-dialog")).to_be_hidden()
    page.keyboard.press("s")
    page.keyboard.press("Escape")
    expect(page.locator("#skip-dialog")).to_be_hidden()
    assert Escalation.objects.open().count() == 2
    page.keyboard.press("s")
    page.click("#skip-dialog >> text='Leave as failed'")
    page.wait_for_url(f"**{address(second)}")
    expect(page.locator("#toasts")).to_contain_text("Left as is. Nothing was sent.")
    assert not Escalation.objects.get(pk=first.pk).is_open
    page.keyboard.press("a")
    expect(page.locator("#abort-dialog")).to_contain_text("Cancels the 1 pending instruction")
    page.click("#abort-dialog >> text='Cancel all pending'")
    expect(page.locator(panel(second))).to_contain_text("1 instruction was cancelled.")


def test_it_is_sent_again_once_and_typed_words_come_back(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    escalation = ignored(coder, "Check", now=now - MINUTE)
    page = visit().sign_in(URL)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else 0)
    page.click("text=Edit the original")
    expect(page.locator("#fix")).to_have_value("Check")
    page.dblclick("button:has-text('Send again'):visible")
    expect(page.locator(panel(escalation))).to_contain_text("Sent again, first in the queue.")
    expect(page.locator("#unsent")).to_have_value("Check")
    page.evaluate(TWO_FRAMES)
    assert len([url for url in sent if url.endswith("/answer/")]) == 1
    assert Instruction.objects.get(resend_of=escalation.instruction_id).content == "Check"


# ---- conflicts


def test_of_two_browsers_one_wins_and_the_other_keeps_its_words(
    visit: Visit, coder: Agent, jonas: User, now: datetime
) -> None:
    escalation = ignored(coder, "Check", now=now - MINUTE)
    mara, other = visit().sign_in(URL), sign_in(visit(), "jonas", URL)
    mara.click("#live")  # paused: her page does not tell her before she sends
    mara.fill("#fix", "my own words")
    other.keyboard.press("r")
    expect(other.locator(panel(escalation))).to_contain_text("Sent again, first in the queue.")
    mara.click("#send-fix")
    told = mara.locator(panel(escalation))
    expect(told).to_contain_text("jonas answered")
    expect(told).to_contain_text("Your message was not sent.")
    mara.click("#live")
    poll(mara)
    expect(mara.locator("#unsent")).to_have_value("my own words")
    expect(mara.locator("#live")).to_contain_text("Live")
    assert Instruction.objects.filter(resend_of=escalation.instruction_id).count() == 1


def test_an_answer_elsewhere_takes_an_untouched_form_away(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    escalation, other = (ignored(coder, name, now=now - MINUTE) for name in ("one", "two"))
    page = visit().sign_in(URL)
    expect(page.locator("#fix")).to_be_visible()
    jonas_answers(escalation, "skip", now)
    expect(page.locator(panel(escalation))).to_contain_text("jonas left it")
    expect(page.locator("#escalation-title")).to_have_text("one")  # nothing slid in instead
    expect(page.locator(".answer__next")).to_contain_text("two")
    expect(page.locator(f"#esc-{other.pk}")).to_have_count(1)


def test_words_that_do_not_fit_are_told_at_the_field(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    ignored(coder, "Check", now=now - MINUTE)
    page = visit().sign_in(URL)
    page.keyboard.press("f")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#fix-hint")).to_contain_text("A fix needs text")
    expect(page.locator("#fix")).to_be_focused()
    page.fill("#fix", "x" * 4001)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#fix-hint")).to_contain_text("at most 4000 characters")
    expect(page.locator("#fix")).to_have_value("x" * 4001)
    assert axe_findings(page) == []
    # the same of an answer that was sent before htmx was there
    early = visit()
    early.context.route("**/htmx-*", lambda route: route.abort())
    page = early.sign_in(URL)
    page.keyboard.press("f")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#fix-hint")).to_contain_text("A fix needs text")
    expect(page.locator("#fix")).to_be_focused()
    assert Escalation.objects.open().count() == 1


# ---- what is typed is never lost


def test_typed_words_survive_news_a_reload_and_other_pages(
    visit: Visit, coder: Agent, now: datetime
) -> None:
    first = ignored(coder, "one", now=now - MINUTE)
    page = visit().sign_in(URL)
    page.keyboard.press("f")
    page.keyboard.type("half a sent")
    second = ignored(make_agent("codex"), "two", now=now)
    expect(page.locator(f"#esc-{second.pk}")).to_be_visible()
    expect(page).to_have_title("2 need an answer · Escalations · Tenfour")
    page.keyboard.type("ence")
    expect(page.locator("#fix")).to_have_value("half a sentence")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.wait_for_url(f"**{address(second)}")
    expect(page.locator("#fix")).to_have_value("")
    page.keyboard.press("k")
    page.wait_for_url(f"**{address(first)}")
    expect(page.locator("#fix")).to_have_value("half a sentence")
    page.reload()
    expect(page.locator("#fix")).to_have_value("half a sentence")


def test_what_never_arrived_can_be_sent_again(visit: Visit, coder: Agent, now: datetime) -> None:
    escalation = ignored(coder, "Check", now=now - MINUTE)
    page = visit().sign_in(URL)
    page.fill("#fix", "my words")
    page.route("**/answer/**", lambda route: route.abort())
    page.click("#send-fix")
    expect(page.locator("[data-unsent]")).to_contain_text("Send it again")
    page.unroute("**/answer/**")

    def broken(route: Route) -> None:
        route.fulfill(status=500, body="Traceback")

    page.route("**/answer/**", broken)
    page.click("#send-fix")
    expect(page.locator("[data-unsent]")).to_contain_text("the server responded with 500")
    assert "Traceback" not in page.content()
    page.unroute("**/answer/**")
    page.click("#send-fix")
    expect(page.locator(panel(escalation))).to_contain_text("Your message is first in the queue.")


def test_a_session_that_ended_keeps_the_words(visit: Visit, coder: Agent, now: datetime) -> None:
    ignored(coder, "Check", now=now - MINUTE)
    page = visit().sign_in(URL)
    page.fill("#fix", "my words")
    page.context.clear_cookies(name="tenfour_session")
    page.click("#send-fix")
    expect(page.locator("#signed-out")).to_contain_text("You are signed out.")
    expect(page.locator("#fix")).to_have_value("my words")
    page.click("#signed-out a")
    page.fill("#username", "mara")
    page.fill("#password", PASSWORD)
    page.click("button:has-text('Sign in')")
    page.wait_for_url(f"**{URL}*")
    expect(page.locator("#fix")).to_have_value("my words")


# ---- how it looks, and without a script


def make_hostile(now: datetime) -> list[str]:
    """Make a hostile inbox, and return the addresses of one open, one answered, all, an unknown."""
    for text in HOSTILE:
        agent = make_agent(as_name(text))
        sender = Actor("token", "1", text[:64])
        last = ignored(agent, text, now=now - MINUTE, retries=3, actor=sender)
    choice = Choice(Answer.FIX, fix=HOSTILE[1][:4000], note=HOSTILE[0])
    actor = Actor("user", "9", HOSTILE[4])
    every = Escalation.objects.all()
    done = answering.answer(last.pk, choice, among=every, stamp=Stamp(actor, now), channel="page")
    instructions.acknowledge_instruction(done.resent_as_id or "", now=now)
    longest = Escalation.objects.open().get(instruction__content=HOSTILE[1])
    gone = f"{URL}01a1fe8a-1bbf-798b-b797-e0023d4c4b40/"
    return [address(longest), address(done), f"{URL}?state=answered", gone]


def test_the_inbox_is_whole(visit: Visit, coder: Agent, now: datetime) -> None:
    """Empty, and with hostile texts."""
    visitor = visit().signed_in()
    page = assert_whole(visitor, URL, widths=[1440])
    page.click("text=Answered 0")
    expect(page.locator("#none-answered")).to_be_visible()
    assert_whole_as_it_is(page, widths=[1440])
    hostile = make_hostile(now)
    for path in hostile:
        assert_whole(visitor, path, widths=WIDTHS, expected="404")
    page = visitor.open(hostile[0])  # a phone shows the list alone at the inbox's address
    page.click("button:has-text('Leave as failed')")
    assert_whole_as_it_is(page, widths=WIDTHS)
    page.click("#skip-dialog >> text='Leave as failed'")
    expect(page.locator("#toasts")).to_contain_text("Nothing was sent.")


def test_without_script_everything_works(visit: Visit, coder: Agent, now: datetime) -> None:
    made = [ignored(coder, f"Step {n}", now=now - MINUTE) for n in range(4)]
    visitor = visit(java_script_enabled=False)
    page = visitor.sign_in(URL)
    page.click("#send-fix")
    expect(page.locator("#fix-hint")).to_contain_text("A fix needs text")
    page.fill("#fix", "Other words")
    page.click("#send-fix")
    expect(page.locator("#toasts")).to_contain_text("Your message is first in the queue.")
    page.click("button:has-text('Leave as failed')")
    expect(page.locator(".answer")).to_contain_text("This cannot be undone.")
    page.click("text=Go back")
    page.click("button:has-text('Leave as failed')")
    page.click(".answer button:has-text('Leave as failed')")
    expect(page.locator("#toasts")).to_contain_text("Nothing was sent.")
    page.click(f"#esc-{made[2].pk} a")
    jonas_answers(made[2], "retry", now)
    page.fill("#fix", "too late")
    page.click("#send-fix")
    expect(page.locator(".answer")).to_contain_text("jonas answered")
    expect(page.locator("#unsent")).to_have_value("too late")
    page.click("text=Answered 3")
    page.wait_for_url("**/escalations/?state=answered")
    expect(page.locator("[data-row]")).to_have_count(3)
    page.click("text=Open 1")
    expect(page.locator("#escalation-title")).to_contain_text("Step 3")
    page.click("button:has-text('Cancel all')")
    page.click(".answer button:has-text('Cancel all')")
    expect(page.locator("#toasts")).to_contain_text("were cancelled")
    assert Escalation.objects.open().count() == 0


def test_an_instruction_leads_to_its_escalation(visit: Visit, now: datetime) -> None:
    question = ignored(make_agent("w" * 64), "v" * 400, now=now - 12 * MINUTE)
    visitor = visit()
    page = visitor.sign_in(f"/instructions/?open={question.instruction_id}")
    page.wait_for_selector("#trail")
    page.click("#trail a:has-text('Open')")
    expect(page.locator("#its-escalation")).to_contain_text("Waiting for an answer")
    assert_whole_as_it_is(page)
    page.click("#its-escalation a")
    page.wait_for_url(f"**{address(question)}")
    jonas_answers(question, Answer.SKIP, now)
    page.go_back()
    expect(page.locator("#its-escalation")).to_contain_text("jonas left it as is.")
    assert_whole_as_it_is(page)
    assert visitor.complaints == []


def test_two_people_who_answer_the_same_one_know_of_each_other(
    visit: Visit, coder: Agent, jonas: User, now: datetime
) -> None:
    """OPR-9: first who is answering, then the answer, above the text; nothing more is sent."""
    escalation = ignored(coder, "Check", now=now - MINUTE)
    mara, other = visit().sign_in(URL), sign_in(visit(), "jonas", URL)
    other.fill("#fix", "theirs")
    expect(mara.locator("#answering-now")).to_contain_text("jonas is answering this")
    mara.fill("#fix", "my own words")
    other.click("#send-fix")
    notice = mara.locator("#answered-meanwhile")
    expect(notice).to_contain_text("jonas answered this at")
    expect(notice).to_contain_text("“theirs”. Sending is off; your text is kept")
    expect(mara.locator("#fix")).to_have_value("my own words")
    assert notice.bounding_box()["y"] < mara.locator("#fix").bounding_box()["y"]  # type: ignore[index]
    for button in mara.locator(f"{panel(escalation)} button[name=action]").all():
        expect(button).to_be_disabled()
    mara.locator("#fix").press("Control+Enter")
    poll(mara)
    expect(mara.locator("#fix")).to_have_value("my own words")
    assert axe_findings(mara) == []
    mara.goto(mara.url.partition(URL)[0] + address(escalation))
    expect(mara.locator(".answer")).to_contain_text("Sent to coder by jonas")
    for theme in ("light", "dark"):  # OPR-20, OPR-41
        mara.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        assert axe_findings(mara) == []
