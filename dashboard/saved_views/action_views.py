"""Save a list's filter as a view of the project, and delete views."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.form_values import quote_typed
from dashboard.frame.access import may_open
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, back_to
from dashboard.lists.query_box import clean
from dashboard.saved_views.strip import BUILT_IN
from ledger.errors import Refusal
from ledger.journal import stamp_of
from ledger.models import SavedView
from ledger.people import saved_views
from ledger.secrets.redaction import redacted


def save(request: HtmxRequest, noun: str) -> HttpResponse:
    project = read_scope(request).project
    if noun not in BUILT_IN or not may_open(request.user, noun):
        raise Http404(f"There is no list “{noun[:20]}” with views.")
    if project is None:
        raise Http404("Choose a project first; a view belongs to one.")
    posted = request.POST
    try:
        view = saved_views.save_view(
            project,
            noun,
            posted.get("name", ""),
            query=clean(redacted(posted.get("q", ""))),
            sort=clean(redacted(posted.get("sort", "")))[:20],
            stamp=stamp_of(request),
        )
    except Refusal as refusal:
        messages.warning(request, refusal.detail + quote_typed(posted.get("name", "")))
    else:
        messages.success(request, f"“{view.name}” is saved for everyone in {project.name}.")
    return redirect(back_to(request, otherwise=reverse(f"dashboard:{noun}")))


def delete(request: HtmxRequest, view_id: UUID) -> HttpResponse:
    view = SavedView.objects.filter(pk=view_id).first()
    if view is None:
        messages.warning(request, "The view was deleted before.")
        return redirect(back_to(request, otherwise=reverse("dashboard:home")))
    saved_views.delete_view(view, stamp=stamp_of(request))
    messages.success(request, f"“{view.name}” is deleted.")
    return redirect(back_to(request, otherwise=reverse(f"dashboard:{view.list}")))
