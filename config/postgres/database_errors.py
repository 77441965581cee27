"""Database errors as one sentence, for problems, health checks and log lines."""

from django.db import DatabaseError, InterfaceError, OperationalError
from psycopg import errors

# Raised when PostgreSQL is down, restarting, full or read-only: not by a mistake in our code. The
# backend in config/postgres/base.py raises a read-only server's error as one of them.
OUTAGES = (InterfaceError, OperationalError)

CAUSES: dict[type[BaseException], str] = {
    errors.DiskFull: "the database's disk is full",
    errors.ReadOnlySqlTransaction: "the database is read-only",
}


def find_cause(error: BaseException) -> str:
    """Return why the server takes no writes, if the error says so."""
    cause = error.__cause__ if isinstance(error, DatabaseError) and error.__cause__ else error
    return next((words for kind, words in CAUSES.items() if isinstance(cause, kind)), "")


def describe(error: BaseException) -> str:
    """Return a database error on one line; a full disk is named as such."""
    text, known = " ".join(str(error).split()), find_cause(error)
    return f"{known} ({text})" if known else text


def describe_effect(error: BaseException) -> str:
    """Return for a caller what failed, and whether the request may have taken effect."""
    if known := find_cause(error):
        return f"{known[0].upper()}{known[1:]}. The request has not taken effect."
    return "The database did not answer. The request may or may not have taken effect."
