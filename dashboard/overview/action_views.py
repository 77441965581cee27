"""Hide the first steps on Overview, or show them again, for the person alone."""

from typing import cast

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest
from ledger.models import Preference


def set_first_steps(request: HtmxRequest) -> HttpResponse:
    hides = request.POST.get("hidden") == "yes"
    user = cast(User, request.user)
    Preference.objects.update_or_create(user=user, defaults={"hides_first_steps": hides})
    return redirect(reverse("dashboard:home") + read_scope(request).query)
