"""Read the state of retries, the skipped tasks, and the summary of a plan."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet, Sum

from ledger.models import Attempt, Failure, Need, Plan
from ledger.states import FINAL, Outcome, TaskState, proof_of
from ledger.tasks.lineage import fetch_lineages
from retries.models import Escalation
from retries.renderings.failure_records import FailedAttempt
from retries.renderings.plan_summary import Summary, TaskSummary
from retries.renderings.retry_state import ActiveTask, AttemptFailure, GlobalStats, status_of
from retries.renderings.scope import (
    CHUNK_SIZE,
    NAME_FIELDS,
    RenderingScope,
    name_task,
    split_chunks,
)
from retries.renderings.state_md import NO_ANSWER, SkippedTask
from retries.states import Answer, EscalationState, OnExpiry
from retries.tasks.labels import one_line

MOST_PATTERNS = 10
FAILURE_FIELDS = (
    "at",
    "type",
    "message",
    "verification",
    "root_cause_guess",
    "suggested_fix",
    "files_modified",
)
PATTERN_LENGTH = 120


# ---- active tasks

ACTIVE = ~Q(state__in=FINAL)
# a skipped task stays in the state until its plan ends
SKIPPED = Q(
    state=TaskState.SKIPPED, plan__isnull=False, plan__completed_at=None, plan__aborted_at=None
)
STATE_FIELDS = (
    *NAME_FIELDS,
    "state",
    "blocked_reason",
    "retry_count",
    "max_attempts",
    "attempts",
    "started_at",
)


def read_active_tasks(scope: RenderingScope) -> Iterator[ActiveTask]:
    """Yield the tasks that have started and are still in the state, oldest first."""
    rows = scope.current.filter(ACTIVE | SKIPPED, started_at__isnull=False).order_by("id")
    for chunk in split_chunks(rows.values(*STATE_FIELDS).iterator(chunk_size=CHUNK_SIZE)):
        owners = fetch_lineages(task["id"] for task in chunk)
        failures, last = load_failures(owners), find_last_attempts(owners)
        for task in chunk:
            yield build_active_task(task, failures.get(task["id"], []), last.get(task["id"]))


def build_active_task(
    task: Mapping[str, Any], failures: list[AttemptFailure], last: datetime | None
) -> ActiveTask:
    """Return a task as the state shows it; `last` is the time of its last attempt."""
    name, state = name_task(task), task["state"]
    status = status_of(
        state, blocked_reason=task["blocked_reason"], retry_count=task["retry_count"]
    )
    return ActiveTask(
        task_id=name.task_id,
        task_name=name.name,
        retry_count=task["retry_count"],
        max_retries=task["max_attempts"],
        status=status,
        failures=failures,
        current_attempt=task["attempts"] + (status in ("pending", "retrying")),
        started_at=task["started_at"],
        last_attempt_at=last or task["started_at"],
    )


def load_failures(owners: Mapping[UUID, UUID]) -> dict[UUID, list[AttemptFailure]]:
    """Return each task's failures, oldest first; `owners` maps each row to its task."""
    found: dict[UUID, list[AttemptFailure]] = defaultdict(list)
    rows = Failure.objects.filter(task_id__in=owners).order_by("attempt__number")
    for row in rows.values("task_id", "attempt__number", "at", "type", "message", "suggested_fix"):
        found[owners[row["task_id"]]].append(
            AttemptFailure(
                row["attempt__number"], row["at"], row["type"], row["message"], row["suggested_fix"]
            )
        )
    return found


def find_last_attempts(owners: Mapping[UUID, UUID]) -> dict[UUID, datetime]:
    """Return when each task's last attempt ended, or started if it is live."""
    rows = Attempt.objects.filter(task_id__in=owners).order_by("task_id", "-number")
    last = rows.distinct("task_id").values("task_id", "number", "ended_at", "started_at")
    return {
        owners[row["task_id"]]: row["ended_at"] or row["started_at"]
        for row in sorted(last, key=lambda row: row["number"])
    }


def compute_stats(scope: RenderingScope) -> GlobalStats:
    retried = scope.current.filter(attempts__gt=1)
    found = retried.aggregate(
        attempts=Sum("attempts"),
        tasks=Count("id"),
        done=Count("id", filter=Q(state=TaskState.DONE)),
    )
    escalations = Escalation.objects.filter(task__in=scope.current).count()
    if earlier := find_continued_rows(scope):
        escalations += Escalation.objects.filter(task__in=earlier).count()
    return GlobalStats(
        total_retries=(found["attempts"] or 0) - found["tasks"],
        successful_retries=found["done"],
        escalations=escalations,
    )


def find_continued_rows(scope: RenderingScope) -> dict[UUID, UUID]:
    """Return the rows of earlier runs that current tasks continue, each with its task."""
    ids = list(scope.current.filter(carries__isnull=False).values_list("id", flat=True))
    return {row: task for row, task in fetch_lineages(ids).items() if row != task} if ids else {}


# ---- failures


def read_failures(
    scope: RenderingScope, *, since: datetime, most: int | None = None
) -> Iterator[FailedAttempt]:
    """Yield the failures since a time, or the last `most` of them, oldest first."""
    rows = Failure.objects.filter(task__in=scope.tasks, at__gte=since)
    fields = (*(f"task__{name}" for name in NAME_FIELDS), "attempt__number", *FAILURE_FIELDS)
    if most is None:
        found: Iterable[Any] = rows.order_by("at", "id").values(*fields).iterator(CHUNK_SIZE)
    else:
        found = list(rows.order_by("-at", "-id").values(*fields)[:most])[::-1]
    for row in found:
        yield FailedAttempt(
            task_id=name_task({name: row[f"task__{name}"] for name in NAME_FIELDS}).task_id,
            attempt=row["attempt__number"],
            files=row["files_modified"],
            **{name: row[name] for name in FAILURE_FIELDS if name != "files_modified"},
        )


# ---- skipped tasks


def list_skipped_tasks(scope: RenderingScope) -> list[SkippedTask]:
    rows = scope.current.filter(state=TaskState.SKIPPED).order_by("completed_at", "id")
    tasks = list(rows.values(*NAME_FIELDS, "completed_at"))
    ids = [task["id"] for task in tasks]
    failures = count_by_task(Failure.objects.all(), fetch_lineages(ids))
    skips = Q(action=Answer.SKIP) | Q(state=EscalationState.EXPIRED, on_expiry=OnExpiry.SKIP)
    answers = Escalation.objects.filter(skips, task__in=ids).order_by("id")
    reasons = {
        task: NO_ANSWER if action is None else reason
        for task, reason, action in answers.values_list("task_id", "reason", "action")
    }
    dependents = find_dependents(ids)
    return [
        SkippedTask(
            task_id=name_task(task).task_id,
            name=name_task(task).name,
            at=task["completed_at"],
            escalation_reason=reasons.get(task["id"]),
            failures=failures[task["id"]],
            dependents=dependents.get(task["id"], ()),
        )
        for task in tasks
    ]


def count_by_task(rows: QuerySet[Any], owners: Mapping[UUID, UUID]) -> Counter[UUID]:
    counts: Counter[UUID] = Counter()
    by_row = rows.filter(task__in=owners).order_by().values_list("task_id")
    for row_id, count in by_row.annotate(count=Count("pk")):
        counts[owners[row_id]] += count
    return counts


def find_dependents(task_ids: list[UUID]) -> dict[UUID, list[str]]:
    found: dict[UUID, list[str]] = defaultdict(list)
    rows = Need.objects.filter(need__in=task_ids).order_by("task_id")
    for need, task, ref in rows.values_list("need_id", "task_id", "task__ref"):
        found[need].append(ref or str(task))
    return found


# ---- plan summary


def build_summary(plan: Plan) -> Summary:
    scope = RenderingScope(plan.project_id, plan)
    tasks = list(scope.current.order_by("id").values(*NAME_FIELDS, "state", "proof"))
    owners = fetch_lineages(task["id"] for task in tasks)
    attempts = count_by_task(Attempt.objects.exclude(outcome=Outcome.RELEASED), owners)
    escalations = count_by_task(Escalation.objects.all(), owners)
    summaries = [
        TaskSummary(
            id=task["id"],
            task_id=name_task(task).task_id,
            label=name_task(task).label,
            title=task["title"],
            state=task["state"],
            attempts=attempts[task["id"]],
            escalations=escalations[task["id"]],
            proof=proof_of(task["state"], task["proof"]),
        )
        for task in tasks
    ]
    return Summary(ref=plan.ref, state=plan.state, tasks=summaries, patterns=count_patterns(owners))


def count_patterns(task_ids: Iterable[UUID]) -> dict[str, int]:
    rows = Failure.objects.filter(task__in=list(task_ids))
    counts: Counter[str] = Counter()
    for row in rows.values_list("type", "code", "root_cause_guess"):
        names = {one_line(text, PATTERN_LENGTH) for text in row}
        counts.update(names - {""})
    return dict(counts.most_common(MOST_PATTERNS))
