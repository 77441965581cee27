"""The inbox with escalations of tasks: evidence, preview, answers and undo."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import escape, unescape
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings as django_settings
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Breaker, DeadLetter, Event, Membership, Task
from ledger.states import TaskState
from ledger.tasks import Backoff
from ledger.tokens import TrustedCaller
from retries import breaker_actions, claims, in_process
from retries.attempts import finishing, questions
from retries.attempts.report_fields import Report
from retries.escalations import answering, assignment, expiry
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import Question
from retries.models import Escalation
from retries.plans import aborting, restarting
from retries.retry_context import history
from retries.retry_context.block import render_retry_context
from retries.states import Answer
from tests.dashboard.conftest import PART
from tests.dashboard.escalations.test_escalations import (
    HOSTILE,
    address,
    html,
    jonas_answers,
    post,
    words,
)
from tests.dashboard.worked import claimed, enqueued, failed
from tests.factories import NOW
from tests.ledger.plans.test_import_writer import do, imported, task
from tests.retries.failures.test_suggestions import fixed
from tests.retries.moves import attempt_of, claim, fail

Part = Callable[..., HttpResponse]
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
ERRORS = (
    "Traceback\nNotNullViolation: null value in column currency",
    "FAILED test_totals\n41 of 9318 invoices differ\nINV-1\nINV-2",
    "FAILED test_totals\n3 of 9318 invoices differ\nINV-2",
)

pytestmark = pytest.mark.django_db


def exhausted(agent: Agent, title: str = "Backfill", *, now: datetime, **more: Any) -> Escalation:
    """Return the escalation of a task that failed three times with different errors."""
    start = now - 30 * MINUTE
    id = enqueued(
        agent,
        title,
        now=start,
        max_attempts=3,
        on_exhausted="escalate",
        backoff=Backoff(base_delay_ms=0, jitter=False),
        **more,
    )
    for number, output in enumerate(ERRORS):
        failed(
            agent,
            id,
            now=start + number * MINUTE,
            type="verification_failed",
            message=output.splitlines()[1],
            verification={"command": "make test", "exit_code": 1, "output": output},
            root_cause_guess="It rounds too early" if number == 1 else "",
            suggested_fix="Round per line" if number == 1 else "",
            files_modified=[{"path": "ledger/money.py", "status": "partially_modified"}],
        )
    return about(id)


def about(id: UUID) -> Escalation:
    return Escalation.objects.get(task=id, state="open")


def asked(agent: Agent, *, now: datetime, **more: Any) -> Escalation:
    id = enqueued(agent, "Clean up", now=now)
    question = Question(text="Drop the table?", choices=more.pop("choices", []), **more)
    found = claims.claim(TrustedCaller(SYSTEM, agent=agent), task=id, now=now)
    caller = TrustedCaller(SYSTEM, agent=agent)
    return questions.ask(found.rows[0]["attempt_id"], question, caller=caller, now=now)


# ---- what is told


def test_the_form_of_an_answer_is_filled_in_and_held(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """api.md §4.5: an invalid value has an error at its field, and the input is kept."""
    properties = {
        "table": {"type": "string", "enum": ["orders", "<b>"], "title": "Which table"},
        "rows": {"type": "integer", "default": 10, "description": "At once"},
    }
    schema = {"type": "object", "properties": properties, "required": ["table"]}
    question = asked(agent, now=now, response_schema=schema)
    page = browser.get(address(question)).content.decode()
    assert '<option value="&lt;b&gt;">' in page and "Which table" in page
    assert 'name="response.rows" value="10"' in page and "At once" in page
    form = {"version": question.version, "action": "answer", "fix": "Mind it"}
    form |= {"response.table": "", "response.rows": "12 x"}
    told = html(browser.post(f"{address(question)}answer/", form, headers=PART), 422)
    assert "'table' is required: one of orders, <b>." in told
    assert re.search(r'name="response.table" aria-invalid="true"', told)
    assert 'name="response.rows" value="12 x"' in told and "Mind it</textarea>" in told
    form |= {"response.table": "orders"}
    told = html(browser.post(f"{address(question)}answer/", form, headers=PART), 422)
    assert "'rows' must be an integer." in told
    shown = browser.post(f"{address(question)}preview/", form | {"response.rows": "12"})
    assert "Mind it\nrows: 12\ntable: orders" in plain(shown)
    retried = browser.post(f"{address(question)}answer/", form | {"response.rows": "12"})
    assert retried.status_code == 302
    question.refresh_from_db()
    assert question.response == {"table": "orders", "rows": 12}
    assert question.fix == "Mind it\nrows: 12\ntable: orders"


def test_evidence_of_a_task(browser: Client, agent: Agent, now: datetime) -> None:
    question = exhausted(agent, now=now)
    enqueued(agent, "Reconcile", now=now, needs=[question.task_id])
    told = words(browser.get(address(question)))
    assert "Failed 3 of 3 attempts. From attempt 2 to 3: the same error." in told
    assert "Duration 30 s" in told
    assert told.count("waited 50 s") == 2 and "3/3" in told
    # the agent explained only the failure before the last one
    assert "Likely cause known error, after attempt 3 The code does not do" in told
    assert "$ make test exit 1" in told and "3 of 9318 invoices differ INV-2" in told
    assert "ledger/money.py Modified but incomplete , attempt 3" in told
    assert "Dependent tasks 1 Reconcile" in told
    assert "## Task Escalation Required" in told  # the message
    page = html(browser.get(address(question)))
    assert 'data-tab="3"> 2 and 3 </button>' in page and 'data-suggest="Round per line"' in page
    assert '<span class="sugg__why">suggested after attempt 2</span>' in page
    raw = browser.get(address(question)).content.decode()
    # a diff keeps its white space
    assert re.findall(r'data-s="[^"]+"\s*>(.)', raw) == ["<"] * raw.count("data-s=")


def test_the_likely_cause_is_that_of_the_last_failure(
    browser: Client, agent: Agent, now: datetime
) -> None:
    id = enqueued(agent, "Build", now=now, max_attempts=3, on_exhausted="escalate")
    failed(agent, id, now=now, message="no disk", root_cause_guess="The disk is full")
    failed(agent, id, now=now + HOUR, message="rounding", root_cause_guess="It rounds too early")
    failed(agent, id, now=now + 2 * HOUR, message="Cannot find module 'uuid'")
    told = words(browser.get(address(about(id))))
    assert "Likely cause known error, after attempt 3 uuid is not installed" in told
    assert "The disk is full" not in told.partition("Escalation message")[0]


def test_the_line_of_the_headline_is_marked(browser: Client, agent: Agent, now: datetime) -> None:
    """OPR-12: on the page of the escalation and of the task, without a script too."""
    telling = "E   ModuleNotFoundError: No module named '<weasyprint>'"
    output = "\n".join([*[f"test_{n} PASSED" for n in range(30)], telling, "1 error", "Error 1"])
    id = enqueued(agent, "Build", now=now, max_attempts=1, on_exhausted="escalate")
    ran = {"command": "make test", "exit_code": 2, "output": output}
    failed(agent, id, now=now, message="make test returned exit code 2", verification=ran)
    for path in (address(about(id)), f"/tasks/{id}/"):
        marks = re.findall(r"<mark[^>]*>(.*?)</mark>", browser.get(path).content.decode(), re.S)
        assert marks == [escape(telling) + "\n"], path


def test_cause_and_fix_are_two_lines(browser: Client, agent: Agent, now: datetime) -> None:
    """OPR-21: each with its own direction."""
    id = enqueued(agent, "Build", now=now, max_attempts=1, on_exhausted="escalate")
    failed(
        agent, id, now=now, message="odd", root_cause_guess="القرص ممتلئ", suggested_fix="Free it"
    )
    page = html(browser.get(address(about(id))))
    assert '<p dir="auto">القرص ممتلئ</p>' in page
    assert "<p><b>Suggested fix:</b> <bdi>Free it</bdi></p>" in page


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("open", "checking in, but its breaker is open: it gets no tasks."),
        ("half_open", "This task is waiting for your answer."),
    ],
)
def test_the_breaker_of_the_agent_is_shown_beside_its_escalation(
    browser: Client, agent: Agent, now: datetime, state: str, text: str
) -> None:
    question = exhausted(agent, now=now)
    Agent.objects.update(last_seen_at=now)
    assert "Breaker" not in words(browser.get(address(question)))
    breaker_actions.trip([agent], reason="by hand", stamp=Stamp(SYSTEM, now))
    Breaker.objects.update(state=state)
    told = words(browser.get(address(question)))
    assert f"Agent coder Breaker {state.replace('_', ' ')} Last seen" in told and text in told


@pytest.mark.parametrize(
    ("asks", "action", "text"),
    [(False, "retry", ""), (False, "fix", "Trim first"), (True, "retry", "")],
)
def test_the_preview_says_how_the_last_attempt_ended(
    browser: Client, agent: Agent, now: datetime, asks: bool, action: str, text: str
) -> None:
    """It reads as if the answer was given: a cleared blocker, or a question that was read."""
    id = enqueued(agent, "Build", now=now, max_attempts=3, on_exhausted="escalate")
    live, caller = claimed(agent, id, now=now), TrustedCaller(SYSTEM, agent=agent)
    stamp = Stamp(SYSTEM, now)
    if asks:
        questions.ask(live, Question(text="Which?", choices=[]), caller=caller, now=now)
    else:
        blocked = Report(status="blocked", message="no access")
        finishing.finish_attempt(live, blocked, caller=caller, now=stamp.at)
    question = about(id)
    shown = plain(browser.post(f"{address(question)}preview/", {"fix": text}, headers=PART))
    ending = "asked a question" if asks else "was blocked, and a person has cleared the blocker."
    assert f"Attempt 1 {ending}" in shown
    jonas_answers(question, action, now + MINUTE, text)
    row = Task.objects.filter(pk=id).values().get()
    assert history.render_next_context(row) == shown


def test_a_plan_s_task_is_called_by_its_ref_in_the_list(
    browser: Client, agent: Agent, now: datetime
) -> None:
    imported({"title": "Use it", "max_attempts": 1})
    fail(agent, attempt_of(claim(agent)), now=NOW)
    told = words(browser.get("/escalations/"))
    assert re.search(r"Use it waiting \S+ \S+ it broke 03-01:task-1 coder", told), told


def test_different_messages_are_different_errors_with_the_same_output(
    browser: Client, agent: Agent, now: datetime
) -> None:
    id = enqueued(agent, "Backfill", now=now, max_attempts=2, on_exhausted="escalate")
    for number, message in enumerate(("2 tests failed", "1 test failed")):
        said = {"command": "make test", "exit_code": 1, "output": "FAIL tests/test_ids.py"}
        failed(agent, id, now=now + number * HOUR, message=message, verification=said)
    told = words(browser.get(address(about(id))))
    assert "From attempt 1 to 2: 1 error gone, 1 new." in told


def test_closed_escalation_waits_for_no_answer(
    browser: Client, agent: Agent, now: datetime
) -> None:
    question = exhausted(agent, now=now)
    Agent.objects.update(last_seen_at=now)
    assert "This task is waiting for your answer." in words(browser.get(address(question)))
    Agent.objects.update(last_seen_at=now - HOUR)
    assert "The agent has not checked in since then." in words(browser.get(address(question)))
    Agent.objects.update(last_seen_at=now)
    jonas_answers(question, "skip", now)
    told = words(browser.get(address(question)))
    assert "is checking in for work." in told and "waiting for your answer" not in told
    late = asked(agent, now=now, expires_at=now + HOUR, on_expiry="fail")
    # as agents could set it in early versions
    Escalation.objects.filter(pk=late.pk).update(on_expiry="skip")
    expiry.process_due(now=now + HOUR)
    told = words(browser.get(address(late)))
    assert "Reason No answer came in time, so the task was skipped" in told
    assert "Answered" not in told.partition("Why Nobody")[0].rpartition("Clean up")[2]


@pytest.mark.parametrize("times", [1, 3])
def test_a_fix_that_worked_before_is_the_first_chip(
    browser: Client, agent: Agent, now: datetime, times: int
) -> None:
    """Fixes that worked for the same pattern come first; from the third time on it is advice."""
    start, missing = now - 60 * MINUTE, "Cannot find module 'uuid'"
    for words_of_it in (*["Run npm ci"] * times, ""):
        id = enqueued(agent, "Build", now=start, max_attempts=1, on_exhausted="escalate")
        failed(agent, id, now=start, message=missing, suggested_fix="Pray" if words_of_it else "")
        if words_of_it:
            choice = Choice(Answer.FIX, fix=words_of_it)
            every = Escalation.objects.all()
            mara = Actor("user", "1", "mara")
            answering.answer(
                about(id).pk, choice, among=every, stamp=Stamp(mara, start + MINUTE), channel="api"
            )
            in_process.report_success(
                claimed(agent, id, now=start + 2 * MINUTE), stamp=Stamp(SYSTEM, start + 3 * MINUTE)
            )
        start += 10 * MINUTE
    page = html(browser.get(address(about(id))))
    chips = re.findall(r'data-suggest="([^"]*)".*?class="sugg__why">([^<]*)<', page)
    assert chips[0][0] == "Run npm ci" and f"{times} of {times}" in chips[0][1]
    retried = browser.post(f"{address(about(id))}preview/", {"fix": ""})
    assert ("Run npm ci" in plain(retried)) == (times == 3)
    assert [why for _, why in chips[1:]] == ["Missing module"]
    told = words(browser.get(address(about(id))))
    assert "Likely cause known error, after attempt 1 uuid is not" in told
    task = words(browser.get(f"/tasks/{id}/"))
    assert "Likely cause uuid is not installed where the command runs." in task


def test_answered_escalation_shows_its_history(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Answers and their results are kept."""
    question = exhausted(agent, now=now)
    jonas_answers(question, "fix", now - 10 * MINUTE, "Round per line")
    page = lambda: words(browser.get(address(question)))  # noqa: E731
    assert "jonas sent a fix Waiting for its agent" in page()
    attempt = claimed(agent, question.task_id or agent.pk, now=now - 9 * MINUTE)
    assert "Running attempt 4 of 4" in page()
    said = Report(status="failure", message="1 differs")
    finishing.finish_attempt(
        attempt, said, caller=TrustedCaller(SYSTEM, agent=agent), now=now - 8 * MINUTE
    )
    assert "jonas sent a fix Escalated again after attempt 4" in page()
    # the list has the later escalation, but what led to this one is its evidence alone
    assert "1 differs" not in page().partition("3/3")[2] and "3/3" in page()
    second = about(question.task_id or agent.pk)
    jonas_answers(second, "retry", now - 7 * MINUTE)
    again = claimed(agent, question.task_id or agent.pk, now=now - 6 * MINUTE)
    in_process.report_success(again, stamp=Stamp(SYSTEM, now - 5 * MINUTE))
    listed = words(browser.get("/escalations/?state=answered"))
    assert "jonas granted a retry. Done on attempt 5" in listed
    assert "jonas sent a fix. Escalated again after attempt 4" in listed


def test_number_of_queries_does_not_grow_with_attempts(
    browser: Client, agent: Agent, statements: Callable[..., int]
) -> None:
    imported({}, {"needs": "task-1"}, {"needs": "task-1"})
    id = task("03-01:task-1").pk
    for number in range(3):
        said = {"message": f"broke {number}", "now": NOW + number * MINUTE}
        fail(agent, attempt_of(claim(agent, task=id, now=said["now"])), **said)
    question = about(id)
    assert "2 tasks depend on it" in words(browser.get(address(question)))
    few = statements(browser, address(question))
    assert few <= 16
    jonas_answers(question, "retry", NOW + 4 * MINUTE)
    for number in range(5, 8):
        said = {"message": f"broke {number}", "now": NOW + number * MINUTE}
        fail(agent, attempt_of(claim(agent, task=id, now=said["now"])), **said)
    browser.get(address(about(id)))  # the first view is recorded
    assert statements(browser, address(about(id))) == few


def test_the_preview_is_that_of_a_run_that_goes_on(browser: Client, agent: Agent) -> None:
    """S1.35: the context after a restart includes what happened before it, as in a claim."""
    imported({"max_attempts": 1})
    id = task("03-01:task-1").pk
    fail(agent, attempt_of(claim(agent, task=id)), now=NOW, message="late")
    jonas_answers(about(id), "fix", NOW, "Trim first")
    plan_id = task("03-01:task-1").plan_id
    assert plan_id
    aborting.abort([plan_id], stamp=Stamp(SYSTEM, NOW))
    restarting.restart(plan_id, carry_over=NOW, stamp=Stamp(SYSTEM, NOW + MINUTE))
    id = task("03-01:task-1").pk
    live, caller = claimed(agent, id, now=NOW + MINUTE), TrustedCaller(SYSTEM, agent=agent)
    ask = Question(text="How many?", choices=[])
    question = questions.ask(live, ask, caller=caller, now=NOW + MINUTE)
    shown = plain(browser.post(f"{address(question)}preview/", {"fix": "Two"}, headers=PART))
    assert "Trim first" in shown and "late" in shown
    jonas_answers(question, "answer", NOW + 2 * MINUTE, "Two")
    row = Task.objects.filter(pk=id).values().get()
    assert history.render_next_context(row) == shown


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(browser: Client, agent: Agent, now: datetime, text: str) -> None:
    id = enqueued(agent, text[:200], now=now, max_attempts=1, on_exhausted="escalate")
    failed(
        agent,
        id,
        now=now,
        message=text,
        details=text * 2,
        root_cause_guess=text,
        suggested_fix=text,
        files_modified=[{"path": text, "status": text}],
        learnings=[text],
    )
    question = about(id)
    page = browser.get(address(question)).content.decode()
    shown = browser.post(f"{address(question)}preview/", {"fix": text}).content.decode()
    for found in (page, shown):
        assert "<script>alert" not in found and "<img src=x" not in found
    assert 'onmouseover="alert' not in page + shown


# ---- what the next attempt is told


def test_preview_is_what_the_next_attempt_receives(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """The preview equals the context of the next claim to the letter."""
    question = exhausted(agent, now=now)
    fix = "Round <each> line & sum"
    before = facts(question)
    shown = browser.post(f"{address(question)}preview/", {"fix": f"{fix}\r\n"}, headers=PART)
    assert shown.status_code == 200 and facts(question) == before
    jonas_answers(question, "fix", now, fix)
    row = claims.claim(TrustedCaller(SYSTEM, agent=agent), now=now).rows[0]
    past = history.load_histories([row["id"]])[row["id"]]
    told = render_retry_context(past, attempt=4, max_attempts=4)
    assert "User provided fix: Round &lt;each&gt; line &amp; sum" in told
    assert plain(shown) == told
    assert f"{len(told):,} characters" in words(shown)


def facts(question: Escalation) -> tuple[int, int]:
    return Event.objects.count(), Escalation.objects.get(pk=question.pk).version


def plain(response: HttpResponse) -> str:
    """Return the text of the preview without its markup."""
    inner = response.content.decode().split('id="told"')[1].partition(">")[2].partition("</div>")[0]
    return unescape(re.sub(r"</?span[^>]*>", "", inner)).strip("\n")


def test_preview_without_a_message_is_that_of_a_retry(
    browser: Client, agent: Agent, now: datetime
) -> None:
    question = exhausted(agent, now=now)
    page = browser.get(address(question))
    told = plain(page)
    assert told.startswith('<retry_context attempt="4" max_attempts="6">')
    assert "Preview of a retry." in words(page)


def test_closed_escalation_has_no_preview(browser: Client, agent: Agent, now: datetime) -> None:
    question = exhausted(agent, now=now)
    jonas_answers(question, "skip", now)
    assert browser.post(f"{address(question)}preview/", {"fix": "x"}).status_code == 204
    assert browser.get(f"{address(question)}preview/").status_code == 405
    assert Client().post(f"{address(question)}preview/", {"fix": "x"}).status_code == 302


# ---- the answer


def undo(client: Client, question: Escalation, **more: Any) -> Any:
    return client.post(f"{address(question)}undo/", {}, **more)


@pytest.mark.parametrize("headers", [{}, PART])
def test_fix_can_be_undone(
    browser: Client, agent: Agent, now: datetime, headers: dict[str, str]
) -> None:
    question = exhausted(agent, now=now)
    told = (
        words(post(browser, question, "fix", fix="Round per line", headers=headers), 200)
        if (headers)
        else words(browser.post(f"{address(question)}answer/", fields(question), follow=True))
    )
    assert "Fix sent to coder The task starts in" in told and "Undo" in told
    task = Task.objects.get()
    assert (task.state, task.attempt_limit) == (TaskState.RETRY, 4)
    back = undo(browser, question, headers=headers)
    assert "Answer undone. The escalation is open again." in words(back)
    assert "Round per line</textarea>" in html(back)
    task.refresh_from_db()
    assert (task.state, task.attempt_limit, task.retry_count) == (TaskState.ESCALATED, 3, 3)
    late = undo(browser, question, headers=headers)
    assert "Too late to undo: the task has already continued." in words(late, 409)


def fields(question: Escalation) -> dict[str, str]:
    return {"action": "fix", "fix": "Round per line", "version": str(question.version)}


def test_without_time_for_an_undo_it_is_queued(
    browser: Client, agent: Agent, now: datetime, settings: Settings
) -> None:
    settings.TENFOUR = django_settings.TENFOUR | {"UNDO_SECONDS": 0}
    question = exhausted(agent, now=now)
    told = words(post(browser, question, "retry", headers=PART))
    assert "The task gets another round of attempts." in told and "Undo" not in told
    assert Task.objects.get().state == TaskState.QUEUED


def test_what_was_answered_over_the_api_offers_no_undo(
    browser: Client, agent: Agent, now: datetime
) -> None:
    question = exhausted(agent, now=now)
    jonas_answers(question, "retry", now)
    assert "undo/" not in browser.get(address(question)).content.decode()


@pytest.mark.parametrize(
    ("choice", "state"), [("continue", "queued"), ("block", "blocked"), ("skip", "skipped")]
)
def test_skip_asks_about_dependents(
    browser: Client, agent: Agent, now: datetime, choice: str, state: str
) -> None:
    question = exhausted(agent, now=now)
    waits = enqueued(agent, "Reconcile", now=now, needs=[question.task_id])
    form = {"action": "skip", "version": str(question.version)}
    sure = words(browser.post(f"{address(question)}answer/", form))
    assert "1 task depends on it and may fail without it: Reconcile. This cannot be undone" in sure
    assert "It continues without it It stays blocked until you decide Skip it too" in sure
    post(browser, question, "skip", dependents=choice)
    assert Task.objects.get(pk=waits).state == state


def test_a_dead_letter_is_dismissed_with_what_depends_on_it(
    browser: Client, agent: Agent, now: datetime
) -> None:
    root = enqueued(agent, "Root", now=now, max_attempts=1)
    waits = enqueued(agent, "Reconcile", now=now, needs=[root])
    failed(agent, root, now=now)
    letter = DeadLetter.objects.get()
    assert "are skipped with their dependents" in words(
        browser.get(f"/dead-letters/{letter.pk}/?ask=dismiss")
    )
    form = {"confirmed": "yes", "dependents": "skip"}
    browser.post(f"/dead-letters/{letter.pk}/dismiss/", form)
    assert Task.objects.get(pk=waits).state == TaskState.SKIPPED
    assert "skipped it with a task it needs" in words(browser.get(f"/tasks/{waits}/"))


# ---- questions


def test_question_is_answered_with_text(browser: Client, agent: Agent, now: datetime) -> None:
    choices = [{"name": "yes", "title": "Drop it", "description": "2 million rows"}]
    question = asked(agent, now=now, choices=choices, severity="high")
    page = browser.get(address(question))
    told = words(page)
    assert "Drop the table?" in told and "its agent asked a question" in told
    assert told.count("Drop the table?") == 3  # in the list and in the message, too
    assert 'data-words="Drop it"' in html(page) and "high" in told
    shown = plain(browser.post(f"{address(question)}preview/", {"fix": "Drop it"}, headers=PART))
    assert "User answered: Drop it</instruction>" in shown
    assert '<question trust="agent">Drop the table?</question>' in shown
    assert 'attempt="2" max_attempts="4"' in shown
    done = post(browser, question, "answer", fix="Drop it", headers=PART)
    assert "The agent continues with your answer." in words(done)
    assert Task.objects.get().state == TaskState.QUEUED
    told = words(browser.get(address(question)))
    assert re.search(r"mara answered.*Sent to coder by mara ?, \S+ +Drop it", told), told


def test_abort_warns_that_it_stops_the_plan(browser: Client, agent: Agent) -> None:
    """S1.46; api.md §4.5: with what runs and what waits; what is done counts for nothing."""
    imported({"max_attempts": 1, "on_exhausted": "escalate"}, {}, {}, {"needs": "task-3"})
    fail(agent, attempt_of(claim(agent, task=task("03-01:task-1").pk)), now=NOW)
    do(agent, "03-01:task-2")
    claim(agent, task=task("03-01:task-3").pk)
    question = Escalation.objects.get()
    asked = words(post(browser, question, "abort", confirmed=None, headers=PART))
    assert "Abort plan?" in asked and "This cannot be undone." in asked
    stops = "1 running task is told to stop, 1 pending task will never run."
    assert f"Aborts plan 03-01: {stops}" in asked
    done = words(post(browser, question, "abort", headers=PART))
    assert "The whole plan is aborted. Running tasks are told to stop." in done
    assert "mara aborted its plan" in words(browser.get(address(question)))
    assert task("03-01:task-4").state == TaskState.ABORTED


@pytest.mark.parametrize("headers", [{}, PART])
@pytest.mark.parametrize(
    ("closed", "says"),
    [
        ("expired", "before your answer No answer came in time, so the task was skipped."),
        ("withdrawn", "before your answer coder no longer needs an answer."),
    ],
)
def test_answer_to_a_closed_escalation_is_refused(
    browser: Client, agent: Agent, now: datetime, headers: dict[str, str], closed: str, says: str
) -> None:
    """S1.48: the message is kept and nothing is changed."""
    id = enqueued(agent, "Clean up", now=now)
    live, caller = claimed(agent, id, now=now), TrustedCaller(SYSTEM, agent=agent)
    asks = Question(text="Drop it?", choices=[], expires_at=now + HOUR, on_expiry="fail")
    question = questions.ask(live, asks, caller=caller, now=now)
    if closed == "expired":
        Escalation.objects.update(on_expiry="skip")  # as agents could set it in early versions
        assert expiry.process_due(now=now + HOUR)["expired"] == 1
    else:
        every = Escalation.objects.all()
        questions.withdraw(question.pk, among=every, stamp=Stamp(SYSTEM, now), by_person=False)
    told = words(post(browser, question, "answer", fix="Drop it", headers=headers), 409)
    assert f"{says} Your message was not sent." in told and "Drop it" in told


def test_a_checkpoint_shows_all_that_its_plan_says(browser: Client, agent: Agent) -> None:
    """api.md §8.2: what was built, how to verify it, what to answer then, and each option's text."""
    option = {"name": "approved", "title": "Approve", "description": "Goes live at once"}
    imported(
        {
            "type": "checkpoint:human-verify",
            "question": "A page of invoices",
            "action": "Open /invoices and count",
            "resume_signal": "Type approved",
            "options": [option],
        }
    )
    question = Escalation.objects.get()
    page = words(browser.get(address(question)))
    assert "A page of invoices Open /invoices and count Type approved" in page
    assert "Approve Goes live at once" in page
    assert "Its plan asks a question." in page and "its agent asks" not in page.lower()
    assert "answers the question in its plan" in words(browser.get(f"/tasks/{question.task_id}/"))


def test_comments_and_assignee_are_shown(
    browser: Client, agent: Agent, now: datetime, mara: Any
) -> None:
    question = exhausted(agent, now=now)
    who, every = Actor("user", "7", "jonas"), Escalation.objects.all()
    assignment.assign(question.pk, "mara", among=every, stamp=Stamp(who, now))
    assignment.comment(question.pk, "The archive is down", among=every, stamp=Stamp(who, now))
    told = words(browser.get(address(question)))
    assert "assigned to mara" in told and "jonas assigned it to mara" in told
    assert "The archive is down" in told
    browser.post(f"{address(question)}remark/", {"text": "Finance wants it back"})
    assert "mara" in words(browser.get(address(question)))
    assert "Finance wants it back" in words(browser.get(address(question)))
    empty = browser.post(f"{address(question)}remark/", {"text": " "}, follow=True)
    assert "A comment has 1 to 2000 characters." in words(empty)
    assignment.assign(question.pk, None, among=every, stamp=Stamp(who, now))
    browser.post(f"{address(question)}care/")
    assert "assigned to mara" in words(browser.get(address(question)))
    log = words(browser.get("/activity/"))
    assert "escalation.assigned" in log and "Finance wants it back" in log


def test_the_admin_shows_the_message_and_skips_with_dependents(
    admin_client: Client, agent: Agent, now: datetime
) -> None:
    question = exhausted(agent, now=now)
    waits = enqueued(agent, "Reconcile", now=now, needs=[question.task_id])
    page = words(admin_client.get(f"/admin/retries/escalation/{question.pk}/change/"))
    assert "## Task Escalation Required" in page
    listed = words(admin_client.get("/admin/retries/escalation/?q=Backfill"))
    assert "Backfill" in listed and "abort the task's plan" in listed
    form = {"action": "skip", "_selected_action": str(question.pk), "dependents": "skip"}
    form["confirmed"] = "yes"
    admin_client.post("/admin/retries/escalation/", form)
    assert Task.objects.get(pk=waits).state == TaskState.SKIPPED


# ---- the known fix


def test_a_fix_for_the_same_error_is_filled_in(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    """Only for the same signature, only until it is cleared, and not where it was given before."""
    missing = "Cannot find module 'uuid'"
    fixed(agent, "Run npm ci <now>", works=True, now=now - HOUR, message=missing)

    def fail_once(message: str) -> Escalation:
        id = enqueued(agent, "Build", now=now, max_attempts=1, on_exhausted="escalate")
        failed(agent, id, now=now, type="verification_failed", message=message)
        return about(id)

    same, other = fail_once(missing), fail_once("Cannot find module 'left-pad'")
    page = html(browser.get(address(same)))
    assert "Run npm ci &lt;now&gt;</textarea>" in browser.get(address(same)).content.decode()
    assert "Filled in with a fix for the same error: worked 1 of 1" in page
    assert "User provided fix: Run npm ci" in plain(browser.get(address(same)))
    assert "Known fix Worked 1 of 1 for the same error" in words(browser.get(address(same)))
    told = words(browser.get(address(other)))
    assert "Known fix Worked for uuid 1 of 1, for a similar error Run npm ci" in told
    assert "Filled in with" not in told and "for the same error" not in told
    # left as it is, it is nothing that was typed: a retry keeps no text and opens the next one
    form = {"filled": "Run npm ci <now>", "fix": "Run npm ci <now>"}
    told = post(browser, same, "retry", headers=PART, **form)
    assert address(other) in told["HX-Redirect"]
    # cleared and sent, it is not filled in again
    told = words(post(browser, other, "fix", fix="", headers=PART), 422)
    assert "A fix needs text" in told and "Filled in with" not in told
    # a task that was given it before, and failed again in the same way, is not told it twice
    again = fail_once(missing)
    jonas_answers(again, "fix", now, fix="run  NPM ci <now>")
    failed(agent, again.task_id, now=now + MINUTE, type="verification_failed", message=missing)
    assert "Filled in with" not in html(browser.get(address(about(again.task_id))))
    # the odds of the fix stand beside those of plain retries
    failed(agent, same.task_id, now=now + MINUTE, type="verification_failed", message=missing)
    said = words(browser.get(address(fail_once(missing))))
    assert "for the same error; retries without it worked 0 of" in said
    # with all that such a page can show
    last, wanted = fail_once(missing), {"q": "agent:coder", "project": "default"}
    enqueued(agent, "waits", now=now, needs=[last.task_id])
    for answered in ("", str(again.pk)):
        assert "Filled in with" in html(browser.get(address(last), wanted))
        assert statements(browser, address(last), wanted | {"answered": answered}) <= 16


def test_an_escalation_is_assigned_to_others(
    browser: Client, agent: Agent, now: datetime, django_user_model: Any
) -> None:
    question = exhausted(agent, now=now)
    lena, kim = (django_user_model.objects.create_user(name) for name in ("lena", "kim"))
    for user, role in ((lena, "operator"), (kim, "viewer")):
        Membership.objects.create(user=user, project=agent.project, role=role, added_by="mara")
    django_user_model.objects.create_user("stranger")
    page = words(browser.get(address(question)))
    assert "mara (you)" in page and "lena" in page and "No one" not in page
    assert "kim" not in page and "stranger" not in page
    path = f"{address(question)}care/"
    for name, shown in (("lena", "lena"), ("kim", "lena"), ("", None), (None, "mara")):
        browser.post(path, {} if name is None else {"user": name})
        question.refresh_from_db()
        assert (question.assignee and question.assignee.username) == shown
