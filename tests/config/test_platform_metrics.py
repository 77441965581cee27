"""OPS-9: an operator sees the queues, the pools, the checks, and PostgreSQL before agents do."""

import json
import os
import subprocess
import sys

import pytest
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings
from redis import Redis

from config.background.pool_waits import KEY
from config.celery import SENT_AT, app
from config.monitoring.platform_metrics import measure_age
from ledger.models import Agent, ClockRun
from tests import services
from tests.factories import make_token
from tests.retries.moves import make_task
from tests.serving import ROOT, database_of_tests
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)

# Each label's value with its sample; one without labels has the key "".
Samples = dict[str, float]


@pytest.fixture(autouse=True)
def _everyone(settings: Settings) -> None:
    settings.TENFOUR = settings.TENFOUR | {"METRICS_ALLOW": ["127.0.0.1"]}


def scrape() -> dict[str, Samples]:
    response = Client().get("/metrics")
    assert response.status_code == 200
    families = text_string_to_metric_families(response.content.decode())
    return {
        family.name: {" ".join(each.labels.values()): each.value for each in family.samples}
        for family in families
    }


def test_a_job_that_no_worker_takes_is_seen(settings: Settings) -> None:
    with Redis.from_url(settings.REDIS_URL) as client:
        client.delete("tenfour:webhooks")
        assert scrape()["tenfour_queue_length"]["webhooks"] == 0
        for _ in range(2):
            app.send_task("retries.jobs.send_to_channel", kwargs={"channel_id": "x"})
        found = scrape()
        assert found["tenfour_queue_length"]["webhooks"] == 2
        [oldest] = client.lrange("tenfour:webhooks", -1, -1)
        job = json.loads(oldest)
        job["headers"][SENT_AT] -= 300
        client.lset("tenfour:webhooks", -1, json.dumps(job))
        assert scrape()["tenfour_queue_oldest_age_seconds"]["webhooks"] >= 300
        client.delete("tenfour:webhooks")
    del job["headers"][SENT_AT]
    assert measure_age(json.dumps(job).encode()) == measure_age(None) == 0  # of an earlier version


WAIT_FOR_THE_POOL = """
import django
django.setup()
from concurrent.futures import ThreadPoolExecutor
from django.db import connection
from config.background.pool_waits import report_waits
most = connection.settings_dict["OPTIONS"]["pool"]["max_size"]

def work(_):
    try:
        with connection.cursor() as cursor:
            cursor.execute("select pg_sleep(0.2)")
    finally:
        connection.close()

with ThreadPoolExecutor(3 * most) as pool:
    list(pool.map(work, range(3 * most)))
report_waits()
report_waits()  # it has nothing more to report
"""


def test_jobs_that_wait_for_a_connection_are_counted(settings: Settings) -> None:
    with Redis.from_url(settings.REDIS_URL) as client:
        client.delete(KEY)
    assert scrape()["tenfour_pool_waits"][""] == 0
    worker = {"DJANGO_SETTINGS_MODULE": "config.worker_settings"}
    subprocess.run(
        [sys.executable, "-c", WAIT_FOR_THE_POOL],
        cwd=ROOT,
        env=os.environ | worker | {"DATABASE_URL": database_of_tests()},
        check=True,
        timeout=PATIENCE_S,
    )
    found = scrape()
    assert 8 <= found["tenfour_pool_waits"][""] <= 24
    assert found["tenfour_pool_wait_seconds"][""] > 0.2
    assert found["tenfour_pool_timeouts"][""] == 0


def test_an_archive_that_can_not_be_written_is_seen() -> None:
    now = timezone.now()
    ClockRun.objects.create(name="retention", last_run_at=now, did={"error": "The disk is full."})
    ClockRun.objects.create(name="journal", last_run_at=now, did={})
    ClockRun.objects.create(name="metrics", last_run_at=now)
    assert scrape()["tenfour_archive_failing"] == {"retention": 1, "journal": 0}


def test_the_state_of_postgresql_is_seen(agent: Agent) -> None:
    make_task(agent)
    with connection.cursor() as cursor:
        cursor.execute("vacuum analyze")
    found = scrape()
    used = sum(found["tenfour_postgres_connections"].values())
    assert 1 <= used <= found["tenfour_postgres_connections_max"][""] < 100
    assert 0 < found["tenfour_transaction_id_age_ratio"][""] < 0.01
    tables = found["tenfour_table_bytes"]
    assert len(tables) == 10 and min(tables.values()) > 0
    # with its partitions, which are not named
    assert "ledger_event" in tables
    assert not [name for name in tables if name.startswith("ledger_event_")]
    assert found["tenfour_table_dead_rows"].keys() == tables.keys()


def test_a_second_scrape_adds_few_statements(agent: Agent) -> None:
    scrape()
    with CaptureQueriesContext(connection) as queries:
        Client().get("/metrics")
    assert len(queries) <= 6, [each["sql"][:90] for each in queries.captured_queries]


@pytest.mark.skipif(services.running is None, reason="needs servers that it may stop")
def test_without_postgresql_the_metrics_say_so() -> None:
    assert scrape()["tenfour_readiness"]["postgres"] == 1
    connections.close_all()
    services.ours().stop("postgres")
    try:
        found = scrape()
    finally:
        services.ours().start("postgres")
    assert found["tenfour_readiness"] == {"postgres": 0, "redis": 1}
    assert "tenfour_http_requests" in found and "tenfour_queue_length" in found
    assert "tenfour_tasks" not in found and "tenfour_heartbeats" not in found


def test_a_project_does_not_see_the_servers(agent: Agent) -> None:
    headers = {"Authorization": f"Bearer {make_token('reader')}"}
    text = Client().get("/metrics", headers=headers).content.decode()
    for name in ("readiness", "queue_length", "postgres_connections", "table_bytes", "pool_waits"):
        assert f"tenfour_{name}" not in text
    assert "tenfour_clock_failures" in text
