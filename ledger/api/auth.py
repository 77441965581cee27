"""Authentication: a bearer token with a scope, checked at once or by the call's own statement."""

from collections.abc import Callable
from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from ninja.security import HttpBearer

from ledger import tokens
from ledger.authorization.principal import Principal
from ledger.database import server_time
from ledger.errors import NotFound, PayloadTooLarge, Refusal
from ledger.journal import Actor, Stamp
from ledger.tokens import Bearer, ScopeMissing, TokenMissing

# of a JSON body; reports, plans, sessions and hooks have limits of their own
BODY_BYTES = 262_144


class Request(HttpRequest):
    """A request that `config.requests.middleware` has given an id and a way to answer refusals."""

    id: str
    refusal_response: Callable[[Refusal], HttpResponse]


class BearerRequest(Request):
    """A request whose token is looked up by the call's own statement."""

    auth: Bearer


class PrincipalRequest(Request):
    """A request whose caller is known."""

    auth: Principal


class BearerAuth(HttpBearer):
    """Read the token; the call's own statement looks it up and checks the scope.

    This saves the calls that agents make all the time a query. The body may have `body_bytes`,
    or as many bytes as the setting allows.
    """

    def __init__(self, scope: str, *, body_bytes: int | None = None) -> None:
        super().__init__()
        self.scope = scope
        self.body_bytes = body_bytes

    def __call__(self, request: HttpRequest) -> Any:
        kind, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if kind.lower() != "bearer" or not secret:
            raise TokenMissing("The request has no bearer token.")
        caller = self.authenticate(request, secret.strip())
        refuse_large(request, limit=self.body_bytes or BODY_BYTES)
        return caller

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        bearer = self.bearer(request, token)
        if "tenfour.unread" in request.META:  # set by config.requests.web_threads
            tokens.fetch_principal(bearer, now=server_time.now())
            request.META["tenfour.token_checked"] = True
        return bearer

    def bearer(self, request: HttpRequest, token: str) -> Bearer:
        id = cast(Request, request).id
        return Bearer(tokens.digest_of(token), self.scope, id, request.META)


class PrincipalAuth(BearerAuth):
    """Look up the token at once, so that `request.auth` is a Principal."""

    # Raised if the token lacks the scope; calls for people only raise another refusal.
    refusal: type[Refusal] = ScopeMissing

    def authenticate(self, request: HttpRequest, token: str) -> Principal:
        bearer = self.bearer(request, token)
        try:
            principal = tokens.fetch_principal(bearer, now=server_time.now())
        except ScopeMissing as refusal:
            if self.refusal is ScopeMissing:
                raise
            raise self.refusal(refusal.detail, **refusal.more) from refusal
        request.META["tenfour.token_checked"] = True
        return principal


def refuse_large(request: HttpRequest, *, limit: int) -> None:
    size = int(request.META.get("CONTENT_LENGTH") or 0)
    if size > limit:
        raise PayloadTooLarge(
            f"The body has {size} bytes; at most {limit} are allowed.", limit_bytes=limit
        )


def actor(principal: Principal) -> Actor:
    return Actor("token", str(principal.token_id), principal.name)


def stamp_of(request: PrincipalRequest) -> Stamp:
    return Stamp(actor(request.auth), request_id=request.id)


def not_visible(noun: str, id: object) -> NotFound:
    """Return the refusal for a row that does not exist or that the token must not know of."""
    return NotFound(f"No {noun} with id {id} is visible to this token.")
