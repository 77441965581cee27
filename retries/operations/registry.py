"""The verbs of operations by their names."""

from django.db.models import Q

from ledger.errors import NotFound
from retries.models import Operation
from retries.verbs import dead_letters, escalations, instructions, patterns, tasks
from retries.verbs.verb import Verb

VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        *(*tasks.VERBS, *dead_letters.VERBS, *escalations.VERBS, *instructions.VERBS),
        patterns.ASSIGN,
    )
}

# of an operation whose verb is gone
UNKNOWN = Verb(
    name="row.change",
    model=Operation,
    where=Q(),
    words=("Change", "Changing", "changed"),
    icon="info",
)


def find_verb(name: str) -> Verb:
    if name not in VERBS:
        raise NotFound(f"There is no verb '{name}'; there are: {', '.join(VERBS)}.")
    return VERBS[name]
