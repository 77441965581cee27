"""Agents ask people; questions expire, are withdrawn, and people are reminded of them."""

from datetime import timedelta
from typing import Any

import pytest

from ledger import tasks as facts
from ledger.access.audit import audit
from ledger.errors import Invalid, InvalidTransition
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Attempt, DeadLetter, Event, Plan, Task
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries import sweeps
from retries.attempts import finishing, questions, releases
from retries.attempts.live_attempt import LeaseLost
from retries.attempts.report_fields import Report
from retries.escalations import answering, assignment, expiry
from retries.escalations.answering import HumanRequired
from retries.escalations.choices import parse
from retries.escalations.lifecycle import AlreadyResolved, EscalationExpired, Question
from retries.escalations.options import list_options
from retries.escalations.record import render_escalation
from retries.models import Escalation
from retries.retry_context.block import render_retry_context
from retries.retry_context.history import load_histories, render_next_context
from retries.states import Answer
from tests.factories import MINUTE, NOW
from tests.ledger.plans.test_import_writer import imported, states
from tests.retries.escalations.test_answering import ignored
from tests.retries.escalations.test_task_effects import answer, escalated, stands
from tests.retries.moves import attempt_of, claim, make_task

pytestmark = pytest.mark.django_db
S = TaskState
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
YES = [{"name": "yes", "title": "Drop it", "description": ""}]


def asked(agent: Agent, text: str = "Drop the table?", **more: Any) -> Escalation:
    """A question of the agent about a task that it has just begun."""
    make_task(agent, title="Clean up", max_attempts=1)
    return ask(agent, attempt_of(claim(agent)), text, **more)


def ask(agent: Agent, attempt: Any, text: str = "Drop the table?", **more: Any) -> Escalation:
    then = more.get("on_expiry")
    if is_old := then in ("skip", "abort"):  # as agents could set it in early versions
        more["on_expiry"] = "fail"
    question = Question(text=text, choices=more.pop("choices", []), **more)
    caller = TrustedCaller(SYSTEM, agent=agent)
    found = questions.ask(attempt, question, caller=caller, now=NOW)
    if is_old:
        Escalation.objects.filter(pk=found.pk).update(on_expiry=then)
        found.refresh_from_db()
    return found


def withdraw(escalation: Escalation, *, by_person: bool = False) -> Escalation:
    return questions.withdraw(
        escalation.pk,
        among=Escalation.objects.all(),
        stamp=Stamp(Actor("token", "1", "coder"), NOW + MINUTE),
        by_person=by_person,
    )


def test_a_question_ends_the_attempt_and_costs_none(agent: Agent) -> None:
    found = asked(
        agent, choices=YES, severity="high", client_state={"thread": 1, "password": "hunter2!"}
    )
    assert stands(found.task_id) == (S.ESCALATED, None, 0, 1)
    assert (found.reason, found.severity, found.client_state) == (
        "agent_question",
        "high",
        {"thread": 1, "password": "[redacted:secret]"},
    )
    attempt = Attempt.objects.get()
    assert attempt.outcome == "escalated" and not hasattr(attempt, "failure")
    offered = [option.name for option in list_options(found)]
    assert offered == [Answer.ANSWER, Answer.FIX, Answer.RETRY, Answer.SKIP, Answer.ABORT]
    message = render_escalation(found)
    assert "Its agent asks a question.\n\n> Drop the table?\n" in message
    failure_noise = ("Last Error", "Attempt History", "Files Modified", "Suggested Actions")
    assert not any(heading in message for heading in failure_noise)  # RTY-12
    assert "- `answer: yes` - " in message and "- `fix: <instruction>` - " in message
    done = answer(found, "answer", "Yes, but keep a copy")
    assert done.fix == "Yes, but keep a copy"
    assert stands(found.task_id) == (S.QUEUED, None, 0, 2)
    row = claim(agent, now=NOW + MINUTE).rows[0]
    assert row["attempt_number"] == 2
    past = load_histories([row["id"]])[row["id"]]
    assert (past.fix, past.question) == ("Yes, but keep a copy", "Drop the table?")
    block = render_retry_context(past, attempt=2, max_attempts=2)
    person, _, rest = block.partition("</user_intervention>")
    assert "User answered: Yes, but keep a copy</instruction>" in person
    assert "fail" not in block and "Review" not in block  # RTY-11
    assert "Drop the table?" not in person  # an agent's words are no person's
    assert '<question trust="agent">Drop the table?</question>' in rest
    assert list(audit()) == []


def test_a_form_that_asks_for_a_secret_stays_usable_and_shows_none(agent: Agent) -> None:
    """S3.47: a property's name says what is asked for; its description must not tell it."""
    schema = {
        "type": "object",
        "properties": {
            "api_token": {"type": "string", "description": "not password=" + "hunter2hunter"}
        },
        "required": ["api_token"],
    }
    asks = asked(agent, response_schema=schema).response_schema
    assert asks is not None and asks["required"] == ["api_token"]
    assert asks["properties"]["api_token"] == {
        "type": "string",
        "description": "not password=[redacted:secret]",
    }


def test_who_asks_again_or_too_late_has_lost_it(agent: Agent) -> None:
    found = asked(agent)
    attempt = Attempt.objects.get().pk
    with pytest.raises(LeaseLost, match="it was escalated"):
        ask(agent, attempt)
    with pytest.raises(LeaseLost):
        said = Report(result={})
        finishing.finish_attempt(attempt, said, caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)
    assert Escalation.objects.get() == found


def test_who_was_told_to_stop_asks_nothing(agent: Agent) -> None:
    id = make_task(agent)
    attempt = attempt_of(claim(agent))
    facts.abort([id], stamp=Stamp(SYSTEM, NOW))
    with pytest.raises(InvalidTransition, match="asked this task to stop"):
        ask(agent, attempt)
    assert not Escalation.objects.exists() and stands(id)[0] == S.RUNNING


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"text": " \n"}, "/question"),
        ({"client_state": "x" * 8191}, "/client_state"),
        ({"response_schema": {"x": "y" * 9000}}, "/response_schema"),
        ({"expires_at": NOW + HOUR}, "/on_expiry"),
        ({"on_expiry": "retry"}, "/expires_at"),
        ({"expires_at": NOW, "on_expiry": "retry"}, "/expires_at"),
        ({"expires_at": NOW + 299 * SECOND, "on_expiry": "retry"}, "/expires_at"),
        ({"expires_at": (NOW + HOUR).replace(tzinfo=None), "on_expiry": "fail"}, "/expires_at"),
        ({"expires_at": NOW + HOUR, "on_expiry": "skip"}, "/on_expiry"),
        ({"expires_at": NOW + HOUR, "on_expiry": "abort"}, "/on_expiry"),
    ],
)
def test_a_question_that_does_not_fit_ends_nothing(agent: Agent, more: Any, pointer: str) -> None:
    make_task(agent)
    question = Question(**({"text": "Why?", "choices": []} | more))
    caller = TrustedCaller(SYSTEM, agent=agent)
    with pytest.raises(Invalid) as refused:
        questions.ask(attempt_of(claim(agent)), question, caller=caller, now=NOW)
    assert refused.value.more["errors"][0]["pointer"] == pointer
    assert Attempt.objects.get().outcome is None


def test_secrets_in_a_question_are_masked(agent: Agent) -> None:
    """S3.47"""
    found = asked(agent, "Is password=hunter2hunter2 right?\x1b[31m")
    assert "hunter2" not in found.question and "\x1b" not in found.question


def test_its_agent_may_take_it_back(agent: Agent) -> None:
    found = withdraw(asked(agent))
    assert (found.state, found.action) == ("withdrawn", None)
    assert stands(found.task_id) == (S.QUEUED, None, 0, 2)
    with pytest.raises(AlreadyResolved):
        withdraw(found)
    with pytest.raises(AlreadyResolved):
        answer(found, "answer", "Yes")
    assert list(audit()) == []


def test_what_tenfour_asked_no_agent_takes_back(agent: Agent) -> None:
    found = escalated(agent, attempts=1)
    with pytest.raises(HumanRequired):
        withdraw(found)
    with pytest.raises(InvalidTransition, match="answer it"):
        withdraw(found, by_person=True)
    assert Escalation.objects.get().is_open


def test_the_fourth_question_of_a_round_does_not_expire(agent: Agent) -> None:
    """Otherwise an agent could ask, and get its attempt back, forever."""
    expires = {"expires_at": NOW + HOUR, "on_expiry": "retry"}
    found = asked(agent, **expires)
    for n in range(2, 5):
        assert found.reason == "agent_question"
        withdraw(found)
        found = ask(agent, attempt_of(claim(agent)), f"Number {n}?", **expires)
    assert (found.reason, found.expires_at, found.on_expiry) == ("questions_exhausted", None, None)
    assert "asks again, after several questions without an answer" in render_escalation(found)
    assert list_options(found)[0].name == Answer.ANSWER
    answer(found, "answer", "Yes")
    found = ask(agent, attempt_of(claim(agent, now=NOW + MINUTE)), "And now?", **expires)
    assert (found.reason, found.on_expiry) == ("agent_question", "retry")
    assert list(audit()) == []


def test_only_a_person_withdraws_a_question_after_several(agent: Agent) -> None:
    """Otherwise an agent could ask, and withdraw, forever."""
    found = asked(agent)
    for n in range(2, 5):
        withdraw(found)
        found = ask(agent, attempt_of(claim(agent)), f"Number {n}?")
    with pytest.raises(HumanRequired, match="several questions without an answer"):
        withdraw(found)
    assert found.reason == "questions_exhausted" and Escalation.objects.open().get() == found
    withdraw(found, by_person=True)
    assert stands(found.task_id)[0] == S.QUEUED
    # that was no answer
    assert ask(agent, attempt_of(claim(agent)), "Number 5?").reason == "questions_exhausted"
    assert list(audit()) == []


@pytest.mark.parametrize("how", ["withdraw", "expire", "answer"])
def test_a_question_does_not_reset_the_releases(agent: Agent, how: str) -> None:
    """Only a retry or a fix begins a round."""
    make_task(agent)
    caller, later = TrustedCaller(SYSTEM, agent=agent), NOW + 2 * HOUR
    for _ in range(9):
        releases.release(attempt_of(claim(agent)), caller=caller, now=NOW)
    found = ask(agent, attempt_of(claim(agent)), expires_at=NOW + HOUR, on_expiry="retry")
    match how:
        case "withdraw":
            withdraw(found)
        case "expire":
            assert expiry.process_due(now=NOW + HOUR)["expired"] == 1
        case "answer":
            answer(found, "answer", "Yes")
    releases.release(attempt_of(claim(agent, now=later)), caller=caller, now=later)
    tenth = Escalation.objects.open().get()
    assert tenth.reason == "releases_exhausted"
    answer(tenth, "retry", now=later)
    releases.release(attempt_of(claim(agent, now=later)), caller=caller, now=later)
    assert stands(found.task_id)[0] == S.QUEUED
    assert list(audit()) == []


def test_the_message_lists_the_questions_own_answers(agent: Agent) -> None:
    choices = [{"name": "yes", "title": "Drop it", "description": ""}, {"name": "no"}]
    found = asked(agent, choices=choices)
    said = render_escalation(found)
    assert (
        "**Your options:**\n- `answer: yes` - Drop it\n- `answer: no` - Choose this answer\n"
        "- `answer: <words>` - Answer the question\n- `retry` - " in said
    )
    choice = parse("answer: yes, but keep a copy")
    done = answering.answer(
        found.pk,
        choice,
        among=Escalation.objects.all(),
        channel="api",
        stamp=Stamp(SYSTEM, NOW + MINUTE),
    )
    assert (done.action, done.fix) == ("answer", "yes, but keep a copy")
    block = render_next_context(Task.objects.filter(pk=found.task_id).values().get())
    assert "<standing>Attempt 1 asked a question, and a person has answered it.</standing>" in block
    assert "previous failure" not in block


# ---- the clock


@pytest.mark.parametrize(
    ("then", "state"),
    [("retry", S.QUEUED), ("skip", S.SKIPPED), ("abort", S.ABORTED), ("fail", S.FAILED)],
)
def test_a_question_expires_as_its_asker_wanted(agent: Agent, then: str, state: str) -> None:
    found = asked(agent, expires_at=NOW + HOUR, on_expiry=then)
    waits = make_task(agent, needs=[found.task_id])
    assert expiry.process_due(now=NOW + HOUR - SECOND)["expired"] == 0
    for expired in (1, 0):  # safe to run twice
        assert expiry.process_due(now=NOW + HOUR)["expired"] == expired
    found.refresh_from_db()
    assert (found.state, found.action) == ("expired", None)
    assert stands(found.task_id)[0] == state
    assert stands(waits)[0] == (S.QUEUED if then == "skip" else S.BLOCKED)
    assert DeadLetter.objects.count() == (1 if then == "fail" else 0)
    assert Event.objects.get(kind="escalation.expired").actor_name == "escalations"
    with pytest.raises(EscalationExpired):
        answer(found, "answer", "Yes")
    assert list(audit()) == []


def test_a_question_that_expires_stops_no_plan(agent: Agent) -> None:
    """What an agent asked for ends its own task alone; a plan is stopped by a person."""
    imported({}, {})
    found = ask(agent, attempt_of(claim(agent)), expires_at=NOW + HOUR, on_expiry="abort")
    assert expiry.process_due(now=NOW + HOUR)["expired"] == 1
    assert states() == {"task-1": S.ABORTED, "task-2": S.QUEUED}
    assert stands(found.task_id)[0] == S.ABORTED
    assert Plan.objects.get().state == "active" and list(audit()) == []


def test_one_that_cannot_expire_holds_up_no_other(agent: Agent) -> None:
    bad = asked(agent, expires_at=NOW + HOUR, on_expiry="skip")
    good = asked(agent, expires_at=NOW + HOUR, on_expiry="retry")
    Task.objects.filter(pk=bad.task_id).update(state=S.QUEUED)
    assert expiry.process_due(now=NOW + HOUR)["expired"] == 1
    assert Escalation.objects.open().get() == bad and good.state == "open"


def test_people_are_reminded_and_ever_less_often(agent: Agent) -> None:
    found = ignored(agent)
    asked(agent)
    at = NOW
    for hours in (1, 1, 2, 4, 8, 16, 24, 24):
        at += hours * HOUR
        assert sweeps.run("escalations", now=at - SECOND)["reminded"] == 0
        assert sweeps.run("escalations", now=at)["reminded"] == 2
        assert sweeps.run("escalations", now=at)["reminded"] == 0
    answer(found, "skip")
    assert sweeps.run("escalations", now=at + 24 * HOUR)["reminded"] == 1
    assert Event.objects.filter(kind="escalation.reminded", subject_id=found.pk).count() == 8
    found.refresh_from_db()
    assert found.state == "resolved"


# ---- beside the answer


def test_it_is_assigned_and_commented(agent: Agent, django_user_model: Any) -> None:
    django_user_model.objects.create_superuser("jonas")
    django_user_model.objects.create_user("visitor")
    found, every = asked(agent), Escalation.objects.all()
    who = Actor("user", "1", "mara")
    done = assignment.assign(found.pk, "jonas", among=every, stamp=Stamp(who, NOW))
    assert done.assignee is not None and done.assignee.get_username() == "jonas"
    assert done.version == 2
    for name in ("visitor", "nobody"):
        with pytest.raises(Invalid, match=name):
            assignment.assign(found.pk, name, among=every, stamp=Stamp(who, NOW))
    assert assignment.assign(found.pk, None, among=every, stamp=Stamp(who, NOW)).assignee is None
    assignment.comment(found.pk, " The archive is down ", among=every, stamp=Stamp(who, NOW))
    for text in ("", " ", "x" * 2001, "a\x00"):
        with pytest.raises(Invalid):
            assignment.comment(found.pk, text, among=every, stamp=Stamp(who, NOW))
    event = Event.objects.get(kind="escalation.commented")
    assert event.data["text"] == "The archive is down" and event.actor_name == "mara"
