"""The Insight page: what the history says about contexts, policies and tasks under way."""

from dataclasses import dataclass
from datetime import datetime

from django.http import HttpResponse

from dashboard.charts.ack_targets import TargetRow, list_targets
from dashboard.frame import rendering
from dashboard.frame.rendering import HtmxRequest, PageContext
from dashboard.insight import queries
from dashboard.insight.answers import AnswerRow, find_typical, list_answers
from dashboard.insight.combined import RowGroup
from dashboard.insight.costs import CostFigures, combine_costs
from dashboard.insight.experiments import ExperimentRow, find_scale
from dashboard.insight.idle import IdleFigures, combine_idle
from dashboard.insight.outcomes import list_outcomes, list_rules
from dashboard.insight.policies import PolicyRow, list_policies
from dashboard.insight.predictions import PredictionFigures, combine_figures, list_ids
from dashboard.insight.ranges import DEFAULT, RANGES, list_ranges
from dashboard.insight.reach import ReachRow, list_reach
from ledger.models import Agent, Project
from retries.insight.experiments import (
    LEAST_ATTEMPTS,
    POINTS,
    REASON_LENGTH,
    list_needed,
    measure_difference,
)
from retries.states import ContextElement

# the shares of the tasks, in percent, that the form offers
SHARES = (10, 20, 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightPage(PageContext):
    computed_at: datetime | None
    experiments: list[ExperimentRow]
    elements: list[tuple[str, str]]
    free: list[Project]  # the projects without a running experiment
    reason_length: int = REASON_LENGTH
    shares: list[tuple[int, list[int]]]  # each with the attempts that show each difference
    points: tuple[int, ...] = POINTS
    typical: list[AnswerRow]
    answers: list[AnswerRow]
    targets: list[TargetRow]
    agents: list[Agent]
    changed: TargetRow | None  # the target that the form changes
    reach: list[ReachRow]
    idle: IdleFigures
    costs: CostFigures | None
    range: str
    ranges: list[tuple[str | None, str, bool]]
    outcomes: list[RowGroup]
    rules: RowGroup
    policies: list[PolicyRow]
    predictions: PredictionFigures


def index(request: HtmxRequest) -> HttpResponse:
    visit = rendering.begin_visit(request, current="insight")
    project, projects = visit.scope.project, visit.scope.projects
    experiments = list_experiments(project)
    running = {each.row.project_id for each in experiments if each.is_running}
    days, label = RANGES.get(request.GET.get("range", ""), RANGES[DEFAULT])
    figures = queries.list_figures(project, days=days)
    answered = [(each.project.name, each.data) for each in figures if each.panel == "answers"]
    predicted = [each.data for each in figures if each.panel == "predictions"]
    targets = list_targets([each.data for each in figures if each.panel == "targets"])
    wanted = request.GET.get("target", "")
    page = InsightPage(
        title="Insight",
        heading="Insight",
        computed_at=min((each.computed_at for each in figures), default=None),
        experiments=experiments,
        elements=[(value, str(label)) for value, label in ContextElement.choices],
        free=[each for each in ([project] if project else projects) if each.pk not in running],
        shares=[(share, [*list_needed(share).values()]) for share in SHARES],
        typical=find_typical(answered),
        answers=list_answers(answered),
        targets=targets,
        changed=next((each for each in targets if each.data["id"] == wanted), None),
        agents=queries.list_agents(project),
        reach=list_reach(
            [(each.project.name, each.data) for each in figures if each.panel == "reach"]
        ),
        idle=combine_idle([each.data for each in figures if each.panel == "idle"]),
        costs=combine_costs([each.data for each in figures if each.panel == "cost"]),
        range=label,
        ranges=list_ranges(days),
        outcomes=list_outcomes([each.data for each in figures if each.panel == "outcomes"]),
        rules=list_rules([each.data for each in figures if each.panel == "rules"]),
        policies=list_policies(
            [(each.project.name, each.data) for each in figures if each.panel == "policies"]
        ),
        predictions=combine_figures(predicted, queries.find_tasks(list_ids(predicted))),
    )
    return rendering.respond(visit, "insight/index.html", "insight/_insight.html", page)


def list_experiments(project: Project | None) -> list[ExperimentRow]:
    rows = queries.list_experiments(project)
    found = [measure_difference(each) for each in rows]
    scale = find_scale([each for each in found if each])
    return [
        ExperimentRow(row, each, scale, LEAST_ATTEMPTS)
        for row, each in zip(rows, found, strict=True)
    ]
