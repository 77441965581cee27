"""Prepared statements behind PgBouncer: each process finds out whether they can be had."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from bench.cluster import run_pgbouncer
from tests.programs import require_pgbouncer
from tests.serving import ROOT, database_of_tests
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

# The statement runs in several processes of PostgreSQL, each held by a transaction of its own.
PROGRAM = """
import json, os, threading
import django
django.setup()
from django.db import connection, transaction
from ledger.database import sql
from ledger.database.time_limit import without_time_limit

def run(barrier):
    for _ in range(3):
        with transaction.atomic():
            sql.run("select pg_backend_pid() as pid where %(one)s::int = 1", one=1)
            barrier.wait()
        barrier.wait()
    connection.close()

barrier = threading.Barrier(4)
threads = [threading.Thread(target=run, args=[barrier]) for _ in range(4)]
[each.start() for each in threads], [each.join() for each in threads]
with transaction.atomic():
    for _ in range(2):
        sql.run(f"select {os.getpid()} as own, %(one)s::int as one", one=1)
    stored = sql.run("select count(*) as n from pg_prepared_statements where statement like "
        f"'select {os.getpid()} as own%%'")[0]["n"]
with without_time_limit():
    lifted = sql.run("select current_setting('statement_timeout') as now")[0]["now"]
print(json.dumps({
    "pooled": connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"],
    "threshold": connection.connection.prepare_threshold,
    "stored": stored,
    "lifted": lifted,
}))
"""
Start = Callable[..., str]


@pytest.fixture
def start_pgbouncer() -> Iterator[Start]:
    """Return a function that starts PgBouncer before the tests' database and returns its URL."""
    require_pgbouncer()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        Path(folder).chmod(0o755)  # it runs without privileges

        def start(*, prepares: bool) -> str:
            url = run_pgbouncer(
                stack, Path(folder), database_of_tests(), "127.0.0.1", prepares=prepares
            )
            wait_until(lambda: answers(url))
            return url

        yield start


def answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def run(url: str, **env: str) -> dict[str, object]:
    own = {name: text for name, text in os.environ.items() if name != "TENFOUR_PREPARE"}
    own |= {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "config.settings"} | env
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=own, check=True, capture_output=True
    )
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def test_a_direct_connection_prepares() -> None:
    assert run(database_of_tests()) == {"pooled": False, "threshold": 5, "stored": 1, "lifted": "0"}


@pytest.mark.parametrize("settings", ["config.settings", "config.worker_settings"])
def test_behind_a_pooler_that_can_statements_are_prepared(
    start_pgbouncer: Start, settings: str
) -> None:
    url = start_pgbouncer(prepares=True)
    found = {"pooled": True, "threshold": 5, "stored": 1, "lifted": "0"}
    for _ in range(2):  # another process finds the same statements at the pooler
        assert run(url, DJANGO_SETTINGS_MODULE=settings) == found
    assert run(url, TENFOUR_PREPARE="0") == found | {"threshold": None, "stored": 0}


@pytest.mark.parametrize("settings", ["config.settings", "config.worker_settings"])
def test_behind_a_pooler_that_can_not_they_are_not(start_pgbouncer: Start, settings: str) -> None:
    url = start_pgbouncer(prepares=False)
    found = {"pooled": True, "threshold": None, "stored": 0, "lifted": "0"}
    for _ in range(2):  # the first has left nothing at PostgreSQL
        assert run(url, DJANGO_SETTINGS_MODULE=settings) == found
