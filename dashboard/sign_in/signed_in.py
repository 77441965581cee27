"""Start a person's session, and note the browser that it is in."""

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import User
from django.http import HttpRequest

from ledger.database import server_time
from ledger.models import SignInMethod, SignInOutcome
from ledger.people.browsers import note_sign_in, record_sign_in

BACKEND = "dashboard.frame.access.People"


def start_session(
    request: HttpRequest, user: User, *, method: SignInMethod = SignInMethod.PASSWORD
) -> None:
    auth.login(request, user, backend=BACKEND)
    note_browser(request, user, method=method)


def note_browser(request: HttpRequest, user: User, *, method: SignInMethod) -> None:
    if not request.session.session_key:
        request.session.save()
    record_attempt(request, SignInOutcome.SIGNED_IN, user.get_username(), method=method)
    note_sign_in(
        user,
        session_key=request.session.session_key or "",
        method=method,
        address=request.META.get("REMOTE_ADDR", ""),
        user_agent=request.headers.get("User-Agent", ""),
        now=server_time.now(),
    )


def record_attempt(
    request: HttpRequest,
    outcome: SignInOutcome,
    username: str,
    *,
    method: SignInMethod = SignInMethod.PASSWORD,
) -> None:
    record_sign_in(
        outcome,
        username.replace("\0", ""),
        method=method,
        address=request.META.get("REMOTE_ADDR", ""),
        user_agent=request.headers.get("User-Agent", ""),
    )


def sso_name() -> str:
    """Return the name of the OpenID Connect provider, or nothing without one."""
    return str(settings.TENFOUR["OIDC_NAME"]) if settings.TENFOUR["OIDC_ISSUER"] else ""
