"""Migrates the database, unless it holds data that this version can't read."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections

from config.data_version import Unreadable, record_digests, refuse_unreadable


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        try:
            refuse_unreadable(connection)
        except Unreadable as error:
            raise CommandError(str(error)) from error
        super().handle(*args, **options)
        record_digests(connection)
