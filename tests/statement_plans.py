"""What PostgreSQL makes of a statement once it is prepared, asked on the test's own connection."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection

from ledger import sql
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


def generic_plans(cursor: Cursor, statement: str, params: dict[str, Any]) -> int:
    """How often one plan for all values was used, when it ran some times."""
    for _ in range(7):  # PostgreSQL makes five plans before it compares
        sql.run(statement, **params, now=NOW)
    kept = cursor.execute("select generic_plans from pg_prepared_statements where from_sql = false")
    return max(row[0] for row in kept)


def read_whole(
    cursor: Cursor, statement: str, params: dict[str, Any], *, tables: tuple[str, ...]
) -> list[str]:
    """The lines of its plan that read one of these tables from end to end."""
    cursor.execute("set local plan_cache_mode = force_generic_plan")
    cursor.execute("set local enable_seqscan = off")  # these tables are so small
    plan = cursor.execute(f"explain {statement}", {**params, "now": NOW})
    lines = [row[0] for row in plan]
    return [line for line in lines for table in tables if f"Seq Scan on {table}" in line]
