"""Keep an answer with a secret as a person typed it, for the agent of its task alone."""

from typing import Any

from django.db import transaction

from ledger.secrets import encryption
from ledger.secrets.redaction import holds_secret
from ledger.secrets.sealing import seal, unseal
from retries.escalations.choices import Choice
from retries.models import Escalation

# how Tenfour treats a secret in a text, by the subject of the text
WARNINGS = {
    "task": (
        "This looks like it contains a secret. Only this task's agent will see it; it will not be "
        "suggested for other failures."
    ),
    "tasks": (
        "This looks like it contains a secret. Only the agents of these tasks will see it; it will "
        "not be suggested for other failures."
    ),
    "instruction": (
        "This looks like it contains a secret. An instruction is stored as you type it, and "
        "everyone in this project can read it."
    ),
    "call": (
        "This looks like it contains a secret. Only the agent that asked will see it; it is masked "
        "on every page."
    ),
}


def find_warning(typed: Any, *, about: str = "task") -> str:
    return WARNINGS[about] if holds_secret(typed) else ""


def list_warnings(choice: Choice, escalation: Escalation) -> list[str]:
    found = find_warning([choice.fix, choice.response], about=name_subject(escalation))
    return [found] if found else []


def name_subject(escalation: Escalation) -> str:
    return "call" if escalation.permission_id else "task" if escalation.task_id else "instruction"


def build_columns(fix: str, response: dict[str, Any] | None) -> dict[str, Any]:
    # Both are stored masked; as typed, they are encrypted.
    masked, sealed = seal({"fix": fix, "response": response})
    return {**masked, "sealed": sealed}


def reveal(escalation: Escalation) -> Escalation:
    if escalation.sealed:
        masked = {"fix": escalation.fix, "response": escalation.response}
        typed = unseal(masked, escalation.sealed)
        escalation.fix, escalation.response = typed["fix"], typed["response"]
    return escalation


def reencrypt() -> None:
    with transaction.atomic():
        for row in Escalation.objects.exclude(sealed="").select_for_update().only("sealed"):
            if not encryption.is_current(row.sealed):
                sealed = encryption.rotate(row.sealed)
                Escalation.objects.filter(pk=row.pk).update(sealed=sealed)
