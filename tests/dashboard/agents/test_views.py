"""The list of agents and the page of an agent."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from dashboard.lists import pagination
from ledger import instructions, tokens
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Agent, Attempt, Breaker, Event, Instruction
from ledger.states import TaskState
from retries import breaker_actions, in_process
from retries.insight import targets
from retries.journal_readers import counts as activity_counts
from retries.models import Escalation, InsightFigure
from tests.dashboard.agents.conftest import URL, names, row_of
from tests.dashboard.conftest import PART
from tests.dashboard.seen import Part, html, key, words
from tests.dashboard.worked import claimed, enqueued, failed, make_task
from tests.factories import as_name, make_agent, make_project, make_token, pull, send, tick

QUESTIONS = ("", "?ask=reset", "?ask=trip", "?ask=close", "?ask=nonsense")
HOSTILE = "<script>alert(1)</script>\u202e &amp;"


def seen(agent: Agent, at: datetime | None) -> None:
    Agent.objects.filter(pk=agent.pk).update(last_seen_at=at)


@pytest.fixture
def four(now: datetime, project: object) -> dict[str, Agent]:
    """Four agents: one checks in, one is silent, one is paused, one has never checked in."""
    made = {name: make_agent(name) for name in ("active", "silent", "paused", "new")}
    seen(made["active"], now - timedelta(seconds=8))
    seen(made["silent"], now - timedelta(hours=2))
    seen(made["paused"], now - timedelta(hours=3))
    Agent.objects.filter(pk=made["paused"].pk).update(paused=True)
    for number in range(2):
        send(made["silent"], f"Wake up {number}", now=now - timedelta(hours=1))
    send(made["active"], "Go on", now=now - timedelta(minutes=2))
    pull(made["active"], now=now - timedelta(seconds=8))
    return made


def test_a_row_leads_to_its_escalations_alone(browser: Client, agent: Agent) -> None:
    links = re.findall(r'href="([^"]*)" >Its escalations', html(browser.get("/agents/")))
    assert links == ["/escalations/?q=agent%3Acoder"]
    assert browser.get(links[0]).context["inbox"].query.agent.wanted == ("coder",)


def test_the_list_shows_each_agent(browser: Client, four: dict[str, Agent]) -> None:
    response = browser.get(URL)
    assert names(response) == ["silent", "paused", "active", "new"]
    text = words(response)
    assert "Silent 1 have not checked in lately; 2 instructions waiting" in text
    assert "Paused 1 by a person" in text and "Healthy 2 · 0 running" in text
    assert "Nothing" in row_of(response, four["silent"])
    assert "2 h" in row_of(response, four["silent"])
    assert "never" in row_of(response, four["new"])
    assert "<title>1 silent · Agents · Tenfour</title>" in html(response)
    assert re.search(r"All 4 Tripped 0 Half open 0 Silent 1 Paused 1 ", text)
    text = words(browser.get(URL, {"q": "older:1h state:silent"}))
    assert re.search(r"All 3 Tripped 0 Half open 0 Silent 1 Paused 1 Healthy 1", text)


def succeeded(agent: Agent, id: UUID, *, now: datetime) -> None:
    in_process.report_success(claimed(agent, id, now=now), {}, stamp=Stamp(SYSTEM, now))


@pytest.mark.django_db(transaction=True)
def test_rates_come_from_the_counts_of_half_hours(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Ten attempts of the last hour, four of which failed; one of ten the day before."""
    for at, failures in ((now - timedelta(minutes=50), 4), (now - timedelta(hours=25), 1)):
        for number in range(10):
            task = enqueued(agent, now=at, max_attempts=1)
            if number < failures:
                failed(agent, task, now=at, type="verification_failed")
            else:
                succeeded(agent, task, now=at)
    assert "–" in row_of(browser.get(URL), agent)  # not counted yet
    activity_counts.count_activity(now=now)
    row = row_of(browser.get(URL), agent)
    assert "0.2/h" in row and "40% errors , more than the day before 60%" in row
    week = row_of(browser.get(URL, {"range": "7d"}), agent)
    assert "0.1/h" in week and "25% errors" in week and "more than" not in week
    assert html(browser.get(URL)).count("spark__line") == 2


def test_rates_of_the_last_hour_come_from_the_journal(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """By five minutes and before the clock counts them; the hour before is what they are more than."""
    for at, failures in ((now - timedelta(minutes=20), 4), (now - timedelta(minutes=80), 1)):
        for number in range(10):
            task = enqueued(agent, now=at, max_attempts=1)
            if number < failures:
                failed(agent, task, now=at, type="verification_failed")
            else:
                succeeded(agent, task, now=at)
    page = browser.get(URL, {"range": "1h"})
    assert "6/h" in row_of(page, agent)
    assert "40% errors , more than the hour before 60%" in row_of(page, agent)
    assert "1 h 24 h 7 d" in words(page)
    assert "–" in row_of(browser.get(URL), agent)


def test_what_runs_and_what_waits(browser: Client, agent: Agent, now: datetime) -> None:
    Agent.objects.filter(pk=agent.pk).update(concurrency=4)
    for number in range(2):
        claimed(agent, enqueued(agent, f"Part {number}", now=now), now=now)
    enqueued(agent, "Later", now=now)
    send(agent, "Read this", now=now)
    row = row_of(browser.get(URL), agent)
    assert "Part 1 +1" in row and "2/4 2" in row


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("", ["busy", "quiet"]),
        ("waiting", ["quiet", "busy"]),
        ("name", ["busy", "quiet"]),
        ("-name", ["quiet", "busy"]),
        ("-seen", ["quiet", "busy"]),
        ("seen", ["quiet", "busy"]),  # one that was never seen comes last
        ("-slots", ["busy", "quiet"]),
        ("slots", ["quiet", "busy"]),
        ("first", ["busy", "quiet"]),
        ("nonsense", ["busy", "quiet"]),
    ],
)
def test_columns_sort_within_a_group(
    browser: Client, project: object, now: datetime, sort: str, order: list[str]
) -> None:
    first, quiet, busy = (make_agent(name) for name in ("zero", "quiet", "busy"))
    breaker_actions.trip([first], reason="", stamp=Stamp(SYSTEM, now))
    seen(quiet, now)
    for _ in range(2):
        enqueued(busy, now=now)
    claimed(busy, enqueued(busy, now=now), now=now)
    Agent.objects.filter(pk=busy.pk).update(last_seen_at=None)
    assert names(browser.get(URL, {"sort": sort})) == ["zero", *order]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": "state:silent"}, ["silent"]),
        ({"q": "state:paused"}, ["paused"]),
        ({"q": "state:tripped"}, []),
        ({"q": "state:half-open"}, []),
        ({"q": "state:nonsense"}, ["silent", "paused", "active", "new"]),
        ({"q": "SI"}, ["silent"]),
        ({"q": "s state:paused"}, ["paused"]),
        ({"q": "%"}, []),
        ({"q": "a\0s"}, ["paused"]),
        ({"before": "nonsense"}, ["silent", "paused", "active", "new"]),
        ({"after": str(UUID(int=0))}, ["silent", "paused", "active", "new"]),
        ({"before": "²"}, ["silent", "paused", "active", "new"]),
    ],
)
def test_filters_are_in_the_url(
    browser: Client, four: dict[str, Agent], query: dict[str, str], found: list[str]
) -> None:
    assert names(browser.get(URL, query)) == found


def test_no_agents_and_no_matches_have_different_texts(
    browser: Client, project: object, now: datetime
) -> None:
    assert "No agents yet" in words(browser.get(URL))
    make_agent("coder")
    assert "Nothing matches nobody" in words(browser.get(URL, {"q": "nobody"}))
    assert "No agents with waiting work are silent" in words(
        browser.get(URL, {"q": "state:silent"})
    )
    assert "No agent’s breaker is open" in words(browser.get(URL, {"q": "state:tripped"}))
    assert "No agent is paused" in words(browser.get(URL, {"q": "state:paused"}))
    assert "No agent’s breaker is half open" in words(browser.get(URL, {"q": "state:half-open"}))


def test_paging_works_in_both_directions(
    browser: Client, project: object, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "PAGE", 3)
    agents = [make_agent(f"a{number}") for number in range(8)]
    breaker_actions.trip([agents[5], agents[7]], reason="", stamp=Stamp(SYSTEM, now))
    send(agents[6], "Wait", now=now - timedelta(hours=1))  # silent: after the tripped ones
    order = ["a5", "a7", "a6", "a0", "a1", "a2", "a3", "a4"]
    pages, response = [], browser.get(URL)
    for _ in range(5):
        pages.append(names(response))
        older = re.search(r'href="\?before=([^"]+)" data-key="]"', html(response))
        if not older:
            break
        response = browser.get(URL, {"before": older[1]})
    assert pages == [order[:3], order[3:6], order[6:]]
    newer = re.search(r'href="\?after=([^"]+)" data-key="\["', html(response))
    assert newer and names(browser.get(URL, {"after": newer[1]})) == order[3:6]
    assert "Healthy 5" in words(response)  # the head counts the agents of all pages
    # the agent after which the page began is the last one now
    assert names(browser.get(URL, {"before": str(agents[4].pk)})) == order[:3]


@pytest.mark.parametrize(("state", "label"), [("open", "open"), ("half_open", "half open")])
def test_a_breaker_that_is_not_closed_outranks_the_presence(
    browser: Client, four: dict[str, Agent], now: datetime, state: str, label: str
) -> None:
    """An agent that is in touch, silent or new gets no tasks all the same."""
    for name in ("active", "silent", "new"):
        breaker_actions.trip([four[name]], reason="Broken", stamp=Stamp(SYSTEM, now))
    Breaker.objects.update(state=state)
    response = browser.get(URL)
    assert names(response) == ["silent", "active", "new", "paused"]  # by what waits
    text = words(response)
    assert f"{'Tripped' if state == 'open' else 'Half open'} 3 " in text
    assert "have not checked in lately" not in text
    assert f"Breaker {label}" in words(browser.get(f"{URL}{four['active'].pk}/"))
    assert "Not getting work" in words(browser.get("/"))


def test_agents_whose_breaker_is_not_closed_are_counted_in_the_sidebar(
    browser: Client, four: dict[str, Agent], now: datetime
) -> None:
    assert "Agents Sessions" in words(browser.get(URL))
    breaker_actions.trip([four["active"], four["silent"]], reason="", stamp=Stamp(SYSTEM, now))
    assert "Agents 2 breakers not closed Sessions" in words(browser.get(URL))
    Breaker.objects.filter(agent=four["silent"]).update(state="half_open")
    assert "Agents 2 breakers not closed Sessions" in words(browser.get(URL))
    breaker_actions.reset(four.values(), stamp=Stamp(SYSTEM, now))
    assert "Agents Sessions" in words(browser.get(URL))


def test_the_list_of_one_project(browser: Client, agent: Agent) -> None:
    other = make_agent("elsewhere", project=make_project("other"))
    assert names(browser.get(URL)) == ["coder", "elsewhere"]
    response = browser.get(URL, {"project": "other"})
    assert names(response) == ["elsewhere"]
    assert f'/agents/{other.pk}/?project=other"' in html(response)
    assert browser.get(URL, {"project": "nowhere"}).status_code == 404


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
def test_the_number_of_rows_adds_no_statements(
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
            breaker_actions.trip([other], reason="Out of order", stamp=Stamp(SYSTEM, now))
        pull(agent, now=now)

    more(2)
    assert statements(browser, path) <= 15  # stores the order of the list for an agent's neighbors
    few = statements(browser, path)
    more(15)
    assert statements(browser, path) == few <= 15
    assert statements(browser, path, {"since": key(browser.get(path))}, headers=PART) <= 5


def test_an_agent_page(browser: Client, agent: Agent, now: datetime) -> None:
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
    assert "1 ignored all by coder" in text  # the ladder
    assert "coder acknowledged “ Rebase on main ” in 4.0 s" in text.replace("tenfour", "coder")
    assert f'href="/instructions/{id}/"' in html(response)
    assert "laptop Last used never" in text and f"{secret[:9]}" in text
    assert secret not in html(response)
    assert "<title>coder · Agent · Tenfour</title>" in html(response)


def test_tokens_are_for_people_who_may_see_them(client: Client, agent: Agent) -> None:
    make_token("agent", agent=agent, name="laptop")
    vera = User.objects.create_user("vera", is_staff=True)
    for permission, is_shown in (("view_agent", False), ("view_token", True)):
        vera.user_permissions.add(Permission.objects.get(codename=permission))
        client.force_login(vera)
        page = words(client.get(f"/agents/{agent.pk}/"))
        assert ("laptop" in page) == is_shown, permission


def test_revoked_and_expired_tokens_are_marked(
    browser: Client, agent: Agent, now: datetime
) -> None:
    for name in ("old", "gone"):
        token, _ = tokens.issue(
            "agent", project=agent.project, agent=agent, name=name, stamp=Stamp(SYSTEM)
        )
        if name == "gone":
            tokens.revoke(token, stamp=Stamp(SYSTEM))
        else:
            type(token).objects.filter(pk=token.pk).update(expires_at=now - timedelta(days=1))
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert "old expired" in text and "gone revoked" in text


def test_a_new_agent(browser: Client, agent: Agent) -> None:
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert "No token." in text and "New never checked in" in text
    assert browser.get(f"{URL}{agent.project_id}/").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_an_agent_page_shows_what_it_holds(browser: Client, agent: Agent, now: datetime) -> None:
    """A running attempt, an escalation that a task waits for, its pattern, and the last day."""
    Agent.objects.filter(pk=agent.pk).update(concurrency=2)
    start = now - timedelta(minutes=50)
    asked = enqueued(agent, "Parse the feed", now=start, max_attempts=1, on_exhausted="escalate")
    why = {"type": "verification_failed", "message": "No module named 'lxml'"}
    failed(agent, asked, now=start, **why)
    enqueued(agent, "Sum up", now=start, needs=[asked])
    running = claimed(agent, enqueued(agent, "Move invoices", now=start), now=start)
    Attempt.objects.filter(pk=running).update(
        last_output="copied 1 of 9 rows\ncopied 2 of 9 rows\n\n", heartbeat_at=now
    )
    activity_counts.count_activity(now=now)
    response = browser.get(f"{URL}{agent.pk}/")
    text = words(response)
    assert "Move invoices 50 m · attempt 1 of" in text
    assert "copied 2 of 9 rows" in text and "copied 1 of 9" not in text
    line = r"Parse the feed waiting \d+ m Failed 1 of 1: check · No module named 'lxml' 1 waiting"
    assert re.search(line, text)
    assert re.search(r"Failures by pattern 1 in 24 h No module named .*? 1 1 escalation", text)
    assert "Errors 100% no attempts the day before" in text
    assert "No target is set." in text
    assert "Nothing is running." in words(browser.get(f"{URL}{make_agent('idle').pk}/"))


def test_one_answer_for_the_same_error_is_offered(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Not for questions, which have the same last failure but need their own answers."""
    for number in range(3):
        id = enqueued(agent, f"Part {number}", now=now, max_attempts=1, on_exhausted="escalate")
        failed(agent, id, now=now, message="No module named 'lxml'")
    Escalation.objects.filter(task=id).update(reason="conflicting_requirements")
    page = browser.get(f"{URL}{agent.pk}/")
    assert "Answer 2 with the same error…" in words(page)
    found = re.search(r'href="(/escalations/answer-all/[^"]+)"', html(page))
    assert found
    asked = words(browser.get(unescape(found[1])))
    assert "Part 0" in asked and "Part 1" in asked and "Part 2" not in asked
    Escalation.objects.exclude(task=id).update(reason="agent_question")
    assert "same error" not in words(browser.get(f"{URL}{agent.pk}/"))


def test_an_agent_page_shows_its_error_budget(browser: Client, agent: Agent, now: datetime) -> None:
    targets.set_target(
        targets.Subject.of_agent(agent), percent=90, within_s=60, stamp=Stamp(SYSTEM, now)
    )
    rows = [
        {"id": str(make_agent("other").pk), "name": "other", "percent": 50, "within_s": 9}
        | {"n": 100, "met": 100, "week_n": 100, "week_met": 100},
        {"id": str(agent.pk), "name": "coder", "percent": 90, "within_s": 60}
        | {"n": 100, "met": 94, "week_n": 50, "week_met": 46},
    ]
    InsightFigure.objects.create(
        project=agent.project,
        panel="targets",
        days=30,
        computed_at=now,
        data={"least": 50, "rows": rows},
    )
    text = words(browser.get(f"{URL}{agent.pk}/"))
    assert (
        "Acknowledgment: 94.0% of 100 instructions acknowledged in time. Target 90% in 1 m." in text
    )
    assert "Error budget: 4 of 10 misses left. At this week’s rate it is used up in 7 days." in text


@pytest.mark.parametrize("path", [URL, "{one}", "/", "/activity/"])
def test_hostile_names_are_escaped(
    browser: Client, project: object, now: datetime, path: str
) -> None:
    hostile = make_agent(as_name(HOSTILE))
    send(hostile, HOSTILE, now=now - timedelta(hours=1))
    response = browser.get(path.format(one=f"{URL}{hostile.pk}/"))
    raw = response.content.decode()
    assert "<script>alert" not in raw and "&lt;script&gt;alert" in raw
    assert "&amp;amp;" in raw


def test_searching_an_id_opens_the_agent(browser: Client, agent: Agent) -> None:
    assert browser.get("/search/", {"q": str(agent.pk)})["Location"] == f"{URL}{agent.pk}/"


def test_the_tasks_of_an_agent_are_counted(browser: Client, agent: Agent, now: datetime) -> None:
    for state, times in ((TaskState.RETRY, 3), (TaskState.RUNNING, 2), (TaskState.QUEUED, 1)):
        for _ in range(times):
            make_task(state, agent=agent, now=now, why={"type": "verification_failed"})
    one = browser.get(f"{URL}{agent.pk}/")
    assert "Running 2 Queued 1 Retry 3 Held 0" in words(one)
    page = html(one)
    for state in ("running", "queued", "retry"):
        assert f'href="/tasks/?q=agent%3Acoder+state%3A{state}"' in page


def test_reading_agents_writes_nothing(
    browser: Client, agent: Agent, mara: User, now: datetime
) -> None:
    send(agent, "Wait", now=now)
    events = Event.objects.count()
    for path in (
        "",
        "?q=state:silent",
        "?q=state:tripped",
        *(f"{agent.pk}/{q}" for q in QUESTIONS),
    ):
        assert browser.get(URL + path).status_code == 200
    for verb in ("pause", "resume", "trip", "keep-open", "close", "reset"):
        assert browser.get(f"{URL}{agent.pk}/{verb}/").status_code == 405
    assert browser.post(URL).status_code == 405
    assert browser.post(f"{URL}{agent.pk}/explode/").status_code == 404
    assert browser.post(f"{URL}{agent.project_id}/pause/").status_code == 404
    assert Event.objects.count() == events
    assert not Breaker.objects.exists()


def test_only_operators_see_and_change_agents(agent: Agent, mara: User) -> None:
    stranger = Client()
    stranger.force_login(User.objects.create_user("visitor"))
    for path in (URL, f"{URL}{agent.pk}/"):
        assert stranger.get(path)["Location"].startswith("/sign-in/")
        assert stranger.get(path, headers=PART).status_code == 401
    for verb in ("pause", "trip", "keep-open", "close", "reset"):
        response = stranger.post(f"{URL}{agent.pk}/{verb}/", {"confirmed": "yes"})
        assert response["Location"].startswith("/sign-in/")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(mara)
    assert strict.post(f"{URL}{agent.pk}/pause/").status_code == 403
    agent.refresh_from_db()
    assert not agent.paused and not Event.objects.filter(kind=Kind.AGENT_RESET).exists()
    assert not Breaker.objects.exists()
