"""Export the agents of a list: exactly those that its filter finds, in its order."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpResponseBase

from dashboard.agents import filters, queries
from dashboard.agents.fleet import Group, choose_agents, read_agent_sort, sort_agents, sum_waiting
from dashboard.agents.rates import DAY, RANGES, Rates, read_rates
from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.export import export_records
from dashboard.lists.nearest_names import list_problems
from ledger.database import server_time

COLUMNS = (
    *("id", "project", "name", "state", "breaker", "paused", "concurrency", "waiting"),
    *("attempts", "tasks_done", "error_rate", "last_seen_at", "created_at"),
)


def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the list as CSV or JSON lines, with the figures of the range that it shows."""
    now, project = server_time.now(), requested_project(request)
    query = filters.parse(request.GET.get("q", ""))
    span = RANGES.get(request.GET.get("range", ""), DAY)
    chosen = choose_agents(queries.list_agents(project, now), query, now=now)
    rates = read_rates(project, span, now=now)
    sort = read_agent_sort(request.GET.get("sort", ""))
    sort_agents(chosen, rates, queries.read_sort_runs(chosen, sort), sort=sort, range=span)
    records = (list(cells_of(*each, rates.get(each[0].pk) or Rates(span))) for each in chosen)
    problems = list_problems(query, "agents", project)
    return export_records(records, COLUMNS, form=form, name="agents", problems=problems)


def cells_of(agent: Any, group: Group, rates: Rates) -> Iterator[Any]:
    yield from (agent.pk, agent.project.name, agent.name, group.key)
    yield agent.breaker.state if hasattr(agent, "breaker") else "closed"
    yield from (agent.paused, agent.concurrency, sum_waiting(agent))
    yield from (rates.now.attempts, rates.now.tasks_done, rates.now.error_rate)
    yield from (agent.last_seen_at, agent.created_at)
