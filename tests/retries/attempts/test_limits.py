"""An agent whose account is at a limit waits: no failure, no breaker, no attempt spent (RTY-4)."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ledger import agents
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Attempt, Breaker, Event, Failure, Task
from ledger.states import TaskState
from ledger.values.timestamps import format_timestamp
from retries import claims
from retries.claiming.agent_waits import MOST_IN_ROW
from retries.models import Escalation
from tests.dashboard.worked import make_plan
from tests.elsewhere import at_once
from tests.factories import NOW
from tests.retries.api.calls import enqueue
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db(transaction=True)

BERLIN = "You've hit your session limit · resets 3:45pm (Europe/Berlin)"
HOURS = "5-hour limit reached ∙ resets 7pm"
UNTIMED = "API Error: 429 rate_limit_error: would exceed your limit of input tokens per minute"
SOON = "Rate limit reached. Please try again in 20s."
SECOND = timedelta(seconds=1)


def make_plan_task(agent: Agent) -> Task:
    make_plan("03-01", [("One", [])], agent=agent, now=NOW)
    Task.objects.exclude(plan=None).update(max_attempts=4, attempt_limit=4)
    return Task.objects.exclude(plan=None).get()


def agent_now(agent: Agent) -> Agent:
    return Agent.objects.get(pk=agent.pk)


@pytest.mark.parametrize(
    ("line", "hours"),
    [
        (BERLIN, 2.75),
        (HOURS, 7),
        ("You've hit your 5-hour limit · resets 9:06pm (UTC)", 9.1),
        ("Claude AI usage limit reached|1795266000", 1),
        ("You've hit your usage limit. Upgrade to Pro or try again in 3 days 4 hours.", 76),
        ("Weekly limit reached ∙ resets Monday 9am (UTC)", 45),
        ("You've hit your weekly limit · resets Nov 24 at 3pm (America/New_York)", 80),
        ("You've hit your limit · resets 11am (America/Los_Angeles)", 7),
        ("Session limit reached ∙ resets 1:30pm (Asia/Tokyo)", 16.5),
        ("Opus weekly limit reached ∙ resets tomorrow at 6am (UTC)", 18),
        ('429 {"error":{"type":"usage_limit_reached","resets_at":1795266000}}', 1),
        ("HTTP 429 Too Many Requests Retry-After: 7200", 2),
        ("HTTP 429 Too Many Requests Retry-After: Sat, 21 Nov 2026 13:00:00 GMT", 1),
        ("HTTP 429 Too Many Requests x-ratelimit-reset-tokens: 6m0s", 0.1),
        ("429 Too Many Requests anthropic-ratelimit-tokens-reset: 2026-11-21T12:06:00Z", 0.1),
        ("You exceeded your current quota. Please retry in 90s.", 0.025),
        ("Session limit reached, resets in 10 days", 192),
        (UNTIMED, 1 / 60),
        ('API Error (529 {"type":"error","error":{"type":"overloaded_error"}})', 1 / 60),
        ("You've reached your weekly usage limit", 1 / 60),
    ],
)
def test_a_limit_lets_the_agent_wait_until_it_resets(agent: Agent, line: str, hours: float) -> None:
    """F07: to the minute in the zone that the message names, at most 8 days; nothing counts."""
    task = make_plan_task(agent)
    other = make_task(agent)
    decision = fail(agent, attempt_of(claim(agent, task=task.pk)), now=NOW, message=line)
    until = NOW + timedelta(hours=hours)
    assert (decision["decision"], decision["reason"]) == ("wait", "agent_waits")
    assert abs(datetime.fromisoformat(decision["not_before"]) - until) < SECOND
    found = agent_now(agent)
    assert found.waits_until and abs(found.waits_until - until) < SECOND
    assert found.waits_for == line
    after = Task.objects.get(pk=task.pk)
    assert (after.retry_count, after.attempt_limit) == (0, task.attempt_limit + 1)
    assert (Attempt.objects.get().outcome, Failure.objects.count()) == ("released", 0)
    assert not Breaker.objects.exclude(failures=0).exists() and not Escalation.objects.exists()
    for early in (NOW + SECOND, found.waits_until - SECOND):
        empty = claim(agent, now=early)
        assert (empty.rows, empty.reason) == ([], "agent_waits")
        assert empty.waits_until == found.waits_until
        assert empty.retry_after_s == -(-(found.waits_until - early) // SECOND)
    with pytest.raises(claims.AgentWaits, match="waits for a limit until"):
        claims.require_attempt(claim(agent, task=other, now=NOW + SECOND), "coder", other)
    both = claim(agent, now=found.waits_until + SECOND, limit=5)
    assert {row["id"] for row in both.rows} == {task.pk, other}


def test_a_limit_without_a_time_doubles_until_a_success(agent: Agent) -> None:
    """RTY-6: 60 s, then twice as long up to 15 minutes; also where each limit names a short one."""
    id, now, waits = make_task(agent), NOW, []
    for line in (UNTIMED, UNTIMED, SOON, UNTIMED, UNTIMED, UNTIMED):
        waits.append(fail(agent, attempt_of(claim(agent, now=now)), now=now, message=line))
        now += timedelta(seconds=waits[-1]["delay_s"])
    assert [round(each["delay_s"]) for each in waits] == [60, 120, 240, 480, 900, 900]
    assert Task.objects.get(pk=id).retry_count == 0
    done = attempt_of(claim(agent, now=now))
    now += SECOND
    Attempt.objects.filter(pk=done).update(outcome="success", ended_at=now)
    Task.objects.filter(pk=id).update(state=TaskState.DONE, current_attempt=None, completed_at=now)
    make_task(agent)
    again = fail(agent, attempt_of(claim(agent, now=now)), now=now, message=UNTIMED)
    assert again["delay_s"] == 60


def meet_limit(agent: Agent, now: datetime, line: str = UNTIMED) -> tuple[dict[str, Any], datetime]:
    """Claim a task when the agent may work, and meet its limit; return the decision and when."""
    now = max(now, agent_now(agent).waits_until or now) + SECOND
    return fail(agent, attempt_of(claim(agent, now=now)), now=now, message=line), now


def test_a_limit_that_never_ends_asks_a_person_once(agent: Agent) -> None:
    for _ in range(3):
        make_task(agent)
    now, decisions = NOW, []
    for _ in range(MOST_IN_ROW + 3):
        decision, now = meet_limit(agent, now)
        decisions.append(decision["reason"])
    assert decisions == ["agent_waits"] * (MOST_IN_ROW - 1) + ["needs_quota"] + ["agent_waits"] * 3
    assert Escalation.objects.get().reason == "needs_quota"
    assert Failure.objects.get().message == UNTIMED
    # it says something about the account, and not about the agent's work
    assert not Breaker.objects.exclude(failures=0).exists()


def test_weekly_limits_without_a_success_between_them_ask_a_person(agent: Agent) -> None:
    for _ in range(2):
        make_task(agent)
    line = "Weekly limit reached, resets in 6 days"
    first, now = meet_limit(agent, NOW, line)
    second, now = meet_limit(agent, now, line)
    assert (first["reason"], second["reason"]) == ("agent_waits", "needs_quota")
    assert agent_now(agent).waits_until == now + timedelta(days=6)
    third, _ = meet_limit(agent, now, line)
    assert third["reason"] == "agent_waits"


def test_the_end_of_a_wait_by_a_person_is_journaled(agent: Agent) -> None:
    make_task(agent)
    _, now = meet_limit(agent, NOW, BERLIN)
    until = agent_now(agent).waits_until
    assert until
    stamp = Stamp(SYSTEM, now + SECOND)
    assert agents.pause([agent_now(agent)], paused=False, stamp=stamp) == [agent]
    event = Event.objects.get(kind="agent.resumed")
    assert event.data == {"waits_until": format_timestamp(until)}
    assert claim(agent, now=now + SECOND).rows
    assert agents.pause([agent_now(agent)], paused=False, stamp=stamp) == []


def test_attempts_that_meet_a_limit_at_once_wait_once(agent: Agent) -> None:
    for _ in range(6):
        make_task(agent)
    rows = claim(agent, limit=6).rows

    def meet(n: int) -> float:
        said = fail(agent, rows[n]["attempt_id"], now=NOW, message=UNTIMED)
        return float(said["delay_s"])

    assert at_once(6, meet) == [60] * 6
    assert agent_now(agent).wait_step_s == 60


def test_several_workers_of_an_agent_that_waits_get_nothing(agent: Agent) -> None:
    for _ in range(6):
        make_task(agent)
    fail(agent, attempt_of(claim(agent)), now=NOW, message=BERLIN)
    found = at_once(6, lambda n: claim(agent, now=NOW + SECOND, worker_id=f"w{n}"))
    assert [(each.rows, each.reason) for each in found] == [([], "agent_waits")] * 6
    later = at_once(6, lambda n: claim(agent, now=NOW + timedelta(hours=3), worker_id=f"w{n}"))
    assert sorted(len(each.rows) for each in later) == [1] * 6


def test_a_longer_wait_stays_and_a_running_attempt_goes_on(agent: Agent) -> None:
    make_task(agent)
    make_task(agent)
    first, second = claim(agent, limit=2).rows
    fail(agent, first["attempt_id"], now=NOW, message=BERLIN)
    said = fail(agent, second["attempt_id"], now=NOW + SECOND, message=SOON)
    assert said["delay_s"] == 2.75 * 3600 - 1


def test_a_limit_in_a_verification_is_a_failure(agent: Agent) -> None:
    make_task(agent)
    ran = {"command": "make test", "exit_code": 1, "output": UNTIMED}
    said = fail(agent, attempt_of(claim(agent)), now=NOW, verification=ran, exit_code=1)
    assert (said["reason"], said["delay_s"]) == ("attempts_left", 60)
    assert agent_now(agent).waits_until is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("npm ERR! code E401 - Incorrect or missing password.", "needs_credentials"),
        ("error: wrong password for user deploy", "needs_credentials"),
        ("Error: GITHUB_TOKEN is not set", "needs_credentials"),
        ("deploy.sh: line 4: NPM_TOKEN: unbound variable", "needs_credentials"),
        ("Missing required environment variable OPENAI_API_KEY", "needs_credentials"),
        ("tar: write error: No space left on device", "no_retry_helps"),
        ("OSError: [Errno 28] No space left on device", "no_retry_helps"),
        ("prompt is too long: 214312 tokens > 200000 maximum", "no_retry_helps"),
        ("GraphQL: Resource not accessible by integration (createPullRequest)", "needs_permission"),
        ("error: missing required scopes [read:org]", "needs_permission"),
        (
            'Error from server (Forbidden): secrets is forbidden: User "ci" cannot list secrets',
            "needs_permission",
        ),
        ("An error occurred (AccessDenied) when calling PutObject", "needs_permission"),
        (
            "remote: error: GH006: Protected branch update failed for refs/heads/main.",
            "needs_permission",
        ),
        ("! [remote rejected] main -> main (protected branch hook declined)", "needs_permission"),
    ],
)
def test_an_error_that_no_retry_can_fix_asks_at_once(
    agent: Agent, line: str, reason: str, admin_client: Client
) -> None:
    """F26"""
    make_plan_task(agent)
    said = fail(agent, attempt_of(claim(agent)), now=NOW, message=line)
    assert (said["decision"], said["reason"]) == ("escalated", reason)
    escalation = Escalation.objects.get()
    assert escalation.reason == reason
    assert admin_client.get(f"/escalations/{escalation.pk}/").status_code == 200


@pytest.mark.parametrize(
    "line",
    [
        "toomanyrequests: You have reached your pull rate limit. You may increase the limit by "
        "authenticating and upgrading",
        "toomanyrequests: You have reached your unauthenticated pull rate limit.",
        "HTTP 503 Service Unavailable",
    ],
)
def test_an_image_pull_limit_and_a_service_that_is_away_let_the_task_wait(
    agent: Agent, line: str
) -> None:
    """F26: the task alone, since the limit is not of the agent's account; and it counts."""
    make_plan_task(agent)
    said = fail(agent, attempt_of(claim(agent)), now=NOW, message=line)
    assert (said["reason"], said["delay_s"]) == ("attempts_left", 60)
    assert agent_now(agent).waits_until is None


def test_the_wait_is_shown_and_a_person_can_end_it(
    agent: Agent, coder: Any, operator: Any, admin_client: Client
) -> None:
    id, other = enqueue(operator), enqueue(operator)
    attempt = coder("POST", "/claims", {"task": id}).body["data"][0]["attempt"]["id"]
    line = "Session limit reached, resets in 3 hours"
    coder("POST", f"/attempts/{attempt}/exit/1", line.encode(), Content_Type="text/plain")
    until = agent_now(agent).waits_until
    assert until and until > timezone.now() + timedelta(hours=2)
    empty = coder("POST", "/claims").body
    assert (empty["data"], empty["reason"]) == ([], "agent_waits")
    assert datetime.fromisoformat(empty["waits_until"]) - until < SECOND
    refused = coder("POST", f"/tasks/{other}/start")
    assert (refused.status_code, refused.body["code"]) == (409, "agent_waits")
    shown = operator("GET", "/agents/coder").body
    assert (shown["waits_for"], bool(shown["waits_until"])) == (line, True)
    page = admin_client.get(f"/agents/{agent.pk}/").content.decode()
    assert line in page and "Resume" in page
    for task in (id, other):
        page = admin_client.get(f"/tasks/{task}/").content.decode()
        assert "waits for a limit of its account" in page
    operator("PATCH", "/agents/coder", {"paused": False})
    both = coder("POST", "/claims", {"limit": 2}).body["data"]
    assert {row["task"]["id"] for row in both} == {id, other}
