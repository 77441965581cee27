"""Serve a plan's retry summary, both after its end and before."""

from dataclasses import dataclass

from django.urls import reverse

from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import Crumb, PageContext, Visit, compose_page, live_page
from dashboard.plans.listing import PLANS
from dashboard.plans.queries import find_plan_by_name
from dashboard.plans.views import REF_LENGTH
from dashboard.wording import badges
from dashboard.wording.badges import Badge, task_badge
from ledger.models import Task
from retries.renderings import plan_summary, state_queries
from retries.renderings.plan_summary import Summary, TaskSummary


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    number: int
    percent: int | None = None


@live_page("plans/summary.html", "plans/_summary.html", current="plans", of=Task)
def detail(visit: Visit, plan: str) -> PageContext:
    row = require_row(find_plan_by_name(plan, visit.scope.project), "plan", plan[:REF_LENGTH])
    summary = state_queries.build_summary(row)
    return compose_page(
        title=f"{row.ref} · Retry summary",
        heading="Retry summary",
        crumbs=[PLANS.crumb, Crumb(row.ref, reverse("dashboard:plan", args=[row.pk]))],
        plan=row,
        summary=summary,
        metrics=list_metrics(summary),
        results=[(task, result_badge(task)) for task in summary.tasks],
        markdown=plan_summary.render_markdown(summary),
    )


def list_metrics(summary: Summary) -> list[Metric]:
    # The names are those of the summary's Markdown.
    return [
        Metric("Total tasks", summary.total),
        Metric("First-attempt success", summary.first, summary.percent(summary.first)),
        Metric("Retried tasks", summary.retried, summary.percent(summary.retried)),
        Metric("Retry success", summary.retry_success),
        Metric("Escalations", summary.escalations),
        Metric("Skipped", summary.skipped),
        *(Metric(badges.proof_badge(name).label, n) for name, n in summary.proofs.items()),
    ]


def result_badge(task: TaskSummary) -> Badge:
    badge = task_badge(task.state)
    return Badge(task.result, badge.icon, badge.css)
