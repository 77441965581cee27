"""Fields and conditions of indexes that Django lacks, and checks in terse SQL."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Func
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now


class UUIDv7(Func):
    """`uuidv7()`: ids that sort by creation time (PostgreSQL 18)."""

    function = "uuidv7"
    arity = 0
    output_field = models.UUIDField()


class CurrentTransaction(Func):
    """`pg_current_xact_id()`: the id of the transaction that writes the row."""

    function = "pg_current_xact_id"
    arity = 0


class IsTrue(Func):
    """`(condition) is true`, for a list of values in the condition of a partial index.

    PostgreSQL proves a plain list in a query's condition member by member against the index's list,
    for each partition. It compares these conditions as a whole.
    """

    template = "(%(expressions)s) is true"
    output_field = models.BooleanField()


class IsAmong(Func):
    """`value = any(array)`: unlike a subquery's rows, those of an array are read once."""

    template = "%(expressions)s)"
    arg_joiner = " = any("
    output_field = models.BooleanField()


class TransactionId(models.Field):  # type: ignore[type-arg]
    """A column of type xid8."""

    def db_type(self, connection: Any) -> str:
        return "xid8"


CurrentTransaction.output_field = TransactionId()  # type: ignore[assignment]


def key() -> "models.UUIDField[Any, Any]":
    return models.UUIDField(primary_key=True, db_default=UUIDv7(), editable=False)


def assignee_key(**options: Any) -> "models.ForeignKey[Any, Any]":
    """Return the person who takes care of a row; only `retries.assignment.rows` writes it."""
    return models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        db_index=False,
        related_name="+",
        help_text="who takes care of it",
        **options,
    )


def stamp() -> "models.DateTimeField[Any, Any]":
    # The database's clock is the default.
    return models.DateTimeField(db_default=Now(), editable=False)


def rule(name: str, sql: str) -> models.CheckConstraint:
    # PostgreSQL parses a table's checks for every statement that writes to it; as Django lookups
    # they took a fifth of the time of a move.
    return models.CheckConstraint(
        condition=RawSQL(sql, (), models.BooleanField()),  # noqa: S611 - only our own SQL
        name=name,
    )


def one_of(values: Iterable[str]) -> str:
    return f"^({'|'.join(values)})$"
