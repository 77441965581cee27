"""Join a project by an invitation's link: with a new account, or with the one that is signed in."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.forms import BaseUserCreationForm
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from dashboard.sign_in.signed_in import sso_name, start_session
from dashboard.sign_in.throttle import WINDOW_SECONDS, count_attempt
from ledger.database import server_time
from ledger.journal import Actor, Stamp, person
from ledger.models import Invitation
from ledger.people.invitations import accept, find_invitation


class JoinForm(BaseUserCreationForm):  # type: ignore[type-arg]
    """A new account; it has the email address of an invitation that names one."""

    class Meta(BaseUserCreationForm.Meta):
        model = User
        fields = ("username",)


@never_cache
@sensitive_variables("secret")
@sensitive_post_parameters("password1", "password2")
@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest, secret: str) -> HttpResponse:
    # Showing an invitation does not use it up.
    stamp = Stamp(Actor("user"), server_time.now(), getattr(request, "id", ""))
    address = request.META.get("REMOTE_ADDR", "")
    if request.method == "POST" and not count_attempt(address, f"join {secret[:64]}"):
        response = show(request, None, throttled=True, status=429)
        response["Retry-After"] = str(WINDOW_SECONDS)
        return response
    invitation = find_invitation(secret, stamp=stamp)
    if invitation is None:
        return show(request, None, status=404)
    if request.user.is_authenticated:
        if request.method != "POST":
            return show(request, invitation)
        return join_as(request, invitation, request.user, stamp=stamp)
    form = JoinForm(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        return show(request, invitation, form=form, status=422 if form.errors else 200)
    try:
        user = create_account(form, invitation, stamp=stamp)
    except IntegrityError:  # someone else took the username meanwhile
        form.add_error("username", form.instance.unique_error_message(User, ["username"]))
        return show(request, invitation, form=form, status=422)
    if user is None:
        return show(request, None, status=404)
    start_session(request, user)
    return welcome(request, invitation)


@transaction.atomic
def create_account(form: JoinForm, invitation: Invitation, *, stamp: Stamp) -> User | None:
    user: User = form.save(commit=False)
    user.email = invitation.email
    user.save()
    if accept(invitation, user, stamp=Stamp(person(user), stamp.at, stamp.request_id)):
        return user
    # The invitation no longer works, so the account must not stay.
    transaction.set_rollback(True)
    return None


def join_as(
    request: HttpRequest, invitation: Invitation, user: Any, *, stamp: Stamp
) -> HttpResponse:
    if invitation.email and invitation.email.casefold() != user.email.casefold():
        return show(request, invitation, is_other=True, status=403)
    if accept(invitation, user, stamp=Stamp(person(user), stamp.at, stamp.request_id)) is None:
        return show(request, None, status=404)
    return welcome(request, invitation)


def welcome(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    name, role = invitation.project.name, invitation.get_role_display()
    messages.success(request, f"You are a member of {name} now. Your role: {role}.")
    return redirect(f"{reverse('dashboard:home')}?{urlencode({'project': name})}")


def show(
    request: HttpRequest,
    invitation: Invitation | None,
    *,
    form: JoinForm | None = None,
    throttled: bool = False,
    is_other: bool = False,
    status: int = 200,
) -> HttpResponse:
    context = {
        "invitation": invitation,
        "form": form,
        "throttled": throttled,
        "is_other": is_other,
        "here": request.path,
        "sso": sso_name(),
    }
    return render(request, "sign_in/join.html", context, status=status)
