"""The verbs of operations on dead letters: replay and dismiss."""

from uuid import UUID

from ledger.journal import Stamp
from ledger.models import DeadLetter
from ledger.secrets.notes import clean_note
from retries import deadletters
from retries.operations.bulk_verb import (
    BulkVerb,
    Left,
    Options,
    Rows,
    check_dependents,
    explain_left,
    note_of,
)

PERMISSION = "ledger.change_deadletter"


def describe_letters(ids: list[UUID]) -> dict[UUID, Left]:
    """Return why dead letters were left as they are."""
    rows = DeadLetter.objects.filter(pk__in=ids).order_by("id")
    return {
        id: Left(f"Already {closed_as}") if closed_as else Left("Its plan is aborted")
        for id, closed_as in rows.values_list("pk", "closed_as")
    }


def narrow_to_replayable(rows: Rows) -> Rows:
    return rows.filter(closed_at=None, task__plan__aborted_at=None)


def replay(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    done = deadletters.replay(
        ids, among=DeadLetter.objects.all(), note=note_of(options), stamp=stamp
    )
    return explain_left(ids, {letter.pk for letter in done}, describe_letters)


def narrow_to_open(rows: Rows) -> Rows:
    return rows.filter(closed_at=None)


def check_dismissal(options: Options) -> Options:
    return check_dependents(options) | {"note": clean_note(str(options.get("note", "")))}


def dismiss(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    done = deadletters.dismiss(
        ids,
        among=DeadLetter.objects.all(),
        dependents=options["dependents"],
        note=options["note"] or note_of(options),
        stamp=stamp,
    )
    return explain_left(ids, {letter.pk for letter in done}, describe_letters)


VERBS = (
    BulkVerb(
        name="dead_letter.replay",
        permission=PERMISSION,
        model=DeadLetter,
        narrow=narrow_to_replayable,
        apply=replay,
    ),
    BulkVerb(
        name="dead_letter.dismiss",
        permission=PERMISSION,
        model=DeadLetter,
        narrow=narrow_to_open,
        apply=dismiss,
        check=check_dismissal,
    ),
)
