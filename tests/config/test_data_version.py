"""Data that this version can't read is refused with a sentence, before anything is served."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.signals import pre_migrate
from django.test.utils import CaptureQueriesContext

from config.local.places import PROJECT
from config.management.commands.migrate import LOCK
from config.postgres.data_version import migration_digests
from ledger.states import InstructionState, TaskState
from tests import services
from tests.config.web_processes import ending
from tests.serving import make_database, url_of_database
from tests.waiting import PATIENCE_S

DATABASE = "data_version"
NEWEST = "0069_inlined_has_value"


def migrate(*options: str) -> "subprocess.CompletedProcess[str]":
    with start_migrate(DATABASE, *options) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start_migrate(database: str, *options: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "manage.py", "migrate", "--skip-checks", "-v0", *options]
    env = os.environ | {"DATABASE_URL": url_of_database(database)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(argv, cwd=PROJECT, env=env, **pipes)


@pytest.fixture(scope="module")
def migrated() -> Iterator[Callable[[str], None]]:
    """A migrated database of its own; runs statements there."""
    with make_database(DATABASE, migrated=True) as url:
        assert services.running or migrate().returncode == 0

        def run(statement: str) -> None:
            with psycopg.connect(url, autocommit=True) as own:
                own.execute(statement)

        yield run


def record(digests: dict[str, str]) -> str:
    return f"comment on table django_migrations is '{json.dumps(digests)}'"


def test_data_of_this_version_is_migrated_again(migrated: Callable[[str], None]) -> None:
    assert migrate().returncode == 0


def test_a_check_says_whether_migrations_are_missing_and_changes_nothing(
    migrated: Callable[[str], None],
) -> None:
    assert migrate("--check").returncode == 0
    migrated("create table kept as select * from django_migrations")
    migrated(f"delete from django_migrations where name like '{NEWEST}'")
    done = migrate("--check")
    assert (done.returncode, done.stderr) == (1, ""), done.stdout
    migrated(
        "insert into django_migrations select * from kept except select * from django_migrations"
    )
    migrated("drop table kept")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("option", ["plan", "check_unapplied"])
def test_what_only_asks_sets_nothing(option: str) -> None:
    """It may go through PgBouncer, where the next client would get the connection as it is."""
    with CaptureQueriesContext(connection) as asked:
        call_command("migrate", verbosity=0, **{option: True})
    assert [each["sql"] for each in asked if "timeout" in each["sql"]] == []


@pytest.mark.django_db(transaction=True)
def test_a_migration_may_take_longer_than_a_request() -> None:
    """An index of a table with millions of rows takes minutes. No other migrates meanwhile."""
    found = []

    def look(**_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "select current_setting('statement_timeout'), count(*) from pg_locks"
                " where locktype = 'advisory' and pid = pg_backend_pid()"
            )
            found.append(cursor.fetchone())

    pre_migrate.connect(look)
    try:
        call_command("migrate", skip_checks=True, verbosity=0)
    finally:
        pre_migrate.disconnect(look)
    look()
    *during, after = found
    assert set(during) == {("0", 1)} and after == ("1min", 0)


def test_data_of_before_digests_were_recorded_goes_on(migrated: Callable[[str], None]) -> None:
    migrated("comment on table django_migrations is null")
    assert migrate().returncode == 0
    with psycopg.connect(url_of_database(DATABASE)) as conn:
        sql = "select obj_description('django_migrations'::regclass)"
        recorded = conn.execute(sql).fetchone()
    assert recorded and json.loads(recorded[0]) == dict(sorted(migration_digests().items()))


def refused(words: str) -> None:
    done = migrate()
    assert done.returncode == 1
    assert words in done.stderr and "TENFOUR_DATA=FOLDER" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_migration_that_was_rewritten_is_refused(migrated: Callable[[str], None]) -> None:
    migrated(record(migration_digests() | {"ledger.0001_initial": "0" * 64}))
    refused("ledger.0001_initial differs")
    migrated(record(migration_digests()))


@pytest.fixture
def newer(migrated: Callable[[str], None]) -> Iterator[None]:
    """A newer version has migrated the database."""
    insert = "insert into django_migrations (app, name, applied)"
    migrated(f"{insert} values ('ledger', '9999_later', now())")
    yield
    migrated("delete from django_migrations where name = '9999_later'")


def test_data_of_a_newer_version_is_refused(newer: None) -> None:
    refused("A newer version of Tenfour created this data: it has applied ledger.9999_later")


@pytest.mark.parametrize("option", ["--check", "--plan"])
def test_a_process_may_start_again_after_a_newer_version_migrated(newer: None, option: str) -> None:
    """The container that a worker's pod begins with asks this; `/readyz` has the same rule."""
    done = migrate(option)
    assert done.returncode == 0, done.stderr
    assert "A newer version of Tenfour has migrated this database" in done.stderr
    assert "ledger.9999_later" in done.stderr


def test_no_process_starts_on_a_newer_database_without_its_own_tables(
    newer: None, migrated: Callable[[str], None]
) -> None:
    """As when this version has a migration that the newer one, of another branch, has not."""
    migrated("create table kept as select * from django_migrations")
    migrated(f"update django_migrations set name = '9998_other' where name like '{NEWEST}'")
    done = migrate("--check")
    assert (done.returncode, done.stderr) == (1, "")
    migrated("delete from django_migrations")
    migrated("insert into django_migrations select * from kept")
    migrated("drop table kept")
    migrated(record(migration_digests() | {"ledger.0001_initial": "0" * 64}))
    done = migrate("--check")
    assert done.returncode == 1 and "ledger.0001_initial differs" in done.stderr
    migrated(record(migration_digests()))


@pytest.fixture
def empty() -> Iterator[str]:
    """The name of a database without tables."""
    name = f"{DATABASE}_empty"
    with make_database(name):
        yield name


def test_migrations_at_once_run_one_after_another_and_never_hold_it_up(empty: str) -> None:
    """Two machines may start a new version at the same time."""
    with psycopg.connect(url_of_database(empty), autocommit=True) as other:
        other.execute(f"set statement_timeout = '{PATIENCE_S}s'")
        other.execute(f"select pg_advisory_lock({LOCK})")
        with ending(start_migrate(empty)) as first, ending(start_migrate(empty)) as second:
            for process in (first, second):
                assert process.stderr
                line = process.stderr.readline()
                holder = f"which PostgreSQL's process {other.info.backend_pid}"
                assert f"another migrate, {holder}" in line
            assert other.execute("select to_regclass('django_migrations')").fetchone() == (None,)
            # this waits for all snapshots
            other.execute("create table built (id int)")
            other.execute("create index concurrently on built (id)")
            assert first.poll() is None and second.poll() is None
            other.execute(f"select pg_advisory_unlock({LOCK})")
            for process in (first, second):
                _, errors = process.communicate(timeout=PATIENCE_S)
                assert process.returncode == 0, errors


def test_old_data_without_digests_is_refused(migrated: Callable[[str], None]) -> None:
    """The tables of the commit before the migrations were rewritten had other columns."""
    migrated("comment on table django_migrations is null")
    migrated("alter table ledger_task rename column title to headline")
    refused("ledger_task.title differs")
    migrated("alter table ledger_task rename column headline to title")


def run_with(*argv: str) -> str:
    """Run `tests.config.older_data` on the database of this module; return what it prints."""
    command = [sys.executable, "-m", "tests.config.older_data", *argv]
    env = os.environ | {"DATABASE_URL": url_of_database(DATABASE)}
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1] if done.stdout else ""


# the migrations after which none was rewritten
FIRST = ("ledger.0002_database", "retries.0001_initial")


def read_everything(token: str, *reverted: str) -> None:
    states = json.loads(run_with("read", token, *reverted))
    assert states["tasks"] == sorted(TaskState)
    assert states["instructions"] == sorted(InstructionState)
    assert states["escalations"] and states["dead-letters"] and states["plans"]


@pytest.mark.timeout(5 * PATIENCE_S)  # it migrates and reads everything more than once
def test_data_of_older_versions_is_brought_forward_and_read(
    migrated: Callable[[str], None],
) -> None:
    """Rows stay when the tables go back to the first migrations; `tests.versions` has real ones."""
    read_everything(run_with("build"), *FIRST)
    require_newest(*FIRST)
    assert migrate().returncode == 0


def require_newest(*names: str) -> None:
    """Check that these are the newest migrations of their apps that the database has."""
    newest = "select app || '.' || max(name) from django_migrations group by app"
    with psycopg.connect(url_of_database(DATABASE)) as conn:
        assert set(names) <= {name for (name,) in conn.execute(newest).fetchall()}
