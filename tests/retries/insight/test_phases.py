"""The phases of an answered escalation, by hand and from a real answer."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ledger.database import sql
from ledger.journal import Stamp
from ledger.models import Agent
from ledger.states import TaskState
from retries import sweeps
from retries.escalations.answering import answer
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import note_view
from retries.insight import phases
from retries.insight.figures.answers import ANSWERED, read_case
from retries.insight.phases import AnsweredCase, describe_cases
from retries.models import Escalation, InsightFigure
from retries.states import Answer
from retries.tasks import actions as people
from tests.dashboard.worked import MARA, claimed, make_task
from tests.factories import NOW

MINUTE = timedelta(minutes=1)


def case(*minutes: int | None) -> AnsweredCase:
    """A case by its minutes: seen, answered, started and ended after it was opened."""
    at = [None if each is None else NOW + each * MINUTE for each in minutes]
    assert at[1] is not None
    return AnsweredCase(NOW, at[0], at[1], at[2], at[3])


def test_a_case_has_four_phases() -> None:
    assert case(11, 17, 18, 22).phases == (660, 360, 60, 240)
    assert case(None, 17, None, None).phases == (1020, 0, 0, 0)  # answered by mail
    assert case(30, 17, 18, None).phases == (1020, 0, 60, 0)  # opened after the answer


def test_the_median_case_is_the_middle_fifth() -> None:
    assert describe_cases([case(1, 2, 3, 4)] * 19) == {"n": 19}
    quick, slow = [case(1, 2, 2, 2)] * 8, [case(60, 600, 601, 900)] * 8
    typical = [case(10, 12, 13, 20)] * 2 + [case(12, 14, 15, 20)] * 2
    found = describe_cases(quick + slow + typical)
    assert found == {"n": 20, "phases": [660, 120, 60, 360], "within": 54_000}


@pytest.mark.django_db
def test_the_first_view_of_a_page_ends_the_unseen_time(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "LEAST_ANSWERS", 1)
    make_task(TaskState.ESCALATED, agent=agent, now=NOW)
    escalation = Escalation.objects.get()
    client = Client()
    client.force_login(User.objects.create_superuser("mara"))
    for _ in range(2):
        assert client.get(f"/escalations/{escalation.pk}/").status_code == 200
        seen = Escalation.objects.get().seen_at
        assert seen is not None
    first = Escalation.objects.get()
    assert first.seen_at == seen and first.version == escalation.version
    Escalation.objects.update(seen_at=NOW + MINUTE)
    client.get(f"/escalations/{escalation.pk}/")
    note_view(escalation.pk, now=NOW + 2 * MINUTE)  # as a page would that was asked for before
    assert Escalation.objects.get().seen_at == NOW + MINUTE  # only the first view counts
    answer(
        escalation.pk,
        Choice(Answer.SKIP),
        among=Escalation.objects.all(),
        channel="page",
        stamp=Stamp(MARA, NOW + 5 * MINUTE),
    )
    sweeps.run("insight", now=NOW + timedelta(hours=1))
    figures = {row.days: row.data for row in InsightFigure.objects.filter(panel="answers")}
    assert set(figures) == {1, 7, 30} and figures[1] == figures[30]
    data = figures[7]
    assert data["all"]["n"] == 1 and data["reasons"][0]["reason"] == "max_retries_exceeded"
    unseen, thinking, *_ = data["all"]["phases"]
    assert (unseen, thinking) == (50, 240)  # it was opened when its attempt ended


@pytest.mark.django_db
def test_what_has_not_ended_lasts_until_now(agent: Agent) -> None:
    """Of three answers one waits for a worker, one runs, and one was skipped before it ran."""
    why = {"type": "verification_failed"}  # the breaker stays closed
    tasks = [make_task(TaskState.ESCALATED, agent=agent, now=NOW, why=why) for _ in range(4)]
    at = NOW + 10 * MINUTE
    for task, choice in zip(tasks, [Answer.RETRY] * 3 + [Answer.SKIP], strict=True):
        answer(
            Escalation.objects.get(task=task).pk,
            Choice(choice),
            among=Escalation.objects.all(),
            channel="page",
            stamp=Stamp(MARA, at),
        )
    Escalation.objects.update(seen_at=at)
    people.abort([tasks[0].pk], stamp=Stamp(MARA, at))
    claimed(agent, tasks[1].pk, now=at + MINUTE)
    rows = sql.run(ANSWERED, project=agent.project_id, since=NOW, now=at + 60 * MINUTE)
    found = [read_case(row).phases[2:] for row in rows]
    assert sorted(found) == [(0, 0), (0, 0), (60, 59 * 60), (3600, 0)]
