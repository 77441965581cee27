"""Detect a transaction pooler in front of PostgreSQL, and what it supports."""

from typing import Any

import psycopg
from psycopg.pq import ExecStatus, version

# An older one frees a prepared statement by SQL, which a pooler does not understand.
CLOSING_LIBPQ = 170_000
PROBE = b"tenfour_probe"
IS_STORED = "select exists (select from pg_prepared_statements where name = %s)"


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Return whether a pooler gives the connection to other processes of PostgreSQL.

    The pooler then can't say which process it is.
    """
    with connection.transaction():
        (process,) = connection.execute("select pg_backend_pid()").fetchone() or (0,)
    return bool(process != connection.info.backend_pid)


def can_prepare(connection: psycopg.Connection[Any]) -> bool:
    """Return whether a pooler prepares a statement wherever it runs.

    Such a pooler stores the statement by a name of its own. Any other stores it by the name that it
    was given, in one process of PostgreSQL, and it is unknown in all others.
    """
    link = connection.pgconn
    if version() < CLOSING_LIBPQ:
        return False
    with connection.transaction():
        if link.prepare(PROBE, b"select 1").status != ExecStatus.COMMAND_OK:
            raise psycopg.Rollback
        (is_stored,) = connection.execute(IS_STORED, [PROBE.decode()]).fetchone() or (True,)
        link.close_prepared(PROBE)
        return not is_stored
    return False
