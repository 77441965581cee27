"""The last day's urgencies and times to acknowledge, above the list of instructions."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from dashboard.frame.rendering import HtmxRequest
from dashboard.instructions import latency_chart, queries
from dashboard.instructions.latency_chart import Bar, PercentileLine
from dashboard.lists.query_box import as_id
from dashboard.lists.shared_queries import read_figures
from dashboard.wording.formatting import duration
from ledger.instruction_records.stats import Statistics
from ledger.models import Project

AGENTS_TO_CHOOSE = 3


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """An agent whose times the chart can show."""

    id: str
    name: str
    current: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """The last day's urgencies and times to acknowledge."""

    whole: Statistics
    most_given_up: Statistics | None
    defaults: dict[str, Any]
    times: Statistics
    choices: list[AgentChoice]
    bars: list[Bar]
    reminded: int
    lines: list[PercentileLine]


def read_day(request: HtmxRequest, project: Project | None, *, now: datetime) -> Figures:
    whole, by_agent = read_figures(project, now=now)
    busiest = sorted(by_agent.items(), key=lambda item: -item[1].sent)
    wanted = as_id(request.GET.get("of", ""))
    agent_id = wanted if wanted in by_agent else None
    shown = [agent for agent, _ in busiest[:AGENTS_TO_CHOOSE]]
    if agent_id and agent_id not in shown:
        shown[-1] = agent_id
    times = by_agent[agent_id] if agent_id else whole
    bars = latency_chart.latency_bars(queries.count_latencies(project, agent_id=agent_id, now=now))
    return Figures(
        whole=whole,
        most_given_up=most_given_up(by_agent.values()),
        defaults=settings.TENFOUR,
        times=times,
        choices=[AgentChoice(str(id), by_agent[id].name, id == agent_id) for id in shown],
        bars=bars,
        reminded=sum(bar.reminded for bar in bars),
        lines=latency_chart.percentile_lines(
            times.ack_p50_s, times.ack_p95_s, labels=percentile_labels(times)
        ),
    )


def most_given_up(by_agent: Iterable[Statistics]) -> Statistics | None:
    worst = max(by_agent, key=lambda one: one.failed, default=None)
    return worst if worst and worst.failed else None


def percentile_labels(times: Statistics) -> tuple[str, str]:
    p50, p95 = duration(times.ack_p50_s or 0), duration(times.ack_p95_s or 0)
    return f"half within {p50}", f"95% within {p95}"
