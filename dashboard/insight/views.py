"""The Insight page: what the history says about contexts, policies and tasks under way."""

from collections.abc import Iterator
from datetime import UTC
from typing import Any

from django.http import HttpResponse, HttpResponseBase

from dashboard.charts.targets import MEASURES, list_subjects, list_targets
from dashboard.frame import rendering
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, compose_page
from dashboard.insight import queries
from dashboard.insight.answers import find_typical, list_answers, list_times
from dashboard.insight.combined import list_time_groups
from dashboard.insight.costs import combine_costs
from dashboard.insight.experiments import ExperimentRow, find_scale
from dashboard.insight.idle import combine_idle
from dashboard.insight.outcomes import list_outcomes, list_rules
from dashboard.insight.periods import compare_last, list_periods, list_units
from dashboard.insight.permissions import combine_waits
from dashboard.insight.policies import list_policies
from dashboard.insight.predictions import combine_figures, list_ids
from dashboard.insight.ranges import DEFAULT, RANGES, list_ranges
from dashboard.insight.reach import list_reach
from dashboard.lists.export import export_records
from ledger.database import server_time
from ledger.models import Project
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
# the panels of acknowledgments, and of tasks
TARGETS = ("targets", "task_targets")


def index(request: HtmxRequest) -> HttpResponse:
    visit = rendering.begin_visit(request, current="insight")
    project, projects = visit.scope.project, visit.scope.projects
    experiments = list_experiments(project)
    running = {each.row.project_id for each in experiments if each.is_running}
    days, label = RANGES.get(request.GET.get("range", ""), RANGES[DEFAULT])
    figures = queries.list_figures(project, days=days)
    answered = [(each.project.name, each.data) for each in figures if each.panel == "answers"]
    predicted = [each.data for each in figures if each.panel == "predictions"]
    targets = list_targets([each.data for each in figures if each.panel in TARGETS])
    wanted = (request.GET.get("target", ""), request.GET.get("measure", "ack"))
    unit = "month" if request.GET.get("by") == "month" else "week"
    daily = [each.data for each in figures if each.panel == "days"]
    periods = list_periods(daily, unit=unit, today=visit.now.astimezone(UTC).date())
    page = compose_page(
        title="Insight",
        computed_at=min((each.computed_at for each in figures), default=None),
        experiments=experiments,
        elements=[(value, str(label)) for value, label in ContextElement.choices],
        # the projects without a running experiment
        free=[each for each in ([project] if project else projects) if each.pk not in running],
        # each with the attempts that show each difference
        shares=[(share, [*list_needed(share).values()]) for share in SHARES],
        typical=find_typical(answered),
        answers=list_answers(answered),
        # by person and by policy
        answer_times=[(kind, list_times(answered, kind)) for kind in ("person", "policy")],
        targets=targets,
        # the target that the form changes
        changed=next((each for each in targets if (each.subject, each.measure) == wanted), None),
        subjects=list_subjects(
            queries.list_agents(project),
            [(each.project, each.data) for each in figures if each.panel == "times"],
            targets,
            shows_project=project is None and len(projects) > 1,
        ),
        measures=[(value, label) for value, (label, *_) in MEASURES.items()],
        times=list_time_groups([each.data for each in figures if each.panel == "times"]),
        reach=list_reach(
            [(each.project.name, each.data) for each in figures if each.panel == "reach"]
        ),
        permissions=combine_waits(
            [(each.project.name, each.data) for each in figures if each.panel == "permissions"]
        ),
        idle=combine_idle([each.data for each in figures if each.panel == "idle"]),
        costs=combine_costs([each.data for each in figures if each.panel == "cost"]),
        units=list_units(unit),
        periods=periods if daily else [],
        comparison=compare_last(periods),
        range=label,
        ranges=list_ranges(days),
        outcomes=list_outcomes([each.data for each in figures if each.panel == "outcomes"]),
        rules=list_rules([each.data for each in figures if each.panel == "rules"]),
        policies=list_policies(
            [(each.project.name, each.data) for each in figures if each.panel == "policies"]
        ),
        predictions=combine_figures(predicted, queries.find_tasks(list_ids(predicted))),
        reason_length=REASON_LENGTH,
        points=POINTS,
    )
    return rendering.respond(visit, "insight/index.html", "insight/_insight.html", page)


def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    days, _ = RANGES.get(request.GET.get("range", ""), RANGES[DEFAULT])
    records = (
        (each.project.name, each.panel, each.days, each.computed_at, *value)
        for each in queries.list_figures(read_scope(request).project, days=days)
        for value in list_values(each.data)
    )
    names = ("project", "panel", "days", "computed_at", "figure", "value")
    return export_records(records, names, form=form, name=f"insight-{server_time.now():%Y-%m-%d}")


def list_values(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield each number of a panel's figures with its path, such as "agent / coder / cost"."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from list_values(value, (*path, key))
    elif isinstance(data, list):
        for at, value in enumerate(data, 1):
            name = value.get("name") or value.get("id") if isinstance(value, dict) else ""
            yield from list_values(value, (*path, name or str(at)))
    elif isinstance(data, int | float) and not isinstance(data, bool):
        yield " / ".join(each for each in path if each != "rows"), data


def list_experiments(project: Project | None) -> list[ExperimentRow]:
    rows = queries.list_experiments(project)
    found = [measure_difference(each) for each in rows]
    scale = find_scale([each for each in found if each])
    return [
        ExperimentRow(row, each, scale, LEAST_ATTEMPTS)
        for row, each in zip(rows, found, strict=True)
    ]
