"""Django's PostgreSQL backend: 18 or newer, and a health check that costs no round trip."""

import select

from django.db.backends.postgresql import base, features


class DatabaseFeatures(features.DatabaseFeatures):
    # uuidv7() and RETURNING old.*; an older server is refused with this number in the sentence
    minimum_database_version = (18,)


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = DatabaseFeatures

    def is_usable(self) -> bool:
        """Whether the idle connection still stands.

        A server that went away has closed its end, so the socket is readable: only then is a query
        worth sending. Django would send `select 1` at every request instead.
        """
        if self.connection is None or self.connection.closed:
            return False
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN)
        return not poll.poll(0) or super().is_usable()
