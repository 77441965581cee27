"""The limit on the time of a statement: for requests and jobs, not for commands that people start."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.models import CharField, Func, Value

from bench.cluster import run_pgbouncer
from ledger.database import sql
from ledger.database.time_limit import without_time_limit
from ledger.models import Project
from tests.factories import make_agent, make_project
from tests.programs import require_pgbouncer
from tests.retries.moves import make_task
from tests.serving import ROOT, database_of_tests
from tests.waiting import PATIENCE_S, wait_until

MINE = ("mine", "--yes-delete", "mine")
pytestmark = pytest.mark.django_db(transaction=True)

LIMIT_MS, POOLED_LIMIT_MS = 20, 1000
OF_REQUESTS = "1min"
# the arguments of a command, and a table that it reads
LONG = [
    (("audit_ledger",), "ledger_event"),
    (("project", "export", "mine", "{folder}/mine.jsonl"), "ledger_event"),
    (("project", "delete", *MINE), "ledger_event"),
    (("rebuild_activity",), "ledger_event"),
    (("replay_policy", "ask_at_once", "--project", "mine"), "ledger_task"),
    (("export", "{folder}", "--project", "mine"), "ledger_task"),
]
WAITED = """select count(*) from pg_stat_activity
where wait_event_type = 'Lock' and datname = current_database()
    and clock_timestamp() - query_start > interval '{} ms'""".format


@pytest.mark.parametrize(("argv", "table"), LONG, ids=[" ".join(argv[:2]) for argv, _ in LONG])
def test_a_command_may_take_longer_than_a_request(
    elsewhere: Callable[..., "Future[Any]"], tmp_path: Path, argv: tuple[str, ...], table: str
) -> None:
    make_task(make_agent(project=make_project("mine")))
    words = [word.format(folder=tmp_path) for word in argv]

    def run() -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"set statement_timeout = {LIMIT_MS}")
        call_command(*words, stdout=StringIO())

    def is_running() -> bool:
        assert not done.done(), done.exception()
        return True

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"lock table {table} in access exclusive mode")
        done = elsewhere(run)
        wait_until(lambda: is_running() and has_waited(LIMIT_MS))
    done.result(PATIENCE_S)


def has_waited(limit_ms: int) -> bool:
    """Return whether a statement has waited for a lock for longer than a limit."""
    with connection.cursor() as cursor:
        # within a transaction who is connected stays as it was when first asked for
        cursor.execute("select pg_stat_clear_snapshot()")
        cursor.execute(WAITED(limit_ms))
        return bool(cursor.fetchone()[0])


@pytest.fixture
def pgbouncer() -> Iterator[str]:
    """Return the URL of the tests' database behind PgBouncer, with a limit as an operator sets it."""
    require_pgbouncer()
    alter = f"alter database {connection.settings_dict['NAME']}"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        Path(folder).chmod(0o755)  # it runs without privileges
        with connection.cursor() as cursor:
            cursor.execute(f"{alter} set statement_timeout = {POOLED_LIMIT_MS}")
        try:
            url = run_pgbouncer(stack, Path(folder), database_of_tests(), "127.0.0.1")
            wait_until(lambda: answers(url))
            yield url
        finally:
            with connection.cursor() as cursor:
                cursor.execute(f"{alter} reset statement_timeout")


def answers(url: str) -> bool:
    try:
        return show_limit(url) != ""
    except psycopg.OperationalError:
        return False


def show_limit(url: str) -> str:
    with psycopg.connect(url) as link:
        (limit,) = link.execute("show statement_timeout").fetchone() or ("",)
        return str(limit)


@pytest.mark.parametrize(
    "argv", [("audit_ledger",), ("project", "export", "mine", "FILE"), ("project", "delete", *MINE)]
)
def test_a_command_leaves_no_other_client_of_pgbouncer_without_a_limit(
    pgbouncer: str, argv: tuple[str, ...], tmp_path: Path
) -> None:
    make_task(make_agent(project=make_project("mine")))
    argv = tuple(each.replace("FILE", str(tmp_path / "mine.jsonl")) for each in argv)
    env = os.environ | {"DATABASE_URL": pgbouncer, "TENFOUR_PREPARE": "0"}
    command = [sys.executable, "manage.py", *argv]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("lock table ledger_event in access exclusive mode")
        process = subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE)

        def is_running() -> bool:
            assert process.poll() is None, process.communicate()
            return True

        wait_until(lambda: is_running() and has_waited(POOLED_LIMIT_MS))
    _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (0, b"")
    assert show_limit(pgbouncer) == "1s"


def limits() -> list[str]:
    """Return the limits of our own statements and of Django's."""
    statement = "select current_setting('statement_timeout') as now"
    (own,) = sql.run(statement)
    (custom,) = sql.run_custom_plan(statement)
    make_project("any")
    of_django = Func(
        Value("statement_timeout"), function="current_setting", output_field=CharField()
    )
    seen = Project.objects.annotate(now=of_django).values_list("now", flat=True)
    return [own["now"], custom["now"], seen[0]]


def test_the_limit_returns_after_a_command() -> None:
    with without_time_limit():
        assert set(limits()) == {"0"}
    assert set(limits()) == {OF_REQUESTS}
    with pytest.raises(DatabaseError, match="division"), without_time_limit():
        sql.run("select 1 / 0")
    assert set(limits()) == {OF_REQUESTS}


def test_a_lost_connection_is_what_a_command_says() -> None:
    with pytest.raises(OperationalError, match="terminating connection"), without_time_limit():
        sql.run("select pg_terminate_backend(pg_backend_pid())")
    connection.close()


def test_behind_a_pooler_each_transaction_lifts_its_own_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a session sets would stay with a connection that the pooler gives to others."""
    connection.ensure_connection()
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)

    def limit_of_session() -> str:
        connection.ensure_connection()
        return str(connection.connection.execute("show statement_timeout").fetchone()[0])

    with without_time_limit():
        assert set(limits()) == {"0"}
        assert limit_of_session() == OF_REQUESTS
        with transaction.atomic():
            # as an export does it: nothing may have read before
            sql.run("set transaction isolation level repeatable read, read only")
            (row,) = sql.run("select current_setting('transaction_isolation') as level")
            assert row["level"] == "repeatable read" and limit_of_session() == "0"
        with pytest.raises(DatabaseError, match="division"):
            sql.run("select 1 / 0")
        assert set(limits()) == {"0"}
    assert set(limits()) == {OF_REQUESTS} == {limit_of_session()}
