"""Sign in with an OpenID Connect provider: django-allauth's adapters, and its two views.

An identity is known by the provider's own id for it, never by its email address, so that no one
gets into an account by an address. A new identity gets an account only if its groups have a role
here, or on the way to an invitation.
"""

import logging
from typing import Any
from urllib.parse import urlencode

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from requests import RequestException

from dashboard.frame.access import may_enter
from dashboard.sign_in.provider import Provider
from dashboard.sign_in.signed_in import record_attempt, start_session
from dashboard.sign_in.throttle import WINDOW_SECONDS, count_attempt
from ledger.journal import Actor, Stamp, person
from ledger.models import SignInMethod, SignInOutcome
from ledger.people.groups import GroupRole, follow_groups, parse_group_roles, roles_given
from ledger.people.invitations import find_invitation

logger = logging.getLogger(__name__)
PROVIDER = "sso"
# what allauth raises if a provider's answer is invalid or missing
UNEXPECTED = (
    OAuth2Error, RequestException, LookupError, TypeError, ValueError, AttributeError, OverflowError
)  # fmt: skip
NO_PROJECT = "Your account has no access to a project. Ask an admin for an invitation."
FAILED = "Signing in did not work. Try again."


def is_configured() -> bool:
    return bool(settings.TENFOUR["OIDC_ISSUER"])


@never_cache
@require_safe
def start(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    if provider_id != PROVIDER or not is_configured():
        raise Http404("There is no such way to sign in.")
    if not count_attempt(request.META.get("REMOTE_ADDR", ""), "single sign-on"):
        messages.warning(request, "Too many sign-in attempts. Wait a minute, then try again.")
        response = redirect("dashboard:sign_in")
        response["Retry-After"] = str(WINDOW_SECONDS)
        return response
    # Nothing else is taken, such as `process`, which would connect the identity to an account.
    kept = {name: request.GET[name] for name in ("next",) if name in request.GET}
    request.GET = QueryDict(urlencode(kept))
    return run_view(OAuth2LoginView, request, provider_id)


@never_cache
@require_safe
def callback(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    if provider_id != PROVIDER or not is_configured():
        raise Http404("There is no such way to sign in.")
    return run_view(OAuth2CallbackView, request, provider_id)


def run_view(view: Any, request: HttpRequest, provider_id: str) -> HttpResponseBase:
    # Nothing that the provider says may end in an error page.
    try:
        answer: HttpResponseBase = view.adapter_view(Provider(request, provider_id))(request)
        return answer
    except UNEXPECTED as error:
        logger.warning("single sign-on failed: %s", f"{type(error).__name__}: {error}"[:200])
        return refuse(request, FAILED)


class Accounts(DefaultAccountAdapter):  # type: ignore[misc]
    """Signs people in as the password form does."""

    def login(self, request: HttpRequest, user: Any) -> None:
        start_session(request, user, method=SignInMethod.SINGLE_SIGN_ON)

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Say nothing: the page itself shows that someone is signed in."""


class Identities(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Decides which identities get in, and with which roles."""

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        if sociallogin.is_existing:
            give_roles(sociallogin, sociallogin.user, request)
            if not (may_enter(sociallogin.user) or is_invited(sociallogin)):
                name = sociallogin.user.get_username()
                raise ImmediateHttpResponse(refuse(request, NO_PROJECT, username=name))
        elif not (given_to(sociallogin) or is_invited(sociallogin)):
            raise ImmediateHttpResponse(refuse(request, NO_PROJECT))
        # The address is only noted, and only if the provider vouches for it.
        verified = [each.email for each in sociallogin.email_addresses if each.verified is True]
        sociallogin.email_addresses = []
        if not sociallogin.is_existing:
            sociallogin.user.email = verified[0] if verified else ""

    def is_auto_signup_allowed(self, request: HttpRequest, sociallogin: Any) -> bool:
        return True

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return True  # decided above

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        user = super().save_user(request, sociallogin, form)
        give_roles(sociallogin, user, request)
        return user

    def on_authentication_error(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        raise ImmediateHttpResponse(refuse(request, FAILED))


def refuse(request: HttpRequest, why: str, *, username: str = "") -> HttpResponse:
    method = SignInMethod.SINGLE_SIGN_ON
    record_attempt(request, SignInOutcome.REFUSED, username, method=method)
    messages.warning(request, why)
    return redirect("dashboard:sign_in")


def claims_of(sociallogin: Any) -> dict[str, Any]:
    data: dict[str, Any] = sociallogin.account.extra_data or {}
    userinfo = {name: value for name, value in data.get("userinfo", {}).items() if value}
    return {**data.get("id_token", {}), **userinfo}


def given_to(sociallogin: Any) -> dict[str, GroupRole]:
    groups = claims_of(sociallogin).get(settings.TENFOUR["OIDC_GROUPS_CLAIM"]) or []
    return roles_given(groups, parse_group_roles(settings.TENFOUR["OIDC_GROUPS"]))


def give_roles(sociallogin: Any, user: Any, request: HttpRequest) -> None:
    stamp = Stamp(person(user), request_id=getattr(request, "id", ""))
    follow_groups(user, given_to(sociallogin), stamp=stamp)


def is_invited(sociallogin: Any) -> bool:
    target = sociallogin.state.get("next") or ""
    prefix = reverse("dashboard:join", args=["x"])[: -len("x/")]
    if not target.startswith(prefix):
        return False
    secret = target.removeprefix(prefix).strip("/")
    return find_invitation(secret, stamp=Stamp(Actor("system"))) is not None
