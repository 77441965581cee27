"""Serve Overview: what needs a person, who gets no work, and how the last day or month went."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils.text import capfirst

from dashboard.activity import queries as activity_queries
from dashboard.agents.fleet import is_capped, state_of, sum_waiting
from dashboard.agents.presence import COUNTED, TrippedAgents
from dashboard.agents.queries import annotate_agents, list_silent_agents, list_tripped_agents
from dashboard.agents.rates import DAY, read_rates
from dashboard.charts.markers import ChartMarkers, read_markers
from dashboard.frame.rendering import PageContext, Visit, compose_page, live_page
from dashboard.insight.idle import IdleFigures, combine_idle
from dashboard.overview import queries
from dashboard.overview.breaker_marks import read_breaker_marks
from dashboard.overview.figures import Tile, build_tiles
from dashboard.overview.first_step import read_first_step
from dashboard.overview.new_causes import list_new_causes
from dashboard.overview.outcome_chart import (
    INSTRUCTIONS,
    TASKS,
    BreakerMark,
    OutcomeChart,
    Tick,
    draw_outcomes,
    place_ticks,
)
from dashboard.overview.rising_patterns import RisingPattern, list_rising
from dashboard.overview.stopped_agents import describe_stopped
from dashboard.overview.trends import LAST_DAY, RANGES, Trend, TrendRange, read_trend
from dashboard.overview.unusual_agents import UnusualAgent, list_unusual
from dashboard.question_lines import Causes, list_oldest_questions, read_causes
from dashboard.sentences.tasks import breaker_reason
from dashboard.wording.badges import Badge, breaker_badge
from ledger.models import Agent, Project
from ledger.states import BreakerState
from retries import breaker

EVENTS_SHOWN = 12
QUESTIONS_SHOWN = 5  # the limit for each age
UNUSUAL_SHOWN = 8
IDLE_SHOWN = 5
AGES = (timedelta(days=7), timedelta(days=1))


@dataclass(frozen=True, slots=True)
class RangeLink:
    """A button for a range; its value is None for the default."""

    label: str
    value: str | None
    current: bool


@dataclass(frozen=True, slots=True)
class UnusualRow:
    """An unusual agent with its breaker, what it runs and what waits for it."""

    agent: Any
    found: UnusualAgent
    breaker: Badge
    running: int
    waiting: str


@dataclass(frozen=True, slots=True)
class History:
    """The figures of the chosen range, and what changed in the last day."""

    range: TrendRange
    tiles: list[Tile]
    charts: list[OutcomeChart]
    ticks: list[Tick]
    marks: list[BreakerMark]
    markers: ChartMarkers
    unusual: list[UnusualRow]
    more_unusual: int  # unusual agents without a row
    usual: int  # other agents that did something
    idle: IdleFigures | None  # None before the clock has computed any
    rising: list[RisingPattern]


@live_page("overview/index.html", "overview/_overview.html", current="home")
def index(visit: Visit) -> PageContext:
    project, now = visit.scope.project, visit.now
    range = RANGES.get(visit.request.GET.get("range", ""), LAST_DAY)
    new = list_new_causes(project, now=now)
    questions = list_oldest_questions(
        project, now=now, most=QUESTIONS_SHOWN, ages=[now - age for age in AGES], before=new.since
    )
    total = new.total + questions.total
    causes = read_causes(project, now=now) if total else None
    tripped = list_tripped_agents(project)
    history = read_history(project, range, causes, tripped, waiting=total, now=now)
    user: Any = visit.request.user
    hides_first_steps = not history and user.hides_first_steps
    first_step = None
    if not history and visit.scope.projects and not hides_first_steps:
        first_step = read_first_step(visit)
    return compose_page(
        title=page_title(total),
        heading="Overview",
        new=new,
        questions=questions,  # questions that wait longer
        total=total,
        causes=causes,
        stopped=describe_stopped(
            tripped, list_silent_agents(project, now=now), now=now, config=breaker.read_config()
        ),
        ranges=[
            RangeLink(each.label, None if each is LAST_DAY else each.key, each is range)
            for each in RANGES.values()
        ],
        events=activity_queries.list_latest(project, most=EVENTS_SHOWN, quiet=True)
        if history
        else [],
        history=history,  # None before the first task and instruction
        first_step=first_step,  # None after them
        hides_first_steps=hides_first_steps,
    )


def page_title(waiting: int) -> str:
    if not waiting:
        return "Overview"
    return f"{waiting:,} need{'s' if waiting == 1 else ''} an answer · Overview"


def read_history(
    project: Project | None,
    range: TrendRange,
    causes: Causes | None,
    tripped: TrippedAgents,
    *,
    waiting: int,
    now: datetime,
) -> History | None:
    trend = read_trend(project, range, now=now)
    if is_new(trend) and not queries.has_work(project):
        return None
    rates = read_rates(project, DAY, now=now)
    unusual = list_unusual(rates, describe_open_breakers(tripped))
    return History(
        range=range,
        tiles=build_tiles(trend, waiting=waiting),
        charts=[
            draw_outcomes(trend, "Tasks", TASKS, base=104),
            draw_outcomes(trend, "Instructions", INSTRUCTIONS, base=78),
        ],
        ticks=place_ticks(trend),
        marks=read_breaker_marks(project, range, trend.start, now=now),
        markers=read_markers(project, trend.start, trend.start + range.length),
        unusual=list_unusual_rows(unusual[:UNUSUAL_SHOWN], now=now),
        more_unusual=len(unusual[UNUSUAL_SHOWN:]),
        usual=len(rates.keys() - {each.id for each in unusual}),
        idle=read_idle(project, range) if trend.whole.attempts else None,
        rising=list_rising(project, causes.counts if causes else {}, now=now),
    )


def is_new(trend: Trend) -> bool:
    # So few events may be only the first instructions.
    return trend.whole.sent <= queries.FEW and not trend.whole.attempts


def describe_open_breakers(tripped: TrippedAgents) -> dict[UUID, str]:
    return {
        agent.pk: capfirst(breaker_reason({"reason": agent.breaker.reason}) or "opened manually")
        for agent in tripped.agents
        if state_of(agent) == BreakerState.OPEN
    }


def list_unusual_rows(found: list[UnusualAgent], *, now: datetime) -> list[UnusualRow]:
    if not found:
        return []
    rows = Agent.objects.defer("system_text").filter(pk__in=[each.id for each in found])
    agents = {agent.pk: agent for agent in annotate_agents(rows, now=now).order_by("id")}
    return [describe_unusual(agents[each.id], each) for each in found if each.id in agents]


def describe_unusual(agent: Any, found: UnusualAgent) -> UnusualRow:
    waiting = f"{sum_waiting(agent):,}{'+' if is_capped(agent, COUNTED) else ''}"
    return UnusualRow(agent, found, breaker_badge(state_of(agent)), agent.tasks_running, waiting)


def read_idle(project: Project | None, range: TrendRange) -> IdleFigures | None:
    figures = queries.list_idle_figures(project, days=range.length.days)
    idle = combine_idle(figures, most=IDLE_SHOWN)
    return idle if idle.rows else None
