"""The metrics of webhooks, from the tallies of their tries and the pending deliveries."""

from collections.abc import Iterator
from uuid import UUID

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from ledger.database import sql
from retries.models.notification_delivery import TRY_BUCKETS, UNSETTLED

LABELS = ["event_type", "status_class"]
TALLIES = """select event_type, status_class, tries, seconds, buckets from retries_deliverytally
    where %(project)s::uuid is null or project_id = %(project)s::uuid"""
BACKLOG = f"""select d.kind as event_type, count(*) as n
    from retries_delivery d join retries_channel c on c.id = d.channel_id
    where d.state in ({sql.quoted(UNSETTLED)}) and c.kind = 'webhook'
        and (%(project)s::uuid is null or d.project_id = %(project)s::uuid)
    group by 1"""


def webhook_metrics(project_id: UUID | None) -> Iterator[Metric]:
    tries: dict[tuple[str, str], int] = {}
    seconds: dict[tuple[str, str], float] = {}
    buckets: dict[tuple[str, str], list[int]] = {}
    for row in sql.run(TALLIES, project=project_id):
        key = (row["event_type"], row["status_class"])
        tries[key] = tries.get(key, 0) + row["tries"]
        seconds[key] = seconds.get(key, 0.0) + row["seconds"]
        before = buckets.get(key, [0] * len(TRY_BUCKETS))
        buckets[key] = [one + other for one, other in zip(before, row["buckets"], strict=True)]
    counter = CounterMetricFamily(
        "tenfour_webhook_deliveries", "Tries of webhooks by how they ended.", labels=LABELS
    )
    histogram = HistogramMetricFamily(
        "tenfour_webhook_delivery_seconds", "Seconds that a try of a webhook took.", labels=LABELS
    )
    for key, count in sorted(tries.items()):
        counter.add_metric(key, count)
        edges = [(str(edge), float(n)) for edge, n in zip(TRY_BUCKETS, buckets[key], strict=True)]
        histogram.add_metric(key, [*edges, ("+Inf", float(count))], seconds[key])
    backlog = GaugeMetricFamily(
        "tenfour_webhook_backlog", "Deliveries that wait for a try.", labels=["event_type"]
    )
    for row in sql.run(BACKLOG, project=project_id):
        backlog.add_metric([row["event_type"]], row["n"])
    yield from (counter, histogram, backlog)
