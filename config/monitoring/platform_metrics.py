"""The metrics of what Tenfour runs on: Redis' queues, the checks of /readyz, and PostgreSQL."""

import json
import time
from collections.abc import Iterator
from typing import Any

import redis
from django.conf import settings
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from config.background import pool_waits
from config.background.redis_server import connect
from config.celery import QUEUES, SENT_AT
from ledger.database import sql

REDIS_DEADLINE_S = 1
LARGEST_TABLES = 10

CONNECTIONS = """select coalesce(state, 'other') as state, count(*) as n from pg_stat_activity
    where backend_type = 'client backend' group by 1"""
MOST_CONNECTIONS = """select current_setting('max_connections')::int
    - current_setting('superuser_reserved_connections')::int
    - current_setting('reserved_connections')::int as n"""
# A partitioned table counts with its partitions.
TABLES = f"""select coalesce(pg_partition_root(relid), relid)::regclass::text as "table",
        sum(pg_total_relation_size(relid))::float8 as bytes, sum(n_live_tup)::float8 as live,
        sum(n_dead_tup)::float8 as dead
    from pg_stat_user_tables group by 1 order by 2 desc nulls last limit {LARGEST_TABLES}"""
# 2^31: a server stops taking writes shortly before.
TRANSACTION_IDS = """select max(greatest(age(datfrozenxid), mxid_age(datminmxid)))::float8
    / 2147483648 as n from pg_database"""


class PlatformCollector:
    """A Prometheus collector of what this web server sees of Redis and of its own readiness."""

    def __init__(self, checks: dict[str, str]) -> None:
        self.checks = checks

    def describe(self) -> list[Metric]:
        """Return nothing, because registering a collector must not query a server."""
        return []

    def collect(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily(
            "tenfour_readiness", "1: this check of /readyz is ok, 0: it is not.", labels=["check"]
        )
        for name, result in self.checks.items():
            ready.add_metric([name], result == "ok")
        yield ready
        try:
            with connect(settings.REDIS_URL, deadline_s=REDIS_DEADLINE_S) as client:
                yield from queue_metrics(client)
        except redis.RedisError:
            return  # the check of Redis says so


class DatabaseCollector:
    """A Prometheus collector of PostgreSQL's own statistics."""

    def describe(self) -> list[Metric]:
        """Return nothing, because registering a collector must not query the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield gauge_of(
            "tenfour_postgres_connections",
            "Connections to the server by state; those of other roles are `other`.",
            {row["state"]: row["n"] for row in sql.run(CONNECTIONS)},
            label="state",
        )
        [most] = sql.run(MOST_CONNECTIONS)
        yield GaugeMetricFamily(
            "tenfour_postgres_connections_max", "Connections that the server allows.", most["n"]
        )
        tables = sql.run(TABLES)
        for name, column, text in (
            ("tenfour_table_bytes", "bytes", "Size of a table with its indexes and partitions."),
            ("tenfour_table_live_rows", "live", "Estimated rows of a table."),
            ("tenfour_table_dead_rows", "dead", "Estimated rows of a table to be vacuumed."),
        ):
            values = {row["table"]: row[column] or 0 for row in tables}
            yield gauge_of(name, f"{text} The largest tables.", values, label="table")
        [ids] = sql.run(TRANSACTION_IDS)
        yield GaugeMetricFamily(
            "tenfour_transaction_id_age_ratio",
            "Age of the oldest transaction id, as a share of the limit of 2^31.",
            ids["n"],
        )


def gauge_of(name: str, text: str, values: dict[str, float], *, label: str) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text, labels=[label])
    for value, n in values.items():
        gauge.add_metric([value], n)
    return gauge


def queue_metrics(client: "redis.Redis") -> Iterator[Metric]:
    """Yield what waits in Celery's queues, and how long workers waited for connections."""
    prefix = settings.CELERY_BROKER_TRANSPORT_OPTIONS["global_keyprefix"]
    pipeline = client.pipeline(transaction=False)
    for queue in QUEUES:
        pipeline.llen(f"{prefix}{queue}")
        pipeline.lindex(f"{prefix}{queue}", -1)  # workers take jobs from this end
    found: list[Any] = pipeline.execute()
    lengths = dict(zip(QUEUES, found[::2], strict=True))
    yield gauge_of("tenfour_queue_length", "Jobs that wait for a worker.", lengths, label="queue")
    ages = {queue: measure_age(raw) for queue, raw in zip(QUEUES, found[1::2], strict=True)}
    yield gauge_of(
        "tenfour_queue_oldest_age_seconds",
        "Age of the job that has waited longest for a worker.",
        ages,
        label="queue",
    )
    waits = pool_waits.read_waits(client)
    for name, text, value in (
        ("tenfour_pool_waits", "Jobs that waited for a connection of the pool.", waits.waits),
        ("tenfour_pool_wait_seconds", "Seconds that jobs waited for one.", waits.wait_ms / 1000),
        ("tenfour_pool_timeouts", "Jobs that waited for one in vain.", waits.timeouts),
    ):
        yield CounterMetricFamily(name, text, value)


def measure_age(raw: bytes | None) -> float:
    """Return the age of a queued job; 0 without one, or for a job of an earlier version."""
    if raw is None:
        return 0.0
    sent_at = json.loads(raw)["headers"].get(SENT_AT)
    return max(0.0, time.time() - sent_at) if sent_at else 0.0
