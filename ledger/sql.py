"""The one place that runs hand-written SQL: prepared, errors translated, deadlocks retried."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from django.conf import settings
from django.db import OperationalError, connection

Row = dict[str, Any]
PREPARE = settings.HEED["PREPARE"]
JSONB = 3802  # Django has its connections hand JSON out as text


def run(sql: str, /, **params: Any) -> list[Row]:
    """Run one statement and return its rows; raises Django's database errors.

    Outside a transaction the statement commits by itself, so after a deadlock it is safe to run it
    once more; inside one the transaction is lost and the caller must see it.
    """
    try:
        return _execute(sql, params)
    except OperationalError as error:
        deadlock = isinstance(error.__cause__, psycopg.errors.DeadlockDetected)
        if not deadlock or connection.in_atomic_block:
            raise
        return _execute(sql, params)


def _execute(sql: str, params: dict[str, Any]) -> list[Row]:
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    with (
        connection.wrap_database_errors,
        # Django's own cursors bind on the client, which can't be prepared.
        psycopg.Cursor(connection.connection, row_factory=as_dict) as cursor,
    ):
        cursor.execute(sql, params, prepare=PREPARE)
        return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []


def as_dict(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], Row]:
    """A psycopg row factory: a dict by column, with JSON parsed."""
    # `cursor.description` would make an object of every column, at every statement.
    result = cursor.pgresult
    count = result.nfields if result else 0
    names = [(result.fname(n) or b"").decode() for n in range(count)]
    parsed = [name for n, name in enumerate(names) if result.ftype(n) == JSONB]

    def make(values: Sequence[Any]) -> Row:
        row = dict(zip(names, values, strict=True))
        for name in parsed:
            if row[name] is not None:
                row[name] = json.loads(row[name])
        return row

    return make
