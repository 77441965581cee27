"""Operations over HTTP: the project's own, with their progress and why rows were left."""

from datetime import timedelta

import pytest
from django.utils import timezone

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Task
from retries.tasks import actions as task_actions
from tests.conftest import Api
from tests.dashboard.worked import enqueued
from tests.factories import make_agent, make_project
from tests.retries.operations.worlds import run, start

pytestmark = pytest.mark.django_db


def test_operations_are_listed_and_read(agent: Agent, operator: Api, coder: Api) -> None:
    now = timezone.now() - timedelta(minutes=5)
    ids = [enqueued(agent, f"Task {n}", now=now) for n in range(3)]
    foreign = make_agent("other", project=make_project("elsewhere"))
    enqueued(foreign, "Not ours", now=now)
    theirs = start("task.abort", Task.objects.filter(agent=foreign), now=now)
    made = start("task.abort", Task.objects.filter(pk__in=ids), reason="old", now=now)
    task_actions.skip(ids[:1], stamp=Stamp(SYSTEM, now))
    run(made, now=now)

    listed = operator("GET", "/operations?state=done").body
    assert [row["id"] for row in listed["data"]] == [str(made.pk)]
    found = operator("GET", f"/operations/{made.pk}").body
    assert (found["verb"], found["reason"], found["started_by"]) == ("task.abort", "old", "mara")
    assert (found["total"], found["changed"], found["refused"], found["left"]) == (3, 2, 1, 0)
    assert found["refusals"] == [{"why": "State is now “skipped”", "count": 1}]
    assert operator("GET", f"/operations/{theirs.pk}").status_code == 404
    assert operator("GET", "/operations?state=moon").status_code == 422
    assert coder("GET", f"/operations/{made.pk}").status_code == 403
