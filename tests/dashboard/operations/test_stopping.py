"""Stop an agent and hand over its work: what the page counts, does, and undoes."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from dashboard.agents import queries
from dashboard.agents.targets import list_targets
from dashboard.sentences.agent_events import describe_agent_event
from dashboard.sentences.event_sentence import EventSubject
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Instruction, Project, Task
from ledger.tokens import TrustedCaller
from retries import breaker_actions, claims
from retries.models import Operation
from tests.dashboard.agents.conftest import URL
from tests.dashboard.seen import html, words
from tests.dashboard.worked import claimed, enqueued, make_task
from tests.factories import make_agent, make_project, pull, send
from tests.retries.operations.worlds import run
from tests.waiting import wait_until

ALL = dict.fromkeys(("pause", "abort", "tasks", "instructions"), "yes")


@pytest.fixture
def now() -> datetime:
    return timezone.now() - timedelta(seconds=2)


def check_in(agent: Agent, at: datetime) -> None:
    Agent.objects.filter(pk=agent.pk).update(last_seen_at=at)


@pytest.fixture
def tester(db: None, now: datetime) -> Agent:
    made = make_agent("tester")
    check_in(made, now)
    return made


@pytest.fixture
def busy(agent: Agent, now: datetime) -> dict[str, UUID]:
    """Return an agent's work by its state, with one instruction that it has not received."""
    pull(agent, now=now)
    made = {"running": enqueued(agent, "Part running", now=now)}
    claimed(agent, made["running"], now=now)
    for state in ("queued", "retry", "blocked"):
        made[state] = make_task(state, f"Part {state}", agent=agent, now=now).pk
    send(agent, "Use the test database", now=now)
    return made


def path(agent: Agent) -> str:
    return f"{URL}{agent.pk}/stop/"


def stop(browser: Client, of: Agent, parts: dict[str, str], /, **more: str) -> str:
    return words(browser.post(path(of), parts | more, follow=True))


def run_all(now: datetime) -> list[Operation]:
    return [run(row, now=now) for row in Operation.objects.order_by("id")]


def test_the_page_counts_and_preselects_the_healthiest_agent(
    browser: Client, agent: Agent, tester: Agent, busy: dict[str, UUID]
) -> None:
    """OPR-8: what runs, what waits, and who can take it, before anything is sent."""
    make_agent("coder-web")
    page = browser.get(path(agent))
    said = words(page)
    assert "Abort 1 running task" in said and "Hand over 1 unread instruction" in said
    assert "Reassign 4 waiting tasks" in said  # with the one that the blocked one needs
    assert re.findall(r'<option value="([^"]*)"[^>]*selected', html(page)) == ["tester"]
    assert html(page).count(" checked>") == 4
    assert f'href="{path(agent)}"' in html(browser.get(f"{URL}{agent.pk}/"))


def test_one_submit_pauses_aborts_and_hands_over(
    browser: Client, agent: Agent, tester: Agent, busy: dict[str, UUID], now: datetime
) -> None:
    """OPR-8: with the reason in the journal of each part."""
    said = stop(browser, agent, ALL, agent="tester", reason="Lost 6 leases")
    assert "coder is paused. 5 tasks will be aborted (1) or handed over (4) in 10 s." in said
    assert "1 instruction will be handed over in 10 s." in said
    agent.refresh_from_db()
    assert agent.paused and Task.objects.filter(agent=tester).count() == 0
    assert [row.refused for row in run_all(now)] == [0, 0]
    assert set(Task.objects.filter(agent=agent).values_list("pk", flat=True)) == {busy["running"]}
    assert Task.objects.get(pk=busy["running"]).abort_requested_at
    states = dict(Task.objects.filter(agent=tester).values_list("pk", "state"))
    assert {states[busy[state]] for state in ("queued", "retry", "blocked")} == {
        "queued",
        "retry",
        "blocked",
    }
    sent = dict(Instruction.objects.values_list("agent__name", "state"))
    assert sent == {"coder": "cancelled", "tester": "queued"}
    noted = Event.objects.filter(actor_name="mara", data__note__endswith="Lost 6 leases")
    kinds = {"agent.paused", "operation.started", "task.changed", "instruction.cancelled"}
    assert kinds <= set(noted.values_list("kind", flat=True))
    sentence = describe_agent_event(noted.get(kind="agent.paused"), EventSubject(agent="coder"))
    assert sentence.tail == ": Lost 6 leases"
    done = words(browser.get(f"/operations/{Operation.objects.earliest('id').pk}/"))
    assert "Aborted or handed over 5 tasks" in done and "Lost 6 leases" in done


def test_one_undo_takes_all_of_it_back(
    browser: Client, agent: Agent, tester: Agent, busy: dict[str, UUID], now: datetime
) -> None:
    page = browser.post(path(agent), ALL | {"agent": "tester"}, follow=True)
    (undo,) = re.findall(r'action="([^"]*/stop/undo/[^"]*)"', html(page))
    said = words(browser.post(undo.replace("&amp;", "&"), follow=True))
    assert "Undone. coder is resumed. No task and no instruction was changed." in said
    agent.refresh_from_db()
    assert not agent.paused
    assert set(Operation.objects.values_list("state", flat=True)) == {"undone"}
    said = words(browser.post(undo.replace("&amp;", "&"), follow=True))
    assert "Nothing was undone." in said


def test_an_undo_that_comes_too_late_leaves_the_pause_too(
    browser: Client, agent: Agent, tester: Agent, busy: dict[str, UUID], now: datetime
) -> None:
    page = browser.post(path(agent), ALL | {"agent": "tester"}, follow=True)
    (undo,) = re.findall(r'action="([^"]*/stop/undo/[^"]*)"', html(page))
    run_all(now)
    assert "Nothing was undone." in words(browser.post(undo.replace("&amp;", "&"), follow=True))
    agent.refresh_from_db()
    assert agent.paused and Task.objects.filter(agent=tester).exists()


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        (["pause"], 0),
        (["abort"], 1),
        (["tasks"], 4),
        (["abort", "tasks"], 5),
        (["instructions"], 1),
    ],
)
def test_each_part_can_be_left_out(
    browser: Client,
    agent: Agent,
    tester: Agent,
    busy: dict[str, UUID],
    now: datetime,
    parts: list[str],
    total: int,
) -> None:
    stop(browser, agent, dict.fromkeys(parts, "yes"), agent="tester")
    agent.refresh_from_db()
    assert agent.paused == ("pause" in parts)
    run_all(now)
    assert sum(row.changed for row in Operation.objects.all()) == total
    running = Task.objects.get(pk=busy["running"])
    assert bool(running.abort_requested_at) == ("abort" in parts)
    assert Task.objects.filter(agent=tester).exists() == ("tasks" in parts)


def test_a_stop_without_a_part_or_a_target_changes_nothing(
    browser: Client, agent: Agent, tester: Agent, busy: dict[str, UUID]
) -> None:
    assert "Tick at least one part." in html(browser.post(path(agent), {}), 422)
    for name in ("", "nobody", "coder"):
        page = browser.post(path(agent), ALL | {"agent": name})
        assert "Choose the agent that gets the work." in html(page, 422)
    agent.refresh_from_db()
    assert not agent.paused and not Operation.objects.exists()


def test_an_agent_alone_in_its_project_can_be_paused_and_its_attempts_aborted(
    browser: Client, agent: Agent, busy: dict[str, UUID]
) -> None:
    page = browser.get(path(agent))
    assert "There is no other agent in its project" in words(page)
    assert 'name="agent"' not in html(page)
    stop(browser, agent, {"pause": "yes", "abort": "yes"})
    assert Operation.objects.get().total == 1


def test_a_viewer_is_offered_no_stop(agent: Agent, busy: dict[str, UUID]) -> None:
    client = Client()
    client.force_login(User.objects.create_user("eve", is_staff=True))
    assert client.get(path(agent)).status_code == 403
    assert client.post(f"{path(agent)}undo/").status_code == 403


def test_a_task_that_another_agent_has_meanwhile_is_left(
    browser: Client, agent: Agent, tester: Agent, busy: dict[str, UUID], now: datetime
) -> None:
    """An attempt of an agent that is not stopped is never aborted."""
    third = make_agent("third")
    stop(browser, agent, ALL, agent="tester")
    Task.objects.filter(pk=busy["queued"]).update(agent=third)
    claimed(third, busy["queued"], now=now)
    run_all(now)
    task = Task.objects.get(pk=busy["queued"])
    assert (task.state, task.agent, task.abort_requested_at) == ("running", third, None)
    refused = Operation.objects.earliest("id").items.get(state="refused")
    assert refused.refusal == "It is another agent’s now"


@contextmanager
def claim_in_progress(agent: Agent, task: UUID) -> Iterator[threading.Event]:
    """Claim a task over a second connection, which commits when the event is set."""
    claimed_it, commit = threading.Event(), threading.Event()

    def claim() -> None:
        try:
            with transaction.atomic():
                claims.claim(TrustedCaller(SYSTEM, agent=agent), task=task, worker_id="w2")
                claimed_it.set()
                commit.wait(30)
        finally:
            connection.close()

    thread = threading.Thread(target=claim)
    thread.start()
    assert claimed_it.wait(30)
    try:
        yield commit
    finally:
        commit.set()
        thread.join(30)


@pytest.mark.django_db(transaction=True)
def test_a_task_that_is_claimed_while_its_agent_is_stopped_is_aborted(
    browser: Client, agent: Agent, tester: Agent, now: datetime
) -> None:
    """OPR-8: the claim began before the pause, and commits after the page has counted."""
    task, other = enqueued(agent, now=now), enqueued(agent, now=now)
    with claim_in_progress(agent, task) as commit:
        assert "2 tasks will be handed over in" in stop(browser, agent, ALL, agent="tester")
        assert claims.claim(TrustedCaller(SYSTEM, agent=agent)).reason == "agent_paused"
        commit.set()
        wait_until(lambda: Task.objects.get(pk=task).state == "running")
    run_all(now)
    row = Task.objects.get(pk=task)
    assert (row.state, row.agent, bool(row.abort_requested_at)) == ("running", agent, True)
    assert Task.objects.get(pk=other).agent == tester


# ---- targets


def test_targets_say_what_holds_them_up_and_come_last(
    agent: Agent, tester: Agent, now: datetime
) -> None:
    """OPR-7: last seen, load and limits; agents that get no work are marked."""
    made = {name: make_agent(name) for name in ("new", "away", "paused", "open", "full", "loaded")}
    for name in ("paused", "open", "full", "loaded"):
        check_in(made[name], now)
    check_in(made["away"], now - timedelta(hours=3))
    Agent.objects.filter(name="paused").update(paused=True)
    Agent.objects.filter(name__in=("full", "tester")).update(concurrency=1)
    breaker_actions.trip([made["open"]], stamp=Stamp(SYSTEM, now))
    claimed(made["full"], enqueued(made["full"], now=now), now=now)
    enqueued(made["loaded"], now=now)
    found = list_targets({agent.project_id}, now=now + timedelta(seconds=4), besides=agent.pk)
    assert {each.name: each.facts for each in found} == {
        "tester": "seen 4 s ago · 0 waiting · 0 of 1 running",
        "loaded": "seen 4 s ago · 1 waiting · 0 running",
        "full": "seen 4 s ago · 0 waiting · 1 of 1 running",
        "new": "never checked in · 0 waiting · 0 running",
        "away": "silent for 3 h · 0 waiting · 0 running",
        "paused": "paused · 0 waiting · 0 running",
        "open": "breaker open · 0 waiting · 0 running",
    }
    assert [each.name for each in found][:3] == ["tester", "loaded", "full"]
    assert [each.name for each in found if not each.is_held] == ["tester", "loaded", "full"]


def test_targets_are_read_in_the_chosen_projects_only(
    agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = [make_project(f"team-{n}") for n in range(3)]
    names = {make_agent(f"coder-{each}", project=each).name for each in chosen[:2]}
    read, list_agents = [], queries.list_agents

    def note(project: Project | None, now: datetime) -> list[Any]:
        read.append(project)
        return list_agents(project, now)

    monkeypatch.setattr(queries, "list_agents", note)
    found = list_targets([each.pk for each in chosen[:2]], now=now)
    assert {each.name for each in found} == names and read == chosen[:2]


def test_more_targets_need_no_more_statements(
    browser: Client, agent: Agent, tester: Agent, statements: Callable[..., int]
) -> None:
    """OPR-7: there is no query per agent."""
    browser.get(path(agent))  # builds the SQL
    before = statements(browser, path(agent))
    for number in range(30):
        make_agent(f"coder-{number}")
    assert statements(browser, path(agent)) == before
