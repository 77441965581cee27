"""Prometheus metrics, counted in the database so that all processes agree."""

import ipaddress
from collections.abc import Iterator

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)

from ledger import sql, tokens
from ledger.errors import Refusal
from ledger.instruction_stats import ACK_SECONDS, HEARD_LEVEL, WAITING
from ledger.models import ClockRun
from ledger.optional_cache import get_or_compute
from ledger.states import LEVELS, InstructionState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ACK_BUCKETS = (1, 2, 4, 8, 15, 30, 60, 120, 240, 600, 3600)
DELIVERY_BUCKETS = (1, 2, 3, 4, 6, 11, 21)
TOP_AGENTS = 50


def count_buckets(name: str, value: str, edges: tuple[int, ...]) -> str:
    """Return the SQL that counts, for each edge, the rows whose value does not exceed it."""
    counts = (f"count(*) filter (where {value} <= {edge}) as {name}_{edge}" for edge in edges)
    return ", ".join(counts)


# One scan for all instruction metrics. Only the agents with the most instructions are named.
INSTRUCTIONS = f"""with top as (
    select agent_id from ledger_instruction group by agent_id order by count(*) desc
    limit {TOP_AGENTS}
) select p.name as project, case when top.agent_id is null then 'other' else a.name end as agent,
    case when {WAITING} then 'waiting' else i.state end as outcome, {HEARD_LEVEL} as level,
    count(*) as n, sum(i.deliveries) as deliveries, sum(i.retry_count) as retries,
    sum({ACK_SECONDS}) as seconds,
    {count_buckets("ack", ACK_SECONDS, ACK_BUCKETS)},
    {count_buckets("del", "i.deliveries", DELIVERY_BUCKETS)}
from ledger_instruction i join ledger_project p on p.id = i.project_id
    join ledger_agent a on a.id = i.agent_id left join top on top.agent_id = i.agent_id
where i.tracked group by 1, 2, 3, 4"""


# Name, help text, labels, and the statement that returns the labels and their number `n`.
GAUGES: list[tuple[str, str, list[str], str]] = [
    (
        "tenfour_tasks",
        "Tasks by state.",
        ["project", "agent", "state"],
        f"""with top as (
            select agent_id from ledger_task group by agent_id order by count(*) desc
            limit {TOP_AGENTS}
        ) select p.name as project, case when top.agent_id is null then 'other' else a.name end
            as agent, t.state, count(*) as n
        from ledger_task t join ledger_project p on p.id = t.project_id
            join ledger_agent a on a.id = t.agent_id left join top on top.agent_id = t.agent_id
        group by 1, 2, 3""",
    ),
    (
        "tenfour_dead_letters",
        "Dead letters that are neither replayed nor dismissed.",
        ["project"],
        """select p.name as project, count(l.id) as n
        from ledger_project p left join ledger_deadletter l
            on l.project_id = p.id and l.closed_at is null
        group by 1""",
    ),
    (
        "tenfour_breaker_state",
        "0: closed, 1: half open, 2: open.",
        ["project", "agent"],
        f"""select p.name as project, a.name as agent,
            case b.state when 'closed' then 0 when 'half_open' then 1 else 2 end as n
        from ledger_breaker b join ledger_agent a on a.id = b.agent_id
            join ledger_project p on p.id = a.project_id
        order by b.updated_at desc limit {TOP_AGENTS}""",
    ),
    (
        "tenfour_escalations_open",
        "Open escalations.",
        ["reason"],
        "select reason, count(*) as n from retries_escalation where state = 'open' group by 1",
    ),
]


class LedgerCollector:
    """A Prometheus collector that reads the database."""

    def collect(self) -> Iterator[Metric]:
        yield from instruction_metrics(sql.run(INSTRUCTIONS))
        for name, text, labels, statement in GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for row in sql.run(statement):
                gauge.add_metric([row[label] for label in labels], row["n"])
            yield gauge
        beats = GaugeMetricFamily(
            "tenfour_beat_last_run_timestamp_seconds",
            "When the scheduled job last ran.",
            labels=["job"],
        )
        for name, at in ClockRun.objects.values_list("name", "last_run_at"):
            beats.add_metric([name], at.timestamp())
        yield beats
        build = InfoMetricFamily("tenfour_build", "The running version.")
        build.add_metric([], {"version": settings.TENFOUR_VERSION})
        yield build


def instruction_metrics(rows: list[sql.Row]) -> Iterator[Metric]:
    labels = ["project", "agent", "outcome", "urgency"]
    totals = CounterMetricFamily(
        "tenfour_instructions", "Settled tracked instructions by outcome.", labels=labels
    )
    waiting = GaugeMetricFamily(
        "tenfour_instructions_waiting",
        "Unsettled tracked instructions.",
        labels=["project", "agent"],
    )
    retries = CounterMetricFamily(
        "tenfour_instruction_retries",
        "Times that an instruction was requeued.",
        labels=["project", "agent"],
    )
    seconds = HistogramMetricFamily(
        "tenfour_instruction_ack_seconds",
        "Seconds from sending to acknowledgment.",
        labels=["project", "agent", "urgency"],
    )
    deliveries = HistogramMetricFamily(
        "tenfour_instruction_deliveries",
        "Deliveries before an instruction was settled.",
        labels=["project", "agent", "outcome"],
    )
    for row in rows:
        who, urgency = [row["project"], row["agent"]], LEVELS[row["level"]].value
        if row["outcome"] != "waiting":
            totals.add_metric([*who, row["outcome"], urgency], row["n"])
        if row["outcome"] == InstructionState.ACKNOWLEDGED:
            seconds.add_metric([*who, urgency], *histogram(row, "ack", ACK_BUCKETS, row["seconds"]))
    for (project, agent, outcome), group in sum_by(rows, "project", "agent", "outcome"):
        if outcome != "waiting":
            deliveries.add_metric(
                [project, agent, outcome],
                *histogram(group, "del", DELIVERY_BUCKETS, group["deliveries"]),
            )
        else:
            waiting.add_metric([project, agent], group["n"])
    for (project, agent), group in sum_by(rows, "project", "agent"):
        retries.add_metric([project, agent], group["retries"])
    yield from (totals, waiting, retries, seconds, deliveries)


def sum_by(rows: list[sql.Row], *by: str) -> Iterator[tuple[tuple[str, ...], sql.Row]]:
    """Yield the rows added up by these labels."""
    groups: dict[tuple[str, ...], sql.Row] = {}
    for row in rows:
        key = tuple(row[label] for label in by)
        group = groups.setdefault(key, {})
        for name, value in row.items():
            if isinstance(value, (int, float)) or value is None:
                group[name] = group.get(name, 0) + (value or 0)
    yield from groups.items()


def histogram(
    row: sql.Row, prefix: str, edges: tuple[int, ...], total: float
) -> tuple[list[tuple[str, float]], float]:
    buckets = [(str(float(edge)), float(row[f"{prefix}_{edge}"])) for edge in edges]
    return [*buckets, ("+Inf", float(row["n"]))], float(total or 0)


registry = CollectorRegistry(auto_describe=False)
registry.register(LedgerCollector())


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics to hosts in TENFOUR_METRICS_ALLOW and tokens with metrics:read."""
    if not may_read(request):
        return HttpResponseForbidden("This address needs a token with the scope metrics:read.\n")
    return HttpResponse(scrape(), content_type=CONTENT_TYPE)


def scrape() -> bytes:
    """Return the metrics, counted at most every 10 seconds."""
    return get_or_compute("metrics", lambda: generate_latest(registry), seconds=10)


def may_read(request: HttpRequest) -> bool:
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        try:
            bearer = tokens.Bearer(tokens.digest_of(secret), "metrics:read")
            return bool(tokens.fetch_principal(bearer, now=timezone.now()))
        except Refusal:
            return False
    address = ipaddress.ip_address(request.META["REMOTE_ADDR"])
    return any(address in ipaddress.ip_network(each) for each in settings.TENFOUR["METRICS_ALLOW"])
