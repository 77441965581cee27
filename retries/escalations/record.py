"""What an escalation says: an instruction's words, or the story of a task as Markdown."""

from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from ledger.models import Attempt, Failure, Task
from ledger.states import FINAL
from ledger.tasks.lineage import fetch_lineage
from retries import dependents
from retries.escalations.message import File, Row, Story, message
from retries.models import Escalation
from retries.renderings.labels import TaskName

ATTEMPTS_TOLD = 100  # the last ones


@dataclass(frozen=True)
class Record:
    """What is on record of an escalation's task: each thing is read when it is asked for, and once
    for all that tells of it."""

    task: Task

    @cached_property
    def line(self) -> list[UUID]:
        """Its rows of all runs."""
        return fetch_lineage(self.task)

    @cached_property
    def attempts(self) -> list[Attempt]:
        """The oldest first, with their failures and the patterns of these."""
        rows = Attempt.objects.filter(task__in=self.line).select_related("failure__grouped")
        return list(rows.defer("decision", "report_digest").order_by("number"))

    @cached_property
    def dependents(self) -> list[Task]:
        return dependents.list_dependents(self.task.pk)

    @property
    def waiting(self) -> list[Task]:
        return [task for task in self.dependents if task.state not in FINAL]

    @property
    def failures(self) -> list[Failure]:
        """The newest first."""
        return [found for each in reversed(self.attempts) if (found := failure_of(each))]

    def until(self, escalation: Escalation) -> list[Attempt]:
        """The attempts up to the one that led to it."""
        return [each for each in self.attempts if each.number <= (escalation.attempts or 0)]


def record_of(escalation: Escalation) -> Record | None:
    """Nothing where it is about an instruction."""
    return Record(escalation.task) if escalation.task else None


def told(escalation: Escalation, record: Record | None = None) -> str:
    """The message of an escalation, with what it is about loaded; `record` is that of its task,
    where it is at hand."""
    if escalation.instruction:
        return escalation.instruction.content
    record = record or record_of(escalation)
    return message(story(escalation, record)) if record else ""


def story(escalation: Escalation, found: Record) -> Story:
    """What is told of a task: how it stood when it was escalated, with the attempts until then."""
    task = found.task
    attempts = found.until(escalation)[-ATTEMPTS_TOLD:]
    failures = [failure for attempt in attempts if (failure := failure_of(attempt))]
    waiting = found.waiting if escalation.is_open else []
    return Story(
        name=name_of(task),
        plan=task.plan.ref if task.plan else "",
        attempts=escalation.attempts or 0,
        limit=escalation.attempt_limit or 0,
        failed=len(failures),
        reason="checkpoint" if escalation.is_of_checkpoint else escalation.reason,
        rows=[row_of(attempt) for attempt in attempts],
        details=details_of(failures, task),
        files=files_of(failures),
        question=escalation.question,
        dependents=[name_of(each) for each in waiting],
    )


def name_of(task: Task) -> str:
    """As the renderings call it: Task 3: Create the class."""
    return TaskName(task.pk, task.ref, task.title, task.type).name


def failure_of(attempt: Attempt) -> Failure | None:
    return getattr(attempt, "failure", None)


def row_of(attempt: Attempt) -> Row:
    failure, at = failure_of(attempt), attempt.ended_at or attempt.started_at
    if failure is None:
        return Row(attempt.number, at, attempt.outcome or "", "")
    return Row(attempt.number, failure.at, failure.type, failure.message)


def details_of(failures: list[Failure], task: Task) -> str:
    """What the last failure printed: its details, else its verification's output, its message."""
    if not failures:
        return task.error or ""
    last = failures[-1]
    return last.details or (last.verification or {}).get("output") or last.message


def files_of(failures: list[Failure]) -> list[File]:
    """Every file that an attempt touched, as the last of them left it."""
    found = {
        str(each.get("path", "")): str(each.get("status", ""))
        for failure in failures
        for each in failure.files_modified
    }
    return [File(path, status) for path, status in found.items() if path]
