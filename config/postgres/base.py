"""Django's PostgreSQL backend: 18 or newer, also behind a pooler, and a cheap health check."""

import select
from functools import cache, cached_property
from types import TracebackType
from typing import Any

from django.db import OperationalError
from django.db.backends.postgresql import base, features
from django.db.utils import DatabaseErrorWrapper
from psycopg.errors import ReadOnlySqlTransaction

from config.postgres import poolers


class DatabaseFeatures(features.DatabaseFeatures):
    # uuidv7() and RETURNING old.*; an older server is refused with this number in the message
    minimum_database_version = (18,)


class Errors(DatabaseErrorWrapper):
    """Django's errors, where a server that takes no writes is an outage.

    PostgreSQL's class for that error is the one of internal errors. After a failover, a connection
    to the former primary stays open; closing it lets the next request find the new one.
    """

    def __init__(self, wrapper: "DatabaseWrapper") -> None:
        super().__init__(wrapper)
        self.wrapper = wrapper

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not isinstance(error, ReadOnlySqlTransaction):
            super().__exit__(kind, error, traceback)
            return
        self.wrapper.errors_occurred = True
        self.wrapper.connection.close()  # not the wrapper, whose transaction has yet to end
        raise OperationalError(*error.args).with_traceback(traceback) from error


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = DatabaseFeatures

    @cached_property
    def wrap_database_errors(self) -> Errors:
        return Errors(self)

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        is_old = (
            connection.info.server_version < 10_000 * DatabaseFeatures.minimum_database_version[0]
        )
        if self.settings_dict["OPTIONS"].get("prepare_threshold") and not is_old:
            self.adapt_to_pooler(connection)
        return connection

    def adapt_to_pooler(self, connection: Any) -> None:
        """Do without what a transaction pooler can't do. A process asks once for each database."""
        settings = self.settings_dict
        if "POOLED" not in settings:
            is_pooled = poolers.is_pooled(connection)
            if settings.get("PREPARES") is None:
                settings["PREPARES"] = not is_pooled or poolers.can_prepare(connection)
            settings["DISABLE_SERVER_SIDE_CURSORS"] = is_pooled
            settings["POOLED"] = is_pooled
        if not settings["PREPARES"]:
            connection.prepare_threshold = None

    def is_usable(self) -> bool:
        # A server that went away has closed its end, so the socket is readable: only then is a
        # query sent. Django would send `select 1` with every request.
        if self.connection is None or self.connection.closed:
            return False
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN)
        return not poll.poll(0) or super().is_usable()

    @property
    def pool(self) -> Any:
        if self.settings_dict["OPTIONS"].get("pool"):
            reconnect_sooner()
        return super().pool


@cache
def reconnect_sooner() -> None:
    """Let pools ask a server that is away more often, each time a quarter later than before."""
    # They ask after 1, 3, and 7 seconds otherwise: a server that was back after 3.4 seconds was
    # noticed after 6.8.
    from psycopg_pool.base import AttemptWithBackoff  # only a worker has a pool

    AttemptWithBackoff.INITIAL_DELAY = 0.25
    AttemptWithBackoff.DELAY_BACKOFF = 1.25
