"""The journal over HTTP."""

import re

from django.http import HttpResponse
from ninja import Query, Router

from ledger import journal
from ledger.api.auth import PrincipalAuth, PrincipalRequest
from ledger.api.cursors import BadCursor
from ledger.api.responses import json_response
from ledger.schemas.events import EventList, EventQuery, events_out

router = Router(tags=["events"])

POSITION = re.compile(r"([0-9]{1,19})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.ASCII)


@router.get("/events", auth=PrincipalAuth("events:read"), response=EventList)
def events_list(request: PrincipalRequest, query: Query[EventQuery]) -> HttpResponse:
    """List events as a stream, oldest first.

    To read on without missing any, pass `next_cursor` as `after`. Events of transactions that are
    still open appear later, in order, however late they commit.
    """
    rows = journal.fetch_stream(
        parse_cursor(query.after), project_id=request.auth.project_id, limit=query.limit
    )
    last = f"{rows[-1]['tx']}.{rows[-1]['id']}" if rows else query.after or None
    return json_response(
        {
            "data": events_out(rows),
            "next_cursor": last,
            "has_more": len(rows) == query.limit,
        }
    )


def parse_cursor(after: str) -> journal.Cursor:
    if not after:
        return journal.Cursor()
    if not (match := POSITION.fullmatch(after)):
        raise BadCursor("The cursor is malformed.")
    return journal.Cursor(int(match[1]), match[2])
