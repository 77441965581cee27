"""Signing in and out."""

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

from dashboard.access import may_enter
from dashboard.sign_in.throttle import WINDOW_SECONDS, forget_tries, take_try


class SignInForm(AuthenticationForm):
    """Name and password; those who are no staff learn no more than those who mistyped."""

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
    """The form, and what comes of it: the page that was asked for, or a sentence."""
    target = where_to(request)
    if request.method != "POST":
        if may_enter(request.user):
            return redirect(target)
        return page(request, SignInForm(request), target)
    address, username = request.META.get("REMOTE_ADDR", ""), request.POST.get("username", "")
    if not take_try(address, username):
        response = page(request, SignInForm(request), target, throttled=True, status=429)
        response["Retry-After"] = str(WINDOW_SECONDS)
        return response
    form = SignInForm(request, data=request.POST)
    if not form.is_valid():
        return page(request, form, target, status=422)
    forget_tries(address, username)
    auth.login(request, form.get_user())
    return redirect(target)


def page(
    request: HttpRequest,
    form: SignInForm,
    target: str,
    *,
    throttled: bool = False,
    status: int = 200,
) -> HttpResponse:
    context = {"form": form, "next": target, "throttled": throttled}
    return render(request, "sign_in/sign_in.html", context, status=status)


def where_to(request: HttpRequest) -> str:
    """The page that was asked for, if it is one of ours."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    ours = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return target if ours else resolve_url(settings.LOGIN_REDIRECT_URL)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    auth.logout(request)
    messages.success(request, "You are signed out.")
    return redirect(settings.LOGIN_URL)
