"""The Agents pages: who asks, who may work, what waits for whom; and what a person can do."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dashboard import live_updates
from dashboard.agents import queries as agent_queries
from ledger import instructions, tokens
from ledger.journal import SYSTEM, Kind
from ledger.models import Agent, Attempt, Breaker, Event, Instruction
from ledger.states import BreakerState, InstructionState, TaskState
from ledger.tokens import TrustedCaller
from retries import breaker, claims, in_process
from retries.attempts import leases
from tests.dashboard.conftest import PART
from tests.dashboard.seen import Part, html, key, words
from tests.dashboard.worked import MARA, SECOND, claimed, enqueued, failed, make_task
from tests.factories import make_agent, make_project, make_token, pull, send, tick

URL = "/agents/"
QUESTIONS = ("", "?ask=reset", "?ask=trip", "?ask=close", "?ask=nonsense")
HOSTILE = "<script>alert(1)</script>\u202e &amp;"


def names(response: HttpResponse) -> list[str]:
    """The agents in the list."""
    found = re.findall(r'<li id="agent-.*?<bdi class="trunc">(.*?)</bdi>', html(response))
    return [unescape(name) for name in found]


def seen(agent: Agent, at: datetime | None) -> None:
    Agent.objects.filter(pk=agent.pk).update(last_seen_at=at)


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "BUCKET_SECONDS", 10**9)


@pytest.fixture
def four(now: datetime, project: object) -> dict[str, Agent]:
    """One that asks, one that is silent, one that is paused, one that never asked."""
    made = {name: make_agent(name) for name in ("asks", "silent", "paused", "new")}
    seen(made["asks"], now - timedelta(seconds=8))
    seen(made["silent"], now - timedelta(hours=2))
    seen(made["paused"], now - timedelta(hours=3))
    Agent.objects.filter(pk=made["paused"].pk).update(paused=True)
    for number in range(2):
        send(made["silent"], f"Wake up {number}", now=now - timedelta(hours=1))
    send(made["asks"], "Go on", now=now - timedelta(minutes=2))
    pull(made["asks"], now=now - timedelta(seconds=8))
    return made


# ---- the list


def test_each_agent_has_its_line(browser: Client, four: dict[str, Agent]) -> None:
    response = browser.get(URL)
    assert names(response) == ["silent", "asks", "new", "paused"]
    text = words(response)
    assert "Silent has not checked in for 2 h; 2 waiting" in text
    assert re.search(r"In touch checked in \d+ s ago", text)
    assert "New never checked in" in text
    assert "Away Paused checked in 3 h ago" in text
    assert "<title>1 silent · Agents · Tenfour</title>" in html(response)
    assert re.search(r"All 4 Silent 1 Tripped 0 Paused 1 Waiting 2 ", text)
    assert "no check-in for 5 m while instructions wait" in text


def test_what_waits_is_told_apart(browser: Client, four: dict[str, Agent]) -> None:
    line = html(browser.get(URL))
    silent = line[line.index(f'id="agent-{four["silent"].pk}"') :]
    assert 'href="/instructions/?q=agent%3Asilent+state%3Aqueued" >2</a>' in silent
    asks = line[line.index(f'id="agent-{four["asks"].pk}"') :]
    assert re.search(r"Waiting</dt> <dd> 0 </dd>", asks)
    assert 'href="/instructions/?q=agent%3Aasks+state%3Adelivered" >1</a>' in asks


def test_the_last_day_in_figures(browser: Client, agent: Agent, now: datetime) -> None:
    at = now - timedelta(hours=1)
    for number in range(3):
        id = send(agent, f"Do {number}", now=at)
        pull(agent, now=at)
        instructions.acknowledge_instruction(id, now=at + timedelta(seconds=10))
    send(agent, "Ignored", now=at, max_retries=0)
    pull(agent, now=at)
    tick(at + timedelta(minutes=1))
    text = words(browser.get(URL))
    assert "Ack p50 10 s Ack p95 10 s Ignored 25.0%" in text
    assert "4 sent" in text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"show": "silent"}, ["silent"]),
        ({"show": "paused"}, ["paused"]),
        ({"show": "waiting"}, ["silent", "asks"]),
        ({"show": "tripped"}, []),
        ({"show": "nonsense"}, ["silent", "asks", "new", "paused"]),
        ({"name": "SI"}, ["silent"]),
        ({"name": "s", "show": "paused"}, ["paused"]),
        ({"name": "%"}, []),
        ({"name": "a\0s"}, []),
        ({"before": "nonsense", "after": "1"}, ["silent", "asks", "new", "paused"]),
    ],
)
def test_filters_stand_in_the_address(
    browser: Client, four: dict[str, Agent], query: dict[str, str], found: list[str]
) -> None:
    assert names(browser.get(URL, query)) == found


def test_nothing_there_and_nothing_found_are_told_apart(
    browser: Client, project: object, now: datetime
) -> None:
    assert "No agents yet" in words(browser.get(URL))
    make_agent("coder")
    assert "No agent has nobody in its name" in words(browser.get(URL, {"name": "nobody"}))
    assert "Every agent with waiting instructions has checked in recently" in words(
        browser.get(URL, {"show": "silent"})
    )
    assert "Every agent’s breaker is closed" in words(browser.get(URL, {"show": "tripped"}))
    assert "No agent is paused" in words(browser.get(URL, {"show": "paused"}))
    assert "No agent has waiting instructions" in words(browser.get(URL, {"show": "waiting"}))


def test_pages_go_both_ways(
    browser: Client, project: object, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_queries, "PAGE", 3)
    agents = [make_agent(f"a{number}") for number in range(8)]
    for agent in agents[6:]:  # silent: they come first
        send(agent, "Wait", now=now - timedelta(hours=1))
    order = ["a6", "a7", "a0", "a1", "a2", "a3", "a4", "a5"]
    pages, response = [], browser.get(URL)
    for _ in range(5):
        pages.append(names(response))
        older = re.search(r'href="\?after=([0-9a-f-]+)" data-key="]"', html(response))
        if not older:
            break
        response = browser.get(URL, {"after": older[1]})
    assert pages == [order[:3], order[3:6], order[6:]]
    back = re.search(r'href="\?before=([0-9a-f-]+)" data-key="\["', html(response))
    assert back
    response = browser.get(URL, {"before": back[1]})
    assert names(response) == order[3:6]
    back = re.search(r'href="\?before=([0-9a-f-]+)" data-key="\["', html(response))
    assert back
    assert names(browser.get(URL, {"before": back[1]})) == order[:3]


def test_a_project_has_its_own_agents(browser: Client, agent: Agent) -> None:
    other = make_agent("elsewhere", project=make_project("other"))
    assert names(browser.get(URL)) == ["coder", "elsewhere"]
    response = browser.get(URL, {"project": "other"})
    assert names(response) == ["elsewhere"]
    assert f'/agents/{other.pk}/?project=other"' in html(response)
    assert browser.get(URL, {"project": "nowhere"}).status_code == 404


# ---- page, part, polls


def test_page_part_and_poll(browser: Client, part: Part, agent: Agent, now: datetime) -> None:
    page = browser.get(URL)
    assert html(page).startswith("<!doctype html>")
    live = html(part(URL))
    assert "<html" not in live and '<div id="agents"' in live and live.count("hx-swap-oob") == 2
    assert part(URL, since=key(page)).status_code == 204
    send(agent, "News", now=now)
    assert part(URL, since=key(page)).status_code == 200
    one = f"{URL}{agent.pk}/"
    shown = browser.get(one)
    assert part(one, since=key(shown)).status_code == 204
    send(agent, "More news", now=now + timedelta(seconds=1))
    assert part(one, since=key(shown)).status_code == 200


@pytest.mark.parametrize("path", [URL, "{one}"])
def test_the_number_of_rows_costs_no_statement(
    browser: Client, statements: Callable[..., int], agent: Agent, now: datetime, path: str
) -> None:
    path = path.format(one=f"{URL}{agent.pk}/")

    def more(count: int) -> None:
        for number in range(count):
            other = make_agent(f"agent {Agent.objects.count()}")
            make_token("agent", agent=agent)
            for each in (agent, other):
                send(each, f"{each.name} {number} {Instruction.objects.count()}", now=now)
                enqueued(each, now=now)
            breaker.trip([other], reason="Out of order", actor=SYSTEM, now=now)
        pull(agent, now=now)

    more(2)
    few = statements(browser, path)
    more(15)
    assert statements(browser, path) == few <= 15
    assert statements(browser, path, {"since": key(browser.get(path))}, headers=PART) <= 5


# ---- one agent


def test_one_agent(browser: Client, agent: Agent, now: datetime) -> None:
    seen(agent, now - timedelta(minutes=20))
    at = now - timedelta(minutes=10)
    secret = make_token("agent", agent=agent, name="laptop")
    id = send(agent, "Rebase on main", now=at)
    pull(agent, now=at)
    instructions.acknowledge_instruction(id, now=at + timedelta(seconds=4))
    send(agent, "Ignored", now=at, max_retries=0)
    pull(agent, now=at)
    tick(at + timedelta(minutes=1))
    response = browser.get(f"{URL}{agent.pk}/")
    text = words(response)
    assert "Away checked in 20 m ago" in text
    assert "1 ignored all for coder" in text  # the ladder
    assert "coder acknowledged “ Rebase on main ” in 4.0 s" in text.replace("tenfour", "coder")
    assert f'href="/instructions/{id}/"' in html(response)
    assert "laptop Last used never" in text and f"{secret[:9]}" in text
    assert secret not in html(response)
    assert "<title>coder · Agent · Tenfour</title>" in html(response)


def test_revoked_and_expired_tokens_say_so(browser: Client, agent: Agent, now: datetime) -> None:
    for name in ("old", "gone"):
        token, _ = tokens.issue(
            "agent", project=agent.project, agent=agent, name=name, actor=SYSTEM
        )
        if name == "gone":
            tokens.revoke(token, actor=SYSTEM)
        else:
            type(token).objects.filter(pk=token.pk).update(expires_at=now - timedelta(days=1))
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert "old expired" in text and "gone revoked" in text


def test_an_agent_of_which_nothing_is_known(browser: Client, agent: Agent) -> None:
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert "No token." in text and "New never checked in" in text
    assert browser.get(f"{URL}{agent.project_id}/").status_code == 404


@pytest.mark.parametrize("path", [URL, "{one}", "/", "/activity/"])
def test_hostile_names_stay_text(
    browser: Client, project: object, now: datetime, path: str
) -> None:
    hostile = make_agent(HOSTILE.replace("\u202e", ""))  # which no name has
    send(hostile, HOSTILE, now=now - timedelta(hours=1))
    response = browser.get(path.format(one=f"{URL}{hostile.pk}/"))
    raw = response.content.decode()
    assert "<script>alert" not in raw and "&lt;script&gt;alert" in raw
    assert "&amp;amp;" in raw


def test_a_pasted_id_lands_on_the_agent(browser: Client, agent: Agent) -> None:
    assert browser.get("/search/", {"q": str(agent.pk)})["Location"] == f"{URL}{agent.pk}/"


# ---- the breaker


def line_of(response: HttpResponse, agent: Agent) -> str:
    """The agent's line in the list."""
    found = re.search(rf'<li id="agent-{agent.pk}".*?</li>', html(response))
    assert found
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[0]))


def fail_in_a_row(agent: Agent, times: int, *, now: datetime) -> None:
    for _ in range(times):
        failed(agent, enqueued(agent, now=now), now=now)


def test_an_agent_that_never_failed_has_a_closed_breaker(browser: Client, agent: Agent) -> None:
    page = html(browser.get(URL))
    assert 'class="machine machine--closed"' in page
    assert "The breaker is closed: 0 of 5 consecutive failures." in page
    assert "Trip breaker…" in page and "Close breaker…" not in page
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert "Opens for 1 m after 5 consecutive failures. It has never opened." in text
    assert not Breaker.objects.exists()


def test_failures_in_a_row_are_counted(browser: Client, agent: Agent, now: datetime) -> None:
    fail_in_a_row(agent, 2, now=now)
    page = html(browser.get(URL))
    assert ">2 of 5 failures</text>" in page
    assert (
        'aria-label="2 of 5 consecutive failures"' in page and page.count('<i class="on"></i>') == 2
    )


def test_more_failures_than_dots_are_a_number(
    browser: Client, agent: Agent, now: datetime, settings: Settings
) -> None:
    settings.TENFOUR = settings.TENFOUR | {"BREAKER_FAILURES": 40}
    fail_in_a_row(agent, 1, now=now)
    assert "Failures 1 of 40" in words(browser.get(URL))


def test_an_open_breaker_says_why_until_when_and_what_it_holds(
    browser: Client, agent: Agent, now: datetime
) -> None:
    fail_in_a_row(agent, 5, now=now - 32 * SECOND)
    held = [enqueued(agent, f"Part {number}", now=now) for number in range(2)]
    for id in held:
        claims.claim(TrustedCaller(SYSTEM, agent=agent), task=id, worker_id="w1", now=now)
    response = browser.get(URL)
    line = line_of(response, agent)
    assert "5 consecutive failures, the last with execution error" in line
    assert "2 tasks are held" in line and "Held 2" in line
    page = html(response)
    assert "<title>1 open · Agents · Tenfour</title>" in page
    assert 'href="/tasks/?q=agent%3Acoder+reason%3Abreaker_open"' in page
    cool = re.search(r'data-cool="(\d+)" data-of="60"', page)
    assert cool and 30 <= int(cool[1]) <= 38
    assert "Close breaker…" in page and "Trip breaker…" not in page
    assert names(browser.get(URL, {"show": "tripped"})) == ["coder"]
    one = browser.get(f"{URL}{agent.pk}/")
    assert re.search(r'half open in <b data-countdown="3\d">3\d s</b>', html(one))
    assert "2 tasks are held until the breaker is no longer open" in words(one)
    assert "1 time so far" in words(one)
    tasks = browser.get("/tasks/", {"q": "agent:coder reason:breaker_open"})
    assert "Part 0" in words(tasks) and "Part 1" in words(tasks)


def test_a_breaker_whose_time_has_passed_says_what_comes(
    browser: Client, agent: Agent, now: datetime
) -> None:
    breaker.trip([agent], reason="", actor=MARA, now=now - 70 * SECOND)
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert "half open at the next claim" in text and "Opened manually" in text
    assert 'data-cool="0"' in html(browser.get(URL))


def test_a_half_open_breaker_shows_its_probe(browser: Client, agent: Agent, now: datetime) -> None:
    fail_in_a_row(agent, 5, now=now - 200 * SECOND)
    assert breaker.half_open_due(now=now - 120 * SECOND)
    response = browser.get(URL)
    assert "The next task is the probe" in line_of(response, agent)
    assert "Trip breaker…" in html(response) and "Close breaker…" in html(response)
    task = enqueued(agent, "Try the parser", now=now - 90 * SECOND)
    attempt = claimed(agent, task, now=now - 90 * SECOND)
    response = browser.get(URL)
    assert "Probe: Try the parser , running for 1 m" in line_of(response, agent)
    assert f'href="/tasks/{task}/"' in html(response)
    assert "A probe is running." in html(response)
    in_process.report_success(attempt, {}, now=now - 30 * SECOND)
    assert Attempt.objects.get(pk=attempt).outcome
    line = line_of(browser.get(URL), agent)
    assert "1 of 2 passed" in line and "The next task is the probe" in line


def test_an_ended_probe_holds_the_place_no_longer(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Whatever ended it: a breaker is told of neither a release nor a person's abort."""
    breaker.trip([agent], reason="Look", actor=MARA, now=now - 100 * SECOND)
    attempt = claimed(agent, enqueued(agent, now=now), now=now)
    breaker.take_probe(agent.pk, attempt, now=now)
    assert "A probe is running." in html(browser.get(URL))
    Attempt.objects.filter(pk=attempt).update(outcome="released", ended_at=now)
    assert "It is waiting for a probe." in html(browser.get(URL))


def test_a_probe_without_a_task_is_told_as_one(
    browser: Client, agent: Agent, now: datetime
) -> None:
    breaker.trip([agent], reason="Look", actor=MARA, now=now - 100 * SECOND)
    breaker.half_open_due(now=now)
    breaker.take_probe(agent.pk, agent.pk, now=now)  # a ticket, of which there is no attempt
    assert "Probe: a call without a task" in line_of(browser.get(URL), agent)


def test_what_an_agent_works_on_is_counted(browser: Client, agent: Agent, now: datetime) -> None:
    for state, times in ((TaskState.RETRY, 3), (TaskState.RUNNING, 2), (TaskState.QUEUED, 1)):
        for _ in range(times):
            make_task(state, agent=agent, now=now, why={"type": "verification_failed"})
    assert "Running 2 Queued 1 Retry 3 Held 0" in line_of(browser.get(URL), agent)
    page = html(browser.get(URL))
    for state in ("running", "queued", "retry"):
        assert f'href="/tasks/?q=agent%3Acoder+state%3A{state}"' in page


# ---- what a person does


def done(browser: Client, agent: Agent, verb: str, **more: Any) -> str:
    """What the page says after a verb, to somebody without a script."""
    response = browser.post(f"{URL}{agent.pk}/{verb}/", more, follow=True)
    return words(response)


def test_pausing_and_going_on_are_journalled_with_the_person(
    browser: Client, agent: Agent, mara: User
) -> None:
    assert "coder is paused." in done(browser, agent, "pause")
    agent.refresh_from_db()
    assert agent.paused
    event = Event.objects.get(kind=Kind.AGENT_PAUSED)
    assert (event.actor_type, event.actor_id, event.actor_name) == ("user", str(mara.pk), "mara")
    assert "coder was already paused." in done(browser, agent, "pause")
    assert "coder is resumed." in done(browser, agent, "resume")
    assert "coder was not paused." in done(browser, agent, "resume")
    agent.refresh_from_db()
    assert not agent.paused
    assert Event.objects.filter(kind__startswith="agent.").count() == 3  # with its registration


def test_tripping_asks_first_and_is_journalled_with_the_reason(
    browser: Client, agent: Agent, mara: User
) -> None:
    asked = done(browser, agent, "trip")
    assert "Trip the breaker for coder ? coder gets no tasks for 1 m" in asked
    assert not Breaker.objects.exists()
    said = done(browser, agent, "trip", confirmed="yes", reason=" It writes\0 <nonsense> ")
    assert "The breaker for coder is open." in said
    assert "It writes <nonsense>" in html(browser.get(URL))
    row = Breaker.objects.get()
    assert (row.state, row.reason) == (BreakerState.OPEN, "It writes <nonsense>")
    event = Event.objects.get(kind=Kind.AGENT_BREAKER_OPENED)
    assert (event.actor_type, event.actor_name) == ("user", "mara")
    assert "The breaker for coder was already open." in done(
        browser, agent, "trip", confirmed="yes"
    )
    assert "&lt;nonsense" in browser.get(URL).content.decode()


def test_closing_asks_first_and_gives_the_held_tasks_back(
    browser: Client, agent: Agent, mara: User, now: datetime
) -> None:
    breaker.trip([agent], reason="Look", actor=SYSTEM, now=now)
    held = enqueued(agent, now=now)
    claims.claim(TrustedCaller(SYSTEM, agent=agent), task=held, worker_id="w1", now=now)
    asked = done(browser, agent, "close")
    assert "Close the breaker for coder ?" in asked
    assert "1 held task returns to the queue within seconds" in asked
    assert Breaker.objects.get().state == BreakerState.OPEN
    assert "The breaker for coder is closed." in done(browser, agent, "close", confirmed="yes")
    row = Breaker.objects.get()
    assert (row.state, row.failures) == (BreakerState.CLOSED, 0)
    assert Event.objects.get(kind=Kind.AGENT_BREAKER_CLOSED).actor_name == "mara"
    assert "The breaker for coder was already closed." in done(
        browser, agent, "close", confirmed="yes"
    )
    leases.half_open_breakers(now=timezone.now())
    assert "Queued 1 Retry 0 Held 0" in line_of(browser.get(URL), agent)


def test_a_question_that_no_longer_fits_is_not_asked(browser: Client, agent: Agent) -> None:
    assert 'id="asked"' not in html(browser.get(f"{URL}{agent.pk}/", {"ask": "close"}))
    breaker.trip([agent], reason="", actor=MARA)
    assert 'id="asked"' not in html(browser.get(f"{URL}{agent.pk}/", {"ask": "trip"}))
    assert 'id="asked"' in html(browser.get(f"{URL}{agent.pk}/", {"ask": "close"}))


def test_reset_asks_first_and_then_withdraws_what_waits(
    browser: Client, agent: Agent, mara: User, now: datetime
) -> None:
    kept = send(agent, "Done already", now=now)
    instructions.acknowledge_instruction(kept, now=now)
    waits = [send(agent, f"Wait {number}", now=now) for number in range(2)]
    pull(agent, now=now, limit=1)
    asked = done(browser, agent, "reset")
    assert (
        "Cancel all pending instructions for coder ? This cancels 2 instructions : everything waiting for coder or for its"
        " acknowledgment." in asked
    )
    assert not Event.objects.filter(kind=Kind.AGENT_RESET).exists()
    assert "Cancelled 2 instructions for coder." in done(browser, agent, "reset", confirmed="yes")
    states = Instruction.objects.in_bulk([kept, *waits])
    assert states[kept].state == InstructionState.ACKNOWLEDGED
    assert {states[id].state for id in waits} == {InstructionState.CANCELLED}
    event = Event.objects.get(kind=Kind.AGENT_RESET)
    assert (event.actor_name, event.data) == ("mara", {"cancelled": 2})
    assert "Nothing was waiting for coder." in done(browser, agent, "reset", confirmed="yes")


def test_a_verb_leads_back_to_where_its_button_stood(browser: Client, agent: Agent) -> None:
    def after(**more: str) -> str:
        return str(browser.post(f"{URL}{agent.pk}/pause/", more)["Location"])

    assert after(next="/agents/?show=paused") == "/agents/?show=paused"
    for elsewhere in ("", "https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        assert after(next=elsewhere) == f"{URL}{agent.pk}/"


def test_looking_changes_nothing(browser: Client, agent: Agent, mara: User, now: datetime) -> None:
    send(agent, "Wait", now=now)
    events = Event.objects.count()
    for path in ("", "?show=silent", "?show=tripped", *(f"{agent.pk}/{q}" for q in QUESTIONS)):
        assert browser.get(URL + path).status_code == 200
    for verb in ("pause", "resume", "trip", "close", "reset"):
        assert browser.get(f"{URL}{agent.pk}/{verb}/").status_code == 405
    assert browser.post(URL).status_code == 405
    assert browser.post(f"{URL}{agent.pk}/explode/").status_code == 404
    assert browser.post(f"{URL}{agent.project_id}/pause/").status_code == 404
    assert Event.objects.count() == events
    assert not Breaker.objects.exists()


def test_strangers_see_and_do_nothing(agent: Agent, mara: User) -> None:
    stranger = Client()
    stranger.force_login(User.objects.create_user("visitor"))
    for path in (URL, f"{URL}{agent.pk}/"):
        assert stranger.get(path)["Location"].startswith("/sign-in/")
        assert stranger.get(path, headers=PART).status_code == 401
    for verb in ("pause", "trip", "close", "reset"):
        response = stranger.post(f"{URL}{agent.pk}/{verb}/", {"confirmed": "yes"})
        assert response["Location"].startswith("/sign-in/")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(mara)
    assert strict.post(f"{URL}{agent.pk}/pause/").status_code == 403
    agent.refresh_from_db()
    assert not agent.paused and not Event.objects.filter(kind=Kind.AGENT_RESET).exists()
    assert not Breaker.objects.exists()


def test_the_id_floor_finds_what_was_sent_in_the_window(project: object, now: datetime) -> None:
    """Figures read instructions by the time in their ids."""
    with connection.cursor() as cursor:
        cursor.execute("select uuidv7('-1 hour'::interval), clock_timestamp() - interval '1 hour'")
        id, at = cursor.fetchone()
    from dashboard.activity.queries import first_id

    assert (
        first_id(at - timedelta(milliseconds=50)) < id < first_id(at + timedelta(milliseconds=50))
    )
    assert first_id(datetime(1960, 1, 1, tzinfo=timezone.get_default_timezone())).int >= 0
