"""Replay of policies on a history that real reports made."""

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Task
from ledger.states import FailureType
from ledger.tasks.spec import Backoff
from retries import in_process
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation, Grouped, RetryPolicy
from retries.policies import replay
from retries.policies.replay import Replay, replay_policy
from retries.states import Answer
from tests.dashboard.worked import make_plan
from tests.factories import MINUTE, NOW
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db
MISSING = "ModuleNotFoundError: No module named 'polars'"
OTHER = "TypeError: unsupported operand"
QUOTA = "API Error: 400 Your credit balance is too low to access the API."
LIMIT = "openai.RateLimitError: Error code: 429 - Rate limit reached. Please try again in 20s."
HOUR = timedelta(hours=1)
NEXT = timedelta(seconds=2)


def work(agent: Agent, id: UUID, *outcomes: tuple[str, list[Any] | None]) -> UUID:
    """Run a task's attempts two seconds apart; an empty message succeeds."""
    now = NOW
    for message, files in outcomes:
        attempt = attempt_of(claim(agent, task=id, now=now))
        if not message:
            succeed(attempt, now=now + NEXT / 2)
            break
        sent: dict[str, Any] = (
            {} if files is None else {"sends_files": True, "files_modified": tuple(files)}
        )
        sent |= {"type": FailureType.VERIFICATION_FAILED}  # which no breaker counts
        fail(agent, attempt, now=now + NEXT / 2, message=message, **sent)
        now += NEXT
    return id


def succeed(attempt: UUID, *, now: datetime) -> None:
    in_process.report_success(attempt, stamp=Stamp(SYSTEM, now))


def task(agent: Agent, *, attempts: int = 4) -> UUID:
    return make_task(agent, max_attempts=attempts, backoff=Backoff(0, jitter=False))


def run(agent: Agent, policy: str, **more: Any) -> Replay:
    return replay_policy(policy, project_id=agent.project_id, now=NOW + HOUR, **more)


@pytest.fixture
def history(agent: Agent) -> dict[str, UUID]:
    """What happened while all policies were off."""
    names = ("ask_at_once", "obey_waits", "ask_on_same_failure")
    RetryPolicy.objects.create(project=agent.project, **dict.fromkeys(names, "off"))
    changed = [{"path": "a.py", "status": "modified"}]
    tasks = {
        "wasted": work(agent, task(agent), *[(MISSING, [])] * 4),
        "lost": work(agent, task(agent), (MISSING, []), (MISSING, []), ("", None)),
        "changed": work(agent, task(agent), (MISSING, []), (MISSING, changed), ("", None)),
        "unknown": work(agent, task(agent), (MISSING, None), (MISSING, []), ("", None)),
        "different": work(agent, task(agent), (MISSING, []), (OTHER, []), ("", None)),
        "once": work(agent, task(agent), ("", None)),
        "credit": work(agent, task(agent, attempts=3), *[(QUOTA, None)] * 3),
        "limit": work(agent, task(agent), (LIMIT, None), (LIMIT, None), ("", None)),
    }
    make_plan("03-01", [("One", [])], agent=agent, now=NOW)
    found = Task.objects.exclude(plan=None).get()
    Task.objects.filter(pk=found.pk).update(max_attempts=4, attempt_limit=4)
    tasks["asked"] = work(agent, found.pk, *[(MISSING, [])] * 4)
    return tasks


def test_a_replay_says_what_a_policy_would_have_saved_and_lost(
    agent: Agent, history: dict[str, UUID]
) -> None:
    again = run(agent, "ask_on_same_failure")
    by_id = {each.id: each for each in again.changed}
    assert set(by_id) == {history["wasted"], history["lost"], history["asked"]}
    wasted, asked = by_id[history["wasted"]], by_id[history["asked"]]
    assert (wasted.asks_after, wasted.saved, wasted.saved_s, wasted.asks_more) == (2, 2, 2.0, True)
    # the plan's task asked anyway, two attempts later
    assert (asked.saved, asked.asks_more, asked.in_plan) == (2, False, True)
    assert [each.id for each in again.lost] == [history["lost"]]
    assert (again.saved, again.asked_more, again.tasks, again.done) == (4, 2, 9, 6)
    assert [each.id for each in again.narrow_to("plans").changed] == [history["asked"]]
    assert again.narrow_to("off").changed == []
    credit = run(agent, "ask_at_once")
    assert [(each.id, each.saved, each.asks_more) for each in credit.changed] == [
        (history["credit"], 2, True)
    ]
    waits = run(agent, "obey_waits")
    assert [(each.id, each.saved, each.asks_more) for each in waits.changed] == [
        (history["limit"], 1, False)
    ]


def test_what_was_stored_before_known_errors_is_read_from_its_texts(
    agent: Agent, history: dict[str, UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(Grouped.objects.values_list("known_error", flat=True)) >= {"quota", "rate_limit"}
    before = run(agent, "ask_at_once")
    Grouped.objects.update(known_error=None)
    assert run(agent, "ask_at_once") == before
    monkeypatch.setattr(replay, "MOST_UNREAD", 0)
    assert run(agent, "ask_at_once").changed == []
    assert run(agent, "ask_at_once", most=None) == before
    # a page reads the newest tasks alone, and days without tasks change nothing
    assert run(agent, "ask_on_same_failure", most=1).tasks == 1
    assert (
        replay_policy(
            "ask_at_once", project_id=agent.project_id, now=NOW + timedelta(days=200)
        ).tasks
        == 0
    )


def test_a_person_who_was_asked_ends_what_a_policy_changes(agent: Agent) -> None:
    """Attempts after a person's answer are no waste of Tenfour's."""
    RetryPolicy.objects.create(project=agent.project, ask_on_same_failure="off")
    id = make_task(agent, max_attempts=3, backoff=Backoff(0, jitter=False), on_exhausted="escalate")
    work(agent, id, *[(MISSING, [])] * 3)
    answering.answer(
        Escalation.objects.get().pk,
        Choice(Answer.RETRY),
        among=Escalation.objects.all(),
        stamp=Stamp(Actor("user", "1", "mara"), NOW + MINUTE),
        channel="api",
    )
    attempt = attempt_of(claim(agent, task=id, now=NOW + 2 * MINUTE))
    succeed(attempt, now=NOW + 3 * MINUTE)
    (changed,) = run(agent, "ask_on_same_failure").changed
    assert (changed.saved, changed.loses_success, changed.asks_more) == (1, False, False)


def test_the_effects_of_a_policy_that_is_on_are_counted(agent: Agent) -> None:
    RetryPolicy.objects.create(project=agent.project, ask_on_same_failure="all")
    id = work(agent, task(agent), (MISSING, []), (MISSING, []))
    about = {"project_id": agent.project_id, "now": NOW + HOUR}
    assert replay.count_effects("ask_on_same_failure", **about).asked == 1
    answering.answer(
        Escalation.objects.get().pk,
        Choice(Answer.RETRY),
        among=Escalation.objects.all(),
        stamp=Stamp(Actor("user", "1", "mara"), NOW + MINUTE),
        channel="api",
    )
    succeed(attempt_of(claim(agent, task=id, now=NOW + 2 * MINUTE)), now=NOW + 3 * MINUTE)
    effects = replay.count_effects("ask_on_same_failure", **about)
    assert (effects.asked, effects.lost) == (1, 1)
    assert run(agent, "ask_on_same_failure").changed == []  # it asked, so nothing would change


def test_the_command_prints_figures_and_tasks(agent: Agent, history: dict[str, UUID]) -> None:
    out = StringIO()
    about = {"project": agent.project.name, "days": 3650}
    call_command("replay_policy", "ask_on_same_failure", stdout=out, **about)
    text = out.getvalue()
    assert "attempts saved: 4 (4 s)" in text and "successes lost: 1" in text
    assert f"  {history['lost']} code: after attempt 2 loses its success\n" in text
    out = StringIO()
    call_command(
        "replay_policy", "ask_on_same_failure", stdout=out, json=True, scope="plans", **about
    )
    found = json.loads(out.getvalue())
    assert (found["saved"], found["lost"], found["asked_more"]) == (2, 0, 0)
    assert [each["id"] for each in found["changed"]] == [str(history["asked"])]
    with pytest.raises(CommandError):
        call_command("replay_policy", "ask_at_once", project="gone")
