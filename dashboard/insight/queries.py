"""Read the figures of the Insight page, which the clock has computed: one query per panel."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Q

from dashboard.insight.ranges import ANY_RANGE
from ledger.models import Agent, Project, Task
from ledger.states import TaskState
from retries.models import ContextExperiment, InsightFigure

UNDER_WAY = (TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRY)
EXPERIMENTS_SHOWN = 12
AGENTS_SHOWN = 200


def list_experiments(project: Project | None) -> list[ContextExperiment]:
    rows = ContextExperiment.objects.select_related("project")
    if project:
        rows = rows.filter(project=project)
    newest = list(rows.order_by("-started_at", "-pk")[:EXPERIMENTS_SHOWN])
    # Running experiments come first, then the newest ones that have ended.
    return sorted(newest, key=lambda each: each.ended_at is not None)


def list_agents(project: Project | None) -> list[Agent]:
    rows = Agent.objects.order_by("name", "pk").only("id", "name")
    return list((rows.filter(project=project) if project else rows)[:AGENTS_SHOWN])


def list_figures(project: Project | None, *, days: int) -> list[InsightFigure]:
    rows = InsightFigure.objects.select_related("project")
    rows = rows.filter(Q(days=days) | Q(panel__in=ANY_RANGE))
    rows = rows.order_by("project__name", "panel", "days")
    return list(rows.filter(project=project) if project else rows)


def find_tasks(ids: Sequence[UUID]) -> dict[UUID, Any]:
    """Return the tasks that still have attempts left, by id."""
    rows = Task.objects.filter(pk__in=ids, state__in=UNDER_WAY).select_related("agent")
    return {row.pk: row for row in rows.defer("payload", "result", "error")}
