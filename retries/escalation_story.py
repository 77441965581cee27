"""What an escalation says: an instruction's words, or the story of a task as Markdown."""

from collections.abc import Iterable

from ledger.models import Attempt, Failure, Task
from ledger.tasks import line_of
from retries import dependents
from retries.escalation_message import File, Row, Story, message
from retries.models import Escalation
from retries.renderings.names import Named

ATTEMPTS_TOLD = 100


def told(escalation: Escalation) -> str:
    """The message of an escalation, with what it is about loaded."""
    if escalation.instruction:
        return escalation.instruction.content
    return message(story(escalation)) if escalation.task else ""


def story(escalation: Escalation) -> Story:
    """What is told of a task: how it stood when it was escalated, with the attempts until then."""
    task = escalation.task
    assert task is not None
    attempts = list(attempts_until(escalation))
    failures = [failure for attempt in attempts if (failure := failure_of(attempt))]
    waiting = dependents.waiting(task.pk) if escalation.is_open else []
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
    return Named(task.pk, task.ref, task.title, task.type).name


def attempts_until(escalation: Escalation) -> Iterable[Attempt]:
    """Its task's attempts up to the one that led to it, those that it carries on among them,
    oldest first: the last hundred."""
    assert escalation.task is not None
    line = line_of(escalation.task)
    rows = Attempt.objects.filter(task__in=line, number__lte=escalation.attempts)
    rows = rows.select_related("failure").defer("progress", "decision", "report_digest")
    return list(rows.order_by("-number")[:ATTEMPTS_TOLD])[::-1]


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
