"""Give a role of PostgreSQL the views, and keep them over migrations."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import ProgrammingError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import sql as composing
from psycopg.errors import InsufficientPrivilege

from retries.reporting.views import SCHEMA, VIEWS

ROLE = re.compile(r"[a-z_][a-z0-9_]{0,62}")
# A question that takes longer belongs to a replica.
SETTINGS = (
    "default_transaction_read_only = on",
    "statement_timeout = '60s'",
    f"search_path = {SCHEMA}",
)

HAS_SCHEMA = "select exists (select from pg_namespace where nspname = %s)"
HAS_ROLE = "select exists (select from pg_roles where rolname = %s)"
MAY_DO_MORE = """select rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or exists (
        select from pg_class c where c.relnamespace = 'public'::regnamespace
            and c.relkind in ('r', 'p', 'S') and has_table_privilege(rolname, c.oid, 'select'))
    from pg_roles where rolname = %s"""
READERS = """select grantee::regrole::text from pg_namespace, aclexplode(nspacl)
    where nspname = %s and privilege_type = 'USAGE' and grantee <> nspowner order by 1"""


class RoleRefused(Exception):
    """The role can't be given the views; the text says why."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The password of a role that was created, and settings that a superuser must make."""

    password: str = ""
    left: tuple[str, ...] = ()


def grant_views(connection: BaseDatabaseWrapper, role: str) -> Grant:
    """Let the role read the views and nothing else; create both if they are missing."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        password = provide_role(cursor, role)
        if not has_schema(cursor):
            cursor.execute(f"create schema {SCHEMA}")
        cursor.execute(f"grant usage on schema {SCHEMA} to {role}")
        create_views(cursor)
    settings = [f"alter role {role} set {each}" for each in SETTINGS]
    return Grant(password, () if change_settings(connection, settings) else tuple(settings))


def change_settings(connection: BaseDatabaseWrapper, statements: list[str]) -> bool:
    # A role that a superuser created can only be changed by one.
    try:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    except ProgrammingError as error:
        if isinstance(error.__cause__, InsufficientPrivilege):
            return False
        raise
    return True


def revoke_views(connection: BaseDatabaseWrapper, role: str) -> None:
    """Take the views from the role, and remove them after the last one."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if not has_schema(cursor) or role not in list_readers(cursor):
            raise RoleRefused(f"The role {role} does not have the views.")
        cursor.execute(f"revoke usage on schema {SCHEMA} from {role}")
        cursor.execute(f"revoke select on all tables in schema {SCHEMA} from {role}")
        if not list_readers(cursor):
            cursor.execute(f"drop schema {SCHEMA} cascade")


@contextmanager
def set_views_aside(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Drop the views while tables change, and create them again; the roles keep their access."""
    # After a migration that failed, the next one creates them, because the schema has stayed.
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        is_used = has_schema(cursor)
        if is_used:
            drop_views(cursor)
    yield
    if is_used:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            create_views(cursor)


def provide_role(cursor: Any, role: str) -> str:
    """Create the role if it is missing; return its password, or an empty text."""
    if not ROLE.fullmatch(role):
        raise RoleRefused("A role's name has lower-case letters, digits, and underscores.")
    if fetch_value(cursor, HAS_ROLE, role):
        if fetch_value(cursor, MAY_DO_MORE, role):
            raise RoleRefused(
                f"The role {role} can read more than the views. Name another one for SQL."
            )
        return ""
    password = secrets.token_urlsafe(24)
    cursor.execute(
        composing.SQL("create role {} login password {}").format(
            composing.Identifier(role), composing.Literal(password)
        )
    )
    return password


def create_views(cursor: Any) -> None:
    drop_views(cursor)
    for view in VIEWS:
        cursor.execute(view.statement)
        comment(cursor, f"view {SCHEMA}.{view.name}", view.about)
        for each in view.columns:
            comment(cursor, f"column {SCHEMA}.{view.name}.{each.name}", each.about)
    for role in list_readers(cursor):
        cursor.execute(f"grant select on all tables in schema {SCHEMA} to {role}")


def drop_views(cursor: Any) -> None:
    cursor.execute("select viewname from pg_views where schemaname = %s", [SCHEMA])
    for (name,) in cursor.fetchall():
        statement = composing.SQL("drop view {}.{}").format(
            composing.Identifier(SCHEMA), composing.Identifier(name)
        )
        cursor.execute(statement)


def comment(cursor: Any, target: str, about: str) -> None:
    cursor.execute(composing.SQL(f"comment on {target} is {{}}").format(composing.Literal(about)))


def has_schema(cursor: Any) -> bool:
    return bool(fetch_value(cursor, HAS_SCHEMA, SCHEMA))


def list_readers(cursor: Any) -> list[str]:
    """Return the roles that have the views, quoted as SQL needs them."""
    cursor.execute(READERS, [SCHEMA])
    return [role for (role,) in cursor.fetchall()]


def fetch_value(cursor: Any, query: str, value: str) -> Any:
    cursor.execute(query, [value])
    return cursor.fetchone()[0]
