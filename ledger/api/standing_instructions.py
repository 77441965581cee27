"""Standing instructions over HTTP: rules that send instructions when something happens."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger import agents
from ledger.access.reasons import require_reason
from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.parameters import find_agent_id, find_plan_id, parse_if_match, parse_states
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response, respond_once
from ledger.errors import InvalidTransition
from ledger.instructions import Expect
from ledger.models import Agent, Plan, Project, StandingInstruction
from ledger.models.standing_instruction import RuleState
from ledger.schemas import standing_instructions as schemas
from ledger.schemas.instructions import ExpectIn
from ledger.schemas.shared import page_of
from ledger.schemas.standing_instructions import RuleOut, TrialOut
from ledger.standing_instructions import editing
from ledger.standing_instructions.editing import On, RuleSpec, spec_of
from ledger.standing_instructions.trial import Sample, try_rule

router = Router(tags=["standing instructions"])


@router.post(
    "/standing-instructions",
    auth=PrincipalAuth("instructions:write"),
    response={201: RuleOut},
    openapi_extra={"x-idempotent": True},
)
def standing_instructions_create(request: PrincipalRequest, body: schemas.RuleIn) -> HttpResponse:
    """Create a rule that sends an instruction when something happens.

    With `paused` it is a draft, which sends nothing until it is resumed.
    """

    def create() -> tuple[int, Any]:
        made = editing.create_rule(
            read_spec(request, body),
            project=Project.objects.get(pk=request.auth.project_id),
            paused=body.paused,
            stamp=stamp_of(request),
        )
        return 201, RuleOut.write(made)

    return respond_once(request, create)


@router.get(
    "/standing-instructions",
    auth=PrincipalAuth("instructions:read"),
    response=page_of(schemas.RuleOut, "rules, newest first"),
)
def standing_instructions_list(
    request: PrincipalRequest, query: Query[schemas.RuleQuery]
) -> HttpResponse:
    """List rules, newest first. Retired rules are listed only if `state` names them."""
    rows = StandingInstruction.objects.visible_to(request.auth).select_related("agent")
    rows = rows.in_state(*parse_states(query.state, RuleState)) if query.state else rows.current()
    if query.agent:
        rows = rows.filter(agent=find_agent_id(request.auth, query.agent))
    return list_response(rows, query, RuleOut)


@router.post(
    "/standing-instructions/try", auth=PrincipalAuth("instructions:write"), response=TrialOut
)
def standing_instructions_try(request: PrincipalRequest, body: schemas.TrialIn) -> HttpResponse:
    """Try a rule that is not saved on a sample; nothing is sent and nothing is stored."""
    return trial_response(request, read_spec(request, body.rule), body.sample)


@router.get(
    "/standing-instructions/{id}", auth=PrincipalAuth("instructions:read"), response=RuleOut
)
def standing_instructions_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a rule."""
    return rule_response(find_rule(request, id))


@router.patch(
    "/standing-instructions/{id}", auth=PrincipalAuth("instructions:write"), response=RuleOut
)
def standing_instructions_update(
    request: PrincipalRequest, id: UUID, body: schemas.RulePatch
) -> HttpResponse:
    """Change what a rule says; instructions that it has sent stay as they are.

    The `If-Match` header must contain the ETag of the version you read.
    """
    found = find_rule(request, id)
    changed = editing.update_rule(
        found.id,
        patch_spec(request, spec_of(found), body),
        project_id=request.auth.project_id,
        version=parse_if_match(request),
        stamp=stamp_of(request),
    )
    return rule_response(changed)


@router.delete(
    "/standing-instructions/{id}", auth=PrincipalAuth("instructions:write"), response=RuleOut
)
def standing_instructions_delete(
    request: PrincipalRequest, id: UUID, query: Query[schemas.RetireQuery]
) -> HttpResponse:
    """Retire a rule: it ends permanently, and its record stays."""
    rule = find_rule(request, id)
    require_reason("rule.retire", [request.auth.project_id], query.reason)
    editing.retire_rules([rule.id], note=query.reason, stamp=stamp_of(request))
    return rule_response(find_rule(request, id))


@router.post(
    "/standing-instructions/{id}/pause", auth=PrincipalAuth("instructions:write"), response=RuleOut
)
def standing_instructions_pause(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Pause a rule: it sends nothing, and instructions that it has sent stay open."""
    return move_rule(request, id, editing.pause_rules, (RuleState.PAUSED, RuleState.DRAFT))


@router.post(
    "/standing-instructions/{id}/resume", auth=PrincipalAuth("instructions:write"), response=RuleOut
)
def standing_instructions_resume(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Switch on a paused rule or a draft."""
    return move_rule(request, id, editing.resume_rules, (RuleState.ACTIVE,))


@router.post(
    "/standing-instructions/{id}/try", auth=PrincipalAuth("instructions:read"), response=TrialOut
)
def standing_instructions_try_saved(
    request: PrincipalRequest, id: UUID, body: schemas.SampleIn
) -> HttpResponse:
    """Try a saved rule on a sample; nothing is sent and nothing is stored."""
    return trial_response(request, spec_of(find_rule(request, id)), body)


# ---- what the operations share


def find_rule(request: PrincipalRequest, id: UUID) -> StandingInstruction:
    rows = StandingInstruction.objects.visible_to(request.auth).select_related("agent", "plan")
    return find_visible(rows, "standing instruction", id)


def rule_response(rule: StandingInstruction) -> HttpResponse:
    return json_response(RuleOut.write(rule), version=rule.version)


def move_rule(
    request: PrincipalRequest,
    id: UUID,
    move: Callable[..., list[StandingInstruction]],
    to: tuple[RuleState, ...],
) -> HttpResponse:
    # A rule that is already in the state stays unchanged.
    move([find_rule(request, id).id], stamp=stamp_of(request))
    found = find_rule(request, id)
    if found.state not in to:
        raise InvalidTransition(
            f"The rule is {found.state} and can't become {to[0]}.", current=found.state, allowed=[]
        )
    return rule_response(found)


def read_spec(request: PrincipalRequest, body: schemas.RuleIn) -> RuleSpec:
    return RuleSpec(
        on=read_on(request, body.on),
        content=body.content,
        expect=read_expect(body.expect),
        max_retries=body.max_retries,
        on_failed=body.on_failed,
        agent=find_agent(request, body.agent),
        once_per=body.once_per,
        hold_stop=body.hold_stop,
    )


def patch_spec(request: PrincipalRequest, spec: RuleSpec, body: schemas.RulePatch) -> RuleSpec:
    """Return the rule with the fields that the request sets; null lifts expect and agent."""
    sent = body.model_dump(exclude_unset=True)
    more: dict[str, Any] = {
        name: sent[name]
        for name in ("content", "max_retries", "on_failed", "once_per", "hold_stop")
        if sent.get(name) is not None
    }
    if body.on is not None:
        more["on"] = read_on(request, body.on)
    if "expect" in sent:
        more["expect"] = read_expect(body.expect)
    if "agent" in sent:
        more["agent"] = find_agent(request, body.agent)
    return replace(spec, **more)


def read_on(request: PrincipalRequest, on: schemas.OnIn) -> On:
    return On(
        event=on.event,
        type=on.type,
        match=on.match,
        plan=Plan.objects.get(pk=find_plan_id(request.auth, on.plan)) if on.plan else None,
        interval_s=on.interval_s,
    )


def read_expect(expect: ExpectIn | None) -> Expect | None:
    return Expect(expect.type, expect.match) if expect else None


def find_agent(request: PrincipalRequest, name: str | None) -> Agent | None:
    if name is None:
        return None
    return agents.get_by_name(name, project=Project.objects.get(pk=request.auth.project_id))


def trial_response(
    request: PrincipalRequest, spec: RuleSpec, sample: schemas.SampleIn
) -> HttpResponse:
    principal = request.auth
    trial = try_rule(
        spec,
        Sample(
            event=sample.event,
            type=sample.type,
            data=sample.data,
            plan_id=find_plan_id(principal, sample.plan) if sample.plan else None,
            agent_id=find_agent_id(principal, sample.agent) if sample.agent else None,
        ),
        project_id=principal.project_id,
    )
    return json_response(TrialOut.write(trial))
