"""Refuse actions without a reason, where a project requires one."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from ledger.errors import Refusal
from ledger.models import Project
from ledger.secrets.notes import clean_note

# the verbs for which a project can require a reason, by name; see `retries.verbs`
VERBS = (
    "task.abort",
    "task.skip",
    "plan.abort",
    "instruction.cancel",
    "dead_letter.dismiss",
    "agent.reset",
    "rule.retire",
    "permission_rule.revoke",
)
AN = ("a", "e", "i", "o", "u")


class ReasonRequired(Refusal):
    """Reason required"""

    code = "reason_required"
    hint = "Say why: in the page's field, as `reason` in the request, or with --reason."


def require_reason(
    verb: str, projects: Iterable[Any] | QuerySet[Any, Any], reason: str | None
) -> None:
    """Raise ReasonRequired if there is no reason, and one of the projects requires one."""
    # what is left of it in the journal counts
    if verb not in VERBS or clean_note(reason or ""):
        return
    asking = Project.objects.filter(pk__in=projects, reason_verbs__contains=[verb])
    name = asking.order_by("name").values_list("name", flat=True).first()
    if name is not None:
        raise ReasonRequired(f"The project {name} requires a reason to {describe(verb)}.")


def describe(verb: str) -> str:
    """Return what a verb does to one row.

    >>> describe("dead_letter.dismiss"), describe("agent.reset")
    ('dismiss a dead letter', 'reset an agent')
    """
    noun, _, action = verb.partition(".")
    article = "an" if noun.startswith(AN) else "a"
    return f"{action} {article} {noun.replace('_', ' ')}"
