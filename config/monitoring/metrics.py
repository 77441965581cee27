"""Prometheus metrics, counted in the database so that all processes agree."""

import ipaddress
import math
import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from config.api_document.problems import STATUS, count_auth_failure
from config.monitoring import health
from config.monitoring.host_clocks import HostClockCollector
from config.monitoring.platform_metrics import DatabaseCollector, PlatformCollector
from config.monitoring.webhook_metrics import webhook_metrics
from dashboard.frame import replica
from ledger import tokens
from ledger.database import server_time, sql
from ledger.database.optional_cache import get_or_compute
from ledger.database.process_counters import FOLDER, OTHER, REGISTRY
from ledger.errors import Refusal
from ledger.instruction_records.stats import WAITING
from ledger.models import Agent, ClockRun
from ledger.moves import FINAL_STATES
from retries.journal_readers.metric_totals import READERS, Total
from retries.models import MetricTotal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TOP_AGENTS = 50
REPLICA_DEADLINE_S = 2
# Prometheus waits 10 seconds by default.
DATABASE_DEADLINE_S = 8
# the entries of the clock that archive rows before they delete them
ARCHIVING = ("retention", "journal")


def in_project(column: str) -> str:
    return f"(%(project)s::uuid is null or {column} = %(project)s::uuid)"


# Name, help text, labels, and the statement that returns the labels and their number `n`.
GAUGES: list[tuple[str, str, list[str], str]] = [
    (
        "tenfour_tasks",
        "Tasks by state.",
        ["project", "agent", "state"],
        f"""with top as (
            select agent_id from ledger_task where {in_project("project_id")}
            group by agent_id order by count(*) desc limit {TOP_AGENTS}
        ) select p.name as project, case when top.agent_id is null then '{OTHER}' else a.name end
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
        # Agents with an open breaker get a name before agents with a closed one.
        f"""with ranked as (
            select p.name as project, a.name as agent, x.n,
                row_number() over (order by x.n desc, b.updated_at desc) as place
            from ledger_breaker b join ledger_agent a on a.id = b.agent_id
                join ledger_project p on p.id = a.project_id
                cross join lateral (select case b.state
                    when 'closed' then 0 when 'half_open' then 1 else 2 end as n) x
            where {in_project("p.id")}
        ) select project, case when place <= {TOP_AGENTS} then agent else '{OTHER}' end as agent,
            max(n) as n
        from ranked group by 1, 2""",
    ),
    (
        "tenfour_tasks_oldest_age_seconds",
        "Age of the oldest task that has not ended, since its last change.",
        ["agent", "state"],
        f"""with ages as (
            select a.name as agent, t.state,
                extract(epoch from now() - min(t.updated_at))::float8 as n
            from ledger_task t join ledger_agent a on a.id = t.agent_id
            where t.state not in ({FINAL_STATES}) and {in_project("t.project_id")}
            group by 1, 2
        ), top as (select agent from ages group by 1 order by max(n) desc limit {TOP_AGENTS})
        select coalesce(top.agent, '{OTHER}') as agent, state, max(n) as n
        from ages left join top using (agent) group by 1, 2""",
    ),
    (
        "tenfour_task_pool_members",
        "Members of pools by whether they may claim: not if they are paused, wait for a limit of "
        "their account, or have an open breaker.",
        ["project", "pool", "able"],
        # The largest pools get a name.
        f"""with members as (
            select o.id, o.name, o.project_id, not o.paused and not a.paused
                and coalesce(a.waits_until <= now(), true)
                and coalesce(b.state <> 'open', true) as able
            from ledger_poolmember m join ledger_agent o on o.id = m.pool_id
                join ledger_agent a on a.id = m.agent_id
                left join ledger_breaker b on b.agent_id = a.id
            where {in_project("o.project_id")}
        ), top as (
            select id from members group by id order by count(*) desc limit {TOP_AGENTS}
        ) select p.name as project, case when top.id is null then '{OTHER}' else m.name end as pool,
            m.able::text as able, count(*) as n
        from members m join ledger_project p on p.id = m.project_id
            left join top on top.id = m.id
        group by 1, 2, 3""",
    ),
    (
        "tenfour_instructions_waiting",
        "Unsettled tracked instructions.",
        ["project", "agent"],
        f"""with waiting as (
            select i.project_id, i.agent_id, count(*) as n from ledger_instruction i
            where i.tracked and {WAITING} and {in_project("i.project_id")} group by 1, 2
        ), top as (select agent_id from waiting order by n desc limit {TOP_AGENTS})
        select p.name as project, case when top.agent_id is null then '{OTHER}' else a.name end
            as agent, sum(w.n)::int as n
        from waiting w join ledger_project p on p.id = w.project_id
            join ledger_agent a on a.id = w.agent_id left join top on top.agent_id = w.agent_id
        group by 1, 2""",
    ),
    (
        "tenfour_account_used_ratio",
        "Used share of a window of an account's limits.",
        ["project", "account", "window"],
        # The accounts with the least room get a name.
        f"""with used as (
            select p.name as project, w.account, w."window", w.used as n,
                max(w.used) over (partition by w.project_id, w.account) as most
            from ledger_accountwindow w join ledger_project p on p.id = w.project_id
            where coalesce(w.resets_at > now(), true) and {in_project("p.id")}
        ), ranked as (
            select u.*, dense_rank() over (order by most desc, project, account) as place
            from used u
        ) select project, case when place <= {TOP_AGENTS} then account else '{OTHER}' end
            as account, "window", max(n) as n
        from ranked group by 1, 2, 3""",
    ),
    (
        "tenfour_accounts_at_limit",
        "Accounts whose agents wait until a limit resets.",
        ["project"],
        f"""select p.name as project, count(distinct w.account) as n
        from ledger_project p left join ledger_accountwindow w on w.project_id = p.id
            and w.used >= 1 and w.resets_at > now() and w.seen_at > now() - interval '8 days'
        where {in_project("p.id")} group by 1""",
    ),
    (
        "tenfour_plans_in_progress",
        "Plans that are not over or paused, by their forecast: made, or why there is none.",
        ["project", "forecast"],
        f"""select p.name as project, case when x.id is not null and f.made_at is null
                then 'not_made' else coalesce(nullif(f.reason, ''), 'made') end as forecast,
            count(x.id) as n
        from ledger_project p left join ledger_plan x on x.project_id = p.id
                and x.completed_at is null and x.aborted_at is null and x.paused_at is null
            left join retries_planforecast f
                on f.plan_id = x.id and f.run = x.run and not f.is_kept
        where {in_project("p.id")} group by 1, 2""",
    ),
    (
        "tenfour_budgets_used_up",
        "Budgets whose tasks wait until there is more.",
        ["project"],
        f"""select p.name as project, count(b.id) as n
        from ledger_project p left join ledger_budget b on b.project_id = p.id
            and b.reached_at is not null and b.used >= b.amount + b.granted
            and (b.period = 'total' or b.day >= (now() at time zone b.zone)::date)
        where {in_project("p.id")} group by 1""",
    ),
    (
        "tenfour_escalations_open",
        "Open escalations.",
        ["reason"],
        f"""select reason, count(*) as n from retries_escalation
        where state = 'open' and {in_project("project_id")} group by 1""",
    ),
]


# The order changes only when a count doubles: a counter of an agent that moves into or out of
# `other` would look to Prometheus as if it had started again.
BUSIEST = f"""select a.id::text as id, a.name from (
        select labels ->> 'agent' as agent, sum(count) as n from retries_metrictotal
        where labels ? 'agent' and {in_project("project_id")} group by 1
    ) t join ledger_agent a on a.id = t.agent::uuid
    order by floor(log(2, greatest(t.n, 1))) desc, a.id limit {TOP_AGENTS}"""


class ReplicaCollector:
    """A Prometheus collector for the replica of pages, as this process sees it."""

    def describe(self) -> list[Metric]:
        # Registering a collector must not query the database.
        return []

    def collect(self) -> Iterator[Metric]:
        lag = replica.monitor.wait(REPLICA_DEADLINE_S).lag_s
        text = "Seconds that the replica is behind; -1 if it is away."
        yield GaugeMetricFamily("tenfour_replica_lag_seconds", text, -1 if lag is None else lag)


class ProcessCollector:
    """A Prometheus collector that adds up the counters of this web server's processes."""

    def __init__(self, *, has_database: bool) -> None:
        self.has_database = has_database  # it has the names of agents

    def describe(self) -> list[Metric]:
        # Registering a collector must not query the database.
        return []

    def collect(self) -> Iterator[Metric]:
        for metric in process_registry().collect():
            if metric.name != "tenfour_heartbeats":
                yield metric
            elif self.has_database:
                yield name_agents(metric)


class LedgerCollector:
    """A Prometheus collector that reads the database: one project, or all of them."""

    def __init__(self, project_id: UUID | None = None) -> None:
        self.project_id = project_id

    def describe(self) -> list[Metric]:
        # Registering a collector must not query the database.
        return []

    def collect(self) -> Iterator[Metric]:
        for name, text, labels, statement in GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for row in sql.run(statement, project=self.project_id):
                gauge.add_metric([row[label] for label in labels], row["n"])
            yield gauge
        yield from total_metrics(self.project_id)
        yield from webhook_metrics(self.project_id)
        yield from clock_metrics()
        build = InfoMetricFamily("tenfour_build", "The running version.")
        build.add_metric([], {"version": settings.TENFOUR_VERSION})
        yield build


def clock_metrics() -> Iterator[Metric]:
    """Yield when each scheduled job last ran and last succeeded, and how often it failed."""
    beats = GaugeMetricFamily(
        "tenfour_beat_last_run_timestamp_seconds",
        "When the scheduled job last ran.",
        labels=["job"],
    )
    successes = GaugeMetricFamily(
        "tenfour_clock_last_success_timestamp_seconds",
        "When the clock's entry last succeeded.",
        labels=["entry"],
    )
    failures = CounterMetricFamily(
        "tenfour_clock_failures", "Failed runs of the clock's entry.", labels=["entry"]
    )
    failing = GaugeMetricFamily(
        "tenfour_clock_failing",
        "1: the last run of the clock's entry failed, 0: it did not.",
        labels=["entry"],
    )
    archives = GaugeMetricFamily(
        "tenfour_archive_failing",
        "1: the last run could not write the archive, so nothing was deleted, 0: it could.",
        labels=["entry"],
    )
    for run in ClockRun.objects.all():
        beats.add_metric([run.name], run.last_run_at.timestamp())
        failures.add_metric([run.name], run.failures)
        failing.add_metric([run.name], bool(run.last_error))
        if run.last_success_at:
            successes.add_metric([run.name], run.last_success_at.timestamp())
        if run.name in ARCHIVING:
            archives.add_metric([run.name], "error" in run.did)
    yield from (beats, successes, failures, failing, archives)


def total_metrics(project_id: UUID | None) -> Iterator[Metric]:
    # Agents beyond the busiest are `other`.
    rows = MetricTotal.objects.filter(**{"project": project_id} if project_id else {})
    columns = ("metric", "labels", "bucket", "count", "sum", "project__name")
    stored = [dict(zip(columns, row, strict=True)) for row in rows.values_list(*columns)]
    names = name_busiest(project_id)
    for total in chain.from_iterable(READERS.values()):
        labels = ["project", *total.labels]
        groups: dict[tuple[str, ...], dict[float, tuple[int, float]]] = {}
        for row in stored:
            if row["metric"] == total.metric:
                given = {**row["labels"], "project": row["project__name"]}
                if given.get("agent"):  # a target of a type or a plan is of no agent
                    given["agent"] = names.get(given["agent"], OTHER)
                # a total that an earlier version stored may lack a label
                values = tuple(given.get(label) or "" for label in labels)
                group = groups.setdefault(values, {})
                count, amount = group.get(row["bucket"], (0, 0.0))
                group[row["bucket"]] = count + row["count"], amount + row["sum"]
        yield family_of(total, labels, groups)


def name_busiest(project_id: UUID | None) -> dict[str, str]:
    return {row["id"]: row["name"] for row in sql.run(BUSIEST, project=project_id)}


def name_agents(metric: Metric) -> Metric:
    """Return a counter of agents by their names instead of their ids."""
    # If fewer agents than TOP_AGENTS have totals, agents that are only in this counter have names,
    # too.
    counts: dict[str, float] = defaultdict(float)
    for sample in metric.samples:
        if sample.name.endswith("_total"):
            counts[sample.labels["agent"]] += sample.value
    names = name_busiest(None)
    more = Agent.objects.filter(pk__in=counts.keys() - names.keys() - {OTHER}).order_by("pk")
    found = more.values_list("pk", "name")[: TOP_AGENTS - len(names)]
    names |= {str(pk): name for pk, name in found}
    named: dict[str, float] = defaultdict(float)
    for id, count in counts.items():
        named[names.get(id, OTHER)] += count
    family = CounterMetricFamily(metric.name, metric.documentation, labels=["agent"])
    for name, count in named.items():
        family.add_metric([name], count)
    return family


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


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    # A token sees its project, and TENFOUR_METRICS_ALLOW sees everything.
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return answer_token(request, secret.strip())
    if is_allowed(request.META["REMOTE_ADDR"]):
        return HttpResponse(scrape_all(), content_type=CONTENT_TYPE)
    return HttpResponseForbidden("This address needs a token with the scope metrics:read.\n")


def answer_token(request: HttpRequest, secret: str) -> HttpResponse:
    # A wrong token counts as a failed authentication.
    try:
        bearer = tokens.Bearer(tokens.digest_of(secret), "metrics:read")
        principal = tokens.fetch_principal(bearer, now=server_time.now())
    except Refusal as refusal:
        if STATUS[refusal.code] == 401 and (wait := count_auth_failure(request, refusal)):
            too_many = "Too many requests with an invalid token came from this address.\n"
            return HttpResponse(too_many, status=429, headers={"Retry-After": str(wait)})
        return HttpResponseForbidden(f"{refusal.detail}\n")
    return HttpResponse(scrape(principal.project_id), content_type=CONTENT_TYPE)


def scrape(project_id: UUID) -> bytes:
    # Processes serve all projects, so a project's token does not see what they count.
    return count_again(f"metrics:{project_id}", LedgerCollector(project_id), seconds=10)


def scrape_all() -> bytes:
    """Return the metrics of all projects, of this web server's processes, and of the servers.

    Without PostgreSQL, they are those that say so.
    """
    checks = health.run_checks(DATABASE_DEADLINE_S)
    has_database = not health.is_down(checks)
    registry = CollectorRegistry()
    registry.register(ProcessCollector(has_database=has_database))
    registry.register(PlatformCollector(checks))
    if has_database:
        registry.register(HostClockCollector())
    if replica.is_configured():
        registry.register(ReplicaCollector())
    found = generate_latest(registry)
    if has_database:
        found += count_again("metrics:all", LedgerCollector(), seconds=10)
        found += count_again("metrics:database", DatabaseCollector(), seconds=60)
    return found


def count_again(key: str, collector: Collector, *, seconds: int) -> bytes:
    """Return the metrics of a collector that were counted at most these seconds ago."""
    registry = CollectorRegistry()
    registry.register(collector)
    return get_or_compute(key, lambda: generate_latest(registry), seconds=seconds)


def process_registry() -> CollectorRegistry:
    if FOLDER not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


def is_allowed(address: str) -> bool:
    networks = map(ipaddress.ip_network, settings.TENFOUR["METRICS_ALLOW"])
    return any(ipaddress.ip_address(address) in network for network in networks)
