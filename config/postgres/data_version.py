"""Check by the digests of applied migrations whether this version can read the database.

`migrate` records the digest of each migration file as a comment on Django's own table, so that it
travels with a dump. Data from before digests were recorded is compared column by column.
"""

import hashlib
import json
from functools import cache
from pathlib import Path

from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from ledger.migrations._steps import SquashedMigration

OWN_APPS = ("ledger", "retries")
ADVICE = (
    "Nothing was changed. Start the version that created this data, or start this one with an "
    "empty database or another data folder (TENFOUR_DATA=FOLDER make up)."
)


class Unreadable(Exception):
    """The database can't be used with this version; the text says why and what to do."""


@cache
def migration_digests() -> dict[str, str]:
    return {
        f"{app}.{path.stem}": hashlib.sha256(path.read_bytes()).hexdigest()
        for app in OWN_APPS
        for path in Path(apps.get_app_config(app).path).glob("migrations/[0-9]*.py")
    }


def squashed_migrations() -> list[SquashedMigration]:
    loaded = MigrationLoader(None).disk_migrations.values()
    return [migration for migration in loaded if isinstance(migration, SquashedMigration)]


@cache
def known_migrations() -> frozenset[str]:
    """Return the names of this version's migrations, and of the ones squashed into them."""
    steps = (f"{each.app_label}.{step}" for each in squashed_migrations() for step in each.steps)
    return frozenset([*migration_digests(), *steps])


def prepare_squashed(connection: BaseDatabaseWrapper) -> None:
    """Let squashed migrations run on a database that lacks some of what they replace."""
    # Django knows two cases: it runs one where nothing that it replaces is applied, and marks it as
    # applied where everything is. In between, these run the steps that are missing.
    squashed = squashed_migrations()
    applied = MigrationRecorder(connection).applied_migrations().keys()
    is_whole = all((each.app_label, step) in applied for each in squashed for step in each.steps)
    for each in squashed:
        type(each).replaces = [(each.app_label, step) for step in each.steps if is_whole]


def applied_migrations(connection: BaseDatabaseWrapper) -> set[str]:
    recorder = MigrationRecorder(connection)
    return {f"{app}.{name}" for app, name in recorder.applied_migrations() if app in OWN_APPS}


def recorded_digests(connection: BaseDatabaseWrapper) -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("select obj_description(to_regclass('django_migrations'), 'pg_class')")
        text = cursor.fetchone()[0] or ""
    recorded: dict[str, str] = json.loads(text) if text.startswith("{") else {}
    return recorded


def list_newer(connection: BaseDatabaseWrapper) -> list[str]:
    return sorted(applied_migrations(connection) - known_migrations())


def refuse_newer(connection: BaseDatabaseWrapper) -> None:
    """Raise Unreadable if a newer version has migrated the database."""
    # A process of this version can still use it, because migrations only add. To migrate it with
    # this version is to start an older version on purpose.
    if newer := list_newer(connection):
        raise Unreadable(
            f"A newer version of Tenfour created this data: it has applied {newer[0]}, which "
            f"this version does not have. {ADVICE}"
        )


def refuse_rewritten(connection: BaseDatabaseWrapper) -> None:
    """Raise Unreadable if one of our migrations made other tables when it was applied."""
    ours = migration_digests()
    applied, recorded = applied_migrations(connection) & ours.keys(), recorded_digests(connection)
    changed = [name for name in sorted(applied) if recorded.get(name, ours[name]) != ours[name]]
    changed = changed or ([] if recorded else missing_columns(connection, applied))
    if changed:
        raise Unreadable(
            f"An older version of Tenfour created this data, and this version can't read it "
            f"({changed[0]} differs). {ADVICE}"
        )


def missing_columns(connection: BaseDatabaseWrapper, applied: set[str]) -> list[str]:
    loader = MigrationLoader(connection)
    nodes = [(app, name) for app, name in loader.applied_migrations if f"{app}.{name}" in applied]
    if not nodes:
        return []
    tables = {
        model._meta.db_table: {field.column for field in model._meta.local_concrete_fields}
        for model in loader.project_state(nodes).apps.get_models()
        if model._meta.app_label in OWN_APPS and model._meta.managed
    }
    with connection.cursor() as cursor:
        cursor.execute(
            "select table_name || '.' || column_name from information_schema.columns"
            " where table_schema = any (current_schemas(false))"
        )
        found = {name for (name,) in cursor.fetchall()}
    wanted = {f"{table}.{column}" for table, columns in tables.items() for column in columns}
    return sorted(wanted - found)


def record_digests(connection: BaseDatabaseWrapper) -> None:
    ours, applied = migration_digests(), applied_migrations(connection)
    text = json.dumps({name: ours[name] for name in sorted(applied & ours.keys())})
    if applied and json.loads(text) != recorded_digests(connection):
        with connection.cursor() as cursor:
            cursor.execute(f"comment on table django_migrations is '{text}'")
