"""Tokens over HTTP: list, create, revoke, and rotate them.

No operation takes an Idempotency-Key: a stored response would keep the secret.
"""

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from django.http import HttpResponse
from ninja import Body, Query, Router

from ledger import accounts, agents, tokens
from ledger.access import scopes
from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response
from ledger.authorization.permissions import may
from ledger.database import sql
from ledger.errors import Invalid
from ledger.models import Agent, Project, Token
from ledger.models.token import TokenKind
from ledger.schemas.shared import ListQuery, page_of
from ledger.schemas.tokens import RotateIn, SecretOut, TokenIn, TokenOut
from ledger.tokens import ScopeMissing

router = Router(tags=["tokens"])


@router.get("/tokens", auth=PrincipalAuth(scopes.TOKENS_WRITE), response=page_of(TokenOut))
def tokens_list(request: PrincipalRequest, query: Query[ListQuery]) -> HttpResponse:
    """List the project's tokens, newest first; secrets are not stored."""
    rows = Token.objects.visible_to(request.auth).select_related("agent")
    return list_response(rows, query, TokenOut)


@router.post("/tokens", auth=PrincipalAuth(scopes.TOKENS_WRITE), response={201: SecretOut})
def tokens_create(request: PrincipalRequest, body: TokenIn) -> HttpResponse:
    """Create a token; the response contains its secret, which is shown only once.

    It has the scopes of its kind, or those of them that `scopes` names, and none that the caller
    lacks. No token that the API creates can manage tokens.
    """
    require_own(request, scopes.choose_scopes(body.kind, body.scopes))

    def create() -> HttpResponse:
        project = Project.objects.get(pk=request.auth.project_id)
        token, secret = accounts.issue_token(
            body.kind,
            project=project,
            agent=find_agent(request, body, project),
            account=body.account,
            name=body.name,
            days=body.expires_in_days,
            scopes=body.scopes,
            stamp=stamp_of(request),
        )
        return json_response(SecretOut.write(token, secret=secret), 201)

    return sql.atomic(create)()


def require_own(request: PrincipalRequest, wanted: Collection[str]) -> None:
    for scope in sorted(wanted):
        if not may(request.auth, scope):
            raise ScopeMissing(f"Your token lacks the scope '{scope}' itself.", scope=scope)


def find_agent(request: PrincipalRequest, body: TokenIn, project: Project) -> Agent | None:
    if body.kind != TokenKind.AGENT:
        if body.agent:
            raise Invalid("/agent", f"A token of kind '{body.kind}' has no agent.")
        return None
    if not body.agent:
        raise Invalid("/agent", "Set the agent that the token is for.")
    if body.register_:
        return agents.register(body.agent, project=project, stamp=stamp_of(request))
    return agents.get_by_name(body.agent, project=project)


def find_token(request: PrincipalRequest, id: UUID) -> Token:
    rows = Token.objects.visible_to(request.auth).select_related("agent")
    return find_visible(rows, "token", id)


@router.get("/tokens/{id}", auth=PrincipalAuth(scopes.TOKENS_WRITE), response=TokenOut)
def tokens_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a token, without its secret."""
    return json_response(TokenOut.write(find_token(request, id)))


@router.delete("/tokens/{id}", auth=PrincipalAuth(scopes.TOKENS_WRITE), response=TokenOut)
def tokens_delete(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Revoke a token at once; it stays in the list. Revoking it again changes nothing."""
    tokens.revoke(find_token(request, id), stamp=stamp_of(request))
    return json_response(TokenOut.write(find_token(request, id)))


@router.post(
    "/tokens/{id}/rotate", auth=PrincipalAuth(scopes.TOKENS_WRITE), response={201: SecretOut}
)
def tokens_rotate(
    request: PrincipalRequest, id: UUID, body: Body[RotateIn | None] = None
) -> HttpResponse:
    """Replace a token: the response contains the new secret, which is shown only once.

    The new token has the old one's kind, agent, name, account, scopes, and lifetime. The old one
    stays valid for `overlap_hours` at most.
    """
    options = body or RotateIn.model_validate({})
    old = find_token(request, id)
    require_own(request, old.scopes)
    token, secret = tokens.rotate(
        old, overlap=timedelta(hours=options.overlap_hours), stamp=stamp_of(request)
    )
    return json_response(SecretOut.write(token, secret=secret), 201)
