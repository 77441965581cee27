"""Import a coding agent's transcript over HTTP."""

from typing import Any

from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.responses import json_response
from ledger.database import server_time
from ledger.schemas.sessions.imports import SessionImportedOut, SessionImportQuery
from ledger.schemas.sessions.session import session_out
from ledger.sessions.importing import import_transcript
from ledger.sessions.transcripts.reading import check_media, read_transcript
from retries.api.sessions.session import find_agent
from retries.sessions import buffering

router = Router(tags=["sessions"])

# The web server accepts no larger bodies; `tenfour session import` sends larger files in parts.
MOST_IMPORT_BYTES = 8 * 1024 * 1024
LINES = (
    '{"type":"user","sessionId":"8c1f","uuid":"93391a71","message":{"role":"user",'
    '"content":"Write a parser"}}\n'
)
CONTENT: dict[str, Any] = {
    "application/x-ndjson": {"schema": {"type": "string"}, "example": LINES},
    "text/plain": {"schema": {"type": "string"}, "example": LINES},
    "application/octet-stream": {
        "schema": {"type": "string", "format": "binary"},
        "example": LINES,
    },
}


@router.post(
    "/sessions/import",
    auth=PrincipalAuth("sessions:write", body_bytes=MOST_IMPORT_BYTES),
    response={201: SessionImportedOut, 200: SessionImportedOut},
    openapi_extra={"requestBody": {"required": True, "content": CONTENT}},
)
def sessions_import(request: PrincipalRequest, query: Query[SessionImportQuery]) -> HttpResponse:
    """Import the transcript of a session of Claude Code or Codex, as they write it: JSON lines.

    A file can be imported again when it has grown: only what is new is added, and the call returns
    200 if nothing is. An incomplete last line is left out and named in `cut_line`; other lines
    that can't be read are left out, counted in `skipped` and named in `skipped_lines`. A file with
    no line of the two programs is 422, and nothing is stored. A file of more than 8 MiB is sent in
    parts.
    """
    check_media(request.content_type or "")
    agent = find_agent(request, query.agent)
    transcript = read_transcript(
        request.body, format=query.format or "", first_line=query.first_line
    )
    imported = import_transcript(
        agent,
        transcript,
        external_id=query.external_id,
        tracker=query.tracker,
        attempt_id=query.attempt,
        is_own=request.auth.is_agent,
        stamp=stamp_of(request),
    )
    buffering.announce(imported.stored)
    changed = imported.is_new or imported.added
    session = session_out(imported.session, now=server_time.now())
    body = SessionImportedOut.write(imported, session=session)
    return json_response(body, 201 if changed else 200)
