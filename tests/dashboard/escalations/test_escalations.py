"""The inbox with escalations of instructions."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

import dashboard.wording.formatting
from dashboard.escalations import queries as escalation_queries
from dashboard.frame import live_updates
from ledger import instructions
from ledger.journal import Actor, Stamp
from ledger.models import Agent, Event, Instruction
from ledger.states import InstructionState
from retries.escalations import answering as escalation_answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.states import Answer
from tests.dashboard.conftest import PART
from tests.factories import as_name, make_agent, make_project, pull, send, tick

URL = "/escalations/"
JONAS = Actor("user", "77", "jonas")
MINUTE = timedelta(minutes=1)
Part = Callable[..., HttpResponse]


def html(response: HttpResponse, status: int = 200) -> str:
    assert response.status_code == status
    return re.sub(r"\s+", " ", unescape(response.content.decode()))


def words(response: HttpResponse, status: int = 200) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html(response, status)))


def lines(response: HttpResponse) -> list[str]:
    return re.findall(r'<li id="esc-([0-9a-f-]{36})"', response.content.decode())


def key(response: HttpResponse) -> str:
    found = re.search(r'data-since="([^"]+)"', response.content.decode())
    assert found
    return unescape(found[1])


def ignored(
    agent: Agent, content: str = "Check", *, now: datetime, retries: int = 0, **more: Any
) -> Escalation:
    """Return the open escalation of an instruction that failed at `now`."""
    start = now - (retries + 1) * MINUTE
    id = send(agent, content, max_retries=retries, on_failed="escalate", now=start, **more)
    return chased(agent, id, since=start, retries=retries)


def chased(agent: Agent, id: Any, *, since: datetime, retries: int = 0) -> Escalation:
    for round in range(1, retries + 2):
        pull(agent, now=since + (round - 1) * MINUTE)
        tick(since + round * MINUTE)
    return Escalation.objects.get(instruction=id)


def address(escalation: Escalation) -> str:
    return f"{URL}{escalation.pk}/"


def post(client: Client, escalation: Escalation, action: str, **more: Any) -> Any:
    form = {"action": action, "version": str(escalation.version), "confirmed": "yes"}
    headers = more.pop("headers", None)
    form |= {name: value for name, value in more.items() if value is not None}
    form = {name: value for name, value in form.items() if more.get(name, "") is not None}
    return client.post(f"{address(escalation)}answer/", form, headers=headers)


def jonas_answers(escalation: Escalation, action: str, now: datetime, fix: str = "") -> Escalation:
    choice = Choice(Answer(action), fix=fix)
    every = Escalation.objects.all()
    return escalation_answering.answer(
        escalation.pk, choice, among=every, stamp=Stamp(JONAS, now), channel="api"
    )


def facts() -> tuple[int, int, list[str]]:
    states = list(Escalation.objects.order_by("id").values_list("state", flat=True))
    return Event.objects.count(), Instruction.objects.count(), states


@pytest.fixture(autouse=True)
def _one_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the live key from changing with the time bucket during a test."""
    monkeypatch.setattr(live_updates, "MAX_AGE_SECONDS", 10**9)


# ---- reading


def test_oldest_open_escalation_is_shown(browser: Client, agent: Agent, now: datetime) -> None:
    first = ignored(agent, "Mend the build", now=now - 90 * MINUTE, retries=3)
    second = ignored(agent, "Read the log", now=now - 5 * MINUTE)
    page = browser.get(URL, {"sort": "oldest"})
    assert lines(page) == [str(first.pk), str(second.pk)]
    told = words(page)
    assert "2 need an answer · Escalations · Tenfour" in told and "Open 2" in told
    assert "No answer to 4 deliveries , the last one marked URGENT" in told
    assert "coder received last **URGENT:** Mend the build" in told
    for loud in (
        "a plain reminder",
        "IMPORTANT",
        "URGENT",
        "Tenfour gave up",
        "Waiting for your answer",
    ):
        assert loud in told
    assert "waiting 1 h" in told and "waiting 5 m" in told
    # pinned: nothing slides in instead, and a phone keeps the list
    assert f'hx-get="{address(first)}?sort=oldest&list=yes"' in html(page)
    assert lines(browser.get(URL)) == [str(second.pk), str(first.pk)], "OPR-3: the new one first"


def test_address_selects_an_escalation(browser: Client, agent: Agent, now: datetime) -> None:
    first, second, third = (ignored(agent, str(n), now=now + n * MINUTE) for n in range(3))
    page = html(browser.get(address(second)))
    current = f'href="{address(second)}" aria-current="true"'
    assert current in page and "2 of 3" in page
    assert f'href="{address(third)}" aria-label="Next escalation"' in page
    assert f'href="{address(first)}" aria-label="Previous escalation"' in page


def test_a_pasted_id_lands_on_it(browser: Client, agent: Agent, now: datetime) -> None:
    escalation = ignored(agent, now=now)
    response = browser.get("/search/", {"q": f" {escalation.pk} "})
    assert response["Location"] == address(escalation)


def test_nothing_needs_you(browser: Client, agent: Agent, now: datetime) -> None:
    page = words(browser.get(URL))
    assert "Nothing needs your attention" in page and "Escalations · Tenfour" in page
    assert "need you" not in page.replace("Nothing needs your attention", "")
    jonas_answers(ignored(agent, now=now - 7 * MINUTE), "skip", now)
    assert "The last escalation was answered at" in words(browser.get(URL))
    assert "after 7 m" in words(browser.get(URL))


def test_the_agent_beside_it(browser: Client, agent: Agent, now: datetime) -> None:
    escalation = ignored(agent, now=now)
    assert "Last seen never Waiting none" in words(browser.get(URL))
    send(agent, now=now - 10 * MINUTE)
    send(agent, now=now)
    Agent.objects.update(last_seen_at=now - 9 * MINUTE, paused=True)
    told = words(browser.get(address(escalation)))
    assert "silent paused Last seen 9 m ago Waiting 2 instructions" in told
    assert "Cancels the 2 pending instructions for coder" in told


def test_late_acknowledgment_is_shown(browser: Client, agent: Agent, now: datetime) -> None:
    escalation = ignored(agent, now=now - MINUTE)
    instructions.acknowledge_instruction(escalation.instruction_id or "", now=now)
    assert "coder acknowledged it at" in words(browser.get(URL))
    assert "after Tenfour gave up" in words(browser.get(URL))


def test_earlier_answers_are_shown(browser: Client, agent: Agent, now: datetime) -> None:
    first = ignored(agent, "Check", now=now - 60 * MINUTE)
    done = jonas_answers(first, "retry", now - 50 * MINUTE)
    second = chased(agent, done.resent_as_id, since=now - 49 * MINUTE)
    done = jonas_answers(second, "fix", now - 40 * MINUTE, "Check twice")
    third = chased(agent, done.resent_as_id, since=now - 39 * MINUTE)
    told = words(browser.get(URL))
    assert "Earlier answers 2" in told
    assert "jonas sent it again Ignored again" in told
    assert "jonas sent a new message Ignored again" in told and "Check twice" in told
    answered = html(browser.get(address(second)))
    assert f'href="{address(third)}"' in answered and "ignored again, escalated again" in answered


def test_result_of_an_answer_is_shown(browser: Client, agent: Agent, now: datetime) -> None:
    done = jonas_answers(ignored(agent, now=now - MINUTE), "fix", now, "Check twice")
    told = words(browser.get(address(done)))
    assert "jonas sent a new message , 1 m after Tenfour gave up" in told
    assert "Channel API" in told and "Queued" in told
    pull(agent)
    assert "Delivered, no answer yet" in words(browser.get(address(done)))
    instructions.acknowledge_instruction(done.resent_as_id or "", now=now)
    assert "Acknowledged" in words(browser.get(address(done)))
    assert f"/instructions/{done.resent_as_id}/" in html(browser.get(address(done)))


def test_answered_escalations_have_their_own_list(
    browser: Client, agent: Agent, now: datetime
) -> None:
    open_one = ignored(agent, "open", now=now - 9 * MINUTE)
    done = [
        jonas_answers(ignored(agent, f"no {n}", now=now - MINUTE), "skip", now + n * MINUTE)
        for n in range(6)
    ]
    newest_first = [str(one.pk) for one in reversed(done)]
    assert lines(browser.get(URL)) == [str(open_one.pk)]
    page = browser.get(URL, {"state": "answered"})
    assert lines(page) == newest_first
    assert "jonas left it as is." in words(page) and "Answered 6" in words(page)
    assert browser.get(URL, {"state": "nonsense"}).status_code == 200


def test_count_of_answered_escalations_is_capped(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 5: many answered escalations do not slow the page down."""
    for n in range(3):
        jonas_answers(ignored(agent, f"no {n}", now=now - MINUTE), "skip", now)
    monkeypatch.setattr(escalation_queries, "COUNT_CAP", 2)
    monkeypatch.setattr(dashboard.wording.formatting, "COUNT_CAP", 2)
    page = words(browser.get(URL))
    assert "Answered 2+" in page and "Open 0" in page


def pager(page: HttpResponse) -> str:
    """Return the links to the pages before and after, which are not the only links to this list."""
    return html(page).split('id="list-pager"')[1].split("</nav>")[0]


def test_pages_of_the_answered(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = "answered"
    monkeypatch.setattr(escalation_queries, "PAGE", 2)
    made = [ignored(agent, str(n), now=now - MINUTE) for n in range(5)]
    # answered the other way round, some of them at the same moment
    for n, one in enumerate(reversed(made)):
        jonas_answers(one, "skip", now + (n // 2) * MINUTE)
    made = list(Escalation.objects.order_by("-closed_at", "-id"))
    order = [str(one.pk) for one in made]

    def walk(side: str, page: HttpResponse) -> list[list[str]]:
        seen = [lines(page)]
        while found := re.search(rf'href="({URL}\?[^"]*{side}=[^"]*)"', pager(page)):
            page = browser.get(found[1])
            seen.append(lines(page))
        return seen

    first = browser.get(URL, {"state": state})
    onwards, back = "before", "after"
    forth = walk(onwards, first)
    assert forth == [order[:2], order[2:4], order[4:]]
    last = browser.get(URL, {"state": state, onwards: order[3]})
    assert walk(back, last)[-1] == order[:2]
    assert lines(browser.get(URL, {"state": state})) == order[:2]
    monkeypatch.undo()  # statements that were compiled for small pages do not serve large ones
    assert lines(browser.get(URL, {"state": state})) == order


def test_missing_page_position_shows_the_first_page(
    browser: Client, agent: Agent, now: datetime
) -> None:
    escalation = ignored(agent, now=now)
    for place in (str(escalation.pk), str(uuid4()), "nonsense"):
        for side in ("before", "after"):
            assert browser.get(URL, {side: place}).status_code == 200
            assert browser.get(URL, {side: place, "state": "answered"}).status_code == 200
    assert lines(browser.get(URL, {"after": str(escalation.pk)})) == [str(escalation.pk)]


def test_a_project_has_its_own_inbox(browser: Client, agent: Agent, now: datetime) -> None:
    here = ignored(agent, now=now)
    there = ignored(make_agent("codex", project=make_project("other")), now=now)
    assert lines(browser.get(URL)) == [str(here.pk), str(there.pk)]
    page = browser.get(URL, {"project": "other"})
    assert lines(page) == [str(there.pk)] and "1 needs an answer" in words(page)
    assert f"{address(there)}?project=other" in html(page)
    assert browser.get(URL, {"project": "nowhere"}).status_code == 404


@pytest.mark.parametrize("state", ["", "answered"])
def test_the_number_of_rows_costs_no_statement(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int], state: str
) -> None:
    made = [ignored(agent, f"no {n}", now=now - 70 * MINUTE, retries=1) for n in range(12)]
    for n, one in enumerate(made[:6]):
        done = jonas_answers(one, "retry", now - 60 * MINUTE)
        chased(agent, done.resent_as_id, since=now - (50 - 3 * n) * MINUTE, retries=1)
    make_project("other")
    data = {"project": "default"} | ({"state": state} if state else {})
    for one in Escalation.objects.all():
        assert statements(browser, address(one), data) <= 15
    assert statements(browser, URL, data) <= 15


# ---- polling


def test_a_poll_without_news_costs_little(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    escalation = ignored(agent, now=now)
    for path in (URL, address(escalation)):
        since = {"since": key(browser.get(path))}
        assert browser.get(path, since, headers=PART).status_code == 204
        assert statements(browser, path, since, headers=PART) <= 3  # session, person, key
        assert browser.get(path, since).status_code == 200  # a page is a page


@pytest.mark.django_db(transaction=True)
def test_a_new_one_an_answer_and_an_ack_are_news(
    browser: Client, part: Part, agent: Agent, now: datetime
) -> None:
    first = ignored(agent, now=now - MINUTE)
    since = key(browser.get(URL))
    second = ignored(make_agent("codex"), now=now)
    live = part(URL, since=since)
    assert lines(live) == [str(first.pk), str(second.pk)] and "2 need an answer" in words(live)
    done = jonas_answers(first, "retry", now)
    live = part(address(first), since=key(live))
    assert live.status_code == 200 and "jonas sent it again" in words(live)
    since = key(live)
    instructions.acknowledge_instruction(done.resent_as_id or "", now=now)
    assert part(address(first), since=since).status_code == 200


def test_the_part_has_no_frame_and_the_form_is_left_alone(
    part: Part, agent: Agent, now: datetime
) -> None:
    escalation = ignored(agent, now=now)
    live = html(part(URL))
    assert "<html" not in live and '<div id="inbox"' in live
    assert f'id="answer-{escalation.pk}" class="answer" hx-morph-skip' in live
    assert live.count("hx-swap-oob") == 2


# ---- who


@pytest.mark.django_db
def test_strangers_see_and_answer_nothing(agent: Agent, now: datetime) -> None:
    escalation = ignored(agent, now=now)
    before = facts()
    visitor = Client()
    visitor.force_login(User.objects.create_user("visitor"))
    for client in (Client(), visitor):
        for path in (URL, address(escalation), f"{address(escalation)}answer/"):
            assert client.get(path).status_code == 302
            assert client.get(path, headers=PART).status_code == 401
        assert post(client, escalation, "retry").status_code == 302
        assert post(client, escalation, "retry", headers=PART).status_code == 401
    assert facts() == before


def test_an_answer_needs_the_forms_token(mara: User, agent: Agent, now: datetime) -> None:
    escalation = ignored(agent, now=now)
    client = Client(enforce_csrf_checks=True)
    client.force_login(mara)
    assert post(client, escalation, "skip").status_code == 403
    assert Escalation.objects.get().is_open


def test_looking_changes_nothing(browser: Client, agent: Agent, now: datetime) -> None:
    escalation = ignored(agent, now=now)
    before = facts()
    answering = f"{address(escalation)}answer/"
    for path in (URL, address(escalation), answering):
        for data in ({}, {"action": "abort", "version": "1", "confirmed": "yes"}):
            assert browser.get(path, data).status_code in (200, 302)
            assert browser.head(path, data).status_code in (200, 302)
    # who had to sign in before the answer could be taken comes back to the question
    assert browser.get(answering)["Location"] == address(escalation)
    assert browser.post(URL).status_code == browser.post(address(escalation)).status_code == 405
    assert facts() == before


# ---- answering


def test_each_answer_does_what_its_button_says(
    browser: Client, agent: Agent, now: datetime
) -> None:
    page = words(browser.get(address(ignored(agent, "first", now=now))))
    for says in (
        "Send new text",
        "coder gets your text first, with reminders until it acknowledges.",
        "Send again",
        "Sends the same text first in the queue and starts over.",
        "Leave as failed…",
        "It stays failed; nothing is sent.",
        "Cancel all pending…",
        "Nothing is pending.",
    ):
        assert says in page


def test_a_fix_is_first_in_the_queue(browser: Client, agent: Agent, now: datetime) -> None:
    escalation = ignored(agent, now=now - MINUTE)
    send(agent, "something else")
    response = browser.get(address(escalation))
    response = post(browser, escalation, "fix", fix="Run it:\r\n\tmake test ")
    assert response["Location"] == address(escalation)
    told = words(browser.get(response["Location"]))
    assert "Your message is first in the queue." in told and "mara sent a new message" in told
    assert pull(agent)[0] == "Run it:\n\tmake test"
    done = Escalation.objects.get()
    assert (done.answered_by_name, done.channel, done.action) == ("mara", "page", "fix")
    assert Event.objects.get(kind="escalation.resolved").request_id


def test_a_retry_sends_the_same_words(browser: Client, agent: Agent, now: datetime) -> None:
    escalation = ignored(agent, "Check", now=now - MINUTE)
    response = post(browser, escalation, "retry")
    assert "Sent again, first in the queue." in words(browser.get(response["Location"]))
    assert pull(agent) == ["Check"]


def test_words_typed_before_another_answer_are_given_back(
    browser: Client, agent: Agent, now: datetime
) -> None:
    escalation = ignored(agent, "Check", now=now - MINUTE)
    told = words(post(browser, escalation, "retry", fix="typed in vain", headers=PART))
    assert "Your message (not sent)" in told and "typed in vain" in told
    assert pull(agent) == ["Check"]


def test_words_that_wait_already_are_not_sent_twice(
    browser: Client, agent: Agent, now: datetime
) -> None:
    escalation = ignored(agent, "Check", now=now - MINUTE)
    send(agent, "Check", now=now)
    response = post(browser, escalation, "retry", headers=PART)
    assert "nothing was sent twice" in words(response)
    assert pull(agent) == ["Check"]


def test_skip_sends_nothing(browser: Client, agent: Agent, now: datetime) -> None:
    response = post(browser, ignored(agent, now=now), "skip")
    assert "Left as is. Nothing was sent." in words(browser.get(response["Location"]))
    assert pull(agent) == []


@pytest.mark.parametrize(
    ("waiting", "says"),
    [
        (0, "Nothing was pending, so nothing was cancelled."),
        (1, "1 instruction was cancelled."),
        (2, "2 instructions were cancelled."),
    ],
)
def test_abort_withdraws_what_waits(
    browser: Client, agent: Agent, now: datetime, waiting: int, says: str
) -> None:
    escalation = ignored(agent, now=now)
    for _ in range(waiting):
        send(agent)
    assert says in words(post(browser, escalation, "abort", headers=PART))
    assert Instruction.objects.filter(state=InstructionState.CANCELLED).count() == waiting


@pytest.mark.parametrize("action", ["skip", "abort"])
@pytest.mark.parametrize("headers", [{}, PART])
def test_what_ends_it_is_asked_first(
    browser: Client, agent: Agent, now: datetime, action: str, headers: dict[str, str]
) -> None:
    escalation = ignored(agent, now=now)
    before = facts()
    response = post(browser, escalation, action, confirmed=None, fix="typed", headers=headers)
    asked = html(response)
    assert "Go back" in asked and "This cannot be undone." in asked
    assert 'name="confirmed" value="yes"' in asked and f'value="{action}"' in asked
    assert "typed</textarea>" in asked
    assert ("<html" in asked) is not bool(headers)
    assert facts() == before


def test_the_next_one_opens_after_an_answer_and_the_last_one_shows_the_panel(
    browser: Client, agent: Agent, now: datetime
) -> None:
    first, second = ignored(agent, "one", now=now), ignored(agent, "two", now=now)
    sent = post(browser, first, "retry", headers=PART)
    assert sent["HX-Redirect"] == address(second) and not sent.content
    response = post(browser, second, "retry", headers=PART)
    panel = html(response)
    assert panel.strip().startswith(f'<div id="answer-{second.pk}"')
    assert response["HX-Trigger"] == "ledger-changed"
    assert "Nothing else needs your attention." in words(response)


# ---- conflicts


@pytest.mark.parametrize("headers", [{}, PART])
def test_second_answer_is_refused_with_the_first(
    browser: Client, agent: Agent, now: datetime, headers: dict[str, str]
) -> None:
    escalation = ignored(agent, now=now - MINUTE)
    jonas_answers(escalation, "retry", now - timedelta(seconds=4))
    before = facts()
    told = words(post(browser, escalation, "fix", fix="my <b>own</b> words", headers=headers), 409)
    assert "jonas answered" in told and "before you" in told and "jonas sent it again" in told
    assert "Your message (not sent)" in told and "my own words" in told
    assert facts() == before


@pytest.mark.parametrize("headers", [{}, PART])
def test_a_double_click_counts_once(
    browser: Client, agent: Agent, now: datetime, headers: dict[str, str]
) -> None:
    escalation = ignored(agent, now=now)
    assert post(browser, escalation, "retry", headers=headers).status_code in (200, 302)
    before = facts()
    told = words(post(browser, escalation, "retry", headers=headers), 409)
    assert (
        "You already answered this" in told and "Your answer counts once: you sent it again" in told
    )
    assert facts() == before


@pytest.mark.parametrize("version", ["2", "0", "", "x", "1.0", None])
@pytest.mark.parametrize("headers", [{}, PART])
def test_stale_form_is_refused_and_keeps_its_message(
    browser: Client, agent: Agent, now: datetime, version: str | None, headers: dict[str, str]
) -> None:
    escalation = ignored(agent, now=now)
    before = facts()
    response = post(browser, escalation, "fix", fix="my words", version=version, headers=headers)
    told = html(response, 412)
    assert "The escalation changed while you were answering." in told
    assert "my words</textarea>" in told and 'name="version" value="1"' in told
    assert facts() == before


def test_missing_escalation_has_its_own_page(browser: Client, agent: Agent, now: datetime) -> None:
    other = ignored(agent, now=now)
    gone = Escalation(pk=uuid4(), version=1)
    page = browser.get(address(gone))
    assert "Escalation not found" in words(page, 404) and lines(page) == [str(other.pk)]
    # a poll is answered: 404 would look like a lost connection
    assert "Escalation not found" in words(browser.get(address(gone), headers=PART))
    for headers in ({}, PART):
        told = words(post(browser, gone, "fix", fix="my words", headers=headers), 404)
        assert "Escalation not found" in told and "my words" in told
    assert browser.get(f"{URL}not-an-id/").status_code == 404


@pytest.mark.parametrize("action", ["", "RETRY", "retry "])
def test_an_unknown_answer_is_none(
    browser: Client, agent: Agent, now: datetime, action: str
) -> None:
    escalation = ignored(agent, now=now)
    before = facts()
    assert "Choose an answer." in words(post(browser, escalation, action), 422)
    assert facts() == before


@pytest.mark.parametrize(
    ("fix", "says"),
    [
        ("", "A fix needs text"),
        (" \r\n\t", "A fix needs text"),
        ("\u200b\u202e\ufeff", "A fix needs text"),
        ("x" * 4001, "at most 4000 characters"),
        ("a\x07b", "control character U+0007"),
        ("a\x00b", "control character U+0000"),
        ("€" * 3000, "9000 bytes"),
    ],
)
@pytest.mark.parametrize("headers", [{}, PART])
def test_invalid_message_is_kept_with_an_error(
    browser: Client, agent: Agent, now: datetime, fix: str, says: str, headers: dict[str, str]
) -> None:
    escalation = ignored(agent, now=now)
    before = facts()
    page = html(post(browser, escalation, "fix", fix=fix, headers=headers), 422)
    assert says in page and 'aria-invalid="true"' in page
    assert fix.strip() in page
    assert facts() == before


def test_exactly_4000_characters_fit_however_lines_end(
    browser: Client, agent: Agent, now: datetime
) -> None:
    words = "x\r\n" * 2000
    assert post(browser, ignored(agent, now=now), "fix", fix=words).status_code == 302


# ---- hostile text

HOSTILE = [
    "<script>alert(1)</script>",
    "x" * 8192,
    "\u202e\u2066abc \u05d0\u05d1 {{ 7|add:7 }} {% now 'Y' %}",
    '" onmouseover="alert(1)',
    "</textarea><img src=x onerror=alert(1)>",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(browser: Client, now: datetime, text: str) -> None:
    agent = make_agent(as_name(text))
    escalation = ignored(agent, text, now=now - 2 * MINUTE, actor=Actor("token", "", text[:64]))
    post(browser, escalation, "fix", fix=text[:4000])
    again = chased(agent, Escalation.objects.get(pk=escalation.pk).resent_as_id, since=now - MINUTE)
    pages = [browser.get(path) for path in (URL, address(escalation), address(again))]
    late = post(browser, escalation, "fix", fix=text[:4000])
    wrong = post(browser, again, "fix", fix=text[:4000] + "x" * 4000)
    for response in (*pages, late, wrong):
        raw = response.content.decode()
        assert "<script>alert" not in raw and "<img src=x" not in raw
        assert 'onmouseover="alert' not in raw
        assert raw.rstrip().endswith("</html>")
