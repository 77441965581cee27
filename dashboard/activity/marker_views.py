"""Delete markers from the Activity page."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.rendering import HtmxRequest, back_to
from ledger import markers
from ledger.journal import stamp_of
from ledger.models import Marker


def delete(request: HtmxRequest, marker_id: UUID) -> HttpResponse:
    marker = Marker.objects.filter(pk=marker_id).first()
    if marker is not None and markers.delete_marker(marker, stamp=stamp_of(request)):
        messages.success(request, f"The marker “{marker.name}” is deleted.")
    else:
        messages.warning(request, "The marker was already deleted.")
    return redirect(back_to(request, otherwise=reverse("dashboard:activity")))
