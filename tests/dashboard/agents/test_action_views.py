"""The buttons of an agent."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from ledger import instructions
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Agent, Breaker, Event, Instruction
from ledger.states import BreakerState, InstructionState
from ledger.tokens import TrustedCaller
from retries import breaker_actions, claims
from retries.attempts import leases
from tests.dashboard.agents.conftest import URL
from tests.dashboard.seen import html, words
from tests.dashboard.worked import MARA, enqueued
from tests.factories import pull, send


def post(browser: Client, agent: Agent, verb: str, **more: Any) -> str:
    """Post an action without a script and return the words of the next page."""
    response = browser.post(f"{URL}{agent.pk}/{verb}/", more, follow=True)
    return words(response)


def test_pause_and_resume_are_recorded_with_the_person(
    browser: Client, agent: Agent, mara: User
) -> None:
    assert "coder is paused." in post(browser, agent, "pause")
    agent.refresh_from_db()
    assert agent.paused
    event = Event.objects.get(kind=Kind.AGENT_PAUSED)
    assert (event.actor_type, event.actor_id, event.actor_name) == ("user", str(mara.pk), "mara")
    assert "coder was already paused." in post(browser, agent, "pause")
    assert "coder is resumed." in post(browser, agent, "resume")
    assert "coder was not paused." in post(browser, agent, "resume")
    agent.refresh_from_db()
    assert not agent.paused
    assert Event.objects.filter(kind__startswith="agent.").count() == 3  # with its registration


def test_a_pause_can_be_undone_where_it_changed_something(browser: Client, agent: Agent) -> None:
    path = f"{URL}{agent.pk}/"
    undo = 'class="toast__more"> <form method="post" action="{}{}/"'.format
    paused = browser.post(f"{path}pause/", follow=True)
    assert undo(path, "resume") in html(paused)
    assert 'class="toast__more"' not in html(browser.post(f"{path}pause/", follow=True))
    assert undo(path, "pause") in html(browser.post(f"{path}resume/", follow=True))


def test_trip_asks_first_and_records_the_reason(browser: Client, agent: Agent, mara: User) -> None:
    asked = post(browser, agent, "trip")
    assert "Trip the breaker for coder ? coder gets no tasks for 1 m" in asked
    assert not Breaker.objects.exists()
    said = post(browser, agent, "trip", confirmed="yes", reason=" It writes\0 <nonsense> ")
    assert "The breaker for coder is open." in said
    assert "It writes <nonsense>" in html(browser.get(URL))
    row = Breaker.objects.get()
    assert (row.state, row.reason) == (BreakerState.OPEN, "It writes <nonsense>")
    event = Event.objects.get(kind=Kind.AGENT_BREAKER_OPENED)
    assert (event.actor_type, event.actor_name) == ("user", "mara")
    assert "The breaker for coder was already open." in post(
        browser, agent, "trip", confirmed="yes"
    )
    assert "&lt;nonsense" in browser.get(URL).content.decode()


def test_a_person_has_an_open_breaker_probed_at_once(
    browser: Client, agent: Agent, mara: User, now: datetime
) -> None:
    assert "The breaker for coder is not open." in post(browser, agent, "probe")
    breaker_actions.trip([agent], reason="Look", stamp=Stamp(SYSTEM, now))
    first, second = enqueued(agent, now=now), enqueued(agent, now=now)
    caller = TrustedCaller(SYSTEM, agent=agent)
    assert claims.claim(caller, now=now).reason == "breaker_open"
    assert "The next task of coder is the probe." in post(browser, agent, "probe")
    assert Breaker.objects.get().state == BreakerState.HALF_OPEN
    assert Event.objects.get(kind=Kind.AGENT_BREAKER_HALF_OPEN).actor_name == "mara"
    found = claims.claim(caller, worker_id="w1", now=now)
    assert found.rows[0]["id"] in (first, second)
    assert claims.claim(caller, worker_id="w2", now=now).reason == "breaker_open"  # one at a time


def test_keep_open_asks_first_and_shows_who_decides(
    browser: Client, agent: Agent, mara: User, now: datetime
) -> None:
    assert "is closed. Trip it" in post(browser, agent, "keep-open", confirmed="yes")
    breaker_actions.trip([agent], reason="Look", stamp=Stamp(SYSTEM, now - timedelta(hours=1)))
    asked = post(browser, agent, "keep-open")
    assert "Keep the breaker open for coder ? coder gets no tasks and no probe" in asked
    said = post(browser, agent, "keep-open", confirmed="yes", reason=" No <key>\0 ")
    assert "The breaker for coder stays open until you close or probe it." in said
    assert "Open kept open since" in said
    assert "half open in" not in said and "half open at" not in said
    assert "Set coder’s breaker to stay open: No" in words(browser.get("/activity/"))
    row = words(browser.get(URL))
    assert "Open kept open Gets no work" in row and "Keep it open…" not in row
    assert "kept open" in words(browser.get("/"))
    assert "already kept open" in post(browser, agent, "keep-open", confirmed="yes")
    assert "The next task of coder is the probe." in post(browser, agent, "probe")
    assert Breaker.objects.get().kept_open_at is None


def test_close_asks_first_and_requeues_held_tasks(
    browser: Client, agent: Agent, mara: User, now: datetime
) -> None:
    breaker_actions.trip([agent], reason="Look", stamp=Stamp(SYSTEM, now))
    held = enqueued(agent, now=now)
    claims.claim(TrustedCaller(SYSTEM, agent=agent), task=held, worker_id="w1", now=now)
    asked = post(browser, agent, "close")
    assert "Close the breaker for coder ?" in asked
    assert "1 held task returns to the queue within seconds" in asked
    assert Breaker.objects.get().state == BreakerState.OPEN
    assert "The breaker for coder is closed." in post(browser, agent, "close", confirmed="yes")
    row = Breaker.objects.get()
    assert (row.state, row.failures) == (BreakerState.CLOSED, 0)
    assert Event.objects.get(kind=Kind.AGENT_BREAKER_CLOSED).actor_name == "mara"
    assert "The breaker for coder was already closed." in post(
        browser, agent, "close", confirmed="yes"
    )
    leases.half_open_breakers(now=timezone.now())
    assert "Queued 1 Retry 0 Held 0" in words(browser.get(f"{URL}{agent.pk}/"))


def test_a_question_is_not_asked_if_its_action_is_not_allowed(
    browser: Client, agent: Agent
) -> None:
    assert 'id="asked"' not in html(browser.get(f"{URL}{agent.pk}/", {"ask": "close"}))
    breaker_actions.trip([agent], reason="", stamp=Stamp(MARA))
    assert 'id="asked"' not in html(browser.get(f"{URL}{agent.pk}/", {"ask": "trip"}))
    assert 'id="asked"' in html(browser.get(f"{URL}{agent.pk}/", {"ask": "close"}))


def test_reset_asks_first_and_cancels_pending_instructions(
    browser: Client, agent: Agent, mara: User, now: datetime
) -> None:
    kept = send(agent, "Done already", now=now)
    instructions.acknowledge_instruction(kept, now=now)
    waits = [send(agent, f"Wait {number}", now=now) for number in range(2)]
    pull(agent, now=now, limit=1)
    asked = post(browser, agent, "reset")
    assert (
        "Cancel all pending instructions for coder ? This cancels 2 instructions : everything waiting for coder or for its"
        " acknowledgment." in asked
    )
    assert not Event.objects.filter(kind=Kind.AGENT_RESET).exists()
    assert "Cancelled 2 instructions for coder." in post(browser, agent, "reset", confirmed="yes")
    states = Instruction.objects.in_bulk([kept, *waits])
    assert states[kept].state == InstructionState.ACKNOWLEDGED
    assert {states[id].state for id in waits} == {InstructionState.CANCELLED}
    event = Event.objects.get(kind=Kind.AGENT_RESET)
    assert (event.actor_name, event.data) == ("mara", {"cancelled": 2})
    assert "Nothing was waiting for coder." in post(browser, agent, "reset", confirmed="yes")


def test_an_action_returns_to_the_page_of_its_button(browser: Client, agent: Agent) -> None:
    def after(**more: str) -> str:
        return str(browser.post(f"{URL}{agent.pk}/pause/", more)["Location"])

    assert after(next="/agents/?show=paused") == "/agents/?show=paused"
    for elsewhere in ("", "https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        assert after(next=elsewhere) == f"{URL}{agent.pk}/"


def test_slots_are_set_on_the_page(browser: Client, agent: Agent) -> None:
    assert 'placeholder="no limit"' in html(browser.get(f"{URL}{agent.pk}/"))
    assert "The slots of coder are set." in post(browser, agent, "limit", concurrency="3")
    agent.refresh_from_db()
    assert agent.concurrency == 3
    assert "0 of 3 running" in words(browser.get(f"{URL}{agent.pk}/"))
    assert "coder has this limit already." in post(browser, agent, "limit", concurrency="3")
    assert "Nothing changed." in post(browser, agent, "limit", concurrency="many")
    post(browser, agent, "limit", concurrency="")
    agent.refresh_from_db()
    assert agent.concurrency is None
