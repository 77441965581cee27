"""The evidence beside an escalation: the history of its task or instruction until then."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from dashboard.escalations import queries
from dashboard.escalations.calls.evidence import CallEvidence, collect_call
from dashboard.escalations.context_preview import PreviewLine, highlight
from dashboard.escalations.error_diff import Diff, diff
from dashboard.escalations.outcome import AnswerOutcome, describe_outcome
from dashboard.lists.shared_queries import list_history
from dashboard.sentences.instructions import (
    Received,
    Step,
    describe_received,
    describe_steps,
    urgency_word,
)
from dashboard.sentences.tasks import evidence_suffix
from dashboard.tasks import detail_queries
from dashboard.tasks.attempt_dots import MARKS, PUT_BACK
from dashboard.wording.badges import outcome_label
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Attempt, Event, Failure, Instruction, Task
from ledger.states import FINAL
from retries.escalations.choices import FIX_LENGTH
from retries.escalations.record import Record, read_evidence, render_escalation
from retries.failures.error_sets import ErrorSet, PlacedError
from retries.failures.fixes import suggestions
from retries.failures.fixes.reading import FixState, LearnedFix, fetch_outcomes, normalize_fix
from retries.failures.fixes.suggestions import FixOffer, Suggestion, WorkedFix
from retries.failures.grouping import headline_of
from retries.insight.prediction_reads import find_attempt_predictions
from retries.insight.predictions import Prediction
from retries.models import Escalation
from retries.retry_context import history
from retries.retry_context.block import History
from retries.retry_context.trials import Trial, is_without
from retries.states import Answer

COMPARED = 4  # the newest pairs of failures
MOST_DOTS = 12
FILES_SHOWN = 50
FAILURES_WITH_FIXES = 3
SHORTEST_WAIT = timedelta(seconds=1)


# ---- an instruction


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """The answer to an instruction that this one repeats."""

    escalation: Escalation
    outcome: AnswerOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionEvidence:
    """An ignored instruction: its text as received, its deliveries and earlier answers."""

    received: Received
    steps: list[Step]
    urgency: str
    earlier: list[EarlierAnswer]


def collect_instruction(row: Instruction, *, agent: str) -> InstructionEvidence:
    earlier = queries.list_earlier_answers(row)
    return InstructionEvidence(
        received=describe_received(row),
        steps=describe_steps(list_history(row.pk), agent=agent),
        urgency=urgency_word(row.retry_count),
        earlier=[EarlierAnswer(each, describe_outcome(each)) for each in earlier],
    )


# ---- a task


@dataclass(frozen=True, slots=True)
class AttemptStep:
    """An attempt, its failure, and how long nothing ran before it."""

    attempt: Attempt
    failure: Failure | None
    waited: timedelta | None

    @property
    def headline(self) -> str:
        return headline_of(self.failure) if self.failure else ""

    @property
    def outcome_label(self) -> str:
        return outcome_label(self.attempt.outcome)

    @property
    def obeyed_wait(self) -> str:
        """The wait that the attempt's error named, with the evidence; empty if it named none."""
        decision = self.attempt.decision or {}
        return evidence_suffix(decision).lstrip("; ") if decision.get("delay_s") else ""


@dataclass(frozen=True, slots=True)
class ErrorChange:
    """The difference between the errors of two attempts."""

    before: int
    after: int
    diff: Diff


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """The likely cause of a failure and a suggested fix, from its agent or a known error."""

    failure: Failure
    suggestion: Suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvidence:
    """The history of a task until it was escalated; failures are newest first."""

    steps: list[AttemptStep]
    changes: list[ErrorChange]
    failures: list[Failure]
    dependents: list[Task]
    comments: list[Event]
    message: str
    basis: dict[str, Any]  # what a policy's decision to ask rests on; empty for other reasons
    prediction: Prediction | None
    known_fix: LearnedFix | None  # for the last error
    similar_fixes: list[WorkedFix]  # for other errors of its pattern

    @property
    def waiting_count(self) -> int:
        return sum(task.state not in FINAL for task in self.dependents)

    @property
    def last_failure(self) -> Failure | None:
        return self.failures[0] if self.failures else None

    @property
    def last_headline(self) -> str:
        return headline_of(self.last_failure) if self.last_failure else ""

    @property
    def last_message(self) -> str:
        # The headline or the output may already show the message.
        message = self.last_failure.message if self.last_failure else ""
        return "" if message in (self.last_headline, self.last_output) else message

    @property
    def last_output(self) -> str:
        return output_of(self.last_failure) if self.last_failure else ""

    @property
    def likely_cause(self) -> LikelyCause | None:
        # Only the last failure counts: the cause of an earlier one may have been fixed since.
        failure = self.last_failure
        suggestion = suggestions.suggest(failure) if failure else None
        return LikelyCause(failure, suggestion) if failure and suggestion else None

    @property
    def files(self) -> list[dict[str, Any]]:
        # Each file appears once, as the last attempt left it.
        found: dict[str, dict[str, Any]] = {}
        for failure in reversed(self.failures):
            for each in failure.files_modified:
                found.pop(str(each.get("path")), None)
                found[str(each.get("path"))] = each | {"attempt": failure.attempt.number}
        return list(found.values())[::-1][:FILES_SHOWN]

    @property
    def duration(self) -> timedelta:
        # The waits between the attempts don't count.
        attempts = (step.attempt for step in self.steps)
        return sum(((a.ended_at or a.started_at) - a.started_at for a in attempts), timedelta())

    @property
    def dots(self) -> list[str]:
        outcomes: list[Any] = [step.attempt.outcome for step in self.steps]
        return [MARKS.get(outcome, PUT_BACK) for outcome in outcomes[-MOST_DOTS:]]


def collect_task(escalation: Escalation, record: Record) -> TaskEvidence:
    """Return a task's history until its escalation, without what followed the answer."""
    attempts = record.until(escalation)[-detail_queries.ATTEMPTS_SHOWN :]
    failures = detail_queries.failures_of(attempts)
    return TaskEvidence(
        steps=list_steps(attempts),
        changes=compare_failures(failures[::-1]),
        failures=failures,
        dependents=record.dependents[: detail_queries.NEIGHBORS_SHOWN],
        comments=queries.list_comments(escalation.pk),
        message=render_escalation(escalation, record),
        basis=read_evidence(escalation, record.until(escalation)),
        prediction=find_prediction(escalation, failures),
        known_fix=find_known_fix(record) if escalation.is_open else None,
        similar_fixes=list_similar_fixes(record) if escalation.is_open else [],
    )


def find_prediction(escalation: Escalation, failures: list[Failure]) -> Prediction | None:
    """Return how often tasks that failed like this one succeeded; None if it is closed or new."""
    if not (escalation.is_open and failures):
        return None
    attempt_id = failures[0].attempt_id
    return find_attempt_predictions([attempt_id]).get(attempt_id)


def list_steps(attempts: list[Attempt]) -> list[AttemptStep]:
    steps = []
    before: Attempt | None = None
    for each in attempts:
        waited = each.started_at - before.ended_at if before and before.ended_at else None
        waited = waited if waited and waited >= SHORTEST_WAIT else None
        steps.append(AttemptStep(each, getattr(each, "failure", None), waited))
        before = each
    return steps


def compare_failures(failures: list[Failure]) -> list[ErrorChange]:
    """Compare each of the last failures with the one before it, oldest first."""
    # The next attempt's context compares the same errors.
    compared = failures[-COMPARED - 1 :]
    errors = [read_errors(each) for each in compared]
    return [
        ErrorChange(a.attempt.number, b.attempt.number, diff(before, after))
        for (a, before), (b, after) in pairwise(zip(compared, errors, strict=True))
    ]


def read_errors(failure: Failure) -> ErrorSet:
    """Return the errors in a failure, or its message if nothing is clearly an error."""
    found = history.read_failure(failure).errors
    text = failure.message or headline_of(failure)
    return found if found.errors else ErrorSet({text: PlacedError("", text, text)})


def output_of(failure: Failure) -> str:
    output = (failure.verification or {}).get("output")
    return failure.details or output or failure.message


def collect_evidence(
    escalation: Escalation, record: Record | None, *, now: datetime
) -> TaskEvidence | InstructionEvidence | CallEvidence | None:
    if escalation.permission_id:
        return collect_call(escalation, now=now)
    if record:
        return collect_task(escalation, record)
    row = escalation.instruction
    return collect_instruction(row, agent=escalation.agent.name) if row else None


def suggest_fixes(record: Record) -> list[FixOffer]:
    """Return fixes for the last failure, then the agent's fixes for earlier ones, each once."""
    failures = record.failures[:FAILURES_WITH_FIXES]
    found = suggestions.list_offers(failures[0], record.learned_fixes) if failures else []
    # The text names the attempt: an earlier fix may answer an error that is solved.
    found += [
        FixOffer(each.suggested_fix, f"suggested after attempt {each.attempt.number}")
        for each in failures[1:]
        if each.suggested_fix
    ]
    once = {normalize_fix(each.fix): each for each in reversed(found)}
    return list(once.values())[::-1]


def find_known_fix(record: Record) -> LearnedFix | None:
    """Return the best fix for exactly the task's last error, unless the task already got it."""
    best = next(iter(record.learned_fixes), None)
    if best is None or best.state == FixState.RETIRED:
        return None
    if not (best.is_advice or best.counts.worked):
        return None
    given = (each["fix"] for each in record.escalations if each["action"] == Answer.FIX)
    return None if normalize_fix(best.fix) in map(normalize_fix, given) else best


def list_similar_fixes(record: Record) -> list[WorkedFix]:
    """Return the fixes that worked for the last error's pattern, if none is for that error."""
    grouped = getattr(record.failures[0], "grouped", None) if record.failures else None
    if grouped is None or record.learned_fixes:
        return []
    id = grouped.pattern_id
    outcomes = get_or_compute_slow(f"fixes:{id}", lambda: fetch_outcomes([id]))
    return suggestions.list_worked_fixes(id, outcomes=outcomes)


# ---- the context of the next attempt


@dataclass(frozen=True, slots=True)
class ContextPreview:
    """The retry context that the next attempt receives, line by line."""

    lines: list[PreviewLine]
    size: int
    has_message: bool


def preview_context(escalation: Escalation, record: Record, message: str) -> ContextPreview:
    context = render_context(escalation, record, message[:FIX_LENGTH].strip())
    return ContextPreview(highlight(context), len(context), bool(message.strip()))


def render_context(escalation: Any, record: Record, message: str) -> str:
    task = escalation.task
    assert task is not None
    trial = find_trial(escalation)
    past = history.load_history(
        record.line,
        record.attempts,
        trial,
        record.advice,
        record.escalations,
        escalation.payload_changes,
    )
    if message and escalation.is_question:
        past = replace(
            past, fix=message, masked="", question=escalation.question, earlier=past.guidance
        )
        limit = task.attempt_limit + (1 if task.attempts else 0)
        return render_for_limit(task, past, limit=limit)
    if message:
        return render_for_limit(task, past, limit=task.attempt_limit, fix=message)
    past = replace(past, fix="", masked="", question="", earlier=())
    return render_for_limit(task, past, limit=task.attempts + task.max_attempts)


def find_trial(escalation: Any) -> Trial | None:
    """Return the task's side of the running experiment, or None without one."""
    # `find_escalation` has read the experiment with the escalation.
    if escalation.experiment_id is None:
        return None
    share = escalation.experiment_share
    is_out = is_without(escalation.experiment_id, escalation.task_id, share=share)
    return Trial(escalation.experiment_element, is_out)


def render_for_limit(task: Task, past: History, *, limit: int, fix: str | None = None) -> str:
    row = {"type": task.type, "attempts": task.attempts, "attempt_limit": limit}
    return history.render_next_context(row, history=past, fix=fix)
