"""Ignore, resolve, reopen and retry patterns of failures."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from ledger.errors import Invalid
from ledger.journal import Stamp
from ledger.models import DeadLetter
from ledger.states import TaskState
from retries import deadletters
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import AlreadyResolved, EscalationExpired
from retries.failures import grouping
from retries.failures.stuck_tasks import retryable_escalations, stuck_tasks
from retries.models import Escalation
from retries.states import Answer, PatternState
from retries.tasks import actions as task_actions

BATCH_SIZE = 500  # tasks that one `retry` covers


def ignore(
    ids: Iterable[UUID], *, until: datetime | None = None, note: str = "", stamp: Stamp
) -> list[UUID]:
    """Ignore these patterns, permanently or until a time; return the ids that changed.

    The first failure after that time reopens its pattern. Raises Invalid if the time is past.
    """
    if until is not None and until <= stamp.at:
        raise Invalid("/until", "Give a time in the future, or none to ignore it permanently.")
    return grouping.move(PatternState.IGNORED, ids, until=until, note=note, stamp=stamp)


def resolve(ids: Iterable[UUID], *, note: str = "", stamp: Stamp) -> list[UUID]:
    """Mark these patterns as fixed; return the ids that changed.

    The next failure of a resolved pattern is a regression.
    """
    return grouping.move(PatternState.RESOLVED, ids, note=note, stamp=stamp)


def reopen(ids: Iterable[UUID], *, stamp: Stamp) -> list[UUID]:
    return grouping.move(PatternState.OPEN, ids, stamp=stamp)


# ---- retry all tasks of a pattern


@dataclass(frozen=True, slots=True)
class RetryResult:
    """The dead letters, due tasks and escalations that a retry of patterns covered."""

    replayed: list[DeadLetter]
    made_due: list[UUID]
    answered: list[Escalation]

    def __len__(self) -> int:
        return len(self.replayed) + len(self.made_due) + len(self.answered)


@transaction.atomic
def retry(
    ids: Iterable[UUID], *, choice: Choice | None = None, stamp: Stamp, channel: str
) -> RetryResult:
    """Retry the tasks that are stuck because of these patterns, at most BATCH_SIZE of them.

    Replays open dead letters, makes waiting retries due, and answers `retryable_escalations` with
    `choice`, a retry or a fix.
    """
    choice = choice or Choice(Answer.RETRY)
    rows = list(stuck_tasks(ids).values_list("pk", "state")[:BATCH_SIZE])
    by_state = {state: [id for id, each in rows if each == state] for state in TaskState}
    letters = DeadLetter.objects.open().filter(task__in=by_state[TaskState.FAILED])
    replayed = deadletters.replay(
        letters.values_list("pk", flat=True), among=DeadLetter.objects.all(), stamp=stamp
    )
    made_due = task_actions.retry_now(by_state[TaskState.RETRY], stamp=stamp)
    answered = []
    escalations = retryable_escalations().filter(task__in=by_state[TaskState.ESCALATED])
    for escalation in escalations.order_by("id"):
        try:
            answered.append(
                answering.answer(
                    escalation.pk,
                    choice,
                    among=Escalation.objects.all(),
                    stamp=stamp,
                    channel=channel,
                )
            )
        except (AlreadyResolved, EscalationExpired):
            continue  # it was answered or expired in the meantime
    return RetryResult(replayed, made_due, answered)
