"""Migrates the database, unless it holds data that this version can't read."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from config.data_version import (
    Unreadable,
    list_newer,
    record_digests,
    refuse_newer,
    refuse_rewritten,
)


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        only_asks = options["plan"] or options["check_unapplied"]
        try:
            if not only_asks:
                refuse_newer(connection)
            refuse_rewritten(connection)
        except Unreadable as error:
            raise CommandError(str(error)) from error
        if only_asks:
            # These may go through PgBouncer, where a limit would stay with another's connection.
            super().handle(*args, **options)
            self.report_newer(connection)
            return
        # An index of a large table takes longer than any statement of a request may.
        with connection.cursor() as cursor:
            cursor.execute("set statement_timeout = 0")
        super().handle(*args, **options)
        record_digests(connection)
        with connection.cursor() as cursor:
            cursor.execute("reset statement_timeout")

    def report_newer(self, connection: BaseDatabaseWrapper) -> None:
        if newer := list_newer(connection):
            self.warn(
                f"A newer version of Tenfour has migrated this database: it has applied {newer[0]}."
                " Processes of this version can use it until they are replaced."
            )

    def warn(self, text: str) -> None:
        self.stderr.write(text, self.style.WARNING)
