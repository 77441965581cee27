"""Find and describe the outcome of a task after a person answered about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledger.database import sql
from ledger.journal import Kind
from ledger.models import Event, Need, Task
from ledger.states import TaskState
from retries.models import Escalation
from retries.states import Answer, Dependents

# the answers after which the task resumes
RESUMING_ANSWERS = (Answer.FIX, Answer.RETRY, Answer.ANSWER, Answer.GRANT)
# the descriptions by the state of the task
STATE_TEXTS = {
    TaskState.QUEUED: "Waiting for its agent",
    TaskState.RETRY: "Waiting for attempt {next} of {limit}",
    TaskState.RUNNING: "Running attempt {number} of {limit}",
    TaskState.BLOCKED: "Blocked",
    TaskState.ESCALATED: "Escalated to a person",
    TaskState.DONE: "Done on attempt {number}",
    TaskState.FAILED: "Failed permanently on attempt {number}",
    TaskState.SKIPPED: "Skipped later",
    TaskState.ABORTED: "Aborted later",
}
ESCALATED_AGAIN = "Escalated again after attempt {again}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """The current state of an answered escalation's task.

    `is_same` is false if another row replaced the task, by a restart in run `run` or by a replay.
    `asked_again` is the number of the attempt after which it was escalated again.
    """

    task_id: UUID
    state: str
    attempts: int
    attempt_limit: int
    run: int | None
    is_same: bool
    asked_again: int | None

    def describe(self, action: str | None) -> str:
        """Describe the outcome; empty if the answer ended the task and nothing restarted it."""
        is_escalated = self.asked_again is not None
        template = ESCALATED_AGAIN if is_escalated else STATE_TEXTS[TaskState(self.state)]
        text = template.format(
            number=self.attempts,
            next=self.attempts + 1,
            limit=self.attempt_limit,
            again=self.asked_again,
        )
        if self.is_same:
            return text if action in RESUMING_ANSWERS else ""
        event = f"Restarted in run {self.run}" if self.run else "Replayed"
        return f"{event}: {text[0].lower()}{text[1:]}"


def outcome_of(task: Task, *, asked_again: int | None) -> TaskOutcome:
    return TaskOutcome(
        task_id=task.pk,
        state=task.state,
        attempts=task.attempts,
        attempt_limit=task.attempt_limit,
        run=task.run,
        is_same=True,
        asked_again=asked_again,
    )


# Replacements are followed to the last row, escalations only while the attempts continue.
OUTCOMES = """with recursive stands as (
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


def find_outcomes(escalations: Iterable[Escalation]) -> dict[UUID, TaskOutcome]:
    ids = [each.pk for each in escalations if each.task_id and not each.is_open]
    rows = sql.run(OUTCOMES, ids=ids) if ids else []
    return {row.pop("id"): TaskOutcome(**row) for row in rows}


# ---- consequences for other tasks

DEPENDENTS_TEXTS = {
    Dependents.CONTINUE: "continued without it",
    Dependents.BLOCK: "stayed blocked",
    Dependents.SKIP: "{was} skipped with it",
}


def describe_consequence(escalation: Escalation) -> str:
    task = escalation.task
    match escalation.action:
        case Answer.SKIP if task:
            return describe_skip(escalation)
        case Answer.ABORT if task and task.plan_id:
            return describe_abort(escalation, task.plan_id)
    return ""


def describe_skip(escalation: Escalation) -> str:
    dependents = Need.objects.filter(need=escalation.task_id).count()
    if not dependents:
        return ""
    data = fetch_event_data(escalation.pk, Kind.ESCALATION_RESOLVED, escalation)
    if not (chosen := data.get("dependents")):
        return ""
    one = dependents == 1
    effect = DEPENDENTS_TEXTS[Dependents(chosen)].format(was="was" if one else "were")
    return f"{dependents} dependent task{'' if one else 's'} {effect}"


def describe_abort(escalation: Escalation, plan_id: UUID) -> str:
    counts = fetch_event_data(plan_id, Kind.PLAN_ABORTED, escalation)
    stopped, running = counts.get("aborted", 0), counts.get("running", 0)
    one = stopped == 1
    texts = [
        f"{stopped} other task{'' if one else 's'} of the plan {'was' if one else 'were'} aborted"
    ]
    texts += [f"{running} told to stop"] if running else []
    return ", ".join(texts) if counts else ""


def fetch_event_data(subject_id: UUID, kind: Kind, escalation: Escalation) -> dict[str, Any]:
    # The event may be gone, because the journal can be kept for a shorter time.
    assert escalation.closed_at is not None
    rows = Event.objects.about(subject_id).since(escalation.closed_at)
    rows = rows.filter(kind=kind, at=escalation.closed_at)
    return rows.values_list("data", flat=True).first() or {}
