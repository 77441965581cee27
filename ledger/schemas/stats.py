"""Schemas of instruction statistics."""

from ninja import Schema
from pydantic import ConfigDict, Field

from ledger.states import Urgency


class StatsQuery(Schema):
    window: str = Field("24h", description="how far back, such as 30m, 24h, or 7d")


class LevelOut(Schema):
    urgency: Urgency = Field(description="the level")
    acknowledged: int = Field(description="instructions acknowledged at this level")
    waiting: int = Field(description="instructions that wait at this level")
    ack_p50_s: float | None = Field(description="median seconds to the acknowledgment")
    ack_p95_s: float | None = Field(description="95th percentile of seconds to the acknowledgment")


class StatisticsOut(Schema):
    name: str = Field(description="the project's or the agent's name")
    sent: int = Field(description="instructions sent")
    acknowledged: int = Field(description="instructions acknowledged")
    failed: int = Field(description="instructions given up")
    cancelled: int = Field(description="instructions canceled")
    waiting: int = Field(description="instructions not settled yet")
    retries: int = Field(description="reminders sent")
    retry_rate: float = Field(description="retries per instruction sent")
    retried_share: float = Field(description="share of instructions that were retried")
    failed_share: float = Field(description="share of instructions that failed")
    delivery_p50_s: float | None = Field(description="median seconds from sending to delivery")
    delivery_p95_s: float | None = Field(
        description="95th percentile of seconds from sending to delivery"
    )
    read_p50_s: float | None = Field(
        description="median seconds from sending to the agent's first step after a delivery"
    )
    read_p95_s: float | None = Field(
        description="95th percentile of seconds from sending to that step"
    )
    ack_p50_s: float | None = Field(description="median seconds from sending to acknowledgment")
    ack_p95_s: float | None = Field(
        description="95th percentile of seconds from sending to acknowledgment"
    )
    levels: list[LevelOut] = Field(description="one per urgency: first, again, important, urgent")


class StatsOut(Schema):
    window_s: int = Field(description="how far back, in seconds")
    project: StatisticsOut = Field(description="the whole project")
    agents: list[StatisticsOut] = Field(description="one entry per agent")

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "window_s": 86400,
                "project": {
                    "name": "default",
                    "sent": 12,
                    "acknowledged": 9,
                    "failed": 2,
                    "cancelled": 0,
                    "waiting": 1,
                    "retries": 14,
                    "retry_rate": 1.1667,
                    "retried_share": 0.5,
                    "failed_share": 0.1667,
                    "delivery_p50_s": 0.6,
                    "delivery_p95_s": 1.9,
                    "read_p50_s": 1.4,
                    "read_p95_s": 20.5,
                    "ack_p50_s": 2.1,
                    "ack_p95_s": 118.4,
                    "levels": [
                        {
                            "urgency": "first",
                            "acknowledged": 6,
                            "waiting": 1,
                            "ack_p50_s": 1.2,
                            "ack_p95_s": 2.4,
                        }
                    ],
                },
                "agents": [],
            }
        }
    )
