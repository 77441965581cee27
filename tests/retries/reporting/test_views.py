"""`manage.py reporting`: people who write SQL read views, and nothing else."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from config.local.embedded import wheels
from config.local.places import PROJECT
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Plan
from ledger.pools import membership
from retries.reporting.views import SCHEMA, VIEWS
from tests.factories import make_project
from tests.retries.retention.test_projects import NOW, make_world
from tests.serving import database_of_tests, make_database, use_database

pytestmark = pytest.mark.django_db(transaction=True)

DATABASE, ROLE = "tenfour_reporting", "tenfour_analyst"


@pytest.fixture
def database() -> Iterator[str]:
    """The URL of a database with rows of each kind, which has not granted the views."""
    with drop_role(), make_database(DATABASE, migrated=True) as url, use_database(DATABASE):
        project = make_project("ours")
        make_world(project)
        stamp = {"created_at": NOW, "updated_at": NOW}
        Plan.objects.create(project=project, ref="p", title="A plan", source={}, **stamp)
        yield url


@contextmanager
def drop_role() -> Iterator[None]:
    # A role belongs to all databases of the server, and goes after those that it can read.
    yield
    with psycopg.connect(database_of_tests()) as connection:
        connection.execute(f"drop role if exists {ROLE}")


@pytest.fixture
def reader(database: str) -> str:
    return grant(database)


def grant(database: str) -> str:
    """Grant the views to a new role; return its URL."""
    told = run("grant")
    password = told.rstrip().rpartition(" ")[2]
    parts = urlsplit(database)
    return urlunsplit(parts._replace(netloc=f"{ROLE}:{password}@{parts.hostname}:{parts.port}"))


def run(action: str, role: str = ROLE) -> str:
    out = StringIO()
    call_command("reporting", action, role, stdout=out)
    return out.getvalue()


def count_rows(reader: str) -> dict[str, int]:
    with psycopg.connect(reader) as analyst:
        return {
            view.name: analyst.execute(f"select count(*) from {view.name}").fetchall()[0][0]
            for view in VIEWS
        }


def test_each_view_has_the_rows_of_its_table(reader: str) -> None:
    counts = count_rows(reader)
    with connection.cursor() as cursor:
        for view in VIEWS:
            table = view.source.split()[0].strip("(")
            if table != "select":
                cursor.execute(f"select count(*) from {table}")
                assert (counts[view.name],) == cursor.fetchone(), view.name
    assert all(counts.values()), counts


@pytest.mark.parametrize(
    "statement",
    [
        "select * from public.ledger_task",
        "select * from public.ledger_token",
        "select * from public.auth_user",
        "update public.ledger_task set priority = 1",
        "create table mine (a int)",
        "create table public.mine (a int)",
        "select pg_read_file('/etc/passwd')",
    ],
)
def test_the_role_can_do_nothing_else(reader: str, statement: str) -> None:
    with psycopg.connect(reader, autocommit=True) as analyst:
        analyst.execute("set default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            analyst.execute(statement)


def test_no_view_shows_a_secret_or_a_payload(reader: str) -> None:
    with psycopg.connect(reader) as analyst:
        for view in VIEWS:
            types = analyst.execute(f"select * from {view.name} limit 0").description or []
            assert not {each.type_display for each in types} & {"json", "jsonb", "bytea"}


def test_psql_reads_the_views_and_their_descriptions(reader: str) -> None:
    psql = str(wheels()[0] / "bin" / "psql")

    def ask(*argv: str) -> str:
        argv = (psql, reader, "--no-psqlrc", *argv)
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    described = ask("--command", r"\d+ tasks")
    for column in next(view for view in VIEWS if view.name == "tasks").columns:
        assert column.about in described
    assert "ours" in ask("--csv", "--command", "select project, state from tasks")


def test_a_migration_can_change_the_tables_and_the_views_stay(database: str) -> None:
    reader = grant(database)
    before = count_rows(reader)
    with connection.cursor() as cursor:
        # A view with a column that this version does not have, as an older version left it.
        cursor.execute(f"create view {SCHEMA}.old as select id, title from ledger_task")
    call_command("migrate", "retries", "0027", verbosity=0)
    call_command("migrate", verbosity=0)
    assert count_rows(reader) == before
    with psycopg.connect(reader) as analyst, pytest.raises(psycopg.errors.UndefinedTable):
        analyst.execute("select * from old")


def test_revoke_takes_the_views_away(reader: str) -> None:
    assert "can no longer read" in run("revoke")
    with (
        psycopg.connect(reader) as analyst,
        pytest.raises((psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege)),
    ):
        analyst.execute(f"select * from {SCHEMA}.tasks")
    with pytest.raises(CommandError, match="does not have the views"):
        run("revoke")


@pytest.mark.usefixtures("database")
def test_a_role_that_can_read_more_is_refused() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"create role {ROLE}; grant select on ledger_token to {ROLE}")
    with pytest.raises(CommandError, match="can read more than the views"):
        run("grant")


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("name", ["Analyst", "a b", "a;drop role x", '"', ""])
def test_a_name_that_would_need_quotes_is_refused(name: str) -> None:
    with pytest.raises(CommandError, match="lower-case letters"):
        run("grant", name)


def test_the_docs_list_each_column() -> None:
    text = (PROJECT / "docs" / "sql.md").read_text()
    for view in VIEWS:
        _, _, section = text.partition(f"### `{view.name}`\n")
        rows = section.partition("\n##")[0]
        for column in view.columns:
            assert f"| `{column.name}` | {column.about} |" in rows, (view.name, column.name)


def test_a_pool_is_no_agent(database: str) -> None:
    membership.create("pool", project=make_project("ours"), stamp=Stamp(SYSTEM, NOW))
    assert Agent.objects.count() == 2
    assert count_rows(grant(database))["agents"] == 1
