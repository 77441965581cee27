"""The database's own checks of a row, which no code can pass by."""

from collections.abc import Iterable

from django.db import models
from django.db.models.expressions import RawSQL


def rule(name: str, sql: str) -> models.CheckConstraint:
    """A check as terse as it can be said.

    PostgreSQL reads the checks of a table anew for every statement that writes to it: as lookups
    of Django they cost a move a fifth of its time.
    """
    return models.CheckConstraint(
        condition=RawSQL(sql, (), models.BooleanField()),  # noqa: S611 - nobody else's SQL
        name=name,
    )


def one_of(values: Iterable[str]) -> str:
    """The pattern that a column of these words matches."""
    return f"^({'|'.join(values)})$"
