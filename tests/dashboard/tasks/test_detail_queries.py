"""How the page of a task reads what it shows."""

import re
from datetime import datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.tasks import detail_queries
from ledger.models import Agent
from tests.dashboard.worked import enqueued

pytestmark = pytest.mark.django_db


def test_neighbors_are_looked_up_by_their_ids(agent: Agent, now: datetime) -> None:
    first = enqueued(agent, "Plan", now=now)
    middle = enqueued(agent, "Build", now=now, needs=[first])
    last = enqueued(agent, "Paint", now=now, needs=[middle])
    row = detail_queries.find_task(middle)
    with CaptureQueriesContext(connection) as sent:
        beside = detail_queries.list_neighbors(row)
    assert [each.pk for each in beside.needs] == [first]
    assert [each.pk for each in beside.dependents] == [last]
    # with a condition instead of the ids, it would read all tasks
    (statement,) = (each["sql"] for each in sent)
    found = re.search(r'WHERE "ledger_task"."id" IN \((.*?)\) ORDER BY', statement)
    assert found and sorted(re.findall(r"[0-9a-f]{32}", found[1].replace("-", ""))) == [
        first.hex,
        last.hex,
    ]


def test_a_task_without_neighbors_reads_no_tasks(agent: Agent, now: datetime) -> None:
    row = detail_queries.find_task(enqueued(agent, "Plan", now=now))
    with CaptureQueriesContext(connection) as sent:
        assert not detail_queries.list_neighbors(row)
    assert not len(sent)
