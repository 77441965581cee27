"""The one place that runs hand-written SQL: prepared, errors translated, deadlocks retried."""

from typing import Any

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections
from psycopg.rows import dict_row

Row = dict[str, Any]
PREPARE = settings.HEED["PREPARE"]


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
    db = connections[DEFAULT_DB_ALIAS]  # `connection` would look it up for every attribute
    db.close_if_health_check_failed()
    db.ensure_connection()
    with (
        db.wrap_database_errors,
        # Django's own cursors bind on the client, which can't be prepared.
        psycopg.Cursor(db.connection, row_factory=dict_row) as cursor,
    ):
        # Binary, because Django has its connections hand JSON out as text.
        cursor.execute(sql, params, prepare=PREPARE, binary=True)
        return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []
