"""Build the SQL of a page's query once, and run it with other values.

Django takes longer to build the SQL of a query with many annotations than PostgreSQL to run it.
"""

from collections.abc import Callable, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import wraps
from inspect import signature
from itertools import count
from typing import Any, NamedTuple, ParamSpec, TypeVar
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import Model, QuerySet
from django.db.models.sql.compiler import SQLCompiler
from psycopg.sql import Literal

from ledger.database import sql
from ledger.models import Plan

P = ParamSpec("P")
M = TypeVar("M")

SHAPES = 64  # the limit for one query

Key = tuple[str, int]  # an argument's name, and the place in it if it is a tuple of ids


class Shape(NamedTuple):
    """A kind of query with one SQL text: its fixed values, and the types of its parameters."""

    constant: tuple[tuple[str, Any], ...]
    variable: tuple[tuple[str, type, int], ...]  # with the length of each tuple of ids


class FromArgument(NamedTuple):
    """A parameter of the SQL that an argument replaces; a time may be some time away from it."""

    key: Key
    offset: timedelta | None = None


class Compiled(NamedTuple):
    """A query with its SQL and the arguments that are its parameters."""

    rows: QuerySet[Any]
    compiler: SQLCompiler
    sql: str
    params: list[FromArgument]
    prepare: bool


# the shapes of each compiled query, so that tests that replace a limit can clear them
stored_shapes: list[dict[Shape, Compiled | None]] = []


def compiled(build: Callable[P, QuerySet[Any, M]]) -> Callable[P, list[M]]:
    """Turn a function that builds a query into one that returns its rows."""
    # Arguments that are ids, tuples of ids, times, or saved model instances become parameters of
    # the SQL. Others must be hashable: each combination of their values has its own SQL, built when
    # the combination comes for the second time. The function may read neither the database nor the
    # clock, nor anything else that can change between two calls, such as a limit that a test
    # replaces.
    arguments = signature(build)
    shapes: dict[Shape, Compiled | None] = {}
    stored_shapes.append(shapes)

    @wraps(build)
    def fetch(*args: P.args, **kwargs: P.kwargs) -> list[M]:
        bound = arguments.bind(*args, **kwargs)
        bound.apply_defaults()
        shape = shape_of(bound.arguments)
        if shape not in shapes:
            # A query with too many shapes starts over.
            if len(shapes) >= SHAPES:
                shapes.clear()
            shapes[shape] = None
            return list(build(*args, **kwargs))
        found = shapes[shape]
        if found is None:
            try:
                found = shapes[shape] = compile_query(build, shape)
            except EmptyResultSet:
                return []
        return run(found, bound.arguments)

    return fetch


def shape_of(arguments: dict[str, Any]) -> Shape:
    constant: list[tuple[str, Any]] = []
    variable: list[tuple[str, type, int]] = []
    for name, value in arguments.items():
        if isinstance(value, UUID | datetime | Model):
            variable.append((name, type(value), 0))
        elif isinstance(value, tuple) and value and isinstance(value[0], UUID):
            variable.append((name, tuple, len(value)))
        else:
            constant.append((name, value))
    return Shape(tuple(constant), tuple(variable))


def compile_query(build: Callable[..., QuerySet[Any]], shape: Shape) -> Compiled:
    """Build the query with two sets of samples; raise TypeError if an argument is ambiguous."""
    # What differs between the two sets comes from an argument. An ambiguous argument would leave a
    # value of this call in the SQL.
    samples = [make_samples(shape, first=1 + number * 10_000) for number in range(2)]
    with connection.execute_wrapper(refuse):
        (rows, compiler, text, params), (_, _, other_text, other) = (
            compile_rows(build(**dict(shape.constant), **each)) for each in samples
        )
    if text != other_text:
        raise TypeError(f"The SQL of {build.__qualname__} depends on the values of its arguments.")
    one, two = (flatten(each) for each in samples)
    numbers: dict[FromArgument, int] = {}
    written = []
    for a, b in zip(params, other, strict=True):
        if a == b:
            written.append(Literal(a).as_string(connection.connection))
            continue
        argument = find_argument(a, b, one, two)
        if argument is None:
            raise TypeError(f"{build.__qualname__} computes a value; make it an argument.")
        number = numbers.setdefault(argument, len(numbers) + 1)
        written.append(f"${number}::{'timestamptz' if isinstance(a, datetime) else 'uuid'}")
    # The rows of one plan, task, or instruction are few: all ids have the same plan. A project may
    # have any part of a table.
    prepare = bool(numbers) and all(
        issubclass(kind, UUID | Plan) and not length for _, kind, length in shape.variable
    )
    return Compiled(rows, compiler, text % tuple(written), list(numbers), prepare)


def make_samples(shape: Shape, *, first: int) -> dict[str, Any]:
    # No query contains these values by itself, so each one identifies its argument.
    numbers = count(first)

    def make(kind: Any) -> Any:
        number = next(numbers)
        if issubclass(kind, datetime):
            return datetime(5000, 1, 1, tzinfo=UTC) + timedelta(days=100 * number)
        id = UUID(int=0x7E4F << 112 | number)
        return kind(pk=id) if issubclass(kind, Model) else id

    return {
        name: tuple(make(UUID) for _ in range(length)) if kind is tuple else make(kind)
        for name, kind, length in shape.variable
    }


def flatten(arguments: dict[str, Any]) -> dict[Key, Any]:
    return {
        (name, at): value.pk if isinstance(value, Model) else value
        for name, values in arguments.items()
        for at, value in enumerate(values if isinstance(values, tuple) else (values,))
    }


def refuse(*_: Any) -> None:
    raise TypeError("A compiled query may not read the database while it is built.")


def compile_rows(rows: QuerySet[Any]) -> tuple[QuerySet[Any], SQLCompiler, str, Sequence[Any]]:
    compiler = rows.query.get_compiler(DEFAULT_DB_ALIAS)
    return rows, compiler, *compiler.as_sql()


def find_argument(a: Any, b: Any, one: dict[Key, Any], two: dict[Key, Any]) -> FromArgument | None:
    """Return the argument that is `a` in the first samples and `b` in the second, or None."""
    for key, first in one.items():
        if (a, b) == (first, two[key]):
            return FromArgument(key)
        if isinstance(a, datetime) and isinstance(first, datetime) and a - first == b - two[key]:
            return FromArgument(key, a - first)
    return None


def run(found: Compiled, arguments: dict[str, Any]) -> list[Any]:
    values = flatten(arguments)
    bound = [bind(each, values) for each in found.params]
    fetched = sql.fetch(found.sql, bound, prepare=found.prepare)
    compiler: Any = copy(found.compiler)
    compiler.connection = connections[DEFAULT_DB_ALIAS]
    compiler.execute_sql = lambda *_, **__: [fetched]
    rows: Any = found.rows.all()
    rows.query.get_compiler = lambda *_, **__: compiler
    return list(rows)


def bind(argument: FromArgument, values: dict[Key, Any]) -> Any:
    value = values[argument.key]
    return value if argument.offset is None else value + argument.offset
