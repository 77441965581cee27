"""Column types that Django does not bring: ids and times that PostgreSQL makes itself."""

from typing import Any

from django.db import models
from django.db.models import Func
from django.db.models.functions import Now


class UUIDv7(Func):
    """`uuidv7()`: ids that sort by the time they were made (PostgreSQL 18)."""

    function = "uuidv7"
    arity = 0
    output_field = models.UUIDField()


class CurrentTransaction(Func):
    """`pg_current_xact_id()`: the transaction that writes the row."""

    function = "pg_current_xact_id"
    arity = 0


class TransactionId(models.Field):  # type: ignore[type-arg]
    """A column of type xid8."""

    def db_type(self, connection: Any) -> str:
        return "xid8"


CurrentTransaction.output_field = TransactionId()  # type: ignore[assignment]


def key() -> "models.UUIDField[Any, Any]":
    """The primary key of every noun."""
    return models.UUIDField(primary_key=True, db_default=UUIDv7(), editable=False)


def stamp() -> "models.DateTimeField[Any, Any]":
    """When the row was made, by the database's clock where nobody hands in a time."""
    return models.DateTimeField(db_default=Now(), editable=False)
