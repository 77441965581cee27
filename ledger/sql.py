"""The one place that runs hand-written SQL: prepared, errors translated, deadlocks retried."""

from typing import Any

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.rows import dict_row

Row = dict[str, Any]
Cursor = psycopg.Cursor[Row]
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
    with db.wrap_database_errors:
        cursor = _cursor(db, sql)
        # Binary, because Django has its connections hand JSON out as text.
        cursor.execute(sql, params, prepare=PREPARE, binary=True)
        return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []


def _cursor(db: BaseDatabaseWrapper, sql: str) -> Cursor:
    """The connection's own cursor for this statement, which remembers how its values convert.

    Django's cursors bind on the client, which can't be prepared.
    """
    kept: dict[str, Cursor] = vars(db).setdefault("statements", {})
    cursor = kept.get(sql)
    if cursor is None or cursor.closed or cursor.connection is not db.connection:
        cursor = kept[sql] = psycopg.Cursor(db.connection, row_factory=dict_row)
    return cursor
