"""Which database a query reads: the primary, or a streaming replica of it.

Only what runs inside `reading_from(REPLICA)` reads the replica. Writes, locks, and what decides who
may do what always use the primary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

PRIMARY, REPLICA = "default", "replica"
# The replica is never asked about accounts, roles, and tokens.
APPS = {"ledger", "retries"}
ACCESS = {"ledger.models.person", "ledger.models.token"}

source: ContextVar[str] = ContextVar("source", default=PRIMARY)


@contextmanager
def reading_from(alias: str) -> Iterator[None]:
    token = source.set(alias)
    try:
        yield
    finally:
        source.reset(token)


class Router:
    """Sends the reads of models to `source`; Django asks it if there is a replica."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        if model._meta.app_label not in APPS or model.__module__ in ACCESS:
            return PRIMARY
        return source.get()

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return PRIMARY

    def allow_relation(self, one: Any, other: Any, **hints: Any) -> bool:
        return True  # both are the same data

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == PRIMARY
