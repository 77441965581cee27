"""The sessions of browsers: rows in PostgreSQL, with copies in Redis that pages can do without."""

from typing import Any

from django.contrib.sessions.backends import cached_db, db
from django.db import transaction

from ledger.database import optional_cache


class SessionStore(cached_db.SessionStore):
    """Django's store with a cache, which reads the database while Redis is away."""

    _cache: Any
    _get_session_from_db: Any

    def load(self) -> dict[str, Any]:
        cached: dict[str, Any] | None = optional_cache.read(self.cache_key)
        if cached is not None:
            return cached
        row = self._get_session_from_db()
        if row is None:
            return {}
        data: dict[str, Any] = self.decode(row.session_data)
        age = self.get_expiry_age(expiry=row.expire_date)
        optional_cache.write(self.cache_key, data, seconds=age)
        return data

    def exists(self, session_key: str) -> bool:
        return db.SessionStore.exists(self, session_key)

    def delete(self, session_key: str | None = None) -> None:
        """Delete a session and its copy, or nothing if Redis is away."""
        # With its copy, a session would work again as soon as Redis is back.
        if key := session_key or self.session_key:
            copy = self.cache_key_prefix + key
            self._cache.delete(copy)
            # again without its row: until then, another request may read that and copy it
            transaction.on_commit(lambda: optional_cache.delete(copy))
        super().delete(session_key)
