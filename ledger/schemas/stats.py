"""Schemas of instruction statistics."""

from ninja import Schema
from pydantic import Field

from ledger.schemas.shapes import Part, Shape, field
from ledger.states import Urgency


class StatsQuery(Schema):
    window: str = Field("24h", description="how far back, such as 30m, 24h, or 7d")


class LevelOut(Part):
    urgency: Urgency = field("the level", "first")
    acknowledged: int = field("instructions acknowledged at this level", 6)
    waiting: int = field("instructions that wait at this level", 1)
    ack_p50_s: float | None = field("median seconds to the acknowledgment", 1.2)
    ack_p95_s: float | None = field("95th percentile of seconds to the acknowledgment", 2.4)


class StatisticsOut(Part):
    name: str = field("the project's or the agent's name", "default")
    sent: int = field("instructions sent", 12)
    acknowledged: int = field("instructions acknowledged", 9)
    failed: int = field("instructions given up", 2)
    cancelled: int = field("instructions canceled")
    waiting: int = field("instructions not settled yet", 1)
    retries: int = field("reminders sent", 14)
    retry_rate: float = field("retries per instruction sent", 1.1667)
    retried_share: float = field("share of instructions that were retried", 0.5)
    failed_share: float = field("share of instructions that failed", 0.1667)
    delivery_p50_s: float | None = field("median seconds from sending to delivery", 0.6)
    delivery_p95_s: float | None = field("95th percentile of seconds from sending to delivery", 1.9)
    read_p50_s: float | None = field(
        "median seconds from sending to the agent's first step after a delivery", 1.4
    )
    read_p95_s: float | None = field("95th percentile of seconds from sending to that step", 20.5)
    ack_p50_s: float | None = field("median seconds from sending to acknowledgment", 2.1)
    ack_p95_s: float | None = field(
        "95th percentile of seconds from sending to acknowledgment", 118.4
    )
    levels: list[LevelOut] = field("one per urgency: first, again, important, urgent")


class StatsOut(Shape):
    window_s: int = field("how far back, in seconds", 86400)
    project: StatisticsOut = field("the whole project")
    agents: list[StatisticsOut] = field("one entry per agent", [])
