"""Load the record of an escalation's task and render the escalation's message."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from ledger.models import Attempt, Failure, Task
from ledger.states import FINAL, Outcome
from ledger.tasks.lineage import fetch_lineage
from retries.escalations.message import (
    NO_EVIDENCE,
    AttemptRow,
    Evidence,
    Facts,
    FileStatus,
    OfferedAnswer,
    render_message,
)
from retries.failures.fixes.reading import LearnedFix, find_learned_fixes, pick_learned
from retries.models import Escalation
from retries.retry_context.history import MARKS, read_escalations
from retries.tasks import dependents
from retries.tasks.labels import TaskName

MOST_ATTEMPTS = 100  # the newest ones that a message lists


@dataclass(frozen=True)
class Record:
    """The record of an escalation's task; each part is queried once, on first use."""

    task: Task

    @cached_property
    def line(self) -> list[UUID]:
        """Return the ids of the task's rows in all runs."""
        return fetch_lineage(self.task)

    @cached_property
    def attempts(self) -> list[Attempt]:
        rows = Attempt.objects.filter(task__in=self.line).select_related("failure__grouped")
        return list(rows.defer("report_digest").annotate(**MARKS).order_by("number"))

    @cached_property
    def dependents(self) -> list[Task]:
        return dependents.list_dependents(self.task.pk)

    @property
    def waiting(self) -> list[Task]:
        return [task for task in self.dependents if task.state not in FINAL]

    @property
    def failures(self) -> list[Failure]:
        return [failure for each in reversed(self.attempts) if (failure := failure_of(each))]

    @cached_property
    def learned_fixes(self) -> list[LearnedFix]:
        last = self.failures[0] if self.failures else None
        return pick_learned(last, find_learned_fixes([last.pk])) if last else []

    @cached_property
    def escalations(self) -> list[dict[str, Any]]:
        return read_escalations(self.line)

    @property
    def blockers(self) -> dict[int, str]:
        """Return what its attempts reported themselves blocked by, by the attempt's number."""
        return {row["attempts"]: row["blocker"] for row in self.escalations if row["blocker"]}

    @property
    def advice(self) -> dict[UUID, LearnedFix]:
        """Return the fix for the next attempt's context, by the failure that it follows."""
        if not self.learned_fixes or not self.learned_fixes[0].is_advice:
            return {}
        return {self.failures[0].pk: self.learned_fixes[0]}

    def until(self, escalation: Escalation) -> list[Attempt]:
        return [each for each in self.attempts if each.number <= (escalation.attempts or 0)]


def load_record(escalation: Escalation) -> Record | None:
    return Record(escalation.task) if escalation.task else None


def render_escalation(escalation: Escalation, record: Record | None = None) -> str:
    if escalation.permission:
        return escalation.question
    if escalation.instruction:
        return escalation.instruction.content
    record = record or load_record(escalation)
    return render_message(build_facts(escalation, record)) if record else ""


def build_facts(escalation: Escalation, record: Record) -> Facts:
    # The message shows the task as it was at the time of the escalation.
    task = record.task
    attempts = record.until(escalation)[-MOST_ATTEMPTS:]
    if escalation.is_question:
        attempts = [attempt for attempt in attempts if failure_of(attempt)]
    failures = [failure for attempt in attempts if (failure := failure_of(attempt))]
    waiting = record.waiting if escalation.is_open else []
    return Facts(
        name=name_of(task),
        plan=task.plan.ref if task.plan else "",
        attempts=escalation.attempts or 0,
        limit=escalation.attempt_limit or 0,
        failed=len(failures),
        reason="checkpoint" if escalation.is_of_checkpoint else escalation.reason,
        rows=[build_row(attempt, record.blockers) for attempt in attempts],
        details=find_details(failures, task),
        files=collect_files(failures),
        question=escalation.question,
        evidence=find_evidence(escalation, attempts),
        answers=list_answers(escalation) if escalation.is_question else None,
        dependents=[name_of(each) for each in waiting],
    )


def read_evidence(escalation: Escalation, attempts: list[Attempt]) -> dict[str, Any]:
    decision = (attempts[-1].decision if attempts else None) or {}
    if decision.get("reason") != escalation.reason:
        return {}
    return decision.get("evidence") or {}


def find_evidence(escalation: Escalation, attempts: list[Attempt]) -> Evidence:
    # The decision's evidence was stored with the last attempt.
    found = read_evidence(escalation, attempts)
    if not found:
        return NO_EVIDENCE
    return Evidence(found.get("line", ""), found.get("title", ""), found.get("same_as"))


def list_answers(escalation: Escalation) -> list[OfferedAnswer]:
    return [
        OfferedAnswer(
            each["name"],
            ": ".join(part for key in ("title", "description") if (part := each.get(key, ""))),
        )
        for each in escalation.choices
    ]


def name_of(task: Task) -> str:
    return TaskName(task.pk, task.ref, task.title, task.type).name


def failure_of(attempt: Attempt) -> Failure | None:
    return getattr(attempt, "failure", None)


def build_row(attempt: Attempt, blockers: Mapping[int, str]) -> AttemptRow:
    failure, at = failure_of(attempt), attempt.ended_at or attempt.started_at
    if failure is None:
        blocker = blockers.get(attempt.number, "") if attempt.outcome == Outcome.BLOCKED else ""
        return AttemptRow(attempt.number, at, attempt.outcome or "", blocker)
    return AttemptRow(attempt.number, failure.at, failure.type, failure.message)


def find_details(failures: list[Failure], task: Task) -> str:
    # Without details the verification's output is shown, and without that the message.
    if not failures:
        return task.error or ""
    last = failures[-1]
    return last.details or (last.verification or {}).get("output") or last.message


def collect_files(failures: list[Failure]) -> list[FileStatus]:
    # A later attempt's status of a file replaces an earlier one.
    statuses = {
        str(each.get("path", "")): str(each.get("status", ""))
        for failure in failures
        for each in failure.files_modified
    }
    return [FileStatus(path, status) for path, status in statuses.items() if path]
