"""Notification rules over HTTP: which conditions the channels for people are told of."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router

from ledger import agents
from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.api.parameters import find_plan_id, parse_if_match
from ledger.api.reading import find_visible, list_response
from ledger.api.responses import json_response, respond_once
from ledger.errors import Invalid
from ledger.models import Plan, Project
from ledger.schemas.shared import ListQuery
from retries.models import Channel, NotificationRule
from retries.notifications.rules import editing as rules
from retries.notifications.rules.editing import NotificationRuleSpec
from retries.schemas import notification_rules as schemas
from retries.schemas.notification_rules import NotificationRuleOut

router = Router(tags=["notifications"])
WRITE = "webhooks:write"
# fields for which null means something
NULLABLE = {
    "agent",
    "plan",
    "cap_per_hour",
    "repeat_s",
    "quiet_from",
    "quiet_until",
    "second_channel_id",
    "second_after_s",
}


@router.get("/notification-rules", auth=PrincipalAuth(WRITE), response=schemas.NotificationRuleList)
def notification_rules_list(request: PrincipalRequest, query: Query[ListQuery]) -> HttpResponse:
    """List the project's notification rules, newest first."""
    rows = NotificationRule.objects.visible_to(request.auth).select_related("agent")
    return list_response(rows, query, NotificationRuleOut)


@router.post(
    "/notification-rules",
    auth=PrincipalAuth(WRITE),
    response={201: NotificationRuleOut},
    openapi_extra={"x-idempotent": True},
)
def notification_rules_create(
    request: PrincipalRequest, body: schemas.NotificationRuleIn
) -> HttpResponse:
    """Create a rule that tells a channel for people when a condition holds."""

    def create() -> tuple[int, Any]:
        spec = NotificationRuleSpec(**read_values(request, body.model_dump()))
        project = Project.objects.get(pk=request.auth.project_id)
        return 201, NotificationRuleOut.write(
            rules.create_rule(spec, project=project, stamp=stamp_of(request))
        )

    return respond_once(request, create)


@router.get("/notification-rules/{id}", auth=PrincipalAuth(WRITE), response=NotificationRuleOut)
def notification_rules_get(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Get a notification rule."""
    return rule_response(find_rule(request, id))


@router.patch("/notification-rules/{id}", auth=PrincipalAuth(WRITE), response=NotificationRuleOut)
def notification_rules_update(
    request: PrincipalRequest, id: UUID, body: schemas.NotificationRulePatch
) -> HttpResponse:
    """Change what a notification rule says; messages that it has sent stay.

    The `If-Match` header must contain the ETag of the version you read.
    """
    sent = body.model_dump(exclude_unset=True)
    for name, value in sent.items():
        if value is None and name not in NULLABLE:
            raise Invalid(f"/{name}", "The value must not be null; leave it out to keep it.")
    found = find_rule(request, id)
    rules.update_rule(
        found.pk,
        version=parse_if_match(request),
        stamp=stamp_of(request),
        **read_values(request, sent),
    )
    return rule_response(find_rule(request, id))


@router.delete("/notification-rules/{id}", auth=PrincipalAuth(WRITE), response=NotificationRuleOut)
def notification_rules_delete(request: PrincipalRequest, id: UUID) -> HttpResponse:
    """Delete a notification rule; its deliveries stay."""
    found = find_rule(request, id)
    rules.delete_rule(found.pk, stamp=stamp_of(request))
    return json_response(NotificationRuleOut.write(found))


def find_rule(request: PrincipalRequest, id: UUID) -> NotificationRule:
    rows = NotificationRule.objects.visible_to(request.auth).select_related("agent")
    return find_visible(rows, "notification rule", id)


def rule_response(rule: NotificationRule) -> HttpResponse:
    return json_response(NotificationRuleOut.write(rule), version=rule.version)


def read_values(request: PrincipalRequest, sent: dict[str, Any]) -> dict[str, Any]:
    values = dict(sent)
    if "conditions" in values:
        values["conditions"] = tuple(values["conditions"])
    for name in ("channel_id", "second_channel_id"):
        if name in values:
            values[name.removesuffix("_id")] = read_channel(request, name, values.pop(name))
    if values.get("agent") is not None:
        project = Project.objects.get(pk=request.auth.project_id)
        values["agent"] = agents.get_by_name(values["agent"], project=project)
    if values.get("plan") is not None:
        values["plan"] = Plan.objects.get(pk=find_plan_id(request.auth, values["plan"]))
    return values


def read_channel(request: PrincipalRequest, name: str, id: UUID | None) -> Channel | None:
    if id is None:
        return None
    found = Channel.objects.visible_to(request.auth).filter(pk=id).first()
    if found is None:
        raise Invalid(f"/{name}", f"No channel with id {id} is visible to this token.")
    return found
