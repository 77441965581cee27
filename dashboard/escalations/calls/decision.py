"""The panel in which a person decides about a call."""

from dataclasses import dataclass

from django.urls import reverse

from dashboard.escalations.answer_form import Reply
from dashboard.frame.rendering import Visit
from ledger.authorization.permissions import may
from retries.escalations import typed_answers
from retries.escalations.choices import FIX_LENGTH
from retries.escalations.response_schema import Field, list_fields
from retries.models import Escalation

NEW_RULE = "retries.add_permissionrule"
NO_MATCHER = (
    "No rule can be made from this call: only calls that can be read to the last character can be "
    "allowed by a rule."
)
ASKS = "No rule answers a question."


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The form of an open permission request."""

    fields: list[Field]  # for a question with choices
    remember_url: str  # creates a rule that allows such calls; empty if none is possible
    why_no_rule: str
    text: str  # the message as typed
    secret_warning: str
    max_length: int = FIX_LENGTH


def build_decision(escalation: Escalation, reply: Reply, visit: Visit) -> Decision:
    request = escalation.permission
    assert request is not None
    is_question = bool(escalation.response_schema)
    can_remember = request.proposed is not None
    may_remember = can_remember and may(visit.request.user, NEW_RULE, escalation.project_id)
    page = reverse("dashboard:permission_rule_new") + visit.scope.query
    more = f"{'&' if visit.scope.query else '?'}escalation={escalation.pk}"
    return Decision(
        fields=list_fields(escalation.response_schema or {}, reply.values),
        remember_url=page + more if may_remember else "",
        why_no_rule="" if can_remember else ASKS if is_question else NO_MATCHER,
        text=reply.message,
        secret_warning=typed_answers.find_warning(reply.message, about="call"),
    )
