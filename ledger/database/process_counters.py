"""Counters that each process keeps for itself.

`config.monitoring.metrics` adds up those of all processes.
"""

from uuid import UUID

from prometheus_client import CollectorRegistry, Counter, Histogram

# The variable that names the folder in which processes share their counters. The library reads it
# when it is imported, so `config.web_server` sets it before.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
# Without the collectors that the library's own registry has.
REGISTRY = CollectorRegistry()

HTTP_REQUESTS = Counter(
    "tenfour_http_requests",
    "HTTP requests by operation and class of the status.",
    ["op", "status_class"],
    registry=REGISTRY,
)
HTTP_SECONDS = Histogram(
    "tenfour_http_request_duration_seconds",
    "Seconds that HTTP requests took.",
    ["op", "status_class"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=REGISTRY,
)
PAGE_READS = Counter(
    "tenfour_page_reads",
    "Pages that a replica may answer, by the database that did: replica or primary.",
    ["database"],
    registry=REGISTRY,
)
CLAIMS = Counter("tenfour_claims", "Claims by result.", ["result"], registry=REGISTRY)
HEARTBEATS = Counter(
    # `config.monitoring.metrics` names the agents by these ids
    "tenfour_heartbeats",
    "Heartbeats of attempts.",
    ["agent"],
    registry=REGISTRY,
)
REDACTIONS = Counter(
    "tenfour_redactions", "Secrets that were masked, by kind.", ["kind"], registry=REGISTRY
)
AUTH_FAILURES = Counter(
    "tenfour_auth_failures",
    "Requests with a missing or wrong token.",
    ["reason"],
    registry=REGISTRY,
)
RATE_LIMITED = Counter(
    "tenfour_rate_limited",
    "Requests that were refused because of a limit per minute or day.",
    ["policy"],
    registry=REGISTRY,
)
IDEMPOTENT_REPLAYS = Counter(
    "tenfour_idempotent_replays",
    "Requests that got the stored response of an earlier one.",
    ["op"],
    registry=REGISTRY,
)

OTHER = "other"
# A process counts at most this many agents separately, because it never forgets one.
MOST_AGENTS = 1_000
_known_agents: set[UUID] = set()


def count_heartbeat(agent: UUID) -> None:
    # Agents beyond MOST_AGENTS count as OTHER.
    if agent not in _known_agents:
        if len(_known_agents) >= MOST_AGENTS:
            HEARTBEATS.labels(OTHER).inc()
            return
        _known_agents.add(agent)
    HEARTBEATS.labels(agent).inc()
