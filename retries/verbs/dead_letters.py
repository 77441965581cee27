"""The verbs of dead letters: replay and dismiss."""

from functools import partial
from uuid import UUID

from django.db.models import Q

from ledger.admin_pages.confirmation import list_effects
from ledger.models import DeadLetter
from ledger.secrets.notes import clean_note
from ledger.values.text import counted
from retries import deadletters
from retries.assignment.rows import TASK
from retries.escalations.choices import check_dependents
from retries.verbs.assignment import make_assign, make_comment
from retries.verbs.effects import describe_dependents
from retries.verbs.verb import CHANGED_MEANWHILE, Left, Options, Rows, Verb, call, count_as


def describe_letters(ids: list[UUID]) -> dict[UUID, Left]:
    rows = DeadLetter.objects.filter(pk__in=ids).order_by("id")
    return {
        id: Left(f"Already {closed_as}") if closed_as else Left("Its plan is aborted")
        for id, closed_as in rows.values_list("pk", "closed_as")
    }


def explain_unchanged(id: UUID) -> str:
    if DeadLetter.objects.open().filter(pk=id).exists():
        return "1 dead letter of aborted plans can’t be replayed. Restart the plan instead."
    return CHANGED_MEANWHILE


def find_tasks(ids: list[UUID]) -> dict[UUID, UUID]:
    return dict(DeadLetter.objects.filter(pk__in=ids).values_list("task_id", "pk"))


def describe_dismissal(rows: Rows, options: Options) -> list[str]:
    number = rows.count()
    return [
        *list_effects((number, f"{counted(number, 'dead letter')} will be closed permanently.")),
        *describe_dependents(rows.values("task"), options["dependents"]),
    ]


letter_verb = partial(Verb, model=DeadLetter, describe=describe_letters)
REPLAY = letter_verb(
    name="dead_letter.replay",
    # the tasks of an aborted plan run again only when the plan is restarted
    where=Q(closed_at=None, task__plan__aborted_at=None),
    run=call(deadletters.replay, among=DeadLetter.objects.all()),
    words=("Replay", "Replaying", "replayed"),
    icon="undo",
    slug="replay",
    key="r",
    question="Replay this dead letter?",
    consequence="A new task with the same payload starts at attempt 1. Dependent tasks wait for "
    "the new task.",
    said="replayed as a new task",
    unchanged=explain_unchanged,
    admin="Replay: enqueue the task again",
    effects=count_as("task", "will be enqueued again as new tasks."),
)
DISMISS = letter_verb(
    name="dead_letter.dismiss",
    where=Q(closed_at=None),
    takes={"dependents": check_dependents, "note": clean_note},
    run=call(deadletters.dismiss, "dependents", among=DeadLetter.objects.all()),
    ends=True,
    is_dangerous=True,
    words=("Dismiss", "Dismissing", "dismissed"),
    icon="trash",
    slug="dismiss",
    key="d",
    question="Dismiss this dead letter?",
    consequence="The task does not run again. Its failures stay on record.",
    admin="Dismiss: do not retry",
    effects=describe_dismissal,
)
# each failed task has one dead letter, so both have the same assignee and comments
ASSIGN = make_assign("dead_letter.assign", TASK, DeadLetter, path="task__", find=find_tasks)
COMMENT = make_comment("dead_letter.comment", TASK, DeadLetter, find=find_tasks)
VERBS = (REPLAY, DISMISS)
PEOPLE = (ASSIGN, COMMENT)
