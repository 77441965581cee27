"""The verbs of permission rules."""

from uuid import UUID

from django.db.models import Q

from ledger.journal import Stamp
from retries.models import PermissionRule
from retries.permissions import rules
from retries.states import RuleState
from retries.verbs.verb import Left, Options, Verb, count_as, note_of


def revoke(rule_id: UUID, options: Options, stamp: Stamp) -> Left | None:
    rules.revoke_rule(
        rule_id, among=PermissionRule.objects.all(), note=note_of(options), stamp=stamp
    )
    return None


REVOKE = Verb(
    name="permission_rule.revoke",
    model=PermissionRule,
    where=Q(state=RuleState.ACTIVE),
    each=revoke,
    words=("Revoke the rule", "", "revoked"),
    label="Revoke",
    icon="trash",
    slug="revoke",
    question="Revoke this rule?",
    confirm="Revoke rule",
    consequence="The next call is asked about again. Calls that run go on, and its record stays.",
    said=lambda *told: "Revoked. The next call is asked about again.",
    unchanged=lambda id: "Nothing changed: the rule is no longer in force.",
    is_red=True,
    admin="Revoke…",
    effects=count_as("rule", "will end, so that people are asked again."),
)
VERBS = (REVOKE,)
