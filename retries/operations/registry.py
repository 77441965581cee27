"""The verbs of operations by their names."""

from ledger.errors import NotFound
from retries.operations import (
    dead_letter_verbs,
    escalation_verbs,
    instruction_verbs,
    task_verbs,
)
from retries.operations.bulk_verb import BulkVerb

VERBS: dict[str, BulkVerb] = {
    verb.name: verb
    for module in (task_verbs, dead_letter_verbs, escalation_verbs, instruction_verbs)
    for verb in module.VERBS
}


def find_verb(name: str) -> BulkVerb:
    """Return a verb; raises NotFound."""
    if name not in VERBS:
        raise NotFound(f"There is no verb '{name}'; there are: {', '.join(VERBS)}.")
    return VERBS[name]
