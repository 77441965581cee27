"""/healthz, /readyz and /metrics."""

import os
import signal
import socket
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from config.monitoring import health
from config.settings import CLOCK
from ledger.access.auth_failures import PER_MINUTE
from ledger.journal_storage import months as journal_months
from ledger.models import Agent, ClockRun
from ledger.states import InstructionState
from retries import sweeps
from retries.journal_readers import metric_totals
from retries.retention import instruction_rows
from tests.factories import (
    NOW,
    make_agent,
    make_instruction,
    make_project,
    make_token,
    pull,
    send,
    tick,
)
from tests.journal_partitions import lay_out
from tests.processes import stop_process
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.services import ours
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db
DEADLINE_S = health.DEADLINE_S


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that a busy machine slows down is no server that hangs."""
    for name in ("DEADLINE_S", "REDIS_DEADLINE_S"):
        monkeypatch.setattr(health, name, PATIENCE_S)


def ready() -> tuple[int, dict[str, Any]]:
    response = Client().get("/readyz")
    return response.status_code, response.json()


def test_the_process_answers_without_asking_anybody(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert Client().get("/healthz").json()["status"] == "ok"
    assert Client().post("/healthz").status_code == 405


def test_probes_and_prometheus_may_use_the_address_of_a_container(settings: Any) -> None:
    """Kubernetes asks a pod by its address, which is not in TENFOUR_HOSTS."""
    settings.ALLOWED_HOSTS = ["tenfour.example.org"]
    settings.TENFOUR = settings.TENFOUR | {"METRICS_ALLOW": ["127.0.0.1"]}
    pod = {"HTTP_HOST": "10.244.1.5:8000"}
    for path in ("/healthz", "/readyz", "/metrics"):
        assert Client().get(path, **pod).status_code == 200, path
    assert Client().get("/sign-in/", **pod).status_code == 400


AHEAD = """insert into ledger_event (tx, project_id, kind, subject_type, subject_id, actor_type)
values ('9000000000', %s, 'agent.heard', 'agent', %s, 'system')"""


def test_it_is_ready_when_the_beat_is_fresh() -> None:
    journal_months.make_months(now=timezone.now())
    assert ready()[1]["checks"]["beat"].startswith(f"stale: {next(iter(CLOCK))} has never run")
    for name in CLOCK:
        ClockRun.objects.create(name=name, last_run_at=timezone.now())
    assert ready() == (
        200,
        {
            "status": "ok",
            "checks": dict.fromkeys(("postgres", "beat", "journal", "host_clock", "redis"), "ok"),
            "version": "0.1.0",
        },
    )


def test_a_journal_without_the_next_month_degrades_it() -> None:
    lay_out(journal_months.month_of(timezone.now()), months=1)
    month = journal_months.next_month(journal_months.month_of(timezone.now()))
    status, body = ready()
    assert (status, body["status"]) == (200, "degraded")
    assert body["checks"]["journal"].startswith(f"no partition for {month:%Y-%m}: run ")
    sweeps.run("journal")
    assert ready()[1]["checks"]["journal"] == "ok"


def test_a_dump_in_a_server_with_lower_transaction_numbers_degrades_it() -> None:
    """Readers of the journal would find no new event."""
    agent = make_agent()
    with connection.cursor() as cursor:
        cursor.execute(AHEAD, [agent.project_id, agent.pk])
    status, body = ready()
    assert (status, body["status"]) == (200, "degraded")
    assert body["checks"]["journal"].endswith("run .venv/bin/python manage.py rebase_journal")


def test_a_stale_beat_degrades_it() -> None:
    late = timezone.now() - timedelta(seconds=151)
    for name in CLOCK:
        ClockRun.objects.create(name=name, last_run_at=late)
    status, body = ready()
    assert (status, body["status"]) == (200, "degraded")
    assert f"stale: {next(iter(CLOCK))} last ran" in body["checks"]["beat"]
    # the clock was set back
    ClockRun.objects.update(last_run_at=timezone.now() + timedelta(minutes=1))
    status, body = ready()
    assert (status, body["status"]) == (200, "degraded")
    assert f"stale: {next(iter(CLOCK))} last ran in the future" in body["checks"]["beat"]


def test_an_entry_that_runs_but_fails_degrades_it() -> None:
    """OPS-5: a run that fails also changes when the entry last ran."""
    journal_months.make_months(now=timezone.now())
    now = timezone.now()
    for name in CLOCK:
        ClockRun.objects.create(name=name, last_run_at=now, last_success_at=now)
    runs = ClockRun.objects.filter(name__in=("metrics", "activity"))
    runs.update(last_error="broken", failures=1)
    assert ready()[1]["checks"]["beat"] == "ok"  # the next run may succeed
    long_ago = now - timedelta(seconds=61)
    runs.filter(name="metrics").update(last_success_at=long_ago)
    runs.filter(name="activity").update(last_success_at=None)
    status, body = ready()
    assert (status, body["status"]) == (200, "degraded")
    assert body["checks"]["beat"] == (
        f"failing: metrics last succeeded at {long_ago:%F %T}Z, activity has never succeeded. "
        "The worker's log has the error"
    )


@pytest.mark.django_db(transaction=True)
def test_a_database_that_hangs_is_reported_within_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "DEADLINE_S", DEADLINE_S)
    server = ours().processes["postgres"]
    try:
        stop_process(server.pid)
        status, body = ready()
    finally:
        server.send_signal(signal.SIGCONT)
    assert (status, body["status"]) == (503, "unavailable")
    assert body["checks"]["postgres"] == "hangs: no answer within 2 s"
    wait_until(lambda: ready()[0] == 200)


@pytest.mark.django_db(transaction=True)
def test_a_database_that_takes_no_writes_degrades_it() -> None:
    name = connection.settings_dict["NAME"]
    with connection.cursor() as cursor:
        cursor.execute(f"alter database {name} set default_transaction_read_only = on")
    try:
        status, body = ready()
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"alter database {name} reset default_transaction_read_only")
    assert (status, body["status"]) == (200, "degraded")
    assert body["checks"]["postgres"].startswith("writes fail: the database is read-only")


@pytest.mark.django_db(transaction=True)
def test_tables_of_another_version_are_not_ready() -> None:
    ClockRun.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("update django_migrations set name = '0000_x' where name = '0002_database'")
    try:
        status, body = ready()
    finally:
        with connection.cursor() as cursor:
            cursor.execute(
                "update django_migrations set name = '0002_database' where name = '0000_x'"
            )
    assert (status, body["status"]) == (503, "unavailable")
    assert body["checks"]["postgres"].endswith("run .venv/bin/python manage.py migrate")


@pytest.mark.django_db(transaction=True)
def test_a_newer_version_that_migrated_leaves_older_processes_ready() -> None:
    """Otherwise no process would be ready between the migration and the last restart."""
    values = "values ('ledger', '9999_later', now())"
    with connection.cursor() as cursor:
        cursor.execute(f"insert into django_migrations (app, name, applied) {values}")
    try:
        status, body = ready()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("delete from django_migrations where name = '9999_later'")
    assert (status, body["status"]) == (200, "degraded")
    assert body["checks"]["postgres"].startswith("the tables are of a newer version: replace")


def test_connections_notice_a_peer_that_vanished() -> None:
    connection.ensure_connection()
    with socket.socket(fileno=os.dup(connection.connection.fileno())) as peer:
        assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000


def scraped() -> dict[tuple[str, str], float]:
    response = Client().get("/metrics", headers={"Authorization": f"Bearer {make_token('reader')}"})
    assert response.status_code == 200
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


@pytest.mark.django_db(transaction=True)
def test_the_metrics_count_what_the_ledger_holds(agent: Agent) -> None:
    """S0.36; a counter that went down with deleted rows would count as started again."""
    settled = [
        make_instruction(InstructionState.ACKNOWLEDGED, agent=agent).pk,
        send(agent, max_retries=1),
    ]
    for _ in range(2):
        pull(agent)
        tick(NOW)
    make_instruction(InstructionState.QUEUED, agent=agent)
    metric_totals.count_events(now=NOW)
    instruction_rows.delete_instructions(settled)
    metric_totals.count_events(now=NOW)
    found = scraped()
    assert found["tenfour_instructions_total", "coder acknowledged default first"] == 1
    assert found["tenfour_instructions_total", "coder failed default again"] == 1
    assert found["tenfour_instruction_retries_total", "coder default"] == 1
    assert found["tenfour_instruction_ack_seconds_count", "coder acknowledged default first"] == 1
    assert found["tenfour_instruction_deliveries_sum", "coder failed default again"] == 2
    assert found["tenfour_instructions_waiting", "coder default"] == 1


def test_tasks_breakers_and_dead_letters_are_counted(agent: Agent) -> None:
    """S3.50"""
    for _ in range(5):
        make_task(agent, max_attempts=1)
        fail(agent, attempt_of(claim(agent)), now=NOW)
    make_task(agent, on_exhausted="escalate")
    found = scraped()
    assert found["tenfour_tasks", "coder default failed"] == 5
    assert found["tenfour_tasks", "coder default queued"] == 1
    assert found["tenfour_dead_letters", "default"] == 5
    assert found["tenfour_breaker_state", "coder default"] == 2


@pytest.mark.django_db(transaction=True)
def test_what_the_journal_says_is_in_the_metrics(agent: Agent) -> None:
    make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=NOW + timedelta(seconds=90))
    metric_totals.count_events(now=NOW)
    found = scraped()
    assert found["tenfour_task_transitions_total", "running default failed"] == 1
    assert found["tenfour_attempts_total", "coder execution_error failure default"] == 1
    buckets = {
        key[1].split()[1]: value
        for key, value in found.items()
        if key[0] == "tenfour_attempt_duration_seconds_bucket"
    }
    assert (buckets["60.0"], buckets["300.0"], buckets["+Inf"]) == (0, 1, 1)


def test_metrics_are_for_those_who_may(settings: Any) -> None:
    assert Client().get("/metrics").status_code == 403  # by default, not even this machine
    settings.TENFOUR = settings.TENFOUR | {"METRICS_ALLOW": ["10.0.0.0/8"]}
    assert Client().get("/metrics").status_code == 403
    assert Client(REMOTE_ADDR="10.1.2.3").get("/metrics").status_code == 200
    for kind, status in [("reader", 200), ("agent", 403)]:
        headers = {"Authorization": f"Bearer {make_token(kind)}"}
        assert Client().get("/metrics", headers=headers).status_code == status
    assert Client().get("/metrics", headers={"Authorization": "Bearer x"}).status_code == 403


def test_the_metrics_of_a_token_are_those_of_its_project(agent: Agent, settings: Any) -> None:
    other = make_agent("spy", project=make_project("other"))
    for each in (agent, other):
        make_task(each)
        make_instruction(InstructionState.QUEUED, agent=each)
    found = {labels for _, labels in scraped()}
    assert any("default" in labels for labels in found)
    assert not any("other" in labels.split() and "default" not in labels for labels in found)
    assert not any("spy" in labels for labels in found)
    settings.TENFOUR = settings.TENFOUR | {"METRICS_ALLOW": ["127.0.0.1"]}
    assert b'project="other"' in Client().get("/metrics").content


def test_bad_tokens_are_limited_at_the_metrics(settings: Any) -> None:
    headers = {"Authorization": "Bearer x"}
    limit = PER_MINUTE
    statuses = [Client().get("/metrics", headers=headers).status_code for _ in range(limit + 1)]
    assert statuses == [403] * limit + [429]


def test_only_the_entries_of_trusted_proxies_are_believed(settings: Any) -> None:
    def status(proxies: int, forwarded: str) -> int:
        settings.TENFOUR = settings.TENFOUR | {
            "TRUSTED_PROXIES": proxies,
            "METRICS_ALLOW": ["192.0.2.7"],
        }
        return Client().get("/metrics", headers={"X-Forwarded-For": forwarded}).status_code

    assert status(0, "192.0.2.7") == 403
    assert status(1, "192.0.2.7") == status(1, "10.0.0.1, 192.0.2.7") == 200
    assert status(1, "192.0.2.7, 10.0.0.1") == status(1, "") == status(1, "x") == 403
    assert status(2, "192.0.2.7, 10.0.0.1") == 200
    assert status(2, "192.0.2.7") == 403
