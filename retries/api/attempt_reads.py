"""Attempts as they are read over HTTP, with their failures."""

from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, not_visible
from ledger.api.cursors import read_page
from ledger.api.responses import json_response, page_body
from ledger.api.tasks import find_task
from ledger.models import Attempt
from ledger.schemas.shared import page_of
from retries.api.inputs.diagnosis_filters import filter_attempts
from retries.insight.prediction_reads import find_attempt_predictions
from retries.schemas.diagnoses import AttemptQuery, DiagnosedAttemptOut, diagnosed_attempt_out

router = Router(tags=["attempts"])


@router.get(
    "/tasks/{id}/attempts",
    auth=PrincipalAuth("tasks:read"),
    response=page_of(DiagnosedAttemptOut),
)
def tasks_list_attempts(
    request: PrincipalRequest, id: UUID, query: Query[AttemptQuery]
) -> HttpResponse:
    """List a task's attempts with their failures, newest first."""
    find_task(request, id)
    rows = Attempt.objects.filter(task_id=id).select_related("failure__grouped")
    filters = {"task": id} | query.model_dump(exclude={"limit", "cursor"})
    page = read_page(
        filter_attempts(rows, query), limit=query.limit, cursor=query.cursor, filters=filters
    )
    chances = find_attempt_predictions(row.pk for row in page.rows)
    data = (diagnosed_attempt_out(row, chances.get(row.pk)) for row in page.rows)
    return json_response(page_body(page, data))


@router.get("/attempts/{id}", auth=PrincipalAuth("tasks:read"), response=DiagnosedAttemptOut)
def attempts_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get an attempt with its failure and the decision that followed."""
    rows = Attempt.objects.visible_to(request.auth).select_related("failure__grouped")
    attempt = rows.filter(pk=id).first()
    if attempt is None:
        raise not_visible("attempt", id)
    return json_response(diagnosed_attempt_out(attempt, find_attempt_predictions([id]).get(id)))
