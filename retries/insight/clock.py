"""Compute the figures of the Insight page, at the clock's interval."""

from datetime import datetime
from typing import Any

from ledger.models import Project
from retries.insight.experiments import count_experiments
from retries.insight.figures.answers import compute_answers
from retries.insight.figures.costs import compute_cost
from retries.insight.figures.days import compute_days
from retries.insight.figures.idle_agents import compute_idle
from retries.insight.figures.outcomes import compute_outcomes
from retries.insight.figures.permission_waits import compute_permission_waits
from retries.insight.figures.policies import compute_policies
from retries.insight.figures.predictions import compute_predictions
from retries.insight.figures.reach import compute_reach
from retries.insight.figures.targets import compute_targets
from retries.insight.figures.times import compute_times


def compute_figures(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    projects = [project] if project else list(Project.objects.order_by("id"))
    experiments = tasks = 0
    for each in projects:
        experiments += count_experiments(each, now=now)
        tasks += compute_predictions(each, now=now)
        compute_policies(each, now=now)
        compute_outcomes(each, now=now)
        compute_answers(each, now=now)
        compute_targets(each, now=now)
        compute_times(each, now=now)
        compute_reach(each, now=now)
        compute_permission_waits(each, now=now)
        compute_idle(each, now=now)
        compute_cost(each, now=now)
        compute_days(each, now=now)
    return {"projects": len(projects), "experiments": experiments, "tasks": tasks}
