"""Migrates the database, unless it holds data that this version can't read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.state import ModelState, ProjectState
from django.db.models import Model

from config.postgres.data_version import (
    Unreadable,
    list_newer,
    prepare_squashed,
    record_digests,
    refuse_newer,
    refuse_rewritten,
)
from ledger.database.time_limit import session_without_limit
from retries.reporting.access import set_views_aside

LOCK = "hashtext('tenfour.migrate')"
HOLDER = f"""
select pid from pg_locks where locktype = 'advisory' and granted and objsubid = 1
    and database = (select oid from pg_database where datname = current_database())
    and (classid::bigint << 32 | objid::bigint) = {LOCK}"""
PAUSE_S = 0.5


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        try:
            if options["plan"] or options["check_unapplied"]:
                prepare_squashed(connection)
                refuse_rewritten(connection)
                super().handle(*args, **options)
                self.report_newer(connection)
                return
            # An index of a large table takes longer than any statement of a request may.
            with session_without_limit(connection), hold_database(connection, self.warn):
                prepare_squashed(connection)
                refuse_newer(connection)
                refuse_rewritten(connection)
                with set_views_aside(connection), render_only_changed():
                    super().handle(*args, **options)
                record_digests(connection)
        except Unreadable as error:
            raise CommandError(str(error)) from error

    def report_newer(self, connection: BaseDatabaseWrapper) -> None:
        if newer := list_newer(connection):
            self.warn(
                f"A newer version of Tenfour has migrated this database: it has applied {newer[0]}."
                " Processes of this version can use it until they are replaced."
            )

    def warn(self, text: str) -> None:
        self.stderr.write(text, self.style.WARNING)


@contextmanager
def hold_database(connection: BaseDatabaseWrapper, report: Callable[[str], None]) -> Iterator[None]:
    """Let one `migrate` at a time change the database."""
    # The connection must be one to PostgreSQL itself: with PgBouncer, the lock would stay with
    # another's connection.
    with connection.cursor() as cursor:
        wait_for_lock(cursor, report)
    try:
        yield
    finally:
        with suppress(Error), connection.cursor() as cursor:  # the session's end does it, too
            cursor.execute(f"select pg_advisory_unlock({LOCK})")


def wait_for_lock(cursor: Any, report: Callable[[str], None]) -> None:
    is_reported = False
    # A statement that waited for the lock would have a snapshot. The other `migrate` would wait for
    # that while it builds an index concurrently, and PostgreSQL would end one of the two.
    while not fetch_value(cursor, f"select pg_try_advisory_lock({LOCK})"):
        if not is_reported and (pid := fetch_value(cursor, HOLDER)):
            report(f"Waiting for another migrate, which PostgreSQL's process {pid} runs.")
            is_reported = True
        sleep(PAUSE_S)


@contextmanager
def render_only_changed() -> Iterator[None]:
    """Let a migration that adds to a model render that model alone, and not all related ones."""
    # All models are related by their project. To render them at each step was nine tenths of the
    # time of an empty database's migrations. What needs the others, like RunPython, renders all
    # models of a delayed state first.
    states: Any = ProjectState  # its stubs leave out what it uses itself
    find = states._find_reload_model

    def find_changed(state: Any, app: str, model: str, delay: bool = False) -> set[tuple[str, str]]:
        old = state.apps.all_models[app].get(model)
        if not (delay or old is None or has_more_fields(state.models[app, model], old)):
            found: set[tuple[str, str]] = find(state, app, model, delay)
            return found
        state.is_delayed = True
        return {(app, model)}

    states._find_reload_model = find_changed
    try:
        yield
    finally:
        states._find_reload_model = find


def has_more_fields(state: ModelState, rendered: type[Model]) -> bool:
    options = rendered._meta
    names = {field.name for field in (*options.local_fields, *options.local_many_to_many)}
    return names < state.fields.keys()


def fetch_value(cursor: Any, query: str) -> Any:
    cursor.execute(query)
    row = cursor.fetchone()
    return row[0] if row else None
