"""Give the answer that a person wrote into a policy, where that is allowed."""

import re
from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from ledger.errors import Refusal
from ledger.journal import Actor, Kind, Stamp
from ledger.models import Token
from ledger.models.token import TokenKind
from ledger.secrets.names import is_secret_name
from retries.escalations import answering, choices, lifecycle
from retries.escalations.choices import Choice
from retries.escalations.options import name_answers
from retries.models import Escalation, EscalationPolicy
from retries.on_call.directories import read_directory
from retries.on_call.steps import MOST_TOLD, Case, list_reminded, parse_step
from retries.states import EscalationState, Reason

CHANNEL = "policy"
SCOPE = "escalations:resolve"
# Only a person decides about these: no answer never means yes and never means no.
NEVER = (Reason.PERMISSION_REQUEST, Reason.NEEDS_CREDENTIALS, Reason.NEEDS_PERMISSION)
WORDS = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[ _-][A-Za-z0-9]+)?")
CODES = re.compile(r"\b(?:api[ _-]?key|otp|one[- ]time|2fa|mfa|pin|login|sign[- ]?in)\b", re.I)


@transaction.atomic
def give(escalation_id: UUID, *, stamp: Stamp) -> bool:
    """Answer an escalation by its policy, or record why a person has to; return which."""
    # The row is locked and its step is counted in the same transaction, so that an answer is given
    # once, whatever other clocks and people do meanwhile.
    rows = Escalation.objects.open().filter(
        pk=escalation_id, next_step_at__lte=stamp.at, policy__enabled=True
    )
    rows = rows.exclude(snoozed_until__gt=stamp.at)  # a person has put it off meanwhile
    locked = rows.select_for_update(of=("self",), skip_locked=True)
    escalation = locked.select_related("policy", "task", "assignee").first()
    policy = escalation.policy if escalation else None
    if escalation is None or policy is None:
        return False
    lines = policy.steps[escalation.policy_step :]
    step = parse_step(lines[0]) if lines else None
    if step is None or not step.answer:
        return False  # the policy's steps were changed meanwhile
    Escalation.objects.filter(pk=escalation.pk).update(
        policy_step=escalation.policy_step + 1, next_step_at=None, updated_at=stamp.at
    )
    choice = choices.parse(step.answer)
    refused = why_without_author(policy, list_authors(policy.project_id, now=stamp.at))
    refused = refused or why_not(escalation, choice)
    refused = refused or try_answer(escalation, choice, policy, stamp)
    if refused:
        tell_holder(escalation, policy, refused, stamp=stamp)
    return not refused


def try_answer(
    escalation: Escalation, choice: Choice, policy: EscalationPolicy, stamp: Stamp
) -> str:
    name = f"policy {policy.name}"[:30]
    author = Actor("system", str(policy.pk), f"{name}, written by {policy.answer_by_name}"[:64])
    try:
        with transaction.atomic():
            answering.answer(
                escalation.pk,
                choice,
                among=Escalation.objects.all(),
                stamp=Stamp(author, stamp.at),
                channel=CHANNEL,
            )
    except Refusal as refusal:
        return refusal.detail
    return ""


def list_authors(project_id: UUID, *, now: datetime) -> set[str]:
    tokens = Token.objects.filter(project=project_id, kind=TokenKind.OPERATOR, revoked_at=None)
    tokens = tokens.filter(scopes__contains=[SCOPE]).exclude(expires_at__lte=now)
    return {*read_directory(project_id).people, *tokens.values_list("name", flat=True)}


def why_without_author(policy: EscalationPolicy, authors: Collection[str]) -> str:
    """Return why a policy's default answer is not given; empty if its author may still answer."""
    name = policy.answer_by_name
    if not name:
        return "No one is named who wrote the default answer."
    return "" if name in authors else f"{name}, who wrote the default answer, may not answer here."


def why_not(escalation: Escalation, choice: Choice) -> str:
    if escalation.reason in NEVER or asks_for_secret(escalation):
        return "Only a person answers this kind of escalation."
    if choice.action not in [action for action, _ in name_answers(escalation)]:
        return f"This escalation does not offer '{choice.action}'."
    if was_answered_by_policy(escalation):
        return "Its last answer came from a policy, too: this time a person decides."
    return ""


def asks_for_secret(escalation: Escalation) -> bool:
    """Return whether a question or a field of its answer may ask for a secret.

    >>> asks_for_secret(Escalation(question="Which API key may I use?", reason="agent_question"))
    True
    >>> asks_for_secret(Escalation(question="Which branch is the base?", reason="agent_question"))
    False
    """
    schema: dict[str, Any] = escalation.response_schema or {}
    fields = schema.get("properties", {})
    texts = [escalation.question, *(str(each) for each in fields.values())]
    return any(map(is_secret_name, fields)) or any(
        CODES.search(text) or any(map(is_secret_name, WORDS.findall(text))) for text in texts
    )


def was_answered_by_policy(escalation: Escalation) -> bool:
    # A task that a default answer did not help would otherwise run again all night.
    earlier = Escalation.objects.filter(state=EscalationState.RESOLVED)
    if escalation.task_id:
        earlier = earlier.filter(task=escalation.task_id)
    else:
        earlier = earlier.filter(resent_as=escalation.instruction_id)
    last = earlier.order_by("-closed_at").values_list("channel", flat=True).first()
    return last == CHANNEL


def tell_holder(
    escalation: Escalation, policy: EscalationPolicy, refused: str, *, stamp: Stamp
) -> None:
    directory = read_directory(escalation.project_id)
    holder = escalation.assignee.username if escalation.assignee else None
    case = Case(opened_at=escalation.opened_at, told=tuple(escalation.told), assignee=holder)
    people = list_reminded(case, directory) or list(directory.people[:MOST_TOLD])
    lifecycle.record_event(
        escalation,
        Kind.ESCALATION_REMINDED,
        stamp=stamp,
        data={
            "reason": escalation.reason,
            "policy": policy.name,
            "people": people,
            "not_answered": refused,
        },
    )
