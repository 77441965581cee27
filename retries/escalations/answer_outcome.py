"""What came of an answer about a task: what the attempts after it did, and where it stands now."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledger import sql
from ledger.journal import Kind
from ledger.models import Event, Need, Task
from ledger.states import TaskState
from retries.models import Escalation
from retries.states import Answer, Dependents

# the answers after which its attempts go on
GOES_ON = (Answer.FIX, Answer.RETRY, Answer.ANSWER)
# by the state of its task
CAME = {
    TaskState.QUEUED: "It waits for its agent",
    TaskState.RETRY: "It waits for attempt {next} of {limit}",
    TaskState.RUNNING: "It runs, attempt {number} of {limit}",
    TaskState.BLOCKED: "It is blocked",
    TaskState.ESCALATED: "It needs a person",
    TaskState.DONE: "Done on attempt {number}",
    TaskState.FAILED: "Failed for good on attempt {number}",
    TaskState.SKIPPED: "Skipped since",
    TaskState.ABORTED: "Aborted since",
}
AGAIN = "Needed a person again after attempt {again}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """Where the task of an answered escalation stands now.

    `is_same` is false where another row has taken its place, restarted in run `run` or replayed.
    `asked_again` is the number of the attempt after which it needed a person again.
    """

    task_id: UUID
    state: str
    attempts: int
    attempt_limit: int
    run: int | None
    is_same: bool
    asked_again: int | None

    def told(self, action: str | None) -> str:
        """In words; nothing where the answer ended it and nobody began it anew."""
        said = AGAIN if self.asked_again is not None else CAME[TaskState(self.state)]
        came = said.format(
            number=self.attempts,
            next=self.attempts + 1,
            limit=self.attempt_limit,
            again=self.asked_again,
        )
        if self.is_same:
            return came if action in GOES_ON else ""
        anew = f"Begun anew in run {self.run}" if self.run else "Replayed"
        return f"{anew}: {came[0].lower()}{came[1:]}"


def here(task: Task, *, asked_again: int | None) -> Aftermath:
    """That of a task whose place nobody has taken."""
    return Aftermath(
        task_id=task.pk,
        state=task.state,
        attempts=task.attempts,
        attempt_limit=task.attempt_limit,
        run=task.run,
        is_same=True,
        asked_again=asked_again,
    )


# Rows that take its place are followed to the last one; questions only as long as attempts go on.
STANDS = """with recursive stands as (
    select e.id, t.id as task_id, t.replaced_by_id, true as goes_on
    from retries_escalation e join ledger_task t on t.id = e.task_id where e.id = any(%(ids)s)
    union all
    select s.id, n.id, n.replaced_by_id, s.goes_on and n.carries_id is not distinct from s.task_id
    from stands s join ledger_task n on n.id = s.replaced_by_id
)
select s.id, t.id as task_id, t.state, t.attempts, t.attempt_limit, t.run,
    e.task_id = t.id as is_same,
    (select x.attempts from retries_escalation x
        where x.id > s.id
            and x.task_id = any(array(select task_id from stands o where o.id = s.id and o.goes_on))
        order by x.id limit 1) as asked_again
from stands s join ledger_task t on t.id = s.task_id join retries_escalation e on e.id = s.id
where s.replaced_by_id is null"""


def of(escalations: Iterable[Escalation]) -> dict[UUID, Aftermath]:
    """By the ids of those that are about tasks and closed: one query, however many."""
    ids = [each.pk for each in escalations if each.task_id and not each.is_open]
    rows = sql.run(STANDS, ids=ids) if ids else []
    return {row.pop("id"): Aftermath(**row) for row in rows}


# ---- what else the answer ended or let go on

BECAME = {
    Dependents.CONTINUE: "went on without it",
    Dependents.BLOCK: "stayed blocked",
    Dependents.SKIP: "{was} skipped with it",
}


def consequence(escalation: Escalation) -> str:
    """What a skip did with the tasks that depend on it, or an abort with the rest of its plan."""
    task = escalation.task
    match escalation.action:
        case Answer.SKIP if task:
            return of_skip(escalation)
        case Answer.ABORT if task and task.plan_id:
            return of_abort(escalation, task.plan_id)
    return ""


def of_skip(escalation: Escalation) -> str:
    depended = Need.objects.filter(need=escalation.task_id).count()
    if not depended:
        return ""
    chosen = data_of(escalation.pk, Kind.ESCALATION_RESOLVED, escalation)["dependents"]
    one = depended == 1
    became = BECAME[Dependents(chosen)].format(was="was" if one else "were")
    return f"{depended} task{'' if one else 's'} that depend{'s' if one else ''} on it {became}"


def of_abort(escalation: Escalation, plan_id: UUID) -> str:
    counts = data_of(plan_id, Kind.PLAN_ABORTED, escalation)
    stopped, running = counts.get("aborted", 0), counts.get("running", 0)
    said = [f"{stopped} more of its plan {'was' if stopped == 1 else 'were'} aborted"]
    said += [f"{running} told to stop"] if running else []
    return ", ".join(said) if counts else ""


def data_of(subject_id: UUID, kind: Kind, escalation: Escalation) -> dict[str, Any]:
    """What the journal tells of that at the time of the answer; nothing where it did not happen."""
    assert escalation.closed_at is not None
    rows = Event.objects.filter(subject_id=subject_id, kind=kind, at=escalation.closed_at)
    return rows.values_list("data", flat=True).first() or {}
