"""Experiments on the retry context over HTTP: everyone but agents reads them, people run them."""

from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, not_visible, stamp_of
from ledger.api.reading import list_response
from ledger.api.responses import json_response
from ledger.models import Project
from ledger.schemas.shared import PageQuery, page_of
from retries.api.escalations import PersonAuth
from retries.insight import experiments
from retries.models import ContextExperiment
from retries.schemas.experiments import (
    EndIn,
    ExperimentIn,
    ExperimentOut,
    NeededOut,
    NeededQuery,
    needed_out,
)

router = Router(tags=["experiments"])


@router.get(
    "/experiments",
    auth=PrincipalAuth("events:read"),
    response=page_of(ExperimentOut, "experiments, newest first"),
)
def experiments_list(request: PrincipalRequest, query: Query[PageQuery]) -> HttpResponse:
    """List the project's experiments, newest first."""
    rows = ContextExperiment.objects.filter(project=request.auth.project_id)
    return list_response(rows, query, ExperimentOut)


@router.get("/experiments/needed", auth=PrincipalAuth("events:read"), response=NeededOut)
def experiments_get_needed(request: PrincipalRequest, query: Query[NeededQuery]) -> HttpResponse:
    """Get how many tasks an experiment needs to find a difference: read it before the start."""
    return json_response(needed_out(query.share))


@router.post("/experiments", auth=PersonAuth("escalations:resolve"), response={201: ExperimentOut})
def experiments_create(request: PrincipalRequest, body: ExperimentIn) -> HttpResponse:
    """Start to leave an element out of some tasks' contexts; one experiment runs at a time."""
    started = experiments.start_experiment(
        Project.objects.get(pk=request.auth.project_id),
        body.element,
        share=body.share,
        reason=body.reason,
        stamp=stamp_of(request),
    )
    return json_response(ExperimentOut.write(started), 201)


@router.post(
    "/experiments/{id}/end", auth=PersonAuth("escalations:resolve"), response=ExperimentOut
)
def experiments_end(request: PrincipalRequest, id: UUID, body: EndIn) -> HttpResponse:
    """End an experiment: every task gets whole contexts again."""
    if not ContextExperiment.objects.filter(project=request.auth.project_id, pk=id).exists():
        raise not_visible("experiment", id)
    ended = experiments.end_experiment(id, reason=body.reason, stamp=stamp_of(request))
    return json_response(ExperimentOut.write(ended))
