"""Handle the actions on one task: retry now, unblock, skip, abort."""

from uuid import UUID

from django.http import HttpResponse
from django.views.decorators.http import require_POST

from dashboard.actions import act_on, by_slug
from dashboard.frame.access import operators_only
from dashboard.frame.rendering import HtmxRequest
from retries.verbs import tasks

VERBS = by_slug(tasks.PAGE)


@require_POST
@operators_only
def act(request: HtmxRequest, task_id: UUID, verb: str) -> HttpResponse:
    """Run an action on a task, then redirect to it with a message."""
    return act_on(request, task_id, verb, verbs=VERBS, page="task")
