"""Who may call: a bearer token with a scope, recognised now or by the statement itself."""

from collections.abc import Callable
from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja.security import HttpBearer

from ledger import tokens
from ledger.errors import PayloadTooLarge, Refusal
from ledger.journal import Actor
from ledger.principal import Principal
from ledger.tokens import Bearer, ScopeMissing, TokenMissing

DRAIN = 4 * 1024 * 1024


class Request(HttpRequest):
    """A request on its way in: `config.middleware` has given it an id."""

    id: str


class BearerRequest(Request):
    """One whose token the call's own statement looks up."""

    auth: Bearer


class PrincipalRequest(Request):
    """One whose caller is known; `problem_of` makes the answer that a refusal gets."""

    auth: Principal
    problem_of: Callable[[Exception], HttpResponse]


class TenfourToken(HttpBearer):
    """Reads the token; the call's own statement looks it up and holds it to the scope.

    A body has at most `body_bytes`, or what the setting says.
    """

    def __init__(self, scope: str, *, body_bytes: int | None = None) -> None:
        super().__init__()
        self.scope = scope
        self.body_bytes = body_bytes

    def __call__(self, request: HttpRequest) -> Any:
        refuse_large(request, limit=self.body_bytes or settings.TENFOUR["BODY_BYTES"])
        kind, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if kind.lower() != "bearer" or not secret:
            raise TokenMissing("The request has no bearer token.")
        return self.authenticate(request, secret.strip())

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        return Bearer(tokens.digest_of(token), self.scope, cast(Request, request).id)


class PrincipalAuth(TenfourToken):
    """Looks the token up at once: `request.auth` is a Principal."""

    # what a call that people alone may make raises instead
    missing: type[Refusal] = ScopeMissing

    def authenticate(self, request: HttpRequest, token: str) -> Principal:
        bearer: Bearer = super().authenticate(request, token)
        try:
            return tokens.fetch_principal(bearer, now=timezone.now())
        except ScopeMissing as refusal:
            if self.missing is ScopeMissing:
                raise
            raise self.missing(refusal.detail, **refusal.more) from refusal


def refuse_large(request: HttpRequest, *, limit: int) -> None:
    """Raise PayloadTooLarge; a moderate body is read away so that the sender gets the answer."""
    size = int(request.META.get("CONTENT_LENGTH") or 0)
    if size <= limit:
        return
    left = min(size, DRAIN)
    while left > 0 and (chunk := request.read(min(left, 65_536))):
        left -= len(chunk)
    raise PayloadTooLarge(f"The body has {size} of at most {limit} bytes.", limit_bytes=limit)


def actor(principal: Principal) -> Actor:
    """Who the journal says it was."""
    return Actor("token", str(principal.token_id), principal.name)
