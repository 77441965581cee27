"""Database errors as one sentence, for problems, health checks and log lines."""

from django.db import DatabaseError, InterfaceError, OperationalError
from psycopg import errors

# Raised when PostgreSQL is down, restarting, full or read-only: not by a mistake in our code.
OUTAGES = (InterfaceError, OperationalError)

CAUSES: dict[type[BaseException], str] = {
    errors.DiskFull: "the database's disk is full",
    errors.ReadOnlySqlTransaction: "the database is read-only",
}


def describe(error: BaseException) -> str:
    """Return a database error on one line; a full disk is named as such."""
    cause = error.__cause__ if isinstance(error, DatabaseError) and error.__cause__ else error
    text = " ".join(str(error).split())
    known = next((words for kind, words in CAUSES.items() if isinstance(cause, kind)), "")
    return f"{known} ({text})" if known else text


def is_disk_full(error: BaseException) -> bool:
    return isinstance(error.__cause__, errors.DiskFull)
