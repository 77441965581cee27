"""Compute the figures of the Insight page, at the clock's interval."""

from datetime import datetime
from typing import Any

from ledger.models import Project
from retries.insight.answer_figures import compute_answers
from retries.insight.cost_figures import compute_cost
from retries.insight.experiments import count_experiments
from retries.insight.idle_figures import compute_idle
from retries.insight.outcome_figures import compute_outcomes
from retries.insight.policy_figures import compute_policies
from retries.insight.prediction_figures import compute_predictions
from retries.insight.reach_figures import compute_reach
from retries.insight.target_figures import compute_targets


def compute_figures(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Compute the figures of every project, or of one; return how much they rest on."""
    projects = [project] if project else list(Project.objects.order_by("id"))
    experiments = tasks = 0
    for each in projects:
        experiments += count_experiments(each, now=now)
        tasks += compute_predictions(each, now=now)
        compute_policies(each, now=now)
        compute_outcomes(each, now=now)
        compute_answers(each, now=now)
        compute_targets(each, now=now)
        compute_reach(each, now=now)
        compute_idle(each, now=now)
        compute_cost(each, now=now)
    return {"projects": len(projects), "experiments": experiments, "tasks": tasks}
