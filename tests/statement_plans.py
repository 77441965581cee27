"""What PostgreSQL makes of a statement once it is prepared, asked on the test's own connection."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection

from ledger.database import sql
from tests.factories import NOW

Cursor = psycopg.Cursor[Any]


@contextmanager
def prepared(table: str, *, fill: str = "") -> Iterator[Cursor]:
    """A cursor that has analyzed the table, and forgets what it prepared."""
    connection.ensure_connection()
    with psycopg.Cursor(connection.connection) as cursor:
        if fill:
            cursor.execute(fill.encode())
        cursor.execute(f"analyze {table}".encode())
        cursor.execute("deallocate all")
        yield cursor
        cursor.execute("deallocate all")


def planned_anew(cursor: Cursor, statement: str, params: dict[str, Any]) -> int:
    """For how many of two runs it was planned with its values."""
    for _ in range(2):
        sql.run(statement, **params, now=NOW)
    kept = cursor.execute("select custom_plans from pg_prepared_statements where from_sql = false")
    return max(row[0] for row in kept)


def plan_of(cursor: Cursor, statement: str, params: dict[str, Any]) -> list[str]:
    """The lines of the one plan that is kept for all values."""
    cursor.execute("set local enable_seqscan = off")  # these tables are so small
    sql.run(statement, **params, now=NOW)
    text = sql.numbered(statement)[0].decode()
    name, count = cursor.execute(
        "select name, cardinality(parameter_types) from pg_prepared_statements"
        " where statement = %s",
        [text],
    ).fetchall()[0]
    values = ", ".join(["null"] * count)
    return [row[0] for row in cursor.execute(f'explain execute "{name}" ({values})')]


def read_whole(
    cursor: Cursor, statement: str, params: dict[str, Any], *, tables: tuple[str, ...]
) -> list[str]:
    """The lines of its plan that read one of these tables from end to end."""
    lines = plan_of(cursor, statement, params)
    return [line for line in lines for table in tables if f"Seq Scan on {table}" in line]
