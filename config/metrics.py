"""Prometheus metrics, counted in the database so that all processes agree."""

import ipaddress
import math
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

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
from prometheus_client.multiprocess import MultiProcessCollector

from config.problems import STATUS, count_auth_failure
from config.webhook_metrics import webhook_metrics
from dashboard import replica
from ledger import sql, tokens
from ledger.errors import Refusal
from ledger.instruction_stats import ACK_SECONDS, HEARD_LEVEL, WAITING
from ledger.models import Agent, ClockRun
from ledger.moves import FINAL_STATES
from ledger.optional_cache import get_or_compute
from ledger.process_counters import FOLDER, REGISTRY
from ledger.states import LEVELS, InstructionState
from retries.metric_totals import TOTALS, Total
from retries.models import MetricTotal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ACK_BUCKETS = (1, 2, 4, 8, 15, 30, 60, 120, 240, 600, 3600)
DELIVERY_BUCKETS = (1, 2, 3, 4, 6, 11, 21)
TOP_AGENTS = 50
REPLICA_DEADLINE_S = 2


def count_buckets(name: str, value: str, edges: tuple[int, ...]) -> str:
    """Return the SQL that counts, for each edge, the rows whose value does not exceed it."""
    counts = (f"count(*) filter (where {value} <= {edge}) as {name}_{edge}" for edge in edges)
    return ", ".join(counts)


def in_project(column: str) -> str:
    """Return the SQL condition for the rows of one project, or of all without one."""
    return f"(%(project)s::uuid is null or {column} = %(project)s::uuid)"


# One scan for all instruction metrics. Only the agents with the most instructions are named.
INSTRUCTIONS = f"""with top as (
    select agent_id from ledger_instruction where {in_project("project_id")}
    group by agent_id order by count(*) desc limit {TOP_AGENTS}
) select p.name as project, case when top.agent_id is null then 'other' else a.name end as agent,
    case when {WAITING} then 'waiting' else i.state end as outcome, {HEARD_LEVEL} as level,
    count(*) as n, sum(i.deliveries) as deliveries, sum(i.retry_count) as retries,
    sum({ACK_SECONDS}) as seconds,
    {count_buckets("ack", ACK_SECONDS, ACK_BUCKETS)},
    {count_buckets("del", "i.deliveries", DELIVERY_BUCKETS)}
from ledger_instruction i join ledger_project p on p.id = i.project_id
    join ledger_agent a on a.id = i.agent_id left join top on top.agent_id = i.agent_id
where i.tracked and {in_project("i.project_id")} group by 1, 2, 3, 4"""


# Name, help text, labels, and the statement that returns the labels and their number `n`.
GAUGES: list[tuple[str, str, list[str], str]] = [
    (
        "tenfour_tasks",
        "Tasks by state.",
        ["project", "agent", "state"],
        f"""with top as (
            select agent_id from ledger_task where {in_project("project_id")}
            group by agent_id order by count(*) desc limit {TOP_AGENTS}
        ) select p.name as project, case when top.agent_id is null then 'other' else a.name end
            as agent, t.state, count(*) as n
        from ledger_task t join ledger_project p on p.id = t.project_id
            join ledger_agent a on a.id = t.agent_id left join top on top.agent_id = t.agent_id
        where {in_project("t.project_id")} group by 1, 2, 3""",
    ),
    (
        "tenfour_dead_letters",
        "Dead letters that are neither replayed nor dismissed.",
        ["project"],
        f"""select p.name as project, count(l.id) as n
        from ledger_project p left join ledger_deadletter l
            on l.project_id = p.id and l.closed_at is null
        where {in_project("p.id")} group by 1""",
    ),
    (
        "tenfour_breaker_state",
        "0: closed, 1: half open, 2: open.",
        ["project", "agent"],
        f"""select p.name as project, a.name as agent,
            case b.state when 'closed' then 0 when 'half_open' then 1 else 2 end as n
        from ledger_breaker b join ledger_agent a on a.id = b.agent_id
            join ledger_project p on p.id = a.project_id
        where {in_project("p.id")} order by b.updated_at desc limit {TOP_AGENTS}""",
    ),
    (
        "tenfour_tasks_oldest_age_seconds",
        "Age of the oldest task that has not ended, since its last change.",
        ["agent", "state"],
        f"""select a.name as agent, t.state,
            extract(epoch from now() - min(t.updated_at))::float8 as n
        from ledger_task t join ledger_agent a on a.id = t.agent_id
        where t.state not in ({FINAL_STATES}) and {in_project("t.project_id")}
        group by 1, 2 order by 3 desc limit {TOP_AGENTS}""",
    ),
    (
        "tenfour_escalations_open",
        "Open escalations.",
        ["reason"],
        f"""select reason, count(*) as n from retries_escalation
        where state = 'open' and {in_project("project_id")} group by 1""",
    ),
]


class ReplicaCollector:
    """A Prometheus collector for the replica of pages, as this process sees it."""

    def describe(self) -> list[Metric]:
        """Return nothing, because registering a collector must not query the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        lag = replica.monitor.wait(REPLICA_DEADLINE_S).lag_s
        text = "Seconds that the replica is behind; -1 if it is away."
        yield GaugeMetricFamily("tenfour_replica_lag_seconds", text, -1 if lag is None else lag)


class LedgerCollector:
    """A Prometheus collector that reads the database: one project, or all of them."""

    def __init__(self, project_id: UUID | None = None) -> None:
        self.project_id = project_id

    def describe(self) -> list[Metric]:
        """Return nothing, because registering a collector must not query the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from instruction_metrics(sql.run(INSTRUCTIONS, project=self.project_id))
        for name, text, labels, statement in GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for row in sql.run(statement, project=self.project_id):
                gauge.add_metric([row[label] for label in labels], row["n"])
            yield gauge
        yield from total_metrics(self.project_id)
        yield from webhook_metrics(self.project_id)
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


def total_metrics(project_id: UUID | None) -> Iterator[Metric]:
    """Yield what `retries.metric_totals` has counted; agents beyond the busiest are `other`."""
    rows = MetricTotal.objects.filter(**{"project": project_id} if project_id else {})
    columns = ("metric", "labels", "bucket", "count", "sum", "project__name")
    stored = [dict(zip(columns, row, strict=True)) for row in rows.values_list(*columns)]
    names = agent_names(stored)
    for total in TOTALS:
        labels = ["project", *total.labels]
        groups: dict[tuple[str, ...], dict[float, tuple[int, float]]] = {}
        for row in stored:
            if row["metric"] == total.metric:
                given = {**row["labels"], "project": row["project__name"]}
                if "agent" in given:
                    given["agent"] = names.get(given["agent"], "other")
                group = groups.setdefault(tuple(given[label] or "" for label in labels), {})
                count, amount = group.get(row["bucket"], (0, 0.0))
                group[row["bucket"]] = count + row["count"], amount + row["sum"]
        yield family_of(total, labels, groups)


def agent_names(stored: list[dict[str, Any]]) -> dict[str, str]:
    """Return the names of the agents that most was counted for, by id."""
    counts: Counter[str] = Counter()
    for row in stored:
        if agent := row["labels"].get("agent"):
            counts[agent] += row["count"]
    busiest = [agent for agent, _ in counts.most_common(TOP_AGENTS)]
    found = Agent.objects.filter(pk__in=busiest).values_list("pk", "name")
    return {str(pk): name for pk, name in found}


def family_of(
    total: Total, labels: list[str], groups: dict[tuple[str, ...], dict[float, tuple[int, float]]]
) -> Metric:
    if not total.edges:
        counter = CounterMetricFamily(total.metric, total.help, labels=labels)
        for values, buckets in groups.items():
            counter.add_metric(values, sum(count for count, _ in buckets.values()))
        return counter
    family = HistogramMetricFamily(total.metric, total.help, labels=labels)
    for values, buckets in groups.items():
        below, cumulated = 0, []
        for edge in (*total.edges, math.inf):
            below += buckets.get(edge, (0, 0.0))[0]
            cumulated.append(("+Inf" if edge == math.inf else str(float(edge)), float(below)))
        family.add_metric(values, cumulated, sum(amount for _, amount in buckets.values()))
    return family


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


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return a token's project to the token, and everything to TENFOUR_METRICS_ALLOW."""
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return answer_token(request, secret.strip())
    if is_allowed(request.META["REMOTE_ADDR"]):
        return HttpResponse(scrape(), content_type=CONTENT_TYPE)
    return HttpResponseForbidden("This address needs a token with the scope metrics:read.\n")


def answer_token(request: HttpRequest, secret: str) -> HttpResponse:
    """Return the metrics of a token's project; a wrong token counts as a failed authentication."""
    try:
        bearer = tokens.Bearer(tokens.digest_of(secret), "metrics:read")
        principal = tokens.fetch_principal(bearer, now=timezone.now())
    except Refusal as refusal:
        if STATUS[refusal.code] == 401 and (wait := count_auth_failure(request, refusal)):
            too_many = "Too many requests with an invalid token came from this address.\n"
            return HttpResponse(too_many, status=429, headers={"Retry-After": str(wait)})
        return HttpResponseForbidden(f"{refusal.detail}\n")
    return HttpResponse(scrape(principal.project_id), content_type=CONTENT_TYPE)


def scrape(project_id: UUID | None = None) -> bytes:
    """Return the metrics of one project or of all, counted at most every 10 seconds."""
    registry = CollectorRegistry()
    registry.register(LedgerCollector(project_id))
    key = f"metrics:{project_id or 'all'}"
    stored = get_or_compute(key, lambda: generate_latest(registry), seconds=10)
    # Processes serve all projects, so a project's token does not see what they count.
    return stored if project_id else stored + scrape_processes()


def scrape_processes() -> bytes:
    """Return what this web server knows without PostgreSQL."""
    counted = generate_latest(process_registry())
    if not replica.is_configured():
        return counted
    registry = CollectorRegistry()
    registry.register(ReplicaCollector())
    return counted + generate_latest(registry)


def process_registry() -> CollectorRegistry:
    """Return the counters of all processes of this web server, or of this process alone."""
    if FOLDER not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


def is_allowed(address: str) -> bool:
    networks = map(ipaddress.ip_network, settings.TENFOUR["METRICS_ALLOW"])
    return any(ipaddress.ip_address(address) in network for network in networks)
