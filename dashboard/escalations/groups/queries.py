"""Read the escalations of one failure pattern, for one answer to all of them."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery

from dashboard.escalations.inbox.filters import InboxQuery
from dashboard.escalations.inbox.selection import LAST_FAILURE, WAITING, select_inbox
from dashboard.lists.shared_queries import CountOf, title_of
from dashboard.question_lines import SINGLE
from ledger.models import Agent, Attempt, Failure, Need, Project, Task
from ledger.states import FINAL, TaskState
from retries.models import Escalation, FailurePattern, Grouped

MOST = 500  # escalations that one form answers

LAST_GROUPED = Grouped.objects.filter(failure__task=OuterRef("task")).order_by("-failure")


def select_group(
    pattern: FailurePattern, query: InboxQuery, project: Project | None, *, now: Any, viewer: User
) -> QuerySet[Escalation]:
    """Return a filter's open escalations whose last failure has this pattern."""
    rows = select_inbox(query, project or pattern.project, now=now, viewer=viewer)
    return (
        rows.exclude(reason__in=SINGLE)
        .annotate(last_pattern=Subquery(LAST_GROUPED.values("pattern")[:1]))
        .filter(last_pattern=pattern.pk)
    )


def list_group(rows: QuerySet[Escalation]) -> list[Any]:
    # The escalations with the most waiting tasks come first.
    found: QuerySet[Any] = rows.select_related("agent__breaker", "assignee", "task__plan").annotate(
        title=title_of("task__"),
        failure_type=Subquery(LAST_FAILURE.values("type")[:1]),
        failure_id=Subquery(LAST_FAILURE.values("id")[:1]),
        signature=Subquery(LAST_GROUPED.values("signature")[:1]),
        waiting=CountOf(WAITING.order_by().values("pk")),
    )
    heavy = ("fix", "sealed", "note", "question", "choices", "response_schema", "client_state")
    tasks = ("task__payload", "task__result", "task__error", "task__plan__source")
    return list(found.defer(*heavy, *tasks).order_by("-waiting", "id")[:MOST])


def fetch_failures(ids: Iterable[UUID]) -> dict[UUID, Failure]:
    return Failure.objects.select_related("grouped").in_bulk(list(ids))


def count_waiting(task_ids: list[UUID]) -> int:
    rows = Need.objects.filter(need__in=task_ids).exclude(task__state__in=FINAL)
    return rows.order_by().values("task").distinct().count()


def list_agents(ids: set[UUID]) -> dict[UUID, Any]:
    """Return agents by id, each with the number of tasks `queued` for it, and whether it `runs`."""
    queued = Task.objects.filter(agent=OuterRef("pk"), state=TaskState.QUEUED).order_by()
    rows = Agent.objects.filter(pk__in=ids).select_related("breaker")
    runs = Exists(Attempt.objects.filter(agent=OuterRef("pk"), outcome=None))
    found = rows.annotate(queued=CountOf(queued.values("pk")[:1000]), label=F("name"), runs=runs)
    return {agent.pk: agent for agent in found.order_by("name")}


def find_pattern(id: UUID, project: Project | None) -> FailurePattern | None:
    rows = FailurePattern.objects.select_related("project").filter(pk=id)
    return rows.filter(Q(project=project) if project else Q()).first()
