"""Lift the database's limit on the time of a statement, for commands and migrations.

The limit is for requests and jobs. A command that a person starts may read a whole journal.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from django.db import Error, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper


@contextmanager
def without_time_limit() -> Iterator[None]:
    """Let each statement take as long as it needs; this also decorates a command's `handle`."""
    # Behind a transaction pooler, a session's setting would stay with another's connection: there,
    # each transaction lifts the limit for itself.
    connection.ensure_connection()
    if connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]:
        with connection.execute_wrapper(execute_without_limit):
            yield
    else:
        with session_without_limit(connection):
            yield


@contextmanager
def session_without_limit(db: BaseDatabaseWrapper) -> Iterator[None]:
    with db.cursor() as cursor:
        cursor.execute("set statement_timeout = 0")
    try:
        yield
    finally:
        # A connection that can't be used anymore must not hide why.
        with suppress(Error), db.cursor() as cursor:
            cursor.execute("reset statement_timeout")


def execute_without_limit(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    with transaction_without_limit(context["connection"]):
        return execute(sql, params, many, context)


def is_lifted(db: BaseDatabaseWrapper) -> bool:
    return execute_without_limit in db.execute_wrappers


@contextmanager
def transaction_without_limit(db: BaseDatabaseWrapper) -> Iterator[None]:
    with nullcontext() if db.in_atomic_block else transaction.atomic(using=db.alias):
        # Not by a cursor of Django's, which would come here again. Unlike a function, `set local`
        # may still be followed by the transaction's isolation level.
        with db.wrap_database_errors:
            db.connection.execute("set local statement_timeout = 0")
        yield
