"""The caller itself, statistics and the journal, over HTTP."""

import re
from datetime import timedelta

from django.conf import settings
from django.http import HttpResponse
from django.utils import timezone
from ninja import Query, Router

from ledger import instruction_stats, instructions, journal
from ledger.api.auth import PrincipalAuth, PrincipalRequest
from ledger.api.cursors import BadCursor
from ledger.api.responses import answer
from ledger.errors import Invalid
from ledger.models import Project, Token
from ledger.schemas import platform as schemas
from ledger.schemas.platform import event_out

router = Router()

WINDOW = re.compile(r"([1-9][0-9]{0,4})([mhd])")
UNITS = {"m": "minutes", "h": "hours", "d": "days"}
LONGEST = timedelta(days=400)


@router.get("/me", auth=PrincipalAuth(""), response=schemas.MeOut, tags=["platform"])
def me_get(request: PrincipalRequest) -> HttpResponse:
    """Say who the caller is, what it may do, and within which limits."""
    who = request.auth
    token = Token.objects.get(pk=who.token_id)
    return answer(
        {
            "kind": who.kind,
            "name": who.name,
            "project": {"id": who.project_id, "name": who.project_name},
            "agent": {"id": who.agent_id, "name": who.agent_name} if who.agent_id else None,
            "scopes": sorted(who.scopes),
            "token": {"id": token.id, "prefix": token.prefix, "expires_at": token.expires_at},
            "limits": {
                "content_bytes": instructions.CONTENT_BYTES,
                "body_bytes": settings.TENFOUR["BODY_BYTES"],
                "page": 100,
            },
            "poll_every_s": settings.TENFOUR["POLL_SECONDS"],
            "server_time": timezone.now(),
            "version": settings.TENFOUR_VERSION,
        }
    )


@router.get(
    "/stats", auth=PrincipalAuth("events:read"), response=schemas.StatsOut, tags=["platform"]
)
def stats_get(request: PrincipalRequest, asked: Query[schemas.StatsQuery]) -> HttpResponse:
    """Count how instructions fared in the last hours, for the project and each agent."""
    span, who = parsed(asked.window), request.auth
    whole, agents = instruction_stats.of_project(who.project_id, since=timezone.now() - span)
    whole.name = Project.objects.get(pk=who.project_id).name
    return answer(
        {
            "window_s": int(span.total_seconds()),
            "project": instruction_stats.as_dict(whole),
            "agents": [instruction_stats.as_dict(each) for each in agents.values()],
        }
    )


def parsed(window: str) -> timedelta:
    match = WINDOW.fullmatch(window)
    span = timedelta(**{UNITS[match[2]]: int(match[1])}) if match else LONGEST * 2
    if span > LONGEST:
        raise Invalid("/window", "A window is a number and m, h or d, at most 400d: 30m, 24h, 7d.")
    return span


@router.get(
    "/events", auth=PrincipalAuth("events:read"), response=schemas.EventList, tags=["events"]
)
def events_list(request: PrincipalRequest, asked: Query[schemas.EventQuery]) -> HttpResponse:
    """Read the journal as a stream, oldest first; go on with `after` and miss nothing.

    Events of transactions that are still running come later, in order, however late they commit.
    """
    rows = journal.stream(
        cursor_of(asked.after),
        project_id=request.auth.project_id,
        limit=asked.limit,
    )
    last = f"{rows[-1]['tx']}.{rows[-1]['id']}" if rows else asked.after or None
    return answer(
        {
            "data": [event_out(row) for row in rows],
            "next_cursor": last,
            "has_more": len(rows) == asked.limit,
        }
    )


def cursor_of(after: str) -> journal.Cursor:
    if not after:
        return journal.Cursor()
    tx, _, id = after.partition(".")
    if not tx.isdecimal() or len(tx) > 19 or not re.fullmatch(r"[0-9a-f-]{36}", id):
        raise BadCursor("The cursor can't be read.")
    return journal.Cursor(int(tx), id)
