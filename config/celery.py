"""The Celery application and its schedule: all work without a request."""

import ctypes
import logging
import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Celery
from celery.schedules import schedule
from celery.signals import (
    after_task_publish,
    beat_init,
    before_task_publish,
    heartbeat_sent,
    setup_logging,
    worker_init,
)
from django.conf import settings
from kombu import Exchange, Queue

from config import heartbeat
from config.background import pool_waits
from config.environment import unknown_variables

logger = logging.getLogger(__name__)

# A process that has read its settings already, such as a test, keeps them.
if not settings.configured:
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.worker_settings"
# Django's checks load all pages and API operations, which take 27 MB in a worker that needs none of
# them. Every manage.py command runs the checks.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

# a job's header with the time when it was queued
SENT_AT = "sent_at"

# of glibc's malloc.h
M_ARENA_MAX, ARENAS = -8, 2

app = Celery("tenfour")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(related_name="jobs")
app.Beat = app.subclass_with_self("config.background.clock:Clock")  # type: ignore[misc, arg-type]

# A worker without -Q takes jobs from all queues. Each has an exchange of its own: with the default
# one, every job would reach all of them.
QUEUES = ("celery", "webhooks")
app.conf.task_queues = [Queue(name, Exchange(name), routing_key=name) for name in QUEUES]
# Only these jobs connect to receivers, so a worker for them may run in a network of its own.
app.conf.task_routes = {"retries.jobs.send_to_channel": {"queue": "webhooks"}}

# Name of a job's work -> seconds between two jobs.
JOBS: dict[str, float] = {"frequent": 1} | {
    name: seconds for name, seconds in settings.CLOCK.items() if name not in settings.FREQUENT
}

STARTED = datetime.now(UTC), time.monotonic()


def steady_time() -> datetime:
    """Return a time for intervals; it does not change when the host's clock is set."""
    return STARTED[0] + timedelta(seconds=time.monotonic() - STARTED[1])


# No job has a time by which it expires, because a worker would compare that with its host's clock.
# `run_entry` drops those that have waited while an earlier one did their work.
app.conf.beat_schedule = {
    name: {
        "task": "retries.jobs.run_entry",
        "schedule": schedule(seconds, nowfun=steady_time, app=app),
        "kwargs": {"name": name, "every": seconds},
    }
    for name, seconds in JOBS.items()
}


@worker_init.connect
@beat_init.connect
def warn_about_environment(**_: Any) -> None:
    # The checks are skipped here, so they can't warn about misspelled settings. `make up` has
    # already warned.
    if "TENFOUR_LOCAL_URL" not in os.environ:
        for warning in unknown_variables(os.environ):
            logger.warning(warning)


@heartbeat_sent.connect
def show_life(**_: Any) -> None:
    heartbeat.touch()


@before_task_publish.connect
def note_time(*, headers: dict[str, Any], **_: Any) -> None:
    headers[SENT_AT] = time.time()


@heartbeat_sent.connect
def report_pool_waits(**_: Any) -> None:
    pool_waits.report_waits()


@beat_init.connect
def show_life_of_clock(**_: Any) -> None:
    after_task_publish.connect(show_life)


@beat_init.connect
def catch_up(**_: Any) -> None:
    # Work may have come due while Tenfour was down, so every sweep runs once at the start.
    for entry in app.conf.beat_schedule.values():
        app.send_task(entry["task"], kwargs=entry["kwargs"])


@worker_init.connect
def share_arenas(**_: Any) -> None:
    # With one arena for each thread, glibc would keep freed memory in all of them.
    with suppress(OSError, AttributeError):  # another C library has no such setting
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)


@worker_init.connect
def survive_lost_broker(**_: Any) -> None:
    from config.background import (
        broker,  # loads the transport, which other processes may never need
    )

    broker.install()


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Keep Django's logging; Celery configures its own unless this signal has a receiver."""
