"""The verb of operations on escalations: the same answer for all of them."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import Q

from ledger.errors import Invalid
from ledger.journal import Stamp
from ledger.notes import clean_note
from retries.escalations import answering, choices
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.states import Answer, EscalationState
from retries.verbs.verb import Left, Options, Verb, check_dependents, note_of


def read_choice(options: Mapping[str, Any]) -> Choice:
    """Return the answer in the options; raises Invalid."""
    if options.get("action") not in Answer.values:
        raise Invalid("/action", f"Set action to one of: {', '.join(Answer.values)}.")
    return choices.check(
        Choice(
            Answer(options["action"]),
            fix=str(options.get("fix", "")),
            note=note_of(dict(options)),
            dependents=check_dependents(str(options.get("dependents") or "")),
        )
    )


def check_choice(options: Mapping[str, Any]) -> Options:
    choice = read_choice(options)
    return {
        "action": str(choice.action),
        "fix": choice.fix,
        "note": clean_note(choice.note),
        "dependents": str(choice.dependents),
    }


def answer(escalation_id: UUID, options: Options, stamp: Stamp) -> Left | None:
    """Answer an escalation; what refuses it is its error."""
    answering.answer(
        escalation_id,
        read_choice(options),
        among=Escalation.objects.all(),
        stamp=stamp,
        channel=options.get("channel", "page"),
    )
    return None


ANSWER = Verb(
    name="escalation.answer",
    model=Escalation,
    where=Q(state=EscalationState.OPEN),
    check_all=check_choice,
    each=answer,
    batch=1,
    do="Answer",
    doing="Answering",
    done="answered",
    icon="s-escalated",
)
VERBS = (ANSWER,)
