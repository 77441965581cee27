"""OPS-10: a Redis whose memory is full is named by /readyz, and logged once a minute."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.test import Client
from pytest_django import Settings

from config import heartbeat
from config.background import redis_server
from config.local.embedded import free_port
from config.monitoring.logs import RedisOutages
from tests.celery_processes import run_celery
from tests.config.test_beat import BEAT
from tests.config.test_health import _patient as _patient
from tests.services import ours
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def full_redis(tmp_path: Path) -> Iterator[str]:
    """The URL of a Valkey that has no memory left: it takes more for itself than it may."""
    port = free_port()
    program = ours().servers.programs.redis
    options = f"--port {port} --bind 127.0.0.1 --maxmemory 100kb --appendonly no --loglevel warning"
    with subprocess.Popen([program, *options.split(), "--save", ""], cwd=tmp_path) as process:
        try:
            url = f"redis://127.0.0.1:{port}/0"
            with redis.Redis.from_url(url) as client:
                wait_until(lambda: answers(client))
            yield url
        finally:
            process.kill()


def answers(client: "redis.Redis") -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def count_refusals(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        stats = client.info("errorstats")
    return int(stats.get("errorstat_OOM", {"count": 0})["count"])


@pytest.mark.django_db
def test_readyz_says_that_no_job_can_be_queued(full_redis: str, settings: Settings) -> None:
    settings.REDIS_URL = full_redis
    body = Client().get("/readyz").json()
    assert body["status"] == "degraded"
    assert body["checks"]["redis"].startswith("writes fail, so no job can be queued: ")


def test_a_restart_does_not_help_a_clock_that_can_queue_no_job(
    full_redis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert heartbeat.has_redis()
    monkeypatch.setattr("config.settings.REDIS_URL", full_redis)
    assert not heartbeat.has_redis()
    assert redis_server.find_problem("redis://127.0.0.1:1/0", deadline_s=1).startswith("away")


def test_the_clock_logs_one_line_a_minute(full_redis: str, tmp_path: Path) -> None:
    log = tmp_path / "clock.log"
    refused, began = count_refusals(full_redis), time.monotonic()
    with log.open("wb") as output, run_celery(*BEAT, output=output, REDIS_URL=full_redis) as clock:
        wait_until(lambda: count_refusals(full_redis) > refused + 20, log.read_text)
        assert clock.poll() is None
        clock.terminate()
        clock.wait(PATIENCE_S)
    text = log.read_text()
    minutes = (time.monotonic() - began) // RedisOutages.EVERY_S
    assert 1 <= text.count("Redis takes no jobs: ") <= 1 + minutes, text
    assert text.count("[error") <= 1 + minutes and "Traceback" not in text, text
