"""Count how long a worker's jobs wait for a connection to PostgreSQL; the metrics show the sum.

A worker answers no request that could be scraped, so it adds its numbers up in Redis.
"""

from contextlib import suppress
from typing import Any, NamedTuple

import redis
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from config.background.redis_server import connect

KEY = "tenfour:pool-waits"
DEADLINE_S = 1


class PoolWaits(NamedTuple):
    waits: int = 0
    wait_ms: int = 0
    timeouts: int = 0


def report_waits() -> None:
    """Add this worker's waits since its last report; without Redis, they are not counted."""
    found = take_waits()
    if not any(found):
        return
    with suppress(redis.RedisError), connect(settings.REDIS_URL, deadline_s=DEADLINE_S) as client:
        for name, count in found._asdict().items():
            client.hincrby(KEY, name, count)


def take_waits() -> PoolWaits:
    """Return what this process's pool has counted since the last call."""
    database: Any = connections[DEFAULT_DB_ALIAS]
    if not database.settings_dict["OPTIONS"].get("pool"):
        return PoolWaits()
    counted = database.pool.pop_stats()
    return PoolWaits(
        counted.get("requests_queued", 0),
        counted.get("requests_wait_ms", 0),
        counted.get("requests_errors", 0),
    )


def read_waits(client: "redis.Redis") -> PoolWaits:
    """Return the sums of all workers since Redis started."""
    stored = client.hmget(KEY, PoolWaits._fields)
    return PoolWaits(*(int(value or 0) for value in stored))
