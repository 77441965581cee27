"""Run hand-written SQL: prepared, with Django's errors, and with deadlocks retried."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import psycopg
from django.db import OperationalError, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.rows import RowMaker, dict_row
from psycopg.types.json import set_json_dumps, set_json_loads
from pydantic_core import from_json, to_json

from ledger.database.databases import source
from ledger.database.time_limit import is_lifted, transaction_without_limit

Row = dict[str, Any]
PLACE = re.compile(r"%(?:\((\w+)\)s|%)")
P = ParamSpec("P")
T = TypeVar("T")


def quoted(names: Iterable[str]) -> str:
    """Return names as a list of SQL literals.

    >>> quoted(["done", "failed"])
    "'done', 'failed'"
    """
    return ", ".join(f"'{name}'" for name in names)


class Cursor(psycopg.RawCursor[Row]):
    """The cursor of one statement, which reads the names of its columns once."""

    names: list[str] | None = None


def dicts(cursor: psycopg.Cursor[Any]) -> RowMaker[Row]:
    result = cursor.pgresult
    assert isinstance(cursor, Cursor)
    if result is None or not result.nfields:
        return dict_row(cursor)
    if cursor.names is None or len(cursor.names) != result.nfields:
        cursor.names = [(result.fname(at) or b"").decode() for at in range(result.nfields)]
    names = cursor.names
    return lambda values: dict(zip(names, values, strict=True))


def run(sql: str, /, **params: Any) -> list[Row]:
    """Run one statement and return its rows; raises Django's database errors.

    Outside a transaction the statement commits by itself, so it is safe to run it again after a
    deadlock. Inside a transaction a deadlock loses the transaction, and the error goes up.
    """
    try:
        return _execute(sql, params)
    except OperationalError as error:
        if not is_deadlock(error) or connection.in_atomic_block:
            raise
        return _execute(sql, params)


def run_custom_plan(sql: str, /, **params: Any) -> list[Row]:
    """Run a statement that is planned for its values, which say how many rows it will read."""
    # All other statements are prepared and planned once, whatever their values.
    with connections[source.get()].cursor() as cursor:
        cursor.execute(sql, params)
        if cursor.description is None:
            return []
        names = [column.name for column in cursor.description]
        return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]


class JsonText(Loader):
    """Load JSON as text from PostgreSQL's binary format, as Django's fields expect it."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        return bytes(data)[1:].decode()  # after the format's version


def fetch(sql: str, values: Sequence[Any], *, prepare: bool) -> list[tuple[Any, ...]]:
    """Run a query with PostgreSQL's own placeholders; return rows as Django's models read them.

    The query is planned for its values, or with `prepare` once for all values.
    """
    # PostgreSQL sends the rows in binary, because Django's connections take as long to read a time
    # as text as the rest of its row.
    db = connections[source.get()]
    db.close_if_health_check_failed()
    db.ensure_connection()
    with db.wrap_database_errors:
        cursor = psycopg.RawCursor(db.connection)
        cursor.adapters.register_loader("jsonb", JsonText)
        cursor.execute(sql.encode(), values, prepare=prepare, binary=True)
        return cursor.fetchall()


def is_deadlock(error: OperationalError) -> bool:
    return isinstance(error.__cause__, psycopg.errors.DeadlockDetected)


def atomic(verb: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function in `transaction.atomic` and run it again after a deadlock, at most twice."""
    # Only the outermost transaction is retried: inside another one the deadlock loses that
    # transaction, and the error goes to the function that began it.
    within = transaction.atomic(verb)

    @wraps(verb)
    def again(*args: P.args, **kwargs: P.kwargs) -> T:
        if connection.in_atomic_block:
            return within(*args, **kwargs)
        # an iterator can be read only once, but the function may run three times
        asked: Any = [repeatable(each) for each in args]
        named: Any = {name: repeatable(each) for name, each in kwargs.items()}
        for _ in range(2):
            try:
                return within(*asked, **named)
            except OperationalError as error:
                if not is_deadlock(error):
                    raise
        return within(*asked, **named)

    return again


def repeatable(value: object) -> object:
    return list(value) if isinstance(value, Iterator) else value


def _execute(sql: str, params: dict[str, Any]) -> list[Row]:
    db = connections[source.get()]  # faster: `connection` looks it up for every attribute
    db.close_if_health_check_failed()
    db.ensure_connection()
    if is_lifted(db):
        with transaction_without_limit(db):
            return _execute_on(db, sql, params)
    return _execute_on(db, sql, params)


def _execute_on(db: BaseDatabaseWrapper, sql: str, params: dict[str, Any]) -> list[Row]:
    with db.wrap_database_errors:
        cursor = _cursor(db, sql)
        query, names = numbered(sql)
        # Binary, because Django's connections return JSON as text. A connection that can't prepare
        # statements ignores `prepare`.
        cursor.execute(query, [params[name] for name in names], prepare=True, binary=True)
        return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []


def drop_interrupted_connection() -> None:
    """Close the connection after an interrupt, so that the next statement opens another."""
    # An interrupt may come after a statement was sent and before its rows were read. The connection
    # then refuses every further statement. A transaction keeps its connection and can't be saved.
    if not connection.in_atomic_block:
        connection.close()


@cache
def numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """Return the statement with PostgreSQL's own placeholders, and the name of each value.

    The result is cached, because psycopg would search every long statement at every call.

    >>> numbered("select %(a)s, %(b)s, %(a)s, 5 %% 2")
    (b'select $1, $2, $1, 5 % 2', ('a', 'b'))
    """
    names: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"${names.setdefault(found[1], len(names) + 1)}" if found[1] else "%"

    return PLACE.sub(number, sql).encode(), tuple(names)


def _cursor(db: BaseDatabaseWrapper, sql: str) -> Cursor:
    """Return the connection's cursor for this statement, which remembers how its values convert."""
    # Django's own cursors bind values on the client, and such statements can't be prepared.
    kept: dict[str, Cursor] = vars(db).setdefault("statements", {})
    cursor = kept.get(sql)
    if cursor is None or cursor.closed or cursor.connection is not db.connection:
        cursor = kept[sql] = Cursor(db.connection, row_factory=dicts)
        set_json_dumps(to_json, cursor)  # takes a tenth of the time of Python's json
        set_json_loads(from_json, cursor)
    return cursor
