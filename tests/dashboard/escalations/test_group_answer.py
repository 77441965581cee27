"""One answer for all escalations of a pattern: the form, its review, and its operation."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.escalations.groups import answer as group_answer
from dashboard.escalations.groups import queries as group_queries
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Breaker, Event, Task
from ledger.states import TaskState
from retries import breaker_actions
from retries.models import Escalation, FailurePattern, Operation
from retries.operations.running import run_operation
from tests.dashboard.escalations.test_escalations import URL, jonas_answers
from tests.dashboard.escalations.test_inbox import LXML, TABLE, escalated
from tests.dashboard.seen import html, words
from tests.dashboard.worked import enqueued, failed
from tests.factories import make_agent

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
FIX = "Add lxml to the test dependencies"


@pytest.fixture
def group(agent: Agent, now: datetime) -> list[Escalation]:
    codex = make_agent("codex")
    escalated(agent, "other", TABLE, now=now)
    return [
        escalated(codex if n == 3 else agent, f"t{n}", LXML, now=now - (9 - n) * MINUTE)
        for n in range(4)
    ]


def path_of(group: list[Escalation]) -> str:
    return f"{URL}answer-all/?pattern={FailurePattern.objects.get(example__contains='lxml').pk}"


def form(group: list[Escalation], *left: Escalation, **more: str) -> dict[str, Any]:
    return {
        "shown": ",".join(str(each.pk) for each in group),
        "id": [str(each.pk) for each in group if each not in left],
        "action": "fix",
        "fix": FIX,
    } | more


def run(operation: Operation) -> None:
    """Let a worker carry it out, once it can't be undone any more."""
    run_operation(operation.pk, now=timezone.now() + timedelta(seconds=11))


def test_the_form_counts_and_the_review_sends_nothing(
    browser: Client, group: list[Escalation]
) -> None:
    assert path_of(group) in html(browser.get(URL))
    told = words(browser.get(path_of(group)))
    assert "Answer 4 escalations at once" in told and "4 of 4 selected" in told
    assert f"4 {LXML}" in told and "2 agents" in told
    review = words(browser.post(path_of(group), form(group, group[0])))
    assert "Send this fix to 3 tasks?" in review and FIX in review
    assert "codex 1 task" in review and "coder 2 tasks" in review
    assert "3 of 4 selected" in words(browser.post(path_of(group), form(group, group[0], edit="1")))
    assert not Operation.objects.exists() and Escalation.objects.open().count() == 5
    for bad, why in (({"fix": " "}, "Write what"), ({"id": ""}, "Select at least one")):
        assert why in words_of(browser.post(path_of(group), form(group, **bad)))
    assert browser.get(f"{URL}answer-all/?pattern=nonsense").status_code == 302


def test_the_review_says_what_holds_each_agent_up(
    browser: Client, agent: Agent, group: list[Escalation], now: datetime
) -> None:
    """It says "start at once" only for an agent that calls and may get more than a probe."""

    def review() -> str:
        return words(browser.post(path_of(group), form(group)))

    for state in ("open", "half_open"):
        Breaker.objects.filter(agent=agent).delete()
        breaker_actions.trip([agent], stamp=Stamp(SYSTEM, now))
        Breaker.objects.filter(agent=agent).update(state=state)
        assert f"breaker {state.replace('_', ' ')}: they wait" in review()
    Breaker.objects.all().delete()
    Agent.objects.update(last_seen_at=None)
    assert review().count("never checked in: they wait") == 4  # in the form and in the review
    Agent.objects.update(last_seen_at=now)
    assert review().count("start at once") == 2


def words_of(response: Any) -> str:
    assert response.status_code == 422
    response.status_code = 200
    return words(response)


def test_what_is_ticked_is_answered_one_by_one_and_the_result_is_true(
    browser: Client, agent: Agent, group: list[Escalation], now: datetime
) -> None:
    left, taken, *sent = group
    new = escalated(agent, "new", LXML, now=now)  # it came while the form was open
    page = browser.post(path_of(group), form(group, left, confirmed="yes"), follow=True)
    told, operation = words(page), Operation.objects.get()
    path = f"/operations/{operation.pk}/"
    assert page.redirect_chain == [(path, 302)]
    assert "Answering 3 escalations" in told and "Undo" in told and "0 of 3" in told
    jonas_answers(taken, "skip", now)
    run(operation)
    page = browser.get(path)
    told = words(page)
    assert "Answered 2 of 3 escalations" in told and "Already answered" in told and "t1" in told
    assert "Answer (fix)" in told and f"Instruction {FIX}" in told
    query = f"pattern:{FailurePattern.objects.get(example__contains='lxml').fingerprint}"
    assert operation.query == query and f'href="{URL}?q={query.replace(":", "%3A")}"' in html(page)
    told = words(browser.get(f"{URL}?q={query}"))
    assert "t0" in told and "new" in told and "2 of 3" in told, "the one left out and the new one"
    answered = Escalation.objects.filter(pk__in=[each.pk for each in sent])
    assert {(each.action, each.fix, each.answered_by_name) for each in answered} == {
        ("fix", FIX, "mara")
    }
    resolved = Event.objects.filter(kind="escalation.resolved", actor_name="mara")
    assert {each.subject_id for each in resolved} == {each.pk for each in sent}
    assert Escalation.objects.open().filter(pk__in=[left.pk, new.pk]).count() == 2
    states = Task.objects.filter(pk__in=answered.values("task")).values_list("state", flat=True)
    assert set(states) == {TaskState.QUEUED}


def test_ticked_ones_stay_when_the_order_changes(
    browser: Client,
    agent: Agent,
    group: list[Escalation],
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A form is of the first ones of a long group; what waits for the others may grow since."""
    monkeypatch.setattr(group_queries, "MOST", 2)
    monkeypatch.setattr(group_answer, "MOST", 2)
    assert "These are the first 2 of 4" in words(browser.get(path_of(group)))
    enqueued(agent, "waits", now=now, needs=[group[2].task_id])
    enqueued(agent, "waits too", now=now, needs=[group[3].task_id])
    sent = form(group[:2])
    told = words(browser.post(path_of(group), sent))
    assert "Send this fix to 2 tasks?" in told and "no longer in this group" not in told
    jonas_answers(group[0], "skip", now)
    told = words(browser.post(path_of(group), sent))
    assert "Send this fix to 1 task?" in told
    assert "1 selected escalation is no longer in this group" in told
    told = words(browser.post(path_of(group), sent | {"confirmed": "yes"}, follow=True))
    assert "Counted: 2 chosen, 1 can be answered" in told
    assert Operation.objects.get().total == 1


def test_the_number_of_refused_ones_costs_no_statement(
    browser: Client, group: list[Escalation], now: datetime, statements: Callable[..., int]
) -> None:
    page = browser.post(path_of(group), form(group, confirmed="yes"), follow=True)
    for each in group[:3]:
        jonas_answers(each, "skip", now)
    run(Operation.objects.get())
    here = page.redirect_chain[-1][0]
    assert "Already answered 3" in words(browser.get(here))
    many = statements(browser, here)
    Operation.objects.get().items.filter(subject_id__in=[each.pk for each in group[:2]]).delete()
    assert many == statements(browser, here)


def test_the_errors_of_a_group_are_headlines(browser: Client, agent: Agent, now: datetime) -> None:
    made = [
        escalated(
            agent, f"t{n}", f"= test session starts =\nE   {LXML}\n1 failed in {n} s", now=now
        )
        for n in range(2)
    ]
    assert f"2 {LXML}" in words(browser.get(path_of(made)))


def test_it_is_undone_before_it_starts_and_refused_after(
    browser: Client, group: list[Escalation]
) -> None:
    page = browser.post(path_of(group), form(group, confirmed="yes"), follow=True)
    undo = f"{page.redirect_chain[-1][0]}undo/"
    assert "Undone. No escalation was changed." in words(browser.post(undo, follow=True))
    run(Operation.objects.get())
    assert Escalation.objects.open().count() == 5
    page = browser.post(path_of(group), form(group, action="retry", confirmed="yes"), follow=True)
    run(Operation.objects.latest("id"))
    late = browser.post(f"{page.redirect_chain[-1][0]}undo/", follow=True)
    assert "can't be undone any more" in words(late)
    assert Escalation.objects.open().count() == 1 and Escalation.objects.filter(action="retry")


def test_a_filter_narrows_the_group_first(
    browser: Client, agent: Agent, group: list[Escalation], now: datetime
) -> None:
    """Each of the inbox's filters does, so that no more are answered than the inbox counts."""
    enqueued(agent, "waits", now=now, needs=[group[1].task_id])
    for query, title in (("agent:codex", "t3"), ("blocks:yes", "t1"), ("-blocks:yes t2", "t2")):
        told = words(browser.get(f"{path_of(group)}&q={query}"))
        assert "1 of 1 selected" in told and title in told, query
        assert not any(f"t{n}" in told for n in range(4) if f"t{n}" != title), query
    assert f"{path_of(group)}" in html(browser.get(URL))


def test_a_filter_that_is_not_understood_answers_nothing(
    browser: Client, group: list[Escalation]
) -> None:
    url = f"{path_of(group)}&q=agnet:codex"
    for answer in (browser.get(url), browser.post(url, form(group, confirmed="yes"))):
        assert answer.status_code == 302
    told = words(browser.get(url, follow=True))
    assert "Fix the filter first. There is no filter “agnet”." in told and "Nothing changed" in told
    told = words(browser.get(f"{path_of(group)}&q=-agent:codre", follow=True))
    assert "Fix the filter first. Unknown agent “codre”. Did you mean “agent:coder”?" in told
    assert not Operation.objects.exists() and Escalation.objects.open().count() == 5


def test_errors_are_ticked_and_suggestions_are_those_of_the_single_pages(
    browser: Client, agent: Agent, group: list[Escalation], now: datetime
) -> None:
    """OPR-11: only those of the ticked signatures are answered, also without a script."""
    numpy = LXML.replace("lxml", "numpy")
    id = enqueued(agent, "t9", now=now, max_attempts=1, on_exhausted="escalate")
    failed(agent, id, now=now, message=numpy, suggested_fix="pip install numpy")
    other = Escalation.objects.get(task=id)
    page = browser.get(path_of(group))
    told = words(page)
    assert f"4 {LXML} 1 {numpy}" in told and "Answer 5 escalations" in told
    assert "pip install numpy suggested by the agent, 1 of 5" in told
    assert "gets attempt 2" in told and "attempt 1 of 1" not in told
    keys = [each.key for each in page.context["answer"].variants]
    sent = form([*group, other], variants=",".join(keys), signature=keys[1])
    review = browser.post(path_of(group), sent)
    assert "Send this fix to 1 task?" in words(review)
    assert [each.row.pk for each in review.context["answer"].rows if each.picked] == [other.pk]
    browser.post(path_of(group), sent | {"confirmed": "yes"})
    run(operation := Operation.objects.get())
    assert operation.total == 1
    assert Escalation.objects.open().filter(pk__in=[each.pk for each in group]).count() == 4
    assert not Escalation.objects.open().filter(pk=other.pk).exists()


def test_what_a_person_must_fix_is_no_suggestion_for_a_group(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """OPR-6, OPR-11."""
    rows = [escalated(agent, f"t{n}", "HTTP 403: Forbidden", now=now) for n in range(2)]
    id = FailurePattern.objects.get().pk
    for path in (f"{URL}answer-all/?pattern={id}", f"{URL}{rows[0].pk}/"):
        page = browser.get(path)
        assert "For a person: Grant the agent's account this permission" in words(page), path
        assert "data-suggest=" not in html(page) and "Suggested fix:" not in words(page), path
