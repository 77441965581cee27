"""A person's own page: theme, time zone, password, and where the person is signed in."""

from typing import Any, cast
from zoneinfo import available_timezones

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from dashboard.assignment import list_mine
from dashboard.frame.access import TEXT, takes_form
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import SETTINGS, HtmxRequest, begin_visit, compose_page, respond
from dashboard.lists.pagination import read_numbered
from dashboard.people import queries
from dashboard.people.queries import ListedBrowser
from dashboard.sign_in.throttle import WINDOW_SECONDS, count_attempt, reset_attempts
from ledger.journal import Kind, stamp_of
from ledger.models import Preference, SignIn, Theme
from ledger.people.browsers import end_browsers
from ledger.people.members import record_person_event


def index(request: HtmxRequest) -> HttpResponse:
    user: Any = request.user
    return show(request, PasswordChangeForm(user))


def show(
    request: HtmxRequest,
    form: PasswordChangeForm,
    *,
    throttled: bool = False,
    status_code: int = 200,
) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    user: Any = request.user
    session_key = request.session.session_key
    signed_in = queries.select_browsers(you=user.pk, now=visit.now)
    browsers = read_numbered(signed_in, request.GET, "browsers", size=queries.LISTED)
    page = compose_page(
        title="Profile",
        crumbs=(SETTINGS,),
        status_code=status_code,
        user=user,
        mine=list_mine(user, visit.scope.project),
        theme=user.theme or Theme.SYSTEM,
        time_zone=user.time_zone or "",
        time_zones=sorted(available_timezones()),
        browsers=[ListedBrowser(row, row.session_key == session_key) for row in browsers.rows],
        browser_pages=browsers,
        others=queries.count_others(you=user.pk, session_key=session_key, now=visit.now),
        form=form,
        throttled=throttled,
        themes=Theme,
    )
    return respond(visit, "profile/index.html", "profile/_profile.html", page)


def save(request: HtmxRequest) -> HttpResponse:
    user, choices = cast(Any, request.user), {"theme": Theme.values}
    # A script sends the theme alone.
    by_script = "time_zone" not in request.POST
    if not by_script:
        choices["time_zone"] = ["", *available_timezones()]
    changes = {name: request.POST[name] for name in choices if name in request.POST}
    if any(value not in choices[name] for name, value in changes.items()):
        problem = "Choose a theme and a time zone from the lists. Nothing was changed."
        if by_script:
            return HttpResponse(problem, status=422, content_type=TEXT)
        messages.warning(request, problem)
    else:
        Preference.objects.update_or_create(user=user, defaults=changes)
        if by_script:
            return HttpResponse(status=204)
        messages.success(request, "Saved for every browser in which you are signed in.")
    return redirect(reverse("dashboard:profile") + read_scope(request).query)


@sensitive_post_parameters()
@takes_form("profile")
def change_password(request: HtmxRequest) -> HttpResponse:
    address, user = request.META.get("REMOTE_ADDR", ""), cast(Any, request.user)
    form = PasswordChangeForm(user, request.POST)
    if not count_attempt(address, user.get_username()):
        response = show(request, PasswordChangeForm(user), throttled=True, status_code=429)
        response["Retry-After"] = str(WINDOW_SECONDS)
        return response
    if not user.has_usable_password() or not form.is_valid():
        return show(request, form, status_code=422)
    # The right password clears the count of attempts.
    reset_attempts(address, user.get_username())
    with transaction.atomic():
        form.save()
        before = request.session.session_key
        update_session_auth_hash(request, form.user)  # also changes the session's key
        SignIn.objects.filter(session_key=before).update(session_key=request.session.session_key)
        rows = SignIn.objects.filter(user=user.pk)
        ended = end_browsers(rows.exclude(session_key=request.session.session_key))
        record_person_event(Kind.MEMBER_PASSWORD_CHANGED, user, stamp=stamp_of(request))
    also = f" and {ended} other browser{'s' * (ended != 1)} signed out" if ended else ""
    messages.success(request, f"Password changed{also}.")
    return redirect(reverse("dashboard:profile") + read_scope(request).query)
