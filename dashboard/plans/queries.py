"""Find single plans."""

import re
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import F, JSONField, QuerySet
from django.db.models.expressions import RawSQL
from django.urls import reverse

from dashboard.lists.compiled_queries import compiled
from dashboard.lists.query_box import as_id, quote_words
from dashboard.lists.shared_queries import figure_of, of_project
from ledger.models import Plan, Project, Task
from retries.insight.forecasts.stored import OF_PLAN


def find_plan(plan_id: UUID) -> Any:
    return next(iter(fetch_plan(plan_id)), None)


@compiled
def fetch_plan(plan_id: UUID) -> QuerySet[Any]:
    found = Plan.objects.filter(pk=plan_id).select_related("project").defer("source")
    forecast = RawSQL(OF_PLAN, (), output_field=JSONField())  # noqa: S611 - a constant
    times = figure_of("times", "$.plan.rows[*]")
    return found.annotate(
        file_lines=F("source__lines"),
        forecast=forecast,
        time_figure=times,
        task_target_figure=figure_of("task_targets", "$.rows[*]"),
    )


def find_plan_by_name(name: str, project: Project | None) -> Plan | None:
    plans = of_project(Plan.objects.select_related("project"), project).order_by("-id")
    id = as_id(name)
    return plans.filter(pk=id).first() if id else plans.filter(ref=name).first()


REF = re.compile(r"[A-Za-z0-9.]+-[A-Za-z0-9.]+(?P<task>:\S+)?")


def find_url(text: str, project: Project | None) -> str:
    """Return the URL of the plan or current task with this ref, or an empty string."""
    match = REF.fullmatch(text)
    if match is None:
        return ""
    if match["task"]:
        tasks = of_project(Task.objects.current().filter(ref=text), project)
        return url_of(tasks.order_by("project", "-run").distinct("project"), text, "task")
    plans = of_project(Plan.objects.filter(ref=text), project)
    return url_of(plans.order_by("-id"), text, "plan")


def url_of(rows: QuerySet[Any], text: str, page: str) -> str:
    """Return the URL of the only row, or of the list that the text finds if there are more."""
    found = list(rows.values_list("pk", flat=True)[:2])
    # Several projects have one: the list shows all of them.
    if len(found) > 1:
        return f"{reverse(f'dashboard:{page}s')}?{urlencode({'q': quote_words(text)})}"
    return reverse(f"dashboard:{page}", args=found) if found else ""
