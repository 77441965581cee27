"""Attempts as they are read over HTTP, with their failures."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response
from ledger.api.tasks import find_task
from ledger.models import Attempt
from ledger.schemas.shared import page_of
from retries.api.inputs.diagnosis_filters import filter_attempts
from retries.insight.prediction_reads import find_attempt_predictions
from retries.schemas.diagnoses import AttemptQuery, DiagnosedAttemptOut, diagnosed_attempt_out

router = Router(tags=["attempts"])


@router.get(
    "/tasks/{id}/attempts", auth=PrincipalAuth("tasks:read"), response=page_of(DiagnosedAttemptOut)
)
def tasks_list_attempts(
    request: PrincipalRequest, id: UUID, query: Query[AttemptQuery]
) -> HttpResponse:
    """List a task's attempts with their failures, newest first."""
    find_task(request, id)
    rows = Attempt.objects.filter(task_id=id).select_related("failure__grouped")
    return list_response(filter_attempts(rows, query), query, write_attempts, task=id)


def write_attempts(rows: list[Attempt]) -> Iterator[dict[str, Any]]:
    chances = find_attempt_predictions(row.pk for row in rows)
    return (diagnosed_attempt_out(row, chances.get(row.pk)) for row in rows)


@router.get("/attempts/{id}", auth=PrincipalAuth("tasks:read"), response=DiagnosedAttemptOut)
def attempts_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get an attempt with its failure and the decision that followed."""
    rows = Attempt.objects.visible_to(request.auth).select_related("failure__grouped")
    attempt = find_visible(rows, "attempt", id)
    return json_response(diagnosed_attempt_out(attempt, find_attempt_predictions([id]).get(id)))
