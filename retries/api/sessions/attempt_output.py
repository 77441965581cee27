"""Store what a running attempt prints, and read it while it runs and afterwards, over HTTP."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import BearerAuth, BearerRequest, PrincipalAuth, PrincipalRequest
from ledger.api.reading import find_visible
from ledger.api.responses import JSON, json_response
from ledger.models import Attempt
from retries.api.text_responses import TEXT, preferred_type, text_response
from retries.live_output.storing import (
    append_output,
    join_pieces,
    next_place,
    read_all,
    read_output,
)
from retries.schemas.attempts import AttemptOutputOut, OutputIn, OutputNextOut, OutputQuery

router = Router(tags=["attempts"])

# 64 KiB of text that JSON escapes
MOST_PIECE_BYTES = 512 * 1024
AS_TEXT: dict[str, Any] = {
    "responses": {
        200: {"content": {TEXT: {"schema": {"type": "string"}, "example": "12 passed\n"}}}
    }
}


@router.post(
    "/attempts/{id}/output",
    auth=BearerAuth("tasks:work", body_bytes=MOST_PIECE_BYTES),
    response=OutputNextOut,
)
def attempts_append_output(request: BearerRequest, id: UUID, body: OutputIn) -> HttpResponse:
    """Send what a live attempt's command has printed, so that people can follow it.

    Send the next piece from `next` on. A piece that comes again changes nothing, and one that
    begins later than the end of the one before leaves a gap. The server masks secrets and stores
    about 1 MiB of an attempt: the first 64 KiB, and the newest of the rest.
    """
    return json_response({"next": append_output(id, caller=request.auth, **body.model_dump())})


@router.get(
    "/attempts/{id}/output",
    auth=PrincipalAuth("tasks:read"),
    response=AttemptOutputOut,
    openapi_extra=AS_TEXT,
)
def attempts_get_output(
    request: PrincipalRequest, id: UUID, query: Query[OutputQuery]
) -> HttpResponse:
    """Read what an attempt has printed, in up to about 256 KiB of pieces from a byte on.

    With `Accept: text/plain`, the response is all that is stored, as text.
    """
    rows = Attempt.objects.visible_to(request.auth).only("ended_at")
    attempt = find_visible(rows, "attempt", id)
    if preferred_type(request, JSON, TEXT) == TEXT:
        return text_response(join_pieces(read_all(id, start=query.from_)), TEXT)
    pieces = read_output(id, start=query.from_)
    body = AttemptOutputOut.write(
        None,
        data=[piece._asdict() for piece in pieces],
        next=next_place(pieces, start=query.from_),
        is_live=attempt.ended_at is None,
    )
    return json_response(body)
