"""The caller itself over HTTP."""

from django.conf import settings
from django.http import HttpResponse
from ninja import Router

from ledger import instructions
from ledger.api.auth import BODY_BYTES, PrincipalAuth, PrincipalRequest
from ledger.api.responses import json_response
from ledger.database import server_time
from ledger.models import Token
from ledger.schemas.shared import MOST_ROWS
from ledger.schemas.tokens import MeOut
from ledger.values.poll_waits import read_poll_bounds

router = Router(tags=["platform"])


@router.get("/me", auth=PrincipalAuth(""), response=MeOut)
def me_get(request: PrincipalRequest) -> HttpResponse:
    """Get the caller's identity, scopes, and limits."""
    principal = request.auth
    token = Token.objects.get(pk=principal.token_id)
    shortest, longest = read_poll_bounds()
    return json_response(
        {
            "kind": principal.kind,
            "name": principal.name,
            "project": {"id": principal.project_id, "name": principal.project_name},
            "agent": principal.agent_name if principal.agent_id else None,
            "agent_id": principal.agent_id,
            "scopes": sorted(principal.scopes),
            "token": {"id": token.id, "prefix": token.prefix, "expires_at": token.expires_at},
            "limits": {
                "content_bytes": instructions.CONTENT_BYTES,
                "body_bytes": BODY_BYTES,
                "page": MOST_ROWS,
            },
            "poll_every_s": shortest,
            "poll_max_s": longest,
            "server_time": server_time.now(),
            "version": settings.TENFOUR_VERSION,
        }
    )
