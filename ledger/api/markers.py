"""Markers over HTTP: deploys and other changes, drawn on charts of time."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger import markers
from ledger.api.auth import PrincipalAuth, PrincipalRequest, not_visible, stamp_of
from ledger.api.reading import list_response
from ledger.api.responses import json_response, respond_once
from ledger.models import Marker, Project
from ledger.schemas.markers import MarkerIn, MarkerOut, MarkerQuery
from ledger.schemas.shared import page_of

router = Router(tags=["markers"])


@router.post(
    "/markers",
    auth=PrincipalAuth("tasks:write"),
    response={201: MarkerOut},
    openapi_extra={"x-idempotent": True},
)
def markers_create(request: PrincipalRequest, body: MarkerIn) -> HttpResponse:
    """Set a marker: a deploy or another change, which pages draw on charts of time.

    Send an `Idempotency-Key`, such as the number of the CI run: a repeated run sets one marker.
    """

    def create() -> tuple[int, Any]:
        marker = markers.create_marker(
            body.name,
            project=Project.objects.get(pk=request.auth.project_id),
            kind=body.kind,
            at=body.at,
            link=body.link,
            text=body.text,
            stamp=stamp_of(request),
        )
        return 201, MarkerOut.write(marker)

    return respond_once(request, create)


@router.get(
    "/markers",
    auth=PrincipalAuth("events:read"),
    response=page_of(MarkerOut, "markers, the last set first"),
)
def markers_list(request: PrincipalRequest, query: Query[MarkerQuery]) -> HttpResponse:
    """List markers, the last set first."""
    rows = Marker.objects.visible_to(request.auth)
    if query.kind:
        rows = rows.filter(kind=query.kind)
    if query.since:
        rows = rows.filter(at__gte=query.since)
    if query.until:
        rows = rows.filter(at__lt=query.until)
    return list_response(rows, query, MarkerOut)


@router.delete("/markers/{id}", auth=PrincipalAuth("tasks:write"), response=MarkerOut)
def markers_delete(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Delete a marker that was set by mistake; the response is the marker as it was."""
    marker = Marker.objects.visible_to(request.auth).filter(pk=id).first()
    if marker is None or not markers.delete_marker(marker, stamp=stamp_of(request)):
        raise not_visible("marker", id)
    return json_response(MarkerOut.write(marker))
