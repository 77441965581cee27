"""How a plan's tasks fared: its retry summary, at its end and any time before."""

from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard import live_updates, rendering
from dashboard.access import operators_only
from dashboard.badges import Badge, task_badge
from dashboard.navigation import read_scope
from dashboard.plans import queries
from dashboard.rendering import HtmxRequest
from ledger.models import Task
from retries.renderings import plan_summary, state_queries
from retries.renderings.plan_summary import Summary, TaskSummary

CRUMB = {"label": "Plans", "url": reverse_lazy("dashboard:plans")}


@dataclass(frozen=True, slots=True)
class Metric:
    """A line of the figures."""

    name: str
    number: int
    percent: int | None = None


@require_GET
@operators_only
def detail(request: HtmxRequest, plan: str) -> HttpResponse:
    """The summary of the plan of that id or ref."""
    now, scope = timezone.now(), read_scope(request)
    row = queries.known_as(plan, scope.project)
    if row is None:
        raise Http404(f"There is no plan {plan[:129]}.")
    key = live_updates.read_live_key(now=now, project=row.project, of=Task)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    summary = state_queries.build_summary(row)
    context = {
        "live_key": key,
        "now": now,
        "title": f"{row.ref} · Retry summary",
        "heading": "Retry summary",
        "crumbs": [CRUMB, {"label": row.ref, "url": reverse("dashboard:plan", args=[row.pk])}],
        "plan": row,
        "summary": summary,
        "metrics": metrics(summary),
        "lines": [(task, badge(task)) for task in summary.tasks],
        "markdown": plan_summary.render_markdown(summary),
    }
    return rendering.respond_with(
        request, "plans/summary.html", "plans/_summary.html", context, scope=scope, current="plans"
    )


def metrics(summary: Summary) -> list[Metric]:
    """The figures under the names that the Markdown has for them."""
    return [
        Metric("Total tasks", summary.total),
        Metric("First-attempt success", summary.first, summary.percent(summary.first)),
        Metric("Retried tasks", summary.retried, summary.percent(summary.retried)),
        Metric("Retry success", summary.retry_success),
        Metric("Escalations", summary.escalations),
        Metric("Skipped", summary.skipped),
    ]


def badge(line: TaskSummary) -> Badge:
    """The state's look with the result's words."""
    look = task_badge(line.state)
    return Badge(line.result, look.icon, look.css)
