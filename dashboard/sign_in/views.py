"""Sign in and out."""

from django import forms
from django.conf import settings
from django.contrib import auth, messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.frame.access import may_enter
from dashboard.sign_in.known_browsers import is_known, remember_browser
from dashboard.sign_in.signed_in import record_attempt, sso_name, start_session
from dashboard.sign_in.throttle import (
    STRANGERS_SECONDS,
    WINDOW_SECONDS,
    count_attempt,
    count_stranger,
    reset_attempts,
)
from ledger.models import SignIn, SignInOutcome
from ledger.people.browsers import end_browsers


class SignInForm(AuthenticationForm):
    """Username and password; the error is the same for a user without access."""

    error_messages = {
        "invalid_login": "Incorrect username or password.",
        "inactive": "Incorrect username or password.",
    }

    def confirm_login_allowed(self, user: AbstractBaseUser) -> None:
        if not may_enter(user):
            raise forms.ValidationError(self.error_messages["invalid_login"], code="invalid_login")


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    target = target_of(request)
    if request.method != "POST":
        if may_enter(request.user):
            return redirect(target)
        return render_form(request, SignInForm(request), target)
    address, username = request.META.get("REMOTE_ADDR", ""), request.POST.get("username", "")
    # Both limits come before the check of the password.
    if not count_attempt(address, username):
        return refuse_for(WINDOW_SECONDS, request, target)
    if not count_stranger(username, lambda: is_known(request, username)):
        return refuse_for(STRANGERS_SECONDS, request, target)
    form = SignInForm(request, data=request.POST)
    if not form.is_valid():
        record_attempt(request, SignInOutcome.REFUSED, username)
        return render_form(request, form, target, status=422)
    reset_attempts(address, username)
    user = form.get_user()
    start_session(request, user)
    response = redirect(target)
    remember_browser(request, response, user.get_username())
    return response


def refuse_for(seconds: int, request: HttpRequest, target: str) -> HttpResponse:
    form = SignInForm(request)
    response = render_form(request, form, target, throttled=seconds // 60, status=429)
    response["Retry-After"] = str(seconds)
    return response


def render_form(
    request: HttpRequest, form: SignInForm, target: str, *, throttled: int = 0, status: int = 200
) -> HttpResponse:
    context = {"form": form, "next": target, "throttled": throttled, "sso": sso_name()}
    return render(request, "sign_in/sign_in.html", context, status=status)


def target_of(request: HttpRequest) -> str:
    """Return the requested path if it is a path of this site, or else the first page."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    # without the slash, Django could take it for the name of a URL
    ours = target.startswith("/") and url_has_allowed_host_and_scheme(target, allowed_hosts=None)
    return target if ours else resolve_url(settings.LOGIN_REDIRECT_URL)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    username = request.user.get_username()
    end_browsers(SignIn.objects.filter(session_key=request.session.session_key))
    auth.logout(request)
    if username:
        record_attempt(request, SignInOutcome.SIGNED_OUT, username)
    messages.success(request, "You are signed out.")
    return redirect(settings.LOGIN_URL)
