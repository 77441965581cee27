"""What the renderings tell, read from journal and tasks; the logs in chunks, however long."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet, Sum

from ledger.journal import Kind
from ledger.models import Attempt, Event, Failure, Need, Plan, Task
from ledger.models.event import EventQuerySet
from ledger.models.task import TaskQuerySet
from ledger.states import FINAL, Outcome, TaskState
from ledger.tasks.lineage import fetch_carriers, fetch_lineages
from retries.models import Escalation
from retries.renderings.labels import Named, one_line
from retries.renderings.log_entries import (
    Answered,
    Attempted,
    Escalated,
    Happening,
    Injected,
    Resolved,
)
from retries.renderings.plan_summary import Line, Summary
from retries.renderings.retry_state import Entry, Failed, Stats, status_of
from retries.renderings.state_md import NOBODY, Skipped
from retries.states import Answer, EscalationState, OnExpiry

CHUNK = 500
MOST_PATTERNS = 10
PATTERN_LENGTH = 120


@dataclass(frozen=True, slots=True)
class About:
    """What a rendering is about: a whole project, or one plan of it."""

    project_id: UUID
    plan: Plan | None = None

    @property
    def tasks(self) -> TaskQuerySet:
        """All of its tasks, those of earlier runs too."""
        found = Task.objects.filter(project_id=self.project_id)
        return found.filter(plan=self.plan) if self.plan else found

    @property
    def current(self) -> TaskQuerySet:
        """Its tasks but for those whose place another one has taken."""
        return self.tasks.filter(replaced_by=None)


def named(task: Mapping[str, Any]) -> Named:
    return Named(task["id"], task["ref"], task["title"], task["type"])


NAMED = ("id", "ref", "title", "type")


def chunks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    left = iter(rows)
    while chunk := list(islice(left, CHUNK)):
        yield chunk


# ---- the logs

# moves that end an attempt, and those that end a task
ENDED_ATTEMPT = (
    Kind.TASK_COMPLETED,
    Kind.TASK_RETRY_SCHEDULED,
    Kind.TASK_RELEASED,
    Kind.TASK_BLOCKED,
    Kind.TASK_ESCALATED,
    Kind.TASK_FAILED,
    Kind.TASK_ABORTED,
)
ENDED_TASK = {
    Kind.TASK_COMPLETED: "done",
    Kind.TASK_FAILED: "failed",
    Kind.TASK_SKIPPED: "skipped",
    Kind.TASK_ABORTED: "aborted",
}
STATUSES = {Outcome.SUCCESS: "success", Outcome.FAILURE: "failed"}

# every event that is picked has something to tell in the text; all but answers in JSON, too
TOLD = (
    Q(kind__in=ENDED_ATTEMPT, data__has_key="attempt")
    | Q(kind__in=ENDED_TASK)
    | Q(kind=Kind.TASK_CLAIMED, data__attempt__gt=1)
    | Q(kind=Kind.ESCALATION_OPENED, data__has_key="task")
)
ANSWERED = Q(kind=Kind.TASK_REQUEUED, data__answer__in=Answer.values) & ~Q(actor_type="system")


def events(about: About, *, since: datetime, with_answers: bool) -> EventQuerySet:
    """The journal's lines that the logs tell of."""
    found = Event.objects.filter(project_id=about.project_id, at__gte=since)
    found = found.filter(TOLD | ANSWERED if with_answers else TOLD)
    if about.plan is None:
        return found
    tasks = about.tasks.values("id")
    subjects = [row["id"] for row in tasks]
    subjects += Escalation.objects.filter(task__in=tasks).values_list("id", flat=True)
    return found.filter(subject_id__in=subjects)


READ = ("id", "at", "kind", "subject_id", "actor_type", "data")


def happened(about: About, *, since: datetime, with_answers: bool) -> Iterator[Happening]:
    """Everything since then, oldest first."""
    found = events(about, since=since, with_answers=with_answers).order_by("at", "id")
    for chunk in chunks(found.values(*READ).iterator(chunk_size=CHUNK)):
        yield from told(chunk)


# The end of a long journal is mostly found without walking through all of the window.
NEAR = (timedelta(hours=1), timedelta(days=1))


def happened_last(
    about: About, *, window: timedelta, now: datetime, with_answers: bool, most: int
) -> Iterator[Happening]:
    """The same, but of the last `most` events alone."""
    last: list[dict[str, Any]] = []
    for span in (*NEAR, window):
        found = events(about, since=now - span, with_answers=with_answers).order_by("-at", "-id")
        last = list(found.values(*READ)[:most])
        if len(last) == most:
            break
    for chunk in chunks(last[::-1]):
        yield from told(chunk)


def told(chunk: list[dict[str, Any]]) -> Iterator[Happening]:
    """What these events say, with what tasks, attempts and failures have to add."""
    about = {event["id"]: task_of(event) for event in chunk}
    tasks = {
        row["id"]: row
        for row in Task.objects.filter(pk__in=set(about.values())).values(*NAMED, "started_at")
    }
    tried = attempts(tasks)
    for event in chunk:
        if task := tasks.get(about[event["id"]]):
            yield from happenings(event, task, tried.get(task["id"], {}))


def task_of(event: Mapping[str, Any]) -> UUID:
    if event["kind"] == Kind.ESCALATION_OPENED:
        return UUID(event["data"]["task"])
    subject: UUID = event["subject_id"]
    return subject


TRIED = (
    "task_id",
    "number",
    "outcome",
    "started_at",
    "ended_at",
    "failure__message",
    "failure__suggested_fix",
    "failure__learnings",
)
Tried = dict[int, dict[str, Any]]


def attempts(task_ids: Iterable[UUID]) -> dict[UUID, Tried]:
    """By task and number, in the order in which they were made; with those it carries on."""
    found: dict[UUID, Tried] = defaultdict(dict)
    belongs = fetch_carriers(task_ids)
    rows = Attempt.objects.filter(task_id__in=belongs).order_by("number", "task_id")
    for row in rows.values(*TRIED):
        for task_id in belongs[row["task_id"]]:
            found[task_id][row["number"]] = row
    return found


def happenings(
    event: Mapping[str, Any], task: Mapping[str, Any], tried: Tried
) -> Iterator[Happening]:
    at, task_id, data = event["at"], named(task).task_id, event["data"]
    kind, number = event["kind"], data.get("attempt")
    if kind == Kind.TASK_CLAIMED:
        yield Injected(at=at, task_id=task_id, attempt=number, feedback_lines=fed(tried, number))
        return
    if kind == Kind.ESCALATION_OPENED:
        yield Escalated(at=at, task_id=task_id, attempts=made(tried, at), reason=data["reason"])
        return
    if number in tried:
        row = tried[number]
        outcome: str = row["outcome"]
        yield Attempted(
            at=at,
            task_id=task_id,
            attempt=number,
            status=STATUSES.get(Outcome(outcome), outcome),
            failure_type=data.get("failure_type"),
            error="" if kind == Kind.TASK_RELEASED else data.get("error", ""),
            suggested_fix=row["failure__suggested_fix"] or "",
            duration_ms=milliseconds(row["started_at"], row["ended_at"]),
        )
    if data.get("answer") in Answer.values and event["actor_type"] != "system":
        yield Answered(at=at, task_id=task_id, response=data["answer"])
    if status := ENDED_TASK.get(kind):
        yield Resolved(
            at=at,
            task_id=task_id,
            status=status,
            total_attempts=made(tried, at),
            total_duration_ms=milliseconds(task["started_at"], at),
        )


def fed(tried: Tried, number: int) -> int:
    """How many lines of feedback an attempt has: messages, suggested fixes and learnings."""
    lines = 0
    for row in tried.values():
        if row["number"] < number and row["failure__message"] is not None:
            texts = (row["failure__message"], row["failure__suggested_fix"])
            lines += sum(len(text.splitlines()) for text in texts) + len(row["failure__learnings"])
    return lines


def made(tried: Tried, at: datetime) -> int:
    """How many attempts had been made at that time."""
    return bisect_right([row["started_at"] for row in tried.values()], at)


def milliseconds(since: datetime | None, until: datetime | None) -> int:
    if since is None or until is None:
        return 0
    return max(0, round((until - since).total_seconds() * 1000))


# ---- the state of retries

ACTIVE = ~Q(state__in=FINAL)
# a skipped one stays in sight as long as its plan goes on
SKIPPED = Q(
    state=TaskState.SKIPPED, plan__isnull=False, plan__completed_at=None, plan__aborted_at=None
)
STATE = (*NAMED, "state", "blocked_reason", "retry_count", "max_attempts", "attempts", "started_at")


def entries(about: About) -> Iterator[Entry]:
    """The tasks that were started and have not left the state yet, oldest first."""
    rows = about.current.filter(ACTIVE | SKIPPED, started_at__isnull=False).order_by("id")
    for chunk in chunks(rows.values(*STATE).iterator(chunk_size=CHUNK)):
        belongs = fetch_lineages(task["id"] for task in chunk)
        failed, last = failures(belongs), last_attempts(belongs)
        for task in chunk:
            yield entry(task, failed.get(task["id"], []), last.get(task["id"]))


def entry(task: Mapping[str, Any], failed: list[Failed], last: datetime | None) -> Entry:
    who, state = named(task), task["state"]
    status = status_of(
        state, blocked_reason=task["blocked_reason"], retry_count=task["retry_count"]
    )
    return Entry(
        task_id=who.task_id,
        task_name=who.name,
        retry_count=task["retry_count"],
        max_retries=task["max_attempts"],
        status=status,
        failures=failed,
        current_attempt=task["attempts"] + (status in ("pending", "retrying")),
        started_at=task["started_at"],
        last_attempt_at=last or task["started_at"],
    )


def failures(belongs: Mapping[UUID, UUID]) -> dict[UUID, list[Failed]]:
    """By task, the oldest first; `belongs` are the rows of all runs, each with its task now."""
    found: dict[UUID, list[Failed]] = defaultdict(list)
    rows = Failure.objects.filter(task_id__in=belongs).order_by("attempt__number")
    for row in rows.values("task_id", "attempt__number", "at", "type", "message", "suggested_fix"):
        found[belongs[row["task_id"]]].append(
            Failed(
                row["attempt__number"], row["at"], row["type"], row["message"], row["suggested_fix"]
            )
        )
    return found


def last_attempts(belongs: Mapping[UUID, UUID]) -> dict[UUID, datetime]:
    """When the last attempt of each ended, or began where it is live."""
    rows = Attempt.objects.filter(task_id__in=belongs).order_by("task_id", "-number")
    last = rows.distinct("task_id").values("task_id", "number", "ended_at", "started_at")
    return {
        belongs[row["task_id"]]: row["ended_at"] or row["started_at"]
        for row in sorted(last, key=lambda row: row["number"])
    }


def stats(about: About) -> Stats:
    """Counted over the tasks as they are now."""
    retried = about.current.filter(attempts__gt=1)
    found = retried.aggregate(
        made=Sum("attempts"), tasks=Count("id"), done=Count("id", filter=Q(state=TaskState.DONE))
    )
    asked = Escalation.objects.filter(task__in=about.current).count()
    if before := carried(about):
        asked += Escalation.objects.filter(task__in=before).count()
    return Stats(
        total_retries=(found["made"] or 0) - found["tasks"],
        successful_retries=found["done"],
        escalations=asked,
    )


def carried(about: About) -> dict[UUID, UUID]:
    """The rows of earlier runs that go on in its tasks, each with that task; most have none."""
    ids = list(about.current.filter(carries__isnull=False).values_list("id", flat=True))
    return {row: task for row, task in fetch_lineages(ids).items() if row != task} if ids else {}


# ---- what was skipped


def skipped(about: About) -> list[Skipped]:
    """The oldest first."""
    rows = about.current.filter(state=TaskState.SKIPPED).order_by("completed_at", "id")
    tasks = list(rows.values(*NAMED, "completed_at"))
    ids = [task["id"] for task in tasks]
    failed = counted(Failure.objects.all(), fetch_lineages(ids))
    skips = Q(action=Answer.SKIP) | Q(state=EscalationState.EXPIRED, on_expiry=OnExpiry.SKIP)
    answers = Escalation.objects.filter(skips, task__in=ids).order_by("id")
    asked = {
        task: NOBODY if action is None else reason
        for task, reason, action in answers.values_list("task_id", "reason", "action")
    }
    waiting = dependents(ids)
    return [
        Skipped(
            task_id=named(task).task_id,
            name=named(task).name,
            at=task["completed_at"],
            asked=asked.get(task["id"]),
            failed=failed[task["id"]],
            dependents=waiting.get(task["id"], ()),
        )
        for task in tasks
    ]


def counted(rows: QuerySet[Any], belongs: Mapping[UUID, UUID]) -> Counter[UUID]:
    """How many of these rows there are about each task, about all its runs together."""
    found: Counter[UUID] = Counter()
    of = rows.filter(task__in=belongs).order_by().values_list("task_id")
    for task_id, n in of.annotate(n=Count("pk")):
        found[belongs[task_id]] += n
    return found


def dependents(task_ids: list[UUID]) -> dict[UUID, list[str]]:
    """What depends on each of these, by the ids that renderings use."""
    found: dict[UUID, list[str]] = defaultdict(list)
    rows = Need.objects.filter(need__in=task_ids).order_by("task_id")
    for need, task, ref in rows.values_list("need_id", "task_id", "task__ref"):
        found[need].append(ref or str(task))
    return found


# ---- a plan in figures


def summary(plan: Plan) -> Summary:
    about = About(plan.project_id, plan)
    tasks = list(about.current.order_by("id").values(*NAMED, "state"))
    belongs = fetch_lineages(task["id"] for task in tasks)
    tries = counted(Attempt.objects.exclude(outcome=Outcome.RELEASED), belongs)
    asked = counted(Escalation.objects.all(), belongs)
    lines = [
        Line(
            id=task["id"],
            task_id=named(task).task_id,
            label=named(task).label,
            title=task["title"],
            state=task["state"],
            attempts=tries[task["id"]],
            escalations=asked[task["id"]],
        )
        for task in tasks
    ]
    return Summary(ref=plan.ref, state=plan.state, lines=lines, patterns=patterns(belongs))


def patterns(task_ids: Iterable[UUID]) -> dict[str, int]:
    """How often failures were of one type, had one code, or were guessed to have one cause."""
    rows = Failure.objects.filter(task__in=list(task_ids))
    found: Counter[str] = Counter()
    for row in rows.values_list("type", "code", "root_cause_guess"):
        named_by = {one_line(text, PATTERN_LENGTH) for text in row}
        found.update(named_by - {""})
    return dict(found.most_common(MOST_PATTERNS))
