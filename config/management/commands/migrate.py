"""Migrates the database, unless it holds data that this version can't read."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections

from config.data_version import Unreadable, record_digests, refuse_unreadable
from ledger.time_limit import session_without_limit


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        try:
            refuse_unreadable(connection)
        except Unreadable as error:
            raise CommandError(str(error)) from error
        if options["plan"] or options["check_unapplied"]:
            # These may go through PgBouncer, where a limit would stay with another's connection.
            super().handle(*args, **options)
            return
        # An index of a large table takes longer than any statement of a request may.
        with session_without_limit(connection):
            super().handle(*args, **options)
            record_digests(connection)
