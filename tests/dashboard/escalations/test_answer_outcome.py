"""The results of answers: the state of the task after each (issue 5)."""

from datetime import datetime
from uuid import UUID

import pytest
from django.test import Client

from ledger.journal import SYSTEM, Stamp
from ledger.journal_storage import deletion as journal_deletion
from ledger.models import Agent, DeadLetter
from ledger.tokens import TrustedCaller
from retries import deadletters, in_process
from retries.attempts import finishing, report_fields
from retries.escalations import answer_outcome
from retries.models import Escalation
from retries.plans import aborting, restarting
from tests.conftest import Api
from tests.dashboard.escalations.test_escalations import address, jonas_answers, words
from tests.factories import MINUTE, NOW
from tests.ledger.plans.test_import_writer import imported, task
from tests.retries.moves import attempt_of, claim, fail

pytestmark = pytest.mark.django_db


def asked(agent: Agent) -> Escalation:
    """Return the escalation of the first task of a plan: two wait for it, one runs."""
    imported({"max_attempts": 1}, {"needs": "task-1"}, {"needs": "task-1"}, {})
    fail(agent, attempt_of(claim(agent, task=task("03-01:task-1").pk)), now=NOW)
    claim(agent, task=task("03-01:task-4").pk)
    return Escalation.objects.get()


def restarted(agent: Agent, *, carry: bool) -> None:
    """Abort the plan with its running tasks and restart it."""
    plan = task("03-01:task-1").plan
    assert plan
    aborting.abort([plan.pk], stamp=Stamp(SYSTEM, NOW + MINUTE))
    for ref in ("03-01:task-1", "03-01:task-4"):
        if live := task(ref).current_attempt:
            caller = TrustedCaller(SYSTEM, agent=agent)
            finishing.finish_attempt(live, report_fields.Report(), caller=caller, now=NOW + MINUTE)
    since = NOW if carry else None
    restarting.restart(plan.pk, carry_over=since, stamp=Stamp(SYSTEM, NOW + MINUTE))


def told(question: Escalation) -> str:
    question.refresh_from_db()
    return answer_outcome.find_outcomes([question])[question.pk].describe(question.action)


def everywhere(browser: Client, admin_client: Client, question: Escalation, said: str) -> None:
    assert said in words(browser.get(address(question)))
    assert said in words(admin_client.get(f"/admin/retries/escalation/{question.pk}/change/"))


def done(agent: Agent, *, now: datetime) -> None:
    found = claim(agent, task=task("03-01:task-1").pk, now=now)
    in_process.report_success(attempt_of(found), stamp=Stamp(SYSTEM, now))


def test_an_open_one_has_no_outcome(agent: Agent) -> None:
    assert answer_outcome.find_outcomes([asked(agent)]) == {}


def test_what_a_fix_led_to_is_followed_into_the_run_that_goes_on(
    browser: Client, admin_client: Client, agent: Agent
) -> None:
    question = asked(agent)
    jonas_answers(question, "fix", NOW, "Trim first")
    assert told(question) == "Waiting for its agent"
    restarted(agent, carry=True)
    restarted(agent, carry=True)
    found = claim(agent, task=task("03-01:task-1").pk, now=NOW + 2 * MINUTE)
    fail(agent, attempt_of(found), now=NOW + 2 * MINUTE)
    again = "Restarted in run 3: escalated again after attempt 2"
    assert told(question) == again
    everywhere(browser, admin_client, question, again)
    assert again in words(browser.get("/escalations/?state=answered"))
    jonas_answers(Escalation.objects.open().get(), "retry", NOW + 3 * MINUTE)
    done(agent, now=NOW + 4 * MINUTE)
    assert told(question) == again
    second = Escalation.objects.latest("id")
    everywhere(browser, admin_client, second, "Done on attempt 3")


def test_a_run_that_begins_at_nothing_owes_nothing_to_the_answer(agent: Agent) -> None:
    question = asked(agent)
    jonas_answers(question, "fix", NOW, "Trim first")
    restarted(agent, carry=False)
    found = claim(agent, task=task("03-01:task-1").pk, now=NOW + 2 * MINUTE)
    fail(agent, attempt_of(found), now=NOW + 2 * MINUTE)
    assert told(question) == "Restarted in run 2: escalated to a person"


@pytest.mark.parametrize(
    ("dependents", "became"),
    [
        ("continue", "2 dependent tasks continued without it"),
        ("block", "2 dependent tasks stayed blocked"),
        ("skip", "2 dependent tasks were skipped with it"),
    ],
)
def test_skip_reports_what_happened_to_dependents(
    browser: Client, admin_client: Client, agent: Agent, dependents: str, became: str
) -> None:
    question = asked(agent)
    form = {"action": "skip", "version": question.version, "confirmed": "yes"}
    browser.post(f"{address(question)}answer/", form | {"dependents": dependents})
    assert told(question) == ""
    everywhere(browser, admin_client, question, became)


@pytest.mark.parametrize("action", ["skip", "abort"])
def test_an_answer_can_be_read_after_its_month_of_the_journal(
    browser: Client, admin_client: Client, operator: Api, agent: Agent, action: str
) -> None:
    """By default the journal is kept for 400 days, and escalations for ever."""
    question = asked(agent)
    jonas_answers(question, action, NOW)
    journal_deletion.delete_project_events(agent.project_id, after=UUID(int=0))
    everywhere(browser, admin_client, question, "jonas")
    assert "dependent" not in words(browser.get(address(question)))
    assert operator("GET", f"/escalations/{question.pk}").status_code == 200


def test_abort_reports_stopped_and_restarted_tasks(
    browser: Client, admin_client: Client, agent: Agent
) -> None:
    question = asked(agent)
    jonas_answers(question, "abort", NOW)
    counts = "2 other tasks of the plan were aborted, 1 told to stop"
    everywhere(browser, admin_client, question, counts)
    live = task("03-01:task-4").current_attempt
    assert live
    finishing.finish_attempt(
        live, report_fields.Report(), caller=TrustedCaller(SYSTEM, agent=agent), now=NOW
    )
    restarting.restart(question.task.plan_id, carry_over=NOW, stamp=Stamp(SYSTEM, NOW + MINUTE))  # type: ignore
    done(agent, now=NOW + 2 * MINUTE)
    everywhere(browser, admin_client, question, "Restarted in run 2: done on attempt 2")
    everywhere(browser, admin_client, question, counts)


def test_api_reports_the_state_of_the_task(operator: Api, agent: Agent) -> None:
    question = asked(agent)
    assert operator("GET", f"/escalations/{question.pk}").body["outcome"] is None
    jonas_answers(question, "fix", NOW, "Trim first")
    restarted(agent, carry=True)
    done(agent, now=NOW + 2 * MINUTE)
    (listed,) = operator("GET", "/escalations").body["data"]
    assert listed["outcome"] == {
        "task": str(task("03-01:task-1").pk),
        "run": 2,
        "state": "done",
        "attempts": 2,
        "attempt_limit": 2,
        "asked_again": None,
    }


def test_a_replay_is_followed_too(agent: Agent) -> None:
    """A task that fails after its answer is replayed as a new task."""
    question = asked(agent)
    jonas_answers(question, "retry", NOW)
    found = claim(agent, task=task("03-01:task-1").pk, now=NOW)
    fail(agent, attempt_of(found), now=NOW, code="malformed_task")
    assert told(question) == "Failed permanently on attempt 2"
    letters = DeadLetter.objects.values_list("pk", flat=True)
    deadletters.replay(letters, among=DeadLetter.objects.all(), stamp=Stamp(SYSTEM, NOW + MINUTE))
    assert told(question).endswith("waiting for its agent")
