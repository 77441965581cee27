"""An operation by real workers and a real clock: kill -9 in the middle of a batch."""

import os
import signal

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from ledger.models import Event, Task
from retries.models import Operation
from retries.operations import running
from tests import services
from tests.celery_processes import CLOCK, WORKER, run_celery
from tests.dashboard.worked import enqueued
from tests.factories import make_agent
from tests.retries.operations.worlds import list_kinds, start
from tests.serving import database_of_tests
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not services.running, reason="needs servers of its own"),
]


def is_waiting_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and wait_event_type = 'Lock' and state = 'active'"
        )
        return bool(cursor.fetchone()[0])


def test_another_worker_goes_on_after_kill_9_and_no_row_is_done_twice() -> None:
    """The dead worker's batch is repeated whole: it had stored neither changes nor results."""
    agent = make_agent()
    now = timezone.now()
    ids = [enqueued(agent, f"Task {n}", now=now) for n in range(60)]
    operation = start("task.abort", Task.objects.all(), now=now, reason="wrong branch")
    Operation.objects.update(starts_at=now)
    # the worker stops at this row of the second batch, with 14 others of it changed already
    held = sorted(ids)[39]
    with run_celery(*CLOCK):
        with psycopg.connect(database_of_tests()) as blocker, run_celery(*WORKER) as worker:
            blocker.execute("select 1 from ledger_task where id = %s for update", [held])
            # other jobs of the worker wait for locks, too: this one has done its first batch
            first = Operation.objects.filter(state="running", changed=25)
            wait_until(lambda: first.exists() and is_waiting_for_a_lock())
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        # the dead worker still has its lease; it ends by itself, and here at once
        wait_until(lambda: Operation.objects.filter(changed=25).exists())
        Operation.objects.update(lease_until=timezone.now())
        with run_celery(*WORKER):
            wait_until(lambda: Operation.objects.filter(state="done").exists())
    operation.refresh_from_db()
    assert (operation.changed, operation.refused, operation.left) == (60, 0, 0)
    aborted = Event.objects.filter(kind="task.aborted")
    assert sorted(aborted.values_list("subject_id", flat=True)) == sorted(ids)
    assert set(aborted.values_list("actor_name", "request_id")) == {("mara", "req_1")}
    assert list_kinds(operation.pk) == [
        "operation.started",
        "operation.resumed",
        "operation.completed",
    ]
    assert running.list_due(timezone.now()) == []


def test_a_worker_that_loses_redis_during_a_job_reconnects() -> None:
    agent = make_agent()
    now = timezone.now()
    ids = [enqueued(agent, f"Task {n}", now=now) for n in range(2)]
    start("task.abort", Task.objects.all(), now=now, reason="wrong branch")
    Operation.objects.update(starts_at=now)
    done = Operation.objects.filter(state="done")
    with run_celery(*CLOCK), run_celery(*WORKER) as worker:
        with psycopg.connect(database_of_tests()) as blocker:
            blocker.execute("select 1 from ledger_task where id = %s for update", [ids[0]])
            wait_until(is_waiting_for_a_lock)
            services.stop_redis()
            services.start_redis()
        wait_until(done.exists)
        # the worker takes jobs from the new connection
        ids = [enqueued(agent, f"More {n}", now=now) for n in range(2)]
        start("task.abort", Task.objects.filter(id__in=ids), now=now, reason="wrong branch")
        Operation.objects.update(starts_at=now)
        wait_until(lambda: done.count() == 2)
        assert worker.poll() is None
