"""Filled databases of before migrations were squashed come along with all rows.

The last release had applied only some of what was squashed: see `test_last_release`.
"""

import re
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from config.local.backups import run_tool
from config.local.places import PROJECT
from tests.services import MIGRATED, SIGN_ON, ours
from tests.serving import url_of_database
from tests.versions.last_release import Version, unpack

BUILDER = PROJECT / "tests" / "config" / "older_data.py"
# The first commit whose migrations were never rewritten, and the last before they were squashed.
COMMITS = {
    "oldest": "f87045659607198a346fafac543c9c94698f6475",
    "newest": "b876bd5ea579dcb4d5f1047e5bcd980b616efa52",
}
# Django adds to these after each migration.
OWN = "table_name like 'ledger%' or table_name like 'retries%' or table_name = 'auth_user'"
TABLES = f"""select table_name, array_agg(quote_ident(column_name))
from information_schema.columns join information_schema.tables using (table_schema, table_name)
where table_type = 'BASE TABLE' and ({OWN}) group by 1"""
# What depends on the month of the migration.
OF_MONTH = re.compile(r"before_\d{6}|\w{8}(-\w{4}){3}-\w{12}")


@pytest.mark.parametrize("name", COMMITS)
def test_rows_of_before_the_squash_come_along(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in SIGN_ON.items():
        monkeypatch.setenv(variable, value)
    database = f"squash_{name}"
    old, today = unpack(COMMITS[name], tmp_path, database=database), Version(PROJECT, database)
    with psycopg.connect(url_of_database("postgres"), autocommit=True) as connection:
        connection.execute(f"create database {database}")
        try:
            old.manage("migrate", "--skip-checks", "-v0")
            token = old.run(str(BUILDER), "build").splitlines()[-1]
            with psycopg.connect(url_of_database(database)) as before:
                columns = dict(before.execute(TABLES).fetchall())
                stored = {table: read_rows(before, table, columns[table]) for table in columns}
            assert sum(map(len, stored.values())) > 100
            today.manage("migrate", "--skip-checks", "-v0")
            with psycopg.connect(url_of_database(database)) as after:
                for table, rows in stored.items():
                    assert read_rows(after, table, columns[table]) == rows, table
            assert dump_tables(database) == dump_tables(MIGRATED)
            today.run("-m", "tests.config.older_data", "read", token)
        finally:
            connection.execute(f"drop database {database} with (force)")


def read_rows(
    connection: "psycopg.Connection[tuple[str]]", table: str, columns: list[str]
) -> Counter[tuple[str]]:
    """Return the rows of a table by the columns that it had at first."""
    found = connection.execute(f'select ({", ".join(columns)})::text from "{table}"')
    return Counter(found.fetchall())


def dump_tables(database: str) -> list[str]:
    """Return the statements that create the tables, functions and triggers of a database."""
    dump = run_tool("pg_dump", ours().servers, "--schema-only", database)
    lines = OF_MONTH.sub("…", dump).splitlines()
    return [line for line in lines if not line.startswith("\\")]
