"""Empty the database after a test whose commits are real, in a tenth of Django's time.

Django truncates every table, which makes new files for it and its indexes, and creates all
permissions again. Here the rows that a test left are deleted instead. Django still flushes a database
that has grown or whose permissions have changed.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from django.db import OperationalError, connection, transaction
from django.test import TransactionTestCase

from tests.journal_partitions import flush_journal_too

# Dead rows of a larger database would slow later tests down.
MOST_BYTES = 4 << 20
SIZE = """select sum(pg_table_size(oid))::bigint from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace"""

# What a flush of Django's leaves: the tables with rows, and a digest of these rows.
Filled = dict[str, str]


def flush_quickly() -> None:
    """Let Django's test cases delete rows where that is enough."""
    flush_journal_too()
    django_flush = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]
    filled: Filled = {}

    def flush(case: Any) -> None:
        if not filled or not delete_rows(filled):
            django_flush(case)
            filled.clear()
            filled.update(read_filled(list_tables()))

    TransactionTestCase._fixture_teardown = flush  # type: ignore[attr-defined]


def delete_rows(filled: Filled) -> bool:
    """Empty all tables but those that a flush fills; return False if Django has to flush.

    The locks wait for what a test has left running, as a truncation does.
    """
    empty = [name for name in list_tables() if name not in filled]
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(SIZE)
            if cursor.fetchone()[0] > MOST_BYTES or read_filled(tuple(filled)) != filled:
                return False
            # Triggers would write rows and refuse to delete some.
            cursor.execute("set local session_replication_role = replica")
            cursor.execute(f"lock table {', '.join(empty)} in access exclusive mode")
            for name in find_filled(empty):
                cursor.execute(f"delete from {name}")
    except OperationalError:  # what a test has left behind was in the way
        return False
    return True


@cache
def list_tables() -> Sequence[str]:
    return connection.introspection.django_table_names(only_existing=True, include_views=False)


def find_filled(names: Sequence[str]) -> list[str]:
    """Return the tables that have rows."""
    each = (f"select '{name}' where exists (select from {name})" for name in names)
    with connection.cursor() as cursor:
        cursor.execute(" union all ".join(each))
        return [name for (name,) in cursor.fetchall()]


def read_filled(names: Sequence[str]) -> Filled:
    """Return a digest of the rows of each table that has some."""
    filled = find_filled(names)
    each = (
        f"select '{name}', md5(string_agg(t::text, ',' order by t::text)) from {name} t"
        for name in filled
    )
    with connection.cursor() as cursor:
        cursor.execute(" union all ".join(each))
        return dict(cursor.fetchall())
