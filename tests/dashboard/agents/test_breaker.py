"""The breaker on the Agents pages."""

import re
from datetime import datetime

from django.test import Client
from pytest_django import Settings

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Attempt, Breaker
from ledger.tokens import TrustedCaller
from retries import breaker, breaker_actions, claims, in_process
from tests.dashboard.agents.conftest import URL, names, row_of
from tests.dashboard.seen import html, words
from tests.dashboard.worked import MARA, SECOND, claimed, enqueued, failed


def fail_in_a_row(agent: Agent, times: int, *, now: datetime) -> None:
    for _ in range(times):
        failed(agent, enqueued(agent, now=now), now=now)


def test_an_agent_without_failures_has_a_closed_breaker(browser: Client, agent: Agent) -> None:
    page = html(browser.get(f"{URL}{agent.pk}/"))
    assert 'class="machine machine--closed"' in page
    assert 'class="machine' not in html(browser.get(URL))  # the diagram stands here only
    assert "The breaker is closed: 0 of 5 consecutive failures." in page
    assert "Trip breaker…" in page and "Close breaker…" not in page
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert "Opens for 1 m after 5 consecutive failures. It has never opened." in text
    assert not Breaker.objects.exists()


def test_consecutive_failures_are_counted(browser: Client, agent: Agent, now: datetime) -> None:
    fail_in_a_row(agent, 2, now=now)
    assert "Closed 2 of 5 failures" in row_of(browser.get(URL), agent)
    page = html(browser.get(f"{URL}{agent.pk}/"))
    assert ">2 of 5 failures</text>" in page
    assert (
        'aria-label="2 of 5 consecutive failures"' in page and page.count('<i class="on"></i>') == 2
    )


def test_a_high_threshold_is_shown_as_a_number(
    browser: Client, agent: Agent, now: datetime, settings: Settings
) -> None:
    settings.TENFOUR = settings.TENFOUR | {"BREAKER_FAILURES": 40}
    fail_in_a_row(agent, 1, now=now)
    assert "Failures 1 of 40" in words(browser.get(f"{URL}{agent.pk}/"))


def test_an_open_breaker_shows_its_reason_countdown_and_held_tasks(
    browser: Client, agent: Agent, now: datetime
) -> None:
    fail_in_a_row(agent, 5, now=now - 32 * SECOND)
    held = [enqueued(agent, f"Part {number}", now=now) for number in range(2)]
    for id in held:
        claims.claim(TrustedCaller(SYSTEM, agent=agent), task=id, worker_id="w1", now=now)
    response = browser.get(URL)
    line = row_of(response, agent)
    assert re.search(r"Open half open in 3\d s Gets no work", line) and "Probe now" in line
    page = html(response)
    assert "5 consecutive failures, the last with execution error" in page
    assert "<title>1 open · Agents · Tenfour</title>" in page
    cool = re.search(r'data-cool="(\d+)" data-of="60"', page)
    assert cool and 30 <= int(cool[1]) <= 38
    assert "Close breaker…" in page and "Trip breaker…" not in page
    assert names(browser.get(URL, {"q": "state:tripped"})) == ["coder"]
    one = browser.get(f"{URL}{agent.pk}/")
    assert re.search(r'half open in <b data-countdown="3\d">3\d s</b>', html(one))
    assert 'href="/tasks/?q=agent%3Acoder+reason%3Abreaker_open"' in html(one)
    assert "2 tasks are held until the breaker is no longer open" in words(one)
    assert "1 time so far" in words(one)
    tasks = browser.get("/tasks/", {"q": "agent:coder reason:breaker_open"})
    assert "Part 0" in words(tasks) and "Part 1" in words(tasks)


def test_an_overdue_breaker_becomes_half_open_at_the_next_claim(
    browser: Client, agent: Agent, now: datetime
) -> None:
    breaker_actions.trip([agent], reason="", stamp=Stamp(MARA, now - 70 * SECOND))
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert "half open at the next claim" in text and "Opened manually" in text
    assert 'data-cool="0"' in html(browser.get(URL))


def test_a_half_open_breaker_shows_its_probe(browser: Client, agent: Agent, now: datetime) -> None:
    fail_in_a_row(agent, 5, now=now - 200 * SECOND)
    assert breaker.half_open_due(stamp=Stamp(SYSTEM, now - 120 * SECOND))
    response = browser.get(URL)
    assert "Half open probe is next" in row_of(response, agent)
    assert "Trip breaker…" in html(response) and "Close breaker…" in html(response)
    task = enqueued(agent, "Try the parser", now=now - 90 * SECOND)
    attempt = claimed(agent, task, now=now - 90 * SECOND)
    assert "Half open probe runs Try the parser" in row_of(browser.get(URL), agent)
    response = browser.get(f"{URL}{agent.pk}/")
    assert "Probe: Try the parser , running for 1 m" in words(response)
    assert f'href="/tasks/{task}/"' in html(response)
    assert "A probe is running." in html(response)
    in_process.report_success(attempt, {}, stamp=Stamp(SYSTEM, now - 30 * SECOND))
    assert Attempt.objects.get(pk=attempt).outcome
    assert "Half open 1 of 2 probes" in row_of(browser.get(URL), agent)
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert "1 of 2 passed" in text and "The next task is the probe" in text


def test_an_ended_probe_is_not_shown(browser: Client, agent: Agent, now: datetime) -> None:
    """A breaker does not hear of a release or of an abort."""
    breaker_actions.trip([agent], reason="Look", stamp=Stamp(MARA, now - 100 * SECOND))
    attempt = claimed(agent, enqueued(agent, now=now), now=now)
    breaker.take_probe(agent.pk, attempt, now=now)
    one = f"{URL}{agent.pk}/"
    assert "A probe is running." in html(browser.get(one))
    Attempt.objects.filter(pk=attempt).update(outcome="released", ended_at=now)
    assert "It is waiting for a probe." in html(browser.get(one))


def test_a_probe_without_a_task(browser: Client, agent: Agent, now: datetime) -> None:
    breaker_actions.trip([agent], reason="Look", stamp=Stamp(MARA, now - 100 * SECOND))
    breaker.half_open_due(stamp=Stamp(SYSTEM, now))
    breaker.take_probe(agent.pk, agent.pk, now=now)  # a ticket, of which there is no attempt
    assert "Probe: a call without a task" in words(browser.get(f"{URL}{agent.pk}/"))
