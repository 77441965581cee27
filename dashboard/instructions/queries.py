"""Read the rows and counts of the Instructions pages."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
)
from django.db.models import Value as V
from django.db.models.functions import Coalesce, Left

from dashboard.instructions import filters
from dashboard.instructions.filters import InstructionQuery
from dashboard.instructions.forecast import Clock, Forecast, forecast
from dashboard.instructions.latency_chart import LATENCY_EDGES
from dashboard.lists import pagination
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.pagination import Page, slice_rows
from dashboard.lists.query_box import ANY
from dashboard.lists.shared_queries import (
    WINDOW,
    CountOf,
    bound_ids,
    failed_in_pattern,
    failed_with,
    hash_of,
    match_age,
    match_any,
    match_period,
    match_values,
    of_project,
)
from dashboard.lists.sorting import SortColumn, slice_sorted
from dashboard.wording.status_text import AHEAD_CAP
from ledger import search_words
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.instruction_records import stats as instruction_stats
from ledger.models import ClockRun, Instruction, Project, Task
from ledger.states import LEVELS, InstructionState

SNIPPET = 240

# columns that a list does not read
HEAVY = ("content", "content_sha256", "expect_match", "acknowledged_by", "note")


LATENCIES = f"""select width_bucket({instruction_stats.ACK_SECONDS}, %(edges)s::float8[]) as class,
    i.deliveries > 1 as reminded, count(*) as n
{instruction_stats.SENT} and i.state = '{InstructionState.ACKNOWLEDGED}'
    and (%(agent)s::uuid is null or i.agent_id = %(agent)s)
group by 1, 2"""


def count_latencies(
    project: Project | None, *, agent_id: UUID | None, now: datetime
) -> dict[tuple[int, bool], int]:
    """Count acknowledged instructions by class of latency and by whether they were reminded."""

    def count() -> dict[tuple[int, bool], int]:
        rows = sql.run_custom_plan(
            LATENCIES,
            edges=[float(edge) for edge in LATENCY_EDGES],
            project=project.id if project else None,
            agent=agent_id,
            **instruction_stats.window_params(now - WINDOW),
        )
        return {(row["class"], row["reminded"]): row["n"] for row in rows}

    return get_or_compute_slow(f"latencies:{project.id if project else 'all'}:{agent_id}", count)


# ---- instructions


@dataclass(frozen=True, slots=True)
class ListedInstruction:
    """An instruction as a list shows it, without its heavy columns."""

    row: Instruction
    start: str  # of its content
    ahead: int  # instructions ahead of it in its queue, up to AHEAD_CAP
    queue_busy: bool  # whether its agent's queue holds anything


def filter_instructions(query: InstructionQuery, project: Project | None) -> QuerySet[Instruction]:
    """Return the instructions that match a query."""
    rows = of_project(Instruction.objects.all(), project)
    rows = rows.filter(
        match_values(query.agent, "agent__name"),
        match_values(query.sender, "sent_by_name"),
        match_values(query.plan, "task__plan__ref"),
        match_any(query.pattern, lambda text: Q(task__in=failed_in_pattern(text, project))),
        match_any(query.error, lambda text: Q(task__in=failed_with(text))),
        states(query),
    )
    rows = rows.filter(
        match_age(query.older, "queued_at"),
        match_period(query.sent, "queued_at"),
        bound_ids(query.sent),
    )
    if query.type != ANY:
        rows = rows.alias(type=TASK_TYPE).filter(match_values(query.type, "type"))
    if query.type.wanted:
        rows = rows.filter(task__isnull=False)  # an index has the few with a task
    for word in query.words:
        rows = rows.filter(id__in=search_words.find_instructions(word))
    if query.ids:
        rows = rows.filter(id__in=query.ids)
    took = F("acknowledged_at") - F("queued_at")
    if query.ack_over is not None or query.ack_under is not None:
        rows = rows.filter(state=InstructionState.ACKNOWLEDGED).annotate(took=took)
    if query.ack_over is not None:
        rows = rows.filter(took__gt=timedelta(seconds=query.ack_over))
    if query.ack_under is not None:
        rows = rows.filter(took__lt=timedelta(seconds=query.ack_under))
    return rows


# No index finds a type. It is looked up for each instruction, so that no plan reads all tasks; it
# is empty without a task, so that it can be excluded.
TASK_TYPE = Coalesce(Subquery(Task.objects.filter(pk=OuterRef("task")).values("type")[:1]), V(""))


def states(query: InstructionQuery) -> Q:
    """Return the condition for the states and urgencies of a query."""
    return match_any(query.state, in_state) & match_any(query.urgency, has_urgency)


def in_state(name: str) -> Q:
    which = Q(state__in=filters.STATES[name])
    return which & Q(tracked=True) if name == "waiting" else which


def has_urgency(name: str) -> Q:
    level = filters.URGENCIES[name]
    return Q(retry_count__gte=level) if level == len(LEVELS) - 1 else Q(retry_count=level)


def list_instructions(
    query: InstructionQuery,
    project: Project | None,
    sort: str = "",
    *,
    before: UUID | None,
    after: UUID | None,
    open_id: UUID | None = None,
) -> Page[ListedInstruction]:
    """Return the page next to a row; the expanded row comes with its whole content."""
    fetch = partial(fetch_instructions, query, project, sort, open_id)
    found = pagination.read_page(fetch, before=before, after=after)
    return found.map(lambda rows: [build_listed_instruction(row) for row in rows])


COLUMNS = {
    "agent": SortColumn(F("agent__name")),
    "from": SortColumn(F("sent_by_name")),
    "urgency": SortColumn(F("retry_count"), largest_first=True),
    "sent": SortColumn(F("id"), largest_first=True, is_indexed=True),
}
DEFAULT_SORT = "-sent"


def fetch_instructions(
    query: InstructionQuery,
    project: Project | None,
    sort: str,
    open_id: UUID | None,
    *,
    before: UUID | None,
    after: UUID | None,
) -> list[Any]:
    if not sort:
        return fetch_newest_instructions(query, project, open_id, before, after)
    rows = with_extras(with_content(filter_instructions(query, project), open_id))
    return list(slice_sorted(rows, sort, COLUMNS, before=before, after=after))


@compiled
def fetch_newest_instructions(
    query: InstructionQuery,
    project: Project | None,
    open_id: UUID | None,
    before: UUID | None,
    after: UUID | None,
) -> QuerySet[Any]:
    rows = with_content(filter_instructions(query, project), open_id)
    return slice_rows(with_extras(rows), before=before, after=after)


def with_content(rows: QuerySet[Instruction], open_id: UUID | None) -> QuerySet[Any]:
    """Return the rows, the expanded one with its whole content."""
    return rows.annotate(whole=Case(When(id=open_id, then="content"))) if open_id else rows


def build_listed_instruction(row: Any) -> ListedInstruction:
    if getattr(row, "whole", None) is not None:
        row.content = row.whole
    return ListedInstruction(row, row.start, row.ahead, row.busy)


def with_extras(rows: QuerySet[Instruction]) -> QuerySet[Any]:
    """Annotate what a list shows beside the columns, for the page's rows only."""
    queue = Instruction.objects.filter(
        agent=OuterRef("agent"), state=InstructionState.QUEUED
    ).order_by()
    first = queue.filter(position__lt=OuterRef("position")).values("pk")[:AHEAD_CAP]
    return (
        rows.select_related("agent", "project")
        .defer(*HEAVY)
        .annotate(
            start=Left("content", SNIPPET),
            busy=Case(When(state=InstructionState.DELIVERED, then=Exists(queue)), default=V(False)),
            ahead=Case(When(state=InstructionState.QUEUED, then=CountOf(first)), default=V(0)),
        )
    )


def count_by_state(query: InstructionQuery, project: Project | None) -> dict[str, int]:
    """Count the matching instructions in each state, by the names of the list's buttons."""
    query = query.stateless()

    def count() -> dict[str, int]:
        rows = filter_instructions(query, project).order_by()
        found = rows.values("state", "tracked").annotate(n=Count("*"))
        of_state = {(row["state"], row["tracked"]): row["n"] for row in found}
        waits = filters.STATES["waiting"]
        return {
            "all": sum(of_state.values()),
            "waiting": sum(of_state.get((state, True), 0) for state in waits),
            **{
                state.value: of_state.get((state, True), 0) + of_state.get((state, False), 0)
                for state in InstructionState
            },
        }

    return get_or_compute_slow(f"counts:{project.id if project else 'all'}:{hash_of(query)}", count)


@compiled
def fetch_last_run() -> QuerySet[ClockRun]:
    return ClockRun.objects.filter(name="idle_check").only("last_run_at")


def read_clock() -> Clock:
    """Return the idle check's interval and its last run."""
    run = next(iter(fetch_last_run()), None)
    return Clock(
        every=timedelta(seconds=settings.TENFOUR["IDLE_CHECK_SECONDS"]),
        min_age=timedelta(seconds=settings.TENFOUR["INSTRUCTION_MIN_AGE"]),
        last_run_at=run.last_run_at if run else None,
    )


def forecast_of(listed: ListedInstruction, clock: Clock, *, now: datetime) -> Forecast | None:
    """Return what the idle check will do with an instruction, or None for nothing."""
    row = listed.row
    if row.state != InstructionState.DELIVERED or not row.tracked or row.delivered_at is None:
        return None
    return forecast(
        delivered_at=row.delivered_at,
        retry_count=row.retry_count,
        max_retries=row.max_retries,
        queue_busy=listed.queue_busy,
        clock=clock,
        now=now,
    )


def find_instruction(instruction_id: UUID) -> ListedInstruction | None:
    """Return an instruction with all its columns, or None."""
    found = next(iter(fetch_instruction(instruction_id)), None)
    return build_listed_instruction(found) if found else None


@compiled
def fetch_instruction(instruction_id: UUID) -> QuerySet[Any]:
    rows = with_extras(Instruction.objects.filter(id=instruction_id)).defer(None)
    return rows.select_related("agent", "project", "resend_of")
