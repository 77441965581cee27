"""The verbs of operations on instructions: send again and cancel."""

from collections import defaultdict
from uuid import UUID

from django.db.models import F, Q

from ledger import instructions
from ledger.journal import Stamp
from ledger.models import Instruction
from ledger.states import InstructionState
from retries import reminders
from retries.escalations import answering
from retries.operations.bulk_verb import BulkVerb, Left, Options, Rows, explain_left, note_of

PERMISSION = "ledger.change_instruction"


def describe_instructions(ids: list[UUID]) -> dict[UUID, Left]:
    """Return the state of instructions that a verb left as they are."""
    rows = Instruction.objects.filter(pk__in=ids).order_by("id")
    return {
        id: Left("The same text is pending already")
        if state == InstructionState.FAILED
        else Left(f"State is now “{state}”")
        for id, state in rows.values_list("pk", "state")
    }


def narrow_to_resendable(rows: Rows) -> Rows:
    """Keep failed instructions, and those that wait for an acknowledgment with a retry left."""
    waits = Q(state=InstructionState.DELIVERED, tracked=True, retry_count__lt=F("max_retries"))
    return rows.filter(waits | Q(state=InstructionState.FAILED))


def send_again(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    note = note_of(options)
    sent = {row["id"] for row in reminders.send_again(ids, note=note, stamp=stamp)}
    sent |= set(answering.send_failed_again(ids, channel="page", note=note, stamp=stamp))
    return explain_left(ids, sent, describe_instructions)


def narrow_to_cancellable(rows: Rows) -> Rows:
    queued = Q(state=InstructionState.QUEUED)
    return rows.filter(queued | Q(state=InstructionState.DELIVERED, tracked=True))


def cancel(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    by_project = defaultdict(list)
    rows = Instruction.objects.filter(pk__in=ids).order_by("id")
    for id, project_id in rows.values_list("pk", "project_id"):
        by_project[project_id].append(id)
    cancelled = {
        row["id"]
        for project_id, some in by_project.items()
        for row in instructions.cancel(
            some, project_id=project_id, note=note_of(options), stamp=stamp
        )
    }
    return explain_left(ids, cancelled, describe_instructions)


VERBS = (
    BulkVerb(
        name="instruction.send_again",
        permission=PERMISSION,
        model=Instruction,
        narrow=narrow_to_resendable,
        apply=send_again,
    ),
    BulkVerb(
        name="instruction.cancel",
        permission=PERMISSION,
        model=Instruction,
        narrow=narrow_to_cancellable,
        apply=cancel,
    ),
)
