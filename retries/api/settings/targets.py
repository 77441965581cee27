"""Targets for times over HTTP: everyone but agents reads them, people set and remove them."""

from types import SimpleNamespace

from django.http import HttpResponse
from ninja import Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, not_visible, stamp_of
from ledger.api.parameters import find_by_id, find_plan
from ledger.api.responses import json_response
from ledger.models import Agent
from retries.api.escalations import PersonAuth
from retries.insight import targets
from retries.insight.targets import Subject
from retries.schemas.settings.targets import TargetIn, TargetOut, TargetsOut

router = Router(tags=["targets"])


@router.get("/targets", auth=PrincipalAuth("events:read"), response=TargetsOut)
def targets_list(request: PrincipalRequest) -> HttpResponse:
    """List the project's targets for acknowledgments, waits, and runs."""
    rows = targets.list_targets(request.auth.project_id)
    return json_response({"data": [TargetOut.write(row) for row in rows]})


@router.put("/targets", auth=PersonAuth("escalations:resolve"), response=TargetOut)
def targets_set(request: PrincipalRequest, body: TargetIn) -> HttpResponse:
    """Set the target of an agent, of a type of tasks, or of a plan; or remove it.

    One of the same measure is replaced. Without `percent` and `within_s` it is removed; the
    response has null in both then, also if there was none.
    """
    subject, stamp = find_subject(request, body), stamp_of(request)
    if body.percent is not None and body.within_s is not None:
        targets.set_target(
            subject, percent=body.percent, within_s=body.within_s, measure=body.measure, stamp=stamp
        )
    else:
        targets.remove_target(subject, measure=body.measure, stamp=stamp)
    row = SimpleNamespace(
        agent=subject.agent,
        type=subject.type,
        plan=subject.plan,
        measure=body.measure,
        percent=body.percent,
        within_s=body.within_s,
        set_by_name=stamp.actor.name,
        set_at=stamp.at,
    )
    return json_response(TargetOut.write(row))


def find_subject(request: PrincipalRequest, body: TargetIn) -> Subject:
    principal = request.auth
    if body.plan:
        return Subject.of_plan(find_plan(principal, body.plan))
    if body.type:
        return Subject.of_type(principal.project_id, body.type)
    agent = find_by_id(Agent.objects.visible_to(principal), body.agent, name=body.agent)
    if agent is None:
        raise not_visible("agent", body.agent)
    return Subject.of_agent(agent)
