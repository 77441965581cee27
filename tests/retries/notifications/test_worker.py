"""Deliveries by a real worker and clock: kill -9 in the middle, and Redis lost."""

import os
import signal
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from django.utils import timezone

from config.celery import app
from ledger.models import Event
from retries import jobs
from retries.models import Channel, Delivery
from retries.notifications.outbox import read_outbox
from retries.sessions.buffering import connect_redis
from tests import services
from tests.celery_processes import CLOCK, WORKER, run_celery
from tests.factories import make_agent, make_project
from tests.retries.moves import make_task
from tests.retries.notifications.receivers import Receiver, make_webhook
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not services.running, reason="needs servers of its own"),
]


def delivered() -> int:
    return Delivery.objects.filter(state="delivered").count()


def test_nothing_is_lost_when_worker_and_redis_die(receiver: Receiver) -> None:
    """Every event arrives at least once with one id, although both die in the middle."""
    project, agent = make_project(), make_agent()
    channel = make_webhook(receiver, project=project, events=("task.created",)).channel
    reached, release = threading.Event(), threading.Event()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        # the worker dies here, after the receiver has the delivery and before it is recorded
        reached.set()
        release.wait(PATIENCE_S)

    receiver.answer = hang
    with run_celery(*CLOCK):
        with run_celery(*WORKER, TENFOUR_WEBHOOK_ALLOW=receiver.allowed) as worker:
            for _ in range(40):
                make_task(agent, now=timezone.now())
            assert reached.wait(PATIENCE_S)
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        release.set()
        receiver.answer = 204
        assert delivered() == 0
        # the dead process still has its turn; it ends by itself, and here at once
        assert Channel.objects.get(pk=channel.pk).sending_until is not None
        Channel.objects.update(sending_until=timezone.now())
        with run_celery(*WORKER, TENFOUR_WEBHOOK_ALLOW=receiver.allowed):
            wait_until(lambda: delivered() == 40)
            services.stop_redis()
            for _ in range(10):
                make_task(agent, now=timezone.now())
            services.start_redis()
            wait_until(lambda: delivered() == 50)
    ids = {
        f"evt-{id}" for id in Event.objects.filter(kind="task.created").values_list("pk", flat=True)
    }
    got = [each.id for each in receiver.received]
    assert set(got) == ids and len(ids) == 50 and len(got) >= 51
    assert Delivery.objects.filter(tries__gt=2).count() == 0


def count_waiting(queue: str) -> int:
    """Return how many jobs of a queue no worker has taken."""
    found: Any = connect_redis().llen(f"tenfour:{queue}")
    return int(found)


def test_only_a_worker_of_the_queue_for_webhooks_sends(receiver: Receiver) -> None:
    """A worker with `-Q celery` runs the clock and sends nothing; one with `-Q webhooks` sends."""
    connect_redis().flushdb()
    project, agent = make_project(), make_agent()
    channel = make_webhook(receiver, project=project, events=("task.created",)).channel
    read_outbox(now=timezone.now())  # begins here
    make_task(agent, now=timezone.now())
    run_entry = app.tasks["retries.jobs.run_entry"]
    with run_celery(*WORKER, "-Q", "celery", TENFOUR_WEBHOOK_ALLOW=receiver.allowed):
        for number in (1, 2):
            run_entry.delay(name="notifications", every=0)
            wait_until(lambda number=number: count_waiting("webhooks") == number)
        assert Delivery.objects.get().tries == 0 and not receiver.received
    with run_celery(*WORKER, "-Q", "webhooks", TENFOUR_WEBHOOK_ALLOW=receiver.allowed):
        run_entry.delay(name="notifications", every=0)
        jobs.request_sending(channel.pk)
        wait_until(lambda: delivered() == 1)
        assert count_waiting("celery") == 1
    connect_redis().flushdb()
