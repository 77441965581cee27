"""Handle the buttons of a plan: pause, resume, abort, restart, and confirm commands."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.actions import build_action_view, by_slug
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest
from dashboard.plans.detail_queries import list_proposed_commands
from dashboard.wording.formatting import counted
from ledger.journal import stamp_of
from ledger.plans import editing as plan_editing
from retries.verbs import plans

VERBS = by_slug(plans.VERBS)
act = build_action_view(__name__, VERBS, page="plan")


def confirm(request: HtmxRequest, plan_id: UUID) -> HttpResponse:
    # each command is posted with its task's version: a task that changed since is not confirmed
    shown = [request.POST["one"]] if "one" in request.POST else request.POST.getlist("all")
    rows = list_proposed_commands(plan_id)
    ids = [row.pk for row in rows if f"{row.pk}:{row.version}" in shown]
    confirmed = plan_editing.confirm_commands(ids, stamp=stamp_of(request))
    if confirmed:
        messages.success(request, f"Confirmed {counted(len(confirmed), 'command')}.")
    else:
        messages.warning(
            request, "Nothing changed. The tasks changed in the meantime. Check them and retry."
        )
    return redirect(reverse("dashboard:plan", args=[plan_id]) + read_scope(request).query)
