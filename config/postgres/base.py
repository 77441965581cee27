"""Django's PostgreSQL backend: 18 or newer, and a health check that costs no round trip."""

import select

from django.db.backends.postgresql import base, features


class DatabaseFeatures(features.DatabaseFeatures):
    # uuidv7() and RETURNING old.*; an older server is refused with this number in the message
    minimum_database_version = (18,)


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = DatabaseFeatures

    def is_usable(self) -> bool:
        """Return whether the idle connection is still open.

        A server that went away has closed its end, so the socket is readable: only then is a query
        sent. Django would send `select 1` with every request.
        """
        if self.connection is None or self.connection.closed:
            return False
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN)
        return not poll.poll(0) or super().is_usable()
