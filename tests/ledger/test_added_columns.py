"""A statement that was prepared goes on after a later version's migration has added columns.

PostgreSQL refuses a prepared statement whose result has changed, at every further call on its
connection. While processes are replaced, those of the former version run on.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from django.db import connection, transaction

from dashboard.sessions import detail_queries
from ledger import journal
from ledger.database import sql
from tests.source_tree import trees

STARTS = ("select", "with", "insert", "update", "delete")
# Django runs it, and prepares nothing
NOT_PREPARED = {detail_queries.DELIVERED}
TABLES = """select oid::regclass::text from pg_class
where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
    and relname ~ '^(ledger|retries)_'"""


def list_statements() -> set[str]:
    """Return the statements that are constants of modules, alone or in collections."""
    found: set[str] = set()
    for path in trees():
        if not path.startswith("config/"):
            module = import_module(
                path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            )
            found |= set(find_texts(vars(module), depth=4))
    return {text for text in found if text.lstrip().lower().startswith(STARTS)}


def find_texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, dict):
        for each in value.values():
            yield from find_texts(each, depth - 1)
    elif depth and isinstance(value, (tuple, list, set, frozenset)):
        for each in value:
            yield from find_texts(each, depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            yield from find_texts(getattr(value, name, None), depth - 1)


def describe(statement: str) -> int | None:
    """Return how many columns a statement has once it is prepared; None if it is a fragment."""
    link = connection.connection.pgconn
    result = link.prepare(b"", sql.numbered(statement)[0])
    if result.status != 1:  # an error
        return None
    described: int = link.describe_prepared(b"").nfields
    return described


@pytest.mark.django_db(transaction=True)
def test_no_prepared_statement_changes_with_the_columns_of_a_table() -> None:
    connection.ensure_connection()
    statements = list_statements() - NOT_PREPARED
    before = {text: count for text in statements if (count := describe(text)) is not None}
    assert len(before) > 100 and journal.STREAM in before
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(TABLES)
        for (table,) in cursor.fetchall():
            cursor.execute(f"alter table {table} add column later_column integer")
        changed = []
        for text, count in before.items():
            point = transaction.savepoint()
            if describe(text) != count:
                changed.append(text)
            transaction.savepoint_rollback(point)
        transaction.set_rollback(True)
    assert changed == []
