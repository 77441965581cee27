"""Read instructions and their figures for the Instructions pages."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Case, Exists, OuterRef, QuerySet, When
from django.db.models import Value as V
from django.db.models.functions import Left

from dashboard.instructions.forecast import Clock, Forecast, forecast
from dashboard.instructions.latency_chart import LATENCY_EDGES
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.shared_queries import WINDOW, CountOf
from dashboard.wording.status_text import AHEAD_CAP
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.instruction_records import stats as instruction_stats
from ledger.models import ClockRun, Instruction, Project
from ledger.states import InstructionState

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
    start: str  # the start of its content
    ahead: int  # instructions ahead of it in its queue, up to AHEAD_CAP
    queue_busy: bool  # whether its agent's queue holds anything


def build_listed_instruction(row: Any) -> ListedInstruction:
    if getattr(row, "whole", None) is not None:
        row.content = row.whole
    return ListedInstruction(row, row.start, row.ahead, row.busy)


def with_extras(rows: QuerySet[Instruction]) -> QuerySet[Any]:
    # For the page's rows only: each of them runs the subqueries.
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


@compiled
def fetch_last_run() -> QuerySet[ClockRun]:
    return ClockRun.objects.filter(name="idle_check").only("last_run_at")


def read_clock() -> Clock:
    run = next(iter(fetch_last_run()), None)
    return Clock(
        every=timedelta(seconds=settings.TENFOUR["IDLE_CHECK_SECONDS"]),
        min_age=timedelta(seconds=settings.TENFOUR["INSTRUCTION_MIN_AGE"]),
        last_run_at=run.last_run_at if run else None,
    )


def forecast_of(listed: ListedInstruction, clock: Clock, *, now: datetime) -> Forecast | None:
    """Return what the idle check will do with an instruction, or None for nothing."""
    # The idle check looks only at delivered, tracked instructions.
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
    found = next(iter(fetch_instruction(instruction_id)), None)
    return build_listed_instruction(found) if found else None


@compiled
def fetch_instruction(instruction_id: UUID) -> QuerySet[Any]:
    rows = with_extras(Instruction.objects.filter(id=instruction_id)).defer(None)
    return rows.select_related("agent", "project", "resend_of")
