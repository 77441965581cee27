"""The page of one agent."""

from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.actions import find_asked
from dashboard.activity import queries as activity_queries
from dashboard.agents import holding, queries
from dashboard.agents.listing import AGENTS
from dashboard.agents.proofs import count_proofs
from dashboard.agents.rates import DAY, Rates, read_rates
from dashboard.agents.rows import build_row
from dashboard.frame.access import PAGES
from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import PageContext, Visit, compose_page, live_page
from dashboard.lists.shared_queries import list_times, read_figures
from dashboard.question_lines import list_oldest_questions, read_causes
from ledger.authorization.permissions import may

EVENTS_SHOWN = 12
QUESTIONS_SHOWN = 6
LONG = timedelta(hours=1)


@live_page("agents/detail.html", "agents/_agent.html", current="agents")
def detail(visit: Visit, agent_id: UUID) -> PageContext | HttpResponse:
    agent = require_row(queries.find_agent(agent_id, now=visit.now), "agent", agent_id)
    if agent.is_pool:
        return redirect(reverse("dashboard:pool", args=[agent_id]) + visit.scope.query)
    _, figures = read_figures(visit.scope.project, now=visit.now)
    row = build_row(agent, figures, now=visit.now)
    rates = read_rates(None, DAY, now=visit.now, agent_id=agent_id).get(agent_id) or Rates(DAY)
    causes = read_causes(None, now=visit.now, agent_id=agent_id)
    may_see_tokens = may(visit.request.user, PAGES["tokens"].permission, agent.project_id)
    return compose_page(
        title=f"{agent.name} · Agent",
        heading=agent.name,
        crumbs=[AGENTS.crumb],
        list_steps=AGENTS.find_steps(visit, agent_id, with_shift=True),
        agent=agent,
        row=row,
        rates=rates,
        utilization=measure_utilization(rates, agent.concurrency),
        running=holding.list_running(agent) if agent.tasks_running else [],
        questions=list_oldest_questions(
            None, now=visit.now, most=QUESTIONS_SHOWN, agent_id=agent_id
        ),
        # of several escalations that one answer can settle
        same_cause=next((each for each in causes.same if each.answerable > 1), None),
        long_ago=visit.now - LONG,  # escalations opened earlier are marked
        patterns=holding.count_patterns(agent, causes.counts, now=visit.now),
        targets=queries.list_targets(agent),
        times=list_times(agent),
        proofs=count_proofs(agent),
        whole=row.figures,
        most_given_up=row.figures if row.figures.failed else None,
        defaults=settings.TENFOUR,
        events=activity_queries.list_latest(None, agent=agent, most=EVENTS_SHOWN),
        limits=queries.list_limits(agent, now=visit.now),
        # None: the person may not see tokens
        tokens=queries.list_tokens(agent) if may_see_tokens else None,
        # the action whose question the page shows to a browser without scripts
        asked=find_asked(visit.request, row.actions),
    )


def measure_utilization(rates: Rates, concurrency: int | None) -> int:
    """Return the share of the time that attempts took, in percent of what the slots allow."""
    most = rates.range.length.total_seconds() * (concurrency or 1)
    return min(100, round(100 * rates.now.busy_s / most))
