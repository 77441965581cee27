"""The page of Overview: escalations, figures, agents and events."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.agents import presence
from dashboard.agents import queries as agent_queries
from dashboard.escalations.inbox.labels import REASON_LABELS
from dashboard.wording.badges import escalation_icon
from ledger import instructions
from ledger.authorization.roles import Role
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Agent, Breaker, Event, Membership, Plan, Preference, Project, Task
from ledger.states import BlockedReason, BreakerState, TaskState
from retries import breaker_actions, in_process
from retries.attempts import leases
from retries.journal_readers import counts as activity_counts
from retries.models import Escalation, FailurePattern, InsightFigure
from retries.states import Reason
from tests.dashboard.conftest import PART
from tests.dashboard.seen import Part, html, key, words
from tests.dashboard.worked import claimed, enqueued, failed, make_plan
from tests.factories import as_name, make_agent, make_project, pull, send, tick

URL = "/"


def send_ignored(agent: Agent, text: str, *, at: datetime) -> Escalation:
    """Send an instruction that is given up and escalated."""
    id = send(agent, text, now=at, max_retries=0, on_failed="escalate")
    pull(agent, now=at)
    tick(at + timedelta(minutes=1))
    return Escalation.objects.get(instruction_id=id)


def send_acknowledged(agent: Agent, *, at: datetime, after: float = 2, reminders: int = 0) -> UUID:
    id = send(agent, now=at)
    pull(agent, now=at)
    for number in range(reminders):
        at += timedelta(minutes=number + 1)
        tick(at)
        pull(agent, now=at)
    instructions.acknowledge_instruction(id, now=at + timedelta(seconds=after))
    return id


def test_what_waits_longer_is_folded_by_age_oldest_first(
    browser: Client, agent: Agent, now: datetime
) -> None:
    asked = [
        send_ignored(agent, f"Ignored {number}", at=now - timedelta(minutes=200 - 10 * number))
        for number in range(6)
    ]
    for days in (1, 7):
        Escalation.objects.filter(pk=asked[days // 7].pk).update(
            opened_at=now - timedelta(days=9 - days)
        )
    response = browser.get(URL)
    text, page = words(response), html(response)
    assert "Nothing new in the last hour Waiting longer 6 of 6 that need an answer" in text
    assert "Answer the oldest E" in text and "Answer all" not in text
    assert "1 to 24 hours 4 Ignored 2" in text
    shown = [
        text.index(f"Ignored {number} Ignored 1 time none waiting co coder") for number in range(6)
    ]
    assert shown == sorted(shown)
    assert f'href="/escalations/{asked[0].pk}/" data-key="e" >Answer the oldest' in page
    assert "<title>6 need an answer · Overview · Tenfour</title>" in page
    assert page.count("<details id=") == 3


def test_the_last_hour_leads_with_the_worst_cause(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """OPR-3: not with the oldest; alike questions are one cause, and five causes have rows."""
    for number in range(3):
        task = enqueued(agent, f"Part {number}", now=now, max_attempts=1, on_exhausted="escalate")
        message = f"Traceback\nModuleNotFoundError: No module named 'lxml{number}'"
        failed(agent, task, now=now - timedelta(minutes=1), type="timeout", message=message)
    for number in range(7):
        send_ignored(agent, f"Ignored {number % 6}", at=now - timedelta(minutes=20))
    send_ignored(agent, "Long ago", at=now - timedelta(hours=3))
    text, page = words(browser.get(URL)), html(browser.get(URL))
    assert "New in the last hour 10 of 11 open All, newest first 3 first seen" in text
    lead = text[text.index("New in the last hour") : text.index("Answer all… E")]
    assert "3 in the last 5 min ModuleNotFoundError: No module named ‹" in lead
    assert "1 agent coder" in lead and "Per five minutes in the last hour: 0, 0," in lead
    assert "Answer all… E 2 Ignored 0 first seen" in text, "the larger one of equal growth"
    assert "2 more causes Waiting longer 1 of 11 that need an answer" in text
    assert "Answer the oldest 1 to 24 hours 1 Long ago" in text
    assert page.count('data-key="e"') == 2  # the leading incident, and the shortcuts dialog
    assert "E answer the leading incident" in text
    Escalation.objects.filter(instruction__content="Ignored 5").update(severity="high")
    text = words(browser.get(URL))
    assert "All, newest first 1 High first seen" in text, "severity before growth and size"
    assert "Answer E 3 ModuleNotFoundError" in text


def test_a_line_names_the_headline_and_what_waits(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Two tasks fail with one cause; tasks need the first, one of them only in the end."""
    ids = []
    for number in range(2):
        ids.append(
            enqueued(agent, f"Part {number}", now=now, max_attempts=1, on_exhausted="escalate")
        )
        message = f"Traceback\n  more\nModuleNotFoundError: No module named 'lxml{number}'"
        failed(agent, ids[-1], now=now, type="verification_failed", message=message)
    needs = [enqueued(agent, "Sum", now=now, needs=[ids[0]]) for _ in range(2)]
    enqueued(agent, "Print", now=now, needs=needs)
    text = words(browser.get(URL))
    assert "2 of 2 open" in text and "1 agent coder · 2 tasks wait" in text
    Escalation.objects.update(opened_at=now - timedelta(hours=2))
    text = words(browser.get(URL))
    assert "2 of 2 that need an answer 2 tasks wait on them" in text
    line = "Part 0 Failed 1 of 1: check · ModuleNotFoundError: No module named 'lxml0' 2 waiting"
    assert line in text
    assert "Part 1 Failed 1 of 1: check" in text and "'lxml1' none waiting" in text
    assert "Same cause, of any age: ModuleNotFoundError: No module named ‹" in text
    snoozed = Escalation.objects.order_by("id")[0]
    Escalation.objects.filter(pk=snoozed.pk).update(snoozed_until=now + timedelta(hours=1))
    text = words(browser.get(URL))
    assert "1 of 1 that needs an answer" in text and "Same cause" not in text
    assert "Part 0 Failed" not in text and "Part 1 Failed" in text


@pytest.mark.parametrize(
    ("reason", "type", "icon"),
    [
        ("max_retries_exceeded", "timeout", "f-timeout"),
        ("permission_denied", "execution_error", "f-permission"),
        ("needs_credentials", "execution_error", "f-permission"),
        ("conflicting_requirements", "execution_error", "f-conflict"),
        ("agent_question", None, "help"),
        ("instruction_ignored", None, "ear"),
    ],
)
def test_the_icon_tells_the_reason(reason: str, type: str | None, icon: str) -> None:
    """As in the inbox; what failed is shown only where the reason says no more."""
    assert escalation_icon(reason, type) == icon
    assert icon in (REASON_LABELS[Reason(reason)][1], "f-timeout")


def test_one_open_escalation(browser: Client, agent: Agent, now: datetime) -> None:
    send_ignored(agent, "Ignored", at=now - timedelta(minutes=5))
    page = html(browser.get(URL))
    assert "1</b> of 1 open" in page
    assert "<title>1 needs an answer · Overview · Tenfour</title>" in page


def test_no_open_escalation(browser: Client, agent: Agent, now: datetime) -> None:
    send_acknowledged(agent, at=now - timedelta(minutes=5))
    response = browser.get(URL)
    assert "Nothing needs your attention" in words(response) and "Answer the oldest" not in html(
        response
    )
    assert "<title>Overview · Tenfour</title>" in html(response)


def test_silent_agents_are_listed(browser: Client, project: object, now: datetime) -> None:
    for number in range(10):
        silent = make_agent(f"deaf-{number}")
        Agent.objects.filter(pk=silent.pk).update(last_seen_at=now - timedelta(hours=19 - number))
        send(silent, now=now - timedelta(hours=1))
    response = browser.get(URL)
    assert "deaf-0 Silent last check-in 19 h ago 1 waiting" in words(response)
    assert "deaf-7 Silent" in words(response) and "deaf-8 Silent" not in words(response)
    assert "2 more silent agents" in words(response) and '/agents/?q=state%3Asilent"' in html(
        response
    )


def test_agents_that_tasks_wait_for_are_silent(
    browser: Client, project: Project, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the tasks are queued or their retry is due; not if it is paused or works."""
    monkeypatch.setattr(agent_queries, "COUNTED", 2)
    monkeypatch.setattr(presence, "COUNTED", 2)
    long_ago = now - timedelta(hours=1)
    for name in ("queued", "due", "held-plan", "paused", "fresh", "works"):
        agent = make_agent(name)
        if name == "due":
            id = enqueued(agent, now=long_ago)
            failed(agent, id, now=long_ago, retry_after_s=60, type="verification_failed")
        elif name == "held-plan":
            plan, _ = make_plan("03-01", [("One", [])], agent=agent, now=long_ago)
            Plan.objects.filter(pk=plan.pk).update(paused_at=now)
        else:
            for _ in range(3):
                enqueued(agent, now=now if name == "fresh" else long_ago)
        if name == "works":
            claimed(agent, enqueued(agent, now=now), now=now)
        Agent.objects.filter(pk=agent.pk).update(last_seen_at=long_ago, paused=name == "paused")
    text = words(browser.get(URL))
    assert re.findall(r"(\S+) Silent last check-in 1 h ago (\S+) waiting", text) == [
        ("due", "1"),
        ("queued", "2+"),
    ]
    assert "Not getting work 3+ tasks and instructions wait" in text


def test_tripped_agents_are_listed_first(browser: Client, agent: Agent, now: datetime) -> None:
    for number in range(9):
        tripped = make_agent(f"broken-{number}")
        breaker_actions.trip(
            [tripped], reason="", stamp=Stamp(SYSTEM, now - timedelta(minutes=9 - number))
        )
    make_agent("deaf")
    send(Agent.objects.get(name="deaf"), now=now - timedelta(hours=1))
    response = browser.get(URL)
    text = words(response)
    assert "Not getting work" in text
    listed = re.findall(r"(broken-\d|deaf) (?:Open|Silent)", text)
    assert listed[:9] == [*(f"broken-{number}" for number in range(8, 0, -1)), "deaf"]
    assert "1 more tripped agent" in text
    assert '/agents/?q=state%3Atripped%2Chalf-open"' in html(response)
    assert "10 breakers not closed" not in text and "9 breakers not closed" in text  # the sidebar


def test_open_breakers_come_before_half_open_ones(
    browser: Client, project: object, now: datetime
) -> None:
    """However long they are open; what waits is counted for all agents, also those not shown."""
    for number in range(5):
        tripped = make_agent(f"broken-{number}")
        at = now - timedelta(minutes=9 - number)
        breaker_actions.trip([tripped], reason="", stamp=Stamp(SYSTEM, at))
        held = enqueued(tripped, "Held", now=at)
        Task.objects.filter(pk=held).update(
            state=TaskState.BLOCKED, blocked_reason=BlockedReason.BREAKER_OPEN
        )
    half = Breaker.objects.filter(agent__name__in=["broken-3", "broken-4"])
    half.update(state=BreakerState.HALF_OPEN)
    text = words(browser.get(URL))
    listed = re.findall(r"(broken-\d) (?:Open|Half open)", text)
    assert listed[:5] == ["broken-2", "broken-1", "broken-0", "broken-4", "broken-3"]
    assert "Not getting work 5 tasks and instructions wait" in text
    Breaker.objects.exclude(agent__name="broken-0").delete()
    Breaker.objects.update(state=BreakerState.HALF_OPEN)
    assert "Half open 0 of 2 passed probe is next 1 held" in words(browser.get(URL))


@pytest.mark.django_db(transaction=True)
def test_tiles_and_charts_come_from_the_counts(
    browser: Client, agent: Agent, now: datetime
) -> None:
    at = now - timedelta(hours=26)
    for day, failures in ((at, 0), (now - timedelta(minutes=40), 1)):
        for number in range(4):
            task = enqueued(agent, f"Part {number}", now=day, max_attempts=1 + number // 3,
                            on_exhausted="dead_letter")  # fmt: skip
            if number < failures:
                failed(agent, task, now=day, type="verification_failed")
            elif number == 3:
                failed(agent, task, now=day, type="verification_failed")
                succeed(agent, task, now=day + timedelta(minutes=5))
            else:
                succeed(agent, task, now=day)
    for minutes in range(30, 36):
        send_acknowledged(agent, at=now - timedelta(minutes=minutes), after=4)
    send_acknowledged(agent, at=now - timedelta(minutes=20), reminders=2)
    send_ignored(agent, "Ignored", at=now - timedelta(minutes=10))
    activity_counts.count_activity(now=now)
    response = browser.get(URL)
    text = words(response)
    assert "Tasks done 3 down 1 of 4 finished" in text
    assert "First-attempt success 50.0 % down 25.0 pt 2 of 4" in text
    assert "Attempts per task 1.25 1 needed a retry" in text
    assert "Acknowledged 87.5 % of 8 settled" in text
    assert re.search(r"Time to ack, p95 \d m \d\d s half within (3\.\d|4\.\d) s", text)
    assert "Tasks First attempt 2 After a retry 1 Failed 1" in text
    assert "Instructions First delivery 6 After a reminder 1 Gave up 1" in text
    week = words(browser.get(URL, {"range": "7d"}))
    assert "Last 7 days" in week and "Tasks done 7 of 8 finished" in week
    month = words(browser.get(URL, {"range": "30d"}))
    assert "Last 30 days" in month and "Tasks done 7 of 8 finished" in month
    assert "Last 24 hours" in words(browser.get(URL, {"range": "nonsense"}))


def succeed(agent: Agent, id: UUID, *, now: datetime) -> None:
    in_process.report_success(claimed(agent, id, now=now), {}, stamp=Stamp(SYSTEM, now))


def test_a_pattern_that_comes_back_is_rising(browser: Client, agent: Agent, now: datetime) -> None:
    for number in range(4):
        task = enqueued(agent, f"Part {number}", now=now - timedelta(minutes=2), max_attempts=1)
        failed(
            agent,
            task,
            now=now - timedelta(minutes=2),
            type="verification_failed",
            message="Access denied to it",
        )
    one = enqueued(agent, "Other", now=now - timedelta(minutes=2), max_attempts=1)
    failed(
        agent, one, now=now - timedelta(minutes=2), type="verification_failed", message="Disk full"
    )
    text = words(browser.get(URL))
    assert "Access denied to it 4 new today" in text and "Disk full 1 new" not in text


@pytest.mark.django_db(transaction=True)
def test_what_agents_time_went_to_and_who_is_worth_a_look(
    browser: Client, statements: Callable[..., int], agent: Agent, now: datetime
) -> None:
    """Of the chosen range; the unusual agent with its breaker, what it runs and what waits."""
    for number in range(28):
        at = now - timedelta(hours=30 if number < 12 else 2, minutes=number)
        id = enqueued(agent, f"Part {number}", now=at, max_attempts=1, on_exhausted="escalate")
        if number < 12 or number % 4 == 3:
            in_process.report_success(claimed(agent, id, now=at), stamp=Stamp(SYSTEM, at))
        else:
            failed(agent, id, now=at, message="No module named 'lxml'")
    for title in ("Runs", "Waits", "Waits too"):
        id = enqueued(agent, title, now=now - timedelta(minutes=1))
        if title == "Runs":
            claimed(agent, id, now=now - timedelta(minutes=1))
    activity_counts.count_activity(now=now)
    row = {"id": str(agent.pk), "name": "coder", "known": 40.0 * 3600, "work": 20.0 * 3600}
    row |= {"person": 10.0 * 3600, "breaker": 0.0}
    totals, day = row | {"attended": 144.0 * 3600}, [[0, 24 * 3600]]
    for days, duty in ((1, {"7": day}), (7, {"7": day, "8": day})):
        data = {"agents": 6, "duty": duty, "totals": totals, "rows": [row]}
        InsightFigure.objects.create(
            project=agent.project, panel="idle", days=days, computed_at=now, data=data
        )
    text = words(browser.get(URL))
    assert "co coder Closed Errors up from 0% to 75% 100% 1 2" in text
    assert "Where agents’ time went" in text and "waited 10 h for a person, 25% of their" in text
    assert "A person on duty keeps 6 agents busy." in text
    assert "new today · 12 need an answer" in text
    fingerprint = FailurePattern.objects.get().fingerprint
    same = f'href="/escalations/?q=pattern%3A{fingerprint}"'
    page = html(browser.get(URL))
    assert page.count(same) == 2  # of the rising pattern and of the same cause
    make_project("other")
    page = html(browser.get(URL))
    assert page.count(same.replace("?", "?project=default&")) == 2 and same not in page
    assert "Same cause, of any age: No module named ‹text› 12 Answer by cause" in text
    assert statements(browser, URL) <= 15
    assert "A person on duty keeps 3 agents busy." in words(browser.get(URL, {"range": "7d"}))
    assert "Where agents’ time went" not in words(browser.get(URL, {"range": "30d"}))


def test_an_open_breaker_is_out_of_the_usual_range(
    browser: Client, agent: Agent, now: datetime
) -> None:
    send_acknowledged(agent, at=now - timedelta(minutes=5))
    tripped = make_agent("broken")
    breaker_actions.trip([tripped], reason="too_many_failures", stamp=Stamp(SYSTEM, now))
    assert "br broken Open Too many failures – 0 0" in words(browser.get(URL))


def test_clock_events_are_left_out(browser: Client, agent: Agent, now: datetime) -> None:
    task = enqueued(agent, "Parse", now=now - timedelta(minutes=9))
    failed(agent, task, now=now - timedelta(minutes=9), type="verification_failed")
    leases.note_due_retries(now=now)
    assert Event.objects.filter(kind=Kind.TASK_DUE).exists()
    page = html(browser.get(URL))
    assert 'href="/activity/?q=clock%3Ashown" >Show all' in page
    assert (
        "enqueued for" in page
        and page.count('<li id="feed-') == Event.objects.exclude(kind=Kind.TASK_DUE).count()
    )


def test_the_feed_shows_the_last_12_events(browser: Client, agent: Agent, now: datetime) -> None:
    for _ in range(12):
        send_acknowledged(agent, at=now - timedelta(minutes=5))
    page = html(browser.get(URL))
    assert page.count('<li id="feed-') == 12
    assert "<bdi>coder</bdi></b> <bdi>acknowledged</bdi>" in page


def test_overview_before_the_first_instruction(
    browser: Client, project: object, now: datetime
) -> None:
    text = words(browser.get(URL))
    assert "No instructions yet" in text and "Tasks done" not in text
    assert "Nothing needs your attention" in text


def test_the_first_steps_are_hidden_for_one_person(
    browser: Client, project: Project, now: datetime
) -> None:
    """They can be shown again, and other people still see them."""
    assert "Get started" in words(browser.get(URL))
    lena = User.objects.create_user("lena")
    Membership.objects.create(user=lena, project=project, role=Role.VIEWER, added_by="mara")
    other = Client()
    other.force_login(lena)
    gone = other.post("/first-steps/", {"hidden": "yes"}, follow=True)
    text = words(gone)
    assert gone.redirect_chain == [(URL, 302)]
    assert "You have hidden the first steps." in text and "Get started" not in text
    assert 'id="first-connect"' not in html(gone)
    assert "Get started" in words(browser.get(URL))
    other.post("/settings/profile/save/", {"theme": "dark", "time_zone": ""})
    assert "Get started" not in words(other.get(URL))
    back = other.post("/first-steps/", {"hidden": "no"}, follow=True)
    assert "Get started" in words(back)
    assert Preference.objects.get(user=lena).theme == "dark"


def test_hidden_first_steps_return_the_page_that_follows_them(
    browser: Client, agent: Agent, now: datetime
) -> None:
    browser.post("/first-steps/", {"hidden": "yes"})
    send_acknowledged(agent, at=now - timedelta(days=3))
    text = words(browser.get(URL))
    assert "Tasks done" in text and "first steps" not in text
    assert browser.get("/first-steps/").status_code == 405


def test_overview_after_a_day_without_instructions(
    browser: Client, agent: Agent, now: datetime
) -> None:
    send_acknowledged(agent, at=now - timedelta(days=3))
    text = words(browser.get(URL))
    assert "Tasks done 0 of 0 finished" in text
    assert "Acknowledged – of 0 settled" in text
    assert "No agent did anything in the last day." in text


def test_overview_of_one_project(browser: Client, agent: Agent, now: datetime) -> None:
    other = make_agent("elsewhere", project=make_project("other"))
    asked = send_ignored(other, "Ignored", at=now - timedelta(minutes=5))
    send_acknowledged(agent, at=now - timedelta(minutes=5))
    whole, own = words(browser.get(URL)), words(browser.get(URL, {"project": "default"}))
    assert "Ignored 1 time other 1 in the last 5 min Ignored 1 agent elsewhere" in whole
    assert "Nothing needs your attention" in own and "Tasks done 0 " in own
    page = html(browser.get(URL, {"project": "other"}))
    assert f'/escalations/{asked.pk}/?project=other"' in page
    assert '/instructions/?project=other&q=state%3Aacknowledged"' in page
    assert browser.get(URL, {"project": "nowhere"}).status_code == 404


def test_page_part_and_poll(browser: Client, part: Part, agent: Agent, now: datetime) -> None:
    page = browser.get(URL)
    assert html(page).startswith("<!doctype html>")
    live = html(part(URL))
    assert "<html" not in live and '<div id="overview"' in live and live.count("hx-swap-oob") == 2
    assert part(URL, since=key(page)).status_code == 204
    send_ignored(agent, "Ignored", at=now - timedelta(minutes=3))
    fresh = part(URL, since=key(page))
    assert "<title>1 needs an answer · Overview · Tenfour</title>" in html(fresh)


def test_the_number_of_rows_adds_no_statements(
    browser: Client, statements: Callable[..., int], agent: Agent, now: datetime
) -> None:
    def more(count: int) -> None:
        for _ in range(count):
            number = Event.objects.count()
            other = make_agent(f"agent {number}")
            send_ignored(other, f"Ignored {number}", at=now - timedelta(minutes=9))
            send(other, now=now - timedelta(hours=1))

    more(2)
    few = statements(browser, URL)
    more(12)
    assert statements(browser, URL) == few <= 15
    since = key(browser.get(URL))
    assert statements(browser, URL, {"since": since}, headers=PART) <= 5


def test_only_operators_see_overview_and_reading_writes_nothing(
    browser: Client, agent: Agent, now: datetime
) -> None:
    send_ignored(agent, "Ignored", at=now - timedelta(minutes=5))
    before = Event.objects.count()
    browser.get(URL)
    assert browser.post(URL).status_code == 405
    assert Event.objects.count() == before
    stranger = Client()
    assert stranger.get(URL)["Location"] == "/sign-in/?next=/"
    assert stranger.get(URL, headers=PART).status_code == 401
    stranger.force_login(User.objects.create_user("visitor"))
    assert stranger.get(URL)["Location"] == "/sign-in/?next=/"


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "w" * 8192, "\u202etxt.exe \u05d0\u200f"]
)
def test_hostile_text_is_escaped(
    browser: Client, now: datetime, project: object, text: str
) -> None:
    send_ignored(make_agent(as_name(text)), text, at=now - timedelta(minutes=5))
    response = browser.get(URL)
    assert "<script>alert" not in response.content.decode()
    assert len(response.content) < 75_000
