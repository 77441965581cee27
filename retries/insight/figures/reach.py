"""Compute how long instructions take to be delivered, read, and followed, by agent."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from ledger.instruction_records.stats import Statistics, fetch_stats
from ledger.models import Project
from retries.insight.figures.stored import store
from retries.insight.ranges import RANGES

PANEL = "reach"
LEAST_INSTRUCTIONS = 20
MOST_AGENTS = 50
TIMES = ("delivery_p50_s", "delivery_p95_s", "read_p50_s", "read_p95_s", "ack_p50_s", "ack_p95_s")


def compute_reach(project: Project, *, now: datetime) -> None:
    for days in RANGES:
        whole, by_agent = fetch_stats(project.pk, since=now - timedelta(days=days))
        busiest = sorted(by_agent.items(), key=lambda item: (-item[1].sent, item[1].name))
        data = {
            "least": LEAST_INSTRUCTIONS,
            "whole": describe(whole),
            "rows": [{"id": str(id), **describe(each)} for id, each in busiest[:MOST_AGENTS]],
        }
        store(project, PANEL, days, data, now=now)


def describe(figures: Statistics) -> dict[str, Any]:
    values = asdict(figures)
    return {name: values[name] for name in ("name", "sent", *TIMES)}
