"""The verb of operations on escalations: the same answer for all of them."""

from uuid import UUID

from ledger.errors import Invalid
from ledger.journal import Stamp
from ledger.secrets.notes import clean_note
from retries.escalations import answering, choices
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.operations.bulk_verb import MAY_ANSWER, BulkVerb, Left, Options, Rows, note_of
from retries.states import Answer, Dependents, EscalationState


def narrow_to_open(rows: Rows) -> Rows:
    return rows.filter(state=EscalationState.OPEN)


def read_choice(options: Options) -> Choice:
    """Return the answer in the options; raises Invalid."""
    if options.get("action") not in Answer.values:
        raise Invalid("/action", f"Set action to one of: {', '.join(Answer.values)}.")
    return choices.check(
        Choice(
            Answer(options["action"]),
            fix=str(options.get("fix", "")),
            note=str(options.get("note", "")) or note_of(options),
            dependents=options.get("dependents") or Dependents.CONTINUE,
        )
    )


def check_choice(options: Options) -> Options:
    choice = read_choice(options)
    return {
        "action": str(choice.action),
        "fix": choice.fix,
        "note": clean_note(choice.note),
        "dependents": str(choice.dependents),
    }


def answer(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    """Answer each escalation; what refuses one of them is its error."""
    for id in ids:
        answering.answer(
            id, read_choice(options), among=Escalation.objects.all(), stamp=stamp, channel="page"
        )
    return {}


VERBS = (
    BulkVerb(
        name="escalation.answer",
        permission=MAY_ANSWER,
        model=Escalation,
        narrow=narrow_to_open,
        apply=answer,
        check=check_choice,
        batch=1,
    ),
)
