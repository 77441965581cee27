"""Predictions and experiments on the pages of tasks and escalations."""

import html
import re
from datetime import datetime

import pytest
from django.test import Client

from ledger.journal import Stamp
from ledger.models import Agent, Task
from ledger.states import FailureType, TaskState
from retries.escalations.answering import answer
from retries.escalations.choices import Choice
from retries.insight.experiments import start_experiment
from retries.insight.predictions import Features
from retries.models import Escalation, InsightFigure, OutcomeRate
from retries.retry_context.history import render_next_context
from retries.retry_context.trials import is_without
from retries.states import Answer
from tests.dashboard.conftest import PART
from tests.dashboard.seen import words
from tests.dashboard.worked import MARA, make_task

pytestmark = pytest.mark.django_db
KNOWN = {
    # the breaker stays closed, however often it fails
    "type": FailureType.VERIFICATION_FAILED,
    "message": "ModuleNotFoundError: No module named 'polars'",
    "learnings": ["install it"],
}


def make_rates(agent: Agent, *, failures: int, tasks: int, done: int, now: datetime) -> None:
    for of, level, key in Features(failures, "code", str(agent.pk)).keys:
        OutcomeRate.objects.create(
            project=agent.project, failures=of, level=level, key=key, tasks=tasks, done=done
        )
    data = {"brier": 0.121, "likely": [], "cases": 0, "bins": [], "shown": 0, "hidden": 0}
    InsightFigure.objects.create(
        project=agent.project, panel="predictions", days=0, computed_at=now, data=data
    )


def test_a_task_shows_its_chance(browser: Client, agent: Agent, now: datetime) -> None:
    task = make_task(TaskState.QUEUED, agent=agent, now=now)
    path = f"/tasks/{task.pk}/"
    assert "Chance Hidden: n = 0, shown from 20" in words(browser.get(path))
    make_rates(agent, failures=0, tasks=40, done=30, now=now)
    shown = words(browser.get(path))
    assert "Chance 75% same agent and type after as many failures, n = 40 , Brier score 0.121" in (
        shown.replace("n = 40,", "n = 40 ,")
    )
    done = make_task(TaskState.DONE, agent=agent, now=now)
    assert "Chance" not in words(browser.get(f"/tasks/{done.pk}/"))


def test_an_escalation_shows_how_such_tasks_ended(
    browser: Client, agent: Agent, now: datetime
) -> None:
    make_task(TaskState.ESCALATED, agent=agent, now=now, why=KNOWN)
    escalation = Escalation.objects.get()
    make_rates(agent, failures=1, tasks=40, done=30, now=now)
    path = f"/escalations/{escalation.pk}/"
    assert "Done within their attempts: 75% same agent and type" in words(browser.get(path))
    answer(
        escalation.pk,
        Choice(Answer.SKIP),
        among=Escalation.objects.all(),
        channel="page",
        stamp=Stamp(MARA, now),
    )
    assert "Done within their attempts" not in words(browser.get(path))


@pytest.mark.parametrize("side", [True, False])
def test_the_preview_leaves_out_what_the_next_attempt_is_not_told(
    browser: Client, agent: Agent, now: datetime, side: bool
) -> None:
    experiment = start_experiment(
        agent.project, "accumulated_learnings", reason="so", stamp=Stamp(MARA, now)
    )
    for _ in range(200):
        task = make_task(TaskState.ESCALATED, agent=agent, now=now, why=KNOWN, max_attempts=1)
        if is_without(experiment.pk, task.pk, share=experiment.share) == side:
            break
    escalation = Escalation.objects.get(task=task)
    path = f"/escalations/{escalation.pk}/preview/"
    page = browser.post(path, {"fix": "Trim it"}, headers=PART).content.decode()
    shown = html.unescape(re.sub(r"<[^>]+>", "", page))
    assert ("install it" in shown) != side
    answer(
        escalation.pk,
        Choice(Answer.FIX, "Trim it"),
        among=Escalation.objects.all(),
        channel="page",
        stamp=Stamp(MARA, now),
    )
    told = render_next_context(Task.objects.filter(pk=task.pk).values().get())
    assert ("install it" in told) != side
