"""Measure the lead of the hosts' clocks over PostgreSQL's.

They decide nothing in Tenfour. But the lines of the logs have their times, and so have the
certificates of other servers.
"""

from collections.abc import Iterator
from datetime import timedelta

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from ledger.database import server_time
from ledger.models import ClockRun

# A worker that ran none of the clock's entries in this time is not judged by an earlier run.
RECENT = timedelta(minutes=1)


def measure_hosts() -> dict[str, float]:
    """Return the seconds of this process's host and, of the workers' hosts, the greatest."""
    recent = ClockRun.objects.filter(last_run_at__gt=server_time.now() - RECENT)
    workers = recent.values_list("host_ahead_s", flat=True)
    return {"web": server_time.measure_difference(), "worker": max(workers, key=abs, default=0.0)}


def check_host_clocks() -> str:
    """Return "ok", or the host whose clock is wrong."""
    process, seconds = max(measure_hosts().items(), key=lambda item: abs(item[1]))
    if abs(seconds) <= server_time.MOST_DIFFERENCE_S:
        return "ok"
    return f"{process}: {server_time.describe_difference(seconds)}"


class HostClockCollector:
    """A Prometheus collector for these differences."""

    def describe(self) -> list[Metric]:
        """Return nothing, because registering a collector must not query the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily(
            "tenfour_host_clock_ahead_seconds",
            "Seconds that a host's clock is ahead of PostgreSQL's, by the kind of process.",
            labels=["process"],
        )
        for process, seconds in measure_hosts().items():
            gauge.add_metric([process], seconds)
        yield gauge
