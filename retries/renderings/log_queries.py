"""Read the entries of the logs from the journal, in chunks."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q

from ledger import journal
from ledger.journal import Cursor, Kind
from ledger.models import Attempt, Event, Task
from ledger.models.event import EventQuerySet
from ledger.states import Outcome
from ledger.tasks.lineage import fetch_carriers
from retries.models import Escalation
from retries.renderings.log_entries import (
    AnswerEntry,
    AttemptEntry,
    EscalationEntry,
    FeedbackEntry,
    LogEntry,
    ResolutionEntry,
)
from retries.renderings.scope import (
    CHUNK_SIZE,
    NAME_FIELDS,
    RenderingScope,
    name_task,
    split_chunks,
)
from retries.states import Answer

# the events that end an attempt
ATTEMPT_ENDS = (
    Kind.TASK_COMPLETED,
    Kind.TASK_RETRY_SCHEDULED,
    Kind.TASK_RELEASED,
    Kind.TASK_BLOCKED,
    Kind.TASK_ESCALATED,
    Kind.TASK_FAILED,
    Kind.TASK_ABORTED,
)
# the events that end a task, with the status in the logs
TASK_ENDS = {
    Kind.TASK_COMPLETED: "done",
    Kind.TASK_FAILED: "failed",
    Kind.TASK_SKIPPED: "skipped",
    Kind.TASK_ABORTED: "aborted",
}
STATUSES = {Outcome.SUCCESS: "success", Outcome.FAILURE: "failed"}

# Each of these events has an entry in both logs; an answer has one in the text log only.
LOGGED = (
    Q(kind__in=ATTEMPT_ENDS, data__has_key="attempt")
    | Q(kind__in=TASK_ENDS)
    | Q(kind=Kind.TASK_CLAIMED, data__attempt__gt=1)
    | Q(kind=Kind.ESCALATION_OPENED, data__has_key="task")
)
ANSWERS = Q(kind=Kind.TASK_REQUEUED, data__answer__in=Answer.values) & ~Q(actor_type="system")
ANSWERS |= Q(kind=Kind.TASK_ANSWER_UNDONE)

EVENT_FIELDS = ("id", "at", "kind", "subject_id", "actor_type", "data")
ATTEMPT_FIELDS = (
    "task_id",
    "number",
    "outcome",
    "started_at",
    "ended_at",
    "failure__message",
    "failure__suggested_fix",
    "failure__learnings",
)

# The last entries of a long journal are usually found without reading the whole window.
SHORT_WINDOWS = (timedelta(hours=1), timedelta(days=1))

# the events that one piece of a followed log is read from
STREAM_SIZE = 1_000

# the attempts of a task, by number
Attempts = dict[int, dict[str, Any]]


def select_events(scope: RenderingScope, *, since: datetime, with_answers: bool) -> EventQuerySet:
    found = Event.objects.since(since).filter(project_id=scope.project_id)
    found = found.filter(LOGGED | ANSWERS if with_answers else LOGGED)
    if scope.plan is None:
        return found
    tasks = scope.tasks.values("id")
    subjects = [row["id"] for row in tasks]
    subjects += Escalation.objects.filter(task__in=tasks).values_list("id", flat=True)
    return found.filter(subject_id__in=subjects)


def read_entries(
    scope: RenderingScope, *, since: datetime, with_answers: bool
) -> Iterator[LogEntry]:
    found = select_events(scope, since=since, with_answers=with_answers).order_by("at", "id")
    for chunk in split_chunks(found.values(*EVENT_FIELDS).iterator(chunk_size=CHUNK_SIZE)):
        yield from build_entries(chunk)


def read_last_entries(
    scope: RenderingScope, *, window: timedelta, now: datetime, with_answers: bool, most: int
) -> Iterator[LogEntry]:
    """Yield the entries of the last `most` events, oldest first."""
    last: list[dict[str, Any]] = []
    for span in (*SHORT_WINDOWS, window):
        found = select_events(scope, since=now - span, with_answers=with_answers).order_by(
            "-at", "-id"
        )
        last = list(found.values(*EVENT_FIELDS)[:most])
        if len(last) == most:
            break
    for chunk in split_chunks(last[::-1]):
        yield from build_entries(chunk)


def read_stream(
    scope: RenderingScope, after: Cursor, *, with_answers: bool
) -> tuple[list[LogEntry], Cursor, bool]:
    """Return the entries of the stream's next events, where they end, and if there are more."""
    # No event can appear before `after` later: see `ledger.journal.SETTLED`.
    rows = journal.fetch_stream(after, project_id=scope.project_id, limit=STREAM_SIZE)
    if not rows:
        return [], after, False
    since = min(row["at"] for row in rows)
    events = select_events(scope, since=since, with_answers=with_answers)
    found = events.filter(id__in=[row["id"] for row in rows]).values(*EVENT_FIELDS)
    logged = {event["id"]: event for event in found}
    chunk = [logged[row["id"]] for row in rows if row["id"] in logged]
    end = Cursor(int(rows[-1]["tx"]), str(rows[-1]["id"]))
    return list(build_entries(chunk)), end, len(rows) == STREAM_SIZE


def build_entries(chunk: list[dict[str, Any]]) -> Iterator[LogEntry]:
    task_ids = {event["id"]: task_id_of(event) for event in chunk}
    tasks = {
        row["id"]: row
        for row in Task.objects.filter(pk__in=set(task_ids.values())).values(
            *NAME_FIELDS, "started_at"
        )
    }
    attempts = load_attempts(tasks)
    for event in chunk:
        if task := tasks.get(task_ids[event["id"]]):
            yield from split_event(event, task, attempts.get(task["id"], {}))


def task_id_of(event: Mapping[str, Any]) -> UUID:
    if event["kind"] == Kind.ESCALATION_OPENED:
        return UUID(event["data"]["task"])
    subject: UUID = event["subject_id"]
    return subject


def load_attempts(task_ids: Iterable[UUID]) -> dict[UUID, Attempts]:
    """Return each task's attempts in order, including those of the runs it continues."""
    found: dict[UUID, Attempts] = defaultdict(dict)
    carriers = fetch_carriers(task_ids)
    rows = Attempt.objects.filter(task_id__in=carriers).order_by("number", "task_id")
    for row in rows.values(*ATTEMPT_FIELDS):
        for task_id in carriers[row["task_id"]]:
            found[task_id][row["number"]] = row
    return found


def split_event(
    event: Mapping[str, Any], task: Mapping[str, Any], attempts: Attempts
) -> Iterator[LogEntry]:
    # An event can end an attempt and its task.
    at, task_id, data = event["at"], name_task(task).task_id, event["data"]
    kind, number = event["kind"], data.get("attempt")
    if kind == Kind.TASK_CLAIMED:
        yield FeedbackEntry(
            at=at,
            task_id=task_id,
            attempt=number,
            feedback_lines=count_feedback_lines(attempts, number),
        )
        return
    if kind == Kind.TASK_ANSWER_UNDONE:
        yield AnswerEntry(at=at, task_id=task_id, response="undo")
        return
    if kind == Kind.ESCALATION_OPENED:
        yield EscalationEntry(
            at=at, task_id=task_id, attempts=count_attempts(attempts, at), reason=data["reason"]
        )
        return
    if number in attempts:
        yield build_attempt_entry(event, attempts[number], task_id)
    if data.get("answer") in Answer.values and event["actor_type"] != "system":
        yield AnswerEntry(at=at, task_id=task_id, response=data["answer"])
    if status := TASK_ENDS.get(kind):
        yield ResolutionEntry(
            at=at,
            task_id=task_id,
            status=status,
            total_attempts=count_attempts(attempts, at),
            total_duration_ms=duration_ms(task["started_at"], at),
        )


def build_attempt_entry(
    event: Mapping[str, Any], row: Mapping[str, Any], task_id: str
) -> AttemptEntry:
    data, outcome = event["data"], row["outcome"]
    return AttemptEntry(
        at=event["at"],
        task_id=task_id,
        attempt=data["attempt"],
        status=STATUSES.get(Outcome(outcome), outcome),
        failure_type=data.get("failure_type"),
        error="" if event["kind"] == Kind.TASK_RELEASED else data.get("error", ""),
        suggested_fix=row["failure__suggested_fix"] or "",
        duration_ms=duration_ms(row["started_at"], row["ended_at"]),
    )


def count_feedback_lines(attempts: Attempts, number: int) -> int:
    lines = 0
    for row in attempts.values():
        if row["number"] < number and row["failure__message"] is not None:
            texts = (row["failure__message"], row["failure__suggested_fix"])
            lines += sum(len(text.splitlines()) for text in texts) + len(row["failure__learnings"])
    return lines


def count_attempts(attempts: Attempts, at: datetime) -> int:
    return bisect_right([row["started_at"] for row in attempts.values()], at)


def duration_ms(since: datetime | None, until: datetime | None) -> int:
    """Return the milliseconds between two timestamps, or 0 if one is missing."""
    if since is None or until is None:
        return 0
    return max(0, round((until - since).total_seconds() * 1000))
