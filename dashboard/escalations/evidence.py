"""What a person reads before answering for a task: its attempts, what changed, the likely cause."""

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

from dashboard.escalations.error_diff import Diff, diff
from dashboard.tasks import detail_queries
from dashboard.tasks.attempt_dots import MARKS, PUT_BACK
from ledger.models import Attempt, Failure, Task
from retries.escalations.record import Record
from retries.failures import suggestions
from retries.failures.suggestions import FixOffer, Suggestion
from retries.models import Escalation
from retries.retry_context import history
from retries.retry_context.block import History
from retries.states import Reason

COMPARED = 4  # the last pairs of failures
MOST_PIPS = 12
FILES_SHOWN = 50
SUGGESTED = 3


@dataclass(frozen=True, slots=True)
class Rung:
    """An attempt, its failure, and how long nothing ran before it."""

    attempt: Attempt
    failure: Failure | None
    waited: timedelta | None

    @property
    def ended(self) -> str:
        """How it ended where it did not fail."""
        return ENDED.get(self.attempt.outcome or "", "")


ENDED = {
    "released": "released",
    "blocked": "reported blocked",
    "escalated": "escalated",
    "aborted": "aborted",
    "success": "done",
}
LEAST_WAIT = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Change:
    """What changed from the error of one attempt to that of another."""

    before: int
    after: int
    diff: Diff


@dataclass(frozen=True, slots=True)
class Guess:
    """Why a failure came about and what would help, by its agent or by what is known."""

    failure: Failure
    said: Suggestion


@dataclass(frozen=True, slots=True)
class Case:
    """The story of a task up to the question about it; failures are newest first."""

    rungs: list[Rung]
    changes: list[Change]
    failures: list[Failure]
    dependents: list[Task]

    @property
    def last(self) -> Failure | None:
        return self.failures[0] if self.failures else None

    @property
    def printed(self) -> str:
        return printed(self.last) if self.last else ""

    @property
    def guess(self) -> Guess | None:
        """By the newest failure whose agent says why, or what would help; else what is known of
        the last one's error."""
        told = (each for each in self.failures if each.root_cause_guess or each.suggested_fix)
        failure = next(told, self.last)
        guessed = suggestions.suggest(failure) if failure else None
        return Guess(failure, guessed) if failure and guessed else None

    @property
    def files(self) -> list[dict[str, Any]]:
        """Every file that was touched, as the last attempt left it."""
        found: dict[str, dict[str, Any]] = {}
        for failure in reversed(self.failures):
            for each in failure.files_modified:
                found.pop(str(each.get("path")), None)
                found[str(each.get("path"))] = each | {"attempt": failure.attempt.number}
        return list(found.values())[::-1][:FILES_SHOWN]

    @property
    def worked(self) -> timedelta:
        spans = (rung.attempt for rung in self.rungs)
        return sum(((a.ended_at or a.started_at) - a.started_at for a in spans), timedelta())

    @property
    def pips(self) -> list[str]:
        outcomes: list[Any] = [rung.attempt.outcome for rung in self.rungs]
        return [MARKS.get(outcome, PUT_BACK) for outcome in outcomes[-MOST_PIPS:]]


def case(escalation: Escalation, record: Record) -> Case:
    """What happened until it was asked; what came of the answer is no part of it."""
    attempts = record.until(escalation)[-detail_queries.ATTEMPTS_SHOWN :]
    failures = detail_queries.failures_of(attempts)
    return Case(
        rungs=rungs(attempts),
        changes=changes(failures[::-1]),
        failures=failures,
        dependents=record.dependents[: detail_queries.NEIGHBORS_SHOWN],
    )


def offers(record: Record) -> list[FixOffer]:
    """What may mend its last failure, then what its agent said before that; each once."""
    failures = record.failures[:SUGGESTED]
    found = suggestions.list_offers(failures[0]) if failures else []
    earlier = (each.suggested_fix for each in failures[1:] if each.suggested_fix)
    found += [FixOffer(text, suggestions.BY_AGENT) for text in earlier]
    once = {suggestions.normalize_fix(each.fix): each for each in reversed(found)}
    return list(once.values())[::-1]


def rungs(attempts: list[Attempt]) -> list[Rung]:
    made = []
    before: Attempt | None = None
    for each in attempts:
        waited = each.started_at - before.ended_at if before and before.ended_at else None
        waited = waited if waited and waited >= LEAST_WAIT else None
        made.append(Rung(each, getattr(each, "failure", None), waited))
        before = each
    return made


def changes(failures: list[Failure]) -> list[Change]:
    """Of neighbours, oldest first."""
    return [
        Change(a.attempt.number, b.attempt.number, diff(said(a), said(b)))
        for a, b in list(pairwise(failures))[-COMPARED:]
    ]


def said(failure: Failure) -> str:
    """All that it said: its message, where that is more than what it printed."""
    output = printed(failure)
    return output if failure.message in output else f"{failure.message}\n{output}"


def printed(failure: Failure) -> str:
    """What it printed: its details, else the output of its verification, else its message."""
    output = (failure.verification or {}).get("output")
    return failure.details or output or failure.message


# ---- what the next attempt is told


def preview(escalation: Escalation, record: Record, words: str) -> str:
    """The block that the next attempt would get with these words, by the renderer that makes it;
    without words what it gets after a retry."""
    task, words = escalation.task, words.strip()
    assert task is not None
    past = history.load_history(record.line, record.attempts)
    if words and escalation.reason == Reason.AGENT_QUESTION:
        past = replace(past, fix=words, question=escalation.question, earlier=past.guidance)
        return block(task, past, limit=task.attempt_limit + (1 if task.attempts else 0))
    if words:
        return block(task, past, limit=task.attempt_limit, fix=words)
    past = History(failures=past.failures, progress=past.progress)
    return block(task, past, limit=task.attempts + task.max_attempts)


def block(task: Task, past: History, *, limit: int, fix: str | None = None) -> str:
    row = {"type": task.type, "attempts": task.attempts, "attempt_limit": limit}
    return history.render_next_context(row, history=past, fix=fix)
