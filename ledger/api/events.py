"""The journal over HTTP."""

import re
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from ninja import Query, Router

from ledger import journal
from ledger.api.auth import PrincipalAuth, PrincipalRequest
from ledger.api.cursors import BadCursor, read_page
from ledger.api.parameters import filter_by_id, find_agent_id
from ledger.api.responses import json_response, page_body
from ledger.errors import Invalid
from ledger.journal import Kind
from ledger.models import Event
from ledger.models.event import EventQuerySet
from ledger.schemas.events import EventList, EventQuery, events_out

router = Router(tags=["events"])

LATEST = "latest"
POSITION = re.compile(r"([0-9]{1,19})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.ASCII)


@router.get("/events", auth=PrincipalAuth("events:read"), response=EventList)
def events_list(request: PrincipalRequest, query: Query[EventQuery]) -> HttpResponse:
    """List events, newest first, or read them as a stream.

    With `after`, the events are a stream, oldest first: send `after=` to begin with the first
    event, or `after=latest` with the next one, and pass `next_cursor` as `after` to read on
    without missing any. Events of transactions that are still
    open appear later, in order, however late they commit. A stream takes no filters.
    """
    filters = query.model_dump(exclude={"limit", "cursor", "after"})
    if query.after is not None:
        refuse_filters(filters | {"cursor": query.cursor})
        return stream_response(request, query.after, limit=query.limit)
    events = filter_events(Event.objects.visible_to(request.auth), query, request)
    rows: QuerySet[Event, Any] = filter_by_id(events, query.id).values()
    page = read_page(rows, limit=query.limit, cursor=query.cursor, filters=filters)
    return json_response(page_body(page, events_out(page.rows)))


def filter_events(
    rows: EventQuerySet, query: EventQuery, request: PrincipalRequest
) -> EventQuerySet:
    if query.kind:
        rows = rows.filter(kind__in=parse_kinds(query.kind))
    if query.subject:
        rows = rows.about(query.subject)
    if query.agent:
        rows = rows.filter(agent_id=find_agent_id(request.auth, query.agent))
    if query.since:
        rows = rows.since(query.since)
    return rows.until(query.until) if query.until else rows


def parse_kinds(text: str) -> list[str]:
    kinds = text.split(",")
    if unknown := [kind for kind in kinds if kind not in Kind.values]:
        raise Invalid("/kind", f"'{unknown[0]}' is not a kind of event, such as task.completed.")
    return kinds


def refuse_filters(filters: dict[str, Any]) -> None:
    if given := [name for name, value in filters.items() if value]:
        raise Invalid(f"/{given[0]}", f"'after' can't be combined with '{given[0]}'.")


def stream_response(request: PrincipalRequest, after: str, *, limit: int) -> HttpResponse:
    position = parse_cursor(after)
    rows = journal.fetch_stream(position, project_id=request.auth.project_id, limit=limit)
    last = f"{rows[-1]['tx']}.{rows[-1]['id']}" if rows else write_cursor(position)
    return json_response(
        {"data": events_out(rows), "next_cursor": last, "has_more": len(rows) == limit}
    )


def write_cursor(position: journal.Cursor) -> str | None:
    return f"{position.tx}.{position.id}" if position.tx else None


def parse_cursor(after: str) -> journal.Cursor:
    if not after:
        return journal.Cursor()
    if after == LATEST:
        return journal.fetch_head()
    if not (match := POSITION.fullmatch(after)):
        raise BadCursor("The cursor is malformed.")
    return journal.Cursor(int(match[1]), match[2])
