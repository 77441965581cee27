"""Jobs that expired are one line with their number, and none is called revoked (AGT-19, OPS-12)."""

import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from config.background import expired_jobs
from config.celery import CLOCK, app
from ledger.models import ClockRun
from tests.celery_processes import WORKER, run_celery
from tests.waiting import wait_until


def test_they_are_counted_for_a_minute() -> None:
    jobs = expired_jobs.ExpiredJobs()
    assert jobs.take(100, after_s=60) == 0
    jobs.note(100)
    jobs.note(130)
    assert jobs.take(159, after_s=60) == 0
    assert jobs.take(160, after_s=60) == 2
    assert jobs.take(300, after_s=60) == 0
    jobs.note(300)
    assert jobs.take(359, after_s=60) == 0


@pytest.mark.django_db(transaction=True)
def test_a_worker_logs_their_number_once(tmp_path: Path) -> None:
    entry = {"kwargs": {"name": "backoff", "every": CLOCK["backoff"]}}
    for _ in range(3):
        past = datetime.now(UTC) - timedelta(minutes=1)
        app.send_task("retries.jobs.run_entry", **entry, expires=past)
    app.send_task("retries.jobs.run_entry", **entry)
    log = tmp_path / "log"
    with log.open("wb") as output, run_celery(*WORKER, output=output, TENFOUR_LOG_LEVEL="INFO"):
        wait_until(ClockRun.objects.exists, log.read_text)  # so it has seen the others, too
    assert log.read_text().count("3 jobs expired before this worker could run them") == 1
    assert "revoked" not in log.read_text() and "ahead of" not in log.read_text()


@pytest.mark.django_db(transaction=True)
def test_a_clock_that_is_ahead_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-3: such a worker drops jobs that have just been sent."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 120)
    with caplog.at_level(logging.INFO, logger="config.background.expired_jobs"):
        expired_jobs.log_count(7)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "7 jobs expired" in record.message
    assert "clock is 120 s ahead of PostgreSQL's" in record.message
