"""Describe the agents that can take over tasks, the healthiest first."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dashboard.agents import queries
from dashboard.agents.fleet import LONG_AGO, MOST_COUNTED, is_capped, sum_waiting
from dashboard.agents.presence import trip_badge
from dashboard.lists.shared_queries import silent_after
from dashboard.wording.formatting import rough_duration
from ledger.models import Project


@dataclass(frozen=True, slots=True)
class Target:
    """An agent, or those with its name in several projects."""

    name: str
    agents: dict[UUID, UUID]  # its ids, with their projects
    facts: str
    is_held: bool  # it gets no work now


def list_targets(
    project_ids: Collection[UUID], *, now: datetime, besides: UUID | None = None
) -> list[Target]:
    """Return the agents of these projects, in one statement for each project and one for all."""
    found_in = (queries.list_agents(Project(pk=id), now) for id in project_ids)
    rows = [row for found in found_in for row in found if row.pk != besides]
    runs = queries.read_runs(rows) if rows else {}
    running = {row.pk: runs[row.pk].count if row.pk in runs else 0 for row in rows}
    by_name: dict[str, list[Any]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: rank(row, running[row.pk], now=now)):
        by_name[row.name].append(row)
    found = [
        Target(
            name,
            {row.pk: row.project_id for row in same},
            "; ".join(
                (f"{row.project.name}: " if len(same) > 1 else "")
                + describe(row, running[row.pk], now=now)
                for row in same
            ),
            any(describe_hold(row, running[row.pk], now=now) for row in same),
        )
        for name, same in by_name.items()
    ]
    return sorted(found, key=lambda target: target.is_held)


def rank(agent: Any, running: int, *, now: datetime) -> tuple[bool, bool, int, float]:
    """Return what sorts agents: those with a free slot first, then by load, then by last call."""
    return (
        bool(describe_hold(agent, running, now=now)),
        agent.concurrency is not None and running >= agent.concurrency,
        sum_waiting(agent) + running,
        -(agent.last_seen_at or LONG_AGO).timestamp(),
    )


def describe(agent: Any, running: int, *, now: datetime) -> str:
    """Return such as "seen 4 s ago · 3 waiting · 1 of 4 running"."""
    waiting = f"{sum_waiting(agent):,}{'+' if is_capped(agent, MOST_COUNTED) else ''} waiting"
    limit = f" of {agent.concurrency:,}" if agent.concurrency else ""
    seen = f"seen {describe_age(agent, now=now)} ago" if agent.last_seen_at else ""
    first = describe_hold(agent, running, now=now) or seen
    return f"{first} · {waiting} · {running:,}{limit} running"


def describe_hold(agent: Any, running: int, *, now: datetime) -> str:
    """Return why an agent gets no work now, or an empty text.

    An agent may ask for the next task only when its running attempt has ended.
    """
    badge = trip_badge(agent)
    reasons = [badge.label.lower()] if badge else []
    reasons += ["paused"] if agent.paused else []
    reasons += ["at a limit"] if agent.waits_until and agent.waits_until > now else []
    if agent.last_seen_at is None:
        reasons += ["never checked in"]
    elif not running and now - agent.last_seen_at > silent_after():
        reasons += [f"silent for {describe_age(agent, now=now)}"]
    return ", ".join(reasons)


def describe_age(agent: Any, *, now: datetime) -> str:
    return rough_duration((now - agent.last_seen_at).total_seconds())
