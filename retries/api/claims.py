"""Claims over HTTP: an agent takes its next tasks."""

from typing import Any
from uuid import UUID

from django.db.models import Q
from django.http import HttpResponse
from ninja import Body, Router

from ledger.api.auth import BearerAuth, BearerRequest
from ledger.database import server_time
from ledger.database.sql import Row
from ledger.errors import NotFound
from ledger.models import Token
from ledger.tasks import fetch_task
from retries import claims
from retries.api.text_responses import TEXT, XML, claim_response, text_content
from retries.claims import ClaimResult
from retries.retry_context.history import EMPTY_HISTORY, load_histories, may_have_history
from retries.retry_context.storing import store_contexts
from retries.schemas.claims import ClaimIn, ClaimOut, claim_out

router = Router(tags=["tasks"])


@router.post(
    "/claims",
    auth=BearerAuth("tasks:work"),
    response=ClaimOut,
    openapi_extra=text_content(TEXT, XML),
)
def claims_create(request: BearerRequest, body: Body[ClaimIn | None] = None) -> HttpResponse:
    """Claim the agent's next tasks, each with an attempt under a lease.

    If there is nothing to claim, the response says why and when to ask again. With
    `Accept: text/plain`, the response is only the prompt, with the attempt's id in the header
    Tenfour-Attempt; without a task it is empty, and the header Tenfour-Reason says why.
    """
    query = body or ClaimIn.model_validate({})
    claimed = claims.claim(
        request.auth,
        worker_id=query.worker_id,
        task=query.task,
        limit=query.limit,
        resume=query.resume,
        lease_s=query.lease_s,
    )
    if query.task and not claimed.rows:
        fetch_own_task(request, query.task)
    return claim_response(request, claim_body(claimed))


def claim_body(claimed: ClaimResult) -> dict[str, Any]:
    """Return the JSON object for a claim, and store the contexts of its retried tasks."""
    ids = [
        row["id"] for row in claimed.rows if may_have_history(row["type"], row["attempt_number"])
    ]
    histories = load_histories(ids, typed=True)
    body = claim_out(claimed, histories=histories, now=server_time.now())
    store_contexts(
        (row, histories.get(row["id"], EMPTY_HISTORY), each["retry_context"])
        for row, each in zip(claimed.rows, body["data"], strict=True)
    )
    return body


def fetch_own_task(request: BearerRequest, id: UUID) -> Row:
    row = fetch_task(id)
    mine = Q(agent=row["agent_id"]) | Q(agent__pool_seats__pool=row["agent_id"])
    if not Token.objects.filter(mine, digest=request.auth.digest).exists():
        # The same text as `fetch_task`: it must not reveal that the task exists.
        raise NotFound(f"There is no task {id}.")
    return row
