"""Compute statistics of instructions: outcomes, reminders needed, and time to acknowledge."""

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.database import sql
from ledger.states import LEVELS, InstructionState, Urgency
from ledger.values.ids import SLACK, first_id

# from sending to acknowledgment, including reminders and the time in the queue
ACK_SECONDS = "extract(epoch from i.acknowledged_at - i.queued_at)::float8"
DELIVERY_SECONDS = "extract(epoch from i.first_delivered_at - i.queued_at)::float8"
READ_SECONDS = "extract(epoch from i.read_at - i.queued_at)::float8"
# the urgency of the last delivery: the one that was acknowledged or that awaits its ack
HEARD_LEVEL = f"least(greatest(i.deliveries - 1, 0), {len(LEVELS) - 1})"
NEXT_LEVEL = f"least(i.retry_count, {len(LEVELS) - 1})"
WAITING = f"i.state in ('{InstructionState.QUEUED}', '{InstructionState.DELIVERED}')"


@dataclass(slots=True)
class Level:
    """The figures of one urgency."""

    urgency: Urgency
    acknowledged: int = 0
    waiting: int = 0
    ack_p50_s: float | None = None
    ack_p95_s: float | None = None


@dataclass(slots=True)
class Statistics:
    """The tracked instructions of a project or an agent that were sent in a window of time.

    `retry_rate` is the number of retries per instruction, `retried_share` the share that needed
    any and `failed_share` the share that failed. Seconds count from sending: to the first delivery,
    to the agent's first step after a delivery, and to the acknowledgment.
    """

    name: str
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    cancelled: int = 0
    waiting: int = 0
    retries: int = 0
    retry_rate: float = 0.0
    retried_share: float = 0.0
    failed_share: float = 0.0
    delivery_p50_s: float | None = None
    delivery_p95_s: float | None = None
    read_p50_s: float | None = None
    read_p95_s: float | None = None
    ack_p50_s: float | None = None
    ack_p95_s: float | None = None
    levels: list[Level] = field(default_factory=lambda: [Level(urgency) for urgency in LEVELS])

    @property
    def times(self) -> list[tuple[str, float | None, float | None]]:
        return [
            ("Delivered", self.delivery_p50_s, self.delivery_p95_s),
            ("Read", self.read_p50_s, self.read_p95_s),
            ("Followed", self.ack_p50_s, self.ack_p95_s),
        ]


COPIED = (
    "sent",
    "acknowledged",
    "failed",
    "cancelled",
    "waiting",
    "delivery_p50_s",
    "delivery_p95_s",
    "read_p50_s",
    "read_p95_s",
    "ack_p50_s",
    "ack_p95_s",
)
# Without a time, percentiles leave a row out.
TIMES = {
    "delivery": (DELIVERY_SECONDS, "true"),
    "read": (READ_SECONDS, "true"),
    "ack": (ACK_SECONDS, f"i.state = '{InstructionState.ACKNOWLEDGED}'"),
}
PERCENTILES = ", ".join(
    f"percentile_cont({percent / 100}) within group (order by {seconds}) filter (where {which})"
    f" as {name}_p{percent}_s"
    for name, (seconds, which) in TIMES.items()
    for percent in (50, 95)
)

SENT = """from ledger_instruction i
    where i.tracked and i.id >= %(floor)s and i.queued_at >= %(since)s
    and (%(project)s::uuid is null or i.project_id = %(project)s)"""

# of all, of each agent, and of each urgency of both, which only the latter have as their `level`
COUNTS = f"""select t.*, a.name from (
    select i.agent_id, i.level, count(*) as sent,
        count(*) filter (where i.state = '{InstructionState.ACKNOWLEDGED}') as acknowledged,
        count(*) filter (where i.state = '{InstructionState.FAILED}') as failed,
        count(*) filter (where i.state = '{InstructionState.CANCELLED}') as cancelled,
        count(*) filter (where {WAITING}) as waiting,
        sum(i.retry_count) as retries, count(*) filter (where i.retry_count > 0) as retried,
        {PERCENTILES}
    from (
        select i.*, case when {WAITING} then {NEXT_LEVEL} else {HEARD_LEVEL} end as level {SENT}
    ) i group by grouping sets ((), (i.level), (i.agent_id), (i.agent_id, i.level))
) t left join ledger_agent a on a.id = t.agent_id order by a.name nulls first"""


def window_params(since: datetime) -> dict[str, Any]:
    # Bounds on ids make an index on times unnecessary.
    return {"since": since, "floor": first_id(since - SLACK)}


def fetch_stats(
    project_id: UUID | None, *, since: datetime
) -> tuple[Statistics, dict[UUID, Statistics]]:
    return combine_rows(fetch_counts(project_id, since=since))


def fetch_counts(project_id: UUID | None, *, since: datetime) -> list[sql.Row]:
    return sql.run_custom_plan(COUNTS, project=project_id, **window_params(since))


def combine_rows(rows: list[sql.Row]) -> tuple[Statistics, dict[UUID, Statistics]]:
    found = {row["agent_id"]: build_statistics(row) for row in rows if row["level"] is None}
    for row in rows:
        if row["level"] is None:
            continue
        level = found[row["agent_id"]].levels[row["level"]]
        level.acknowledged, level.waiting = row["acknowledged"], row["waiting"]
        level.ack_p50_s, level.ack_p95_s = row["ack_p50_s"], row["ack_p95_s"]
    whole = found.pop(None)
    return whole, found


def build_statistics(row: sql.Row) -> Statistics:
    sent, retries = row["sent"], row["retries"] or 0
    return Statistics(
        name=row["name"] or "",
        retries=retries,
        retry_rate=share(retries, sent),
        retried_share=share(row["retried"], sent),
        failed_share=share(row["failed"], sent),
        **{column: row[column] for column in COPIED},
    )


def share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def as_dict(statistics: Statistics) -> dict[str, Any]:
    return asdict(statistics)
