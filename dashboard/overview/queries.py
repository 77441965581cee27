"""Query Overview's open escalations and its half-hourly figures of the last two days."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Window

from dashboard.compiled_queries import compiled
from dashboard.connect.queries import FIRST_DIGEST
from dashboard.escalations.queries import first_words
from dashboard.shared_queries import WINDOW, of_project
from ledger import sql
from ledger.ids import SLACK, first_id
from ledger.instruction_stats import ACK_SECONDS, SENT, WAITING, share, window_params
from ledger.models import Instruction, Project, Token
from ledger.optional_cache import get_or_compute_slow
from ledger.states import InstructionState
from retries.models import Escalation

HALF_HOUR = timedelta(minutes=30)
HALF_HOURS_SHOWN = 48
ESCALATIONS_SHOWN = 3
# With fewer instructions in a day, it is worth a query whether they are all first instructions.
FEW = 2


# ---- what needs an answer


@compiled
def list_oldest_escalations(project: Project | None) -> QuerySet[Any]:
    """Return the oldest open escalations, each with the total in `open_count`."""
    rows: QuerySet[Any] = of_project(Escalation.objects.open(), project)
    annotated: QuerySet[Any] = rows.select_related("agent", "project").annotate(
        start=first_words(),
        ref=F("task__ref"),
        deliveries=F("instruction__deliveries"),
        sender=F("instruction__sent_by_name"),
        open_count=Window(Count("*")),
    )
    heavy = ("fix", "note", "question", "choices", "response_schema", "client_state")
    return annotated.defer(*heavy).order_by("id")[:ESCALATIONS_SHOWN]


def has_instructions(project: Project | None) -> bool:
    """Return whether there is more than first instructions that nothing has acknowledged yet."""
    first = Q(content_sha256=FIRST_DIGEST, acknowledged_at=None)
    return of_project(Instruction.objects.exclude(first), project).exists()


def find_waiting_token(project: Project | None) -> Token | None:
    """Return the newest agent's token that connecting an agent created, if it is valid."""
    rows = Token.objects.select_related("agent", "project").defer("digest")
    first = Instruction.objects.filter(agent=OuterRef("agent"), content_sha256=FIRST_DIGEST)
    valid = of_project(rows, project).filter(Exists(first), revoked_at=None)
    return valid.order_by("-id").first()


# ---- the last day and the day before


@dataclass(frozen=True, slots=True)
class HalfHour:
    """The outcomes of the instructions sent in half an hour."""

    at: datetime
    sent: int = 0
    first: int = 0  # acknowledged at the first sending
    reminded: int = 0  # acknowledged after a reminder
    failed: int = 0
    waiting: int = 0
    retries: int = 0
    ack_p95_s: float | None = None


@dataclass(frozen=True, slots=True)
class Day:
    """The figures of 24 hours, to compare the last 24 hours with."""

    sent: int = 0
    acknowledged_share: float = 0.0
    retry_rate: float = 0.0
    failed: int = 0
    ack_p95_s: float | None = None


@dataclass(frozen=True, slots=True)
class Trend:
    half_hours: list[HalfHour]  # the last 48, oldest first; the last one is not over yet
    before: Day  # the 24 hours before the last 24


SUMS = f"""count(*) as sent,
    count(*) filter (
        where i.state = '{InstructionState.ACKNOWLEDGED}' and i.deliveries <= 1) as first,
    count(*) filter (
        where i.state = '{InstructionState.ACKNOWLEDGED}' and i.deliveries > 1) as reminded,
    count(*) filter (where i.state = '{InstructionState.FAILED}') as failed,
    count(*) filter (where {WAITING}) as waiting, coalesce(sum(i.retry_count), 0)::int as retries,
    percentile_cont(0.95) within group (order by {ACK_SECONDS})
        filter (where i.state = '{InstructionState.ACKNOWLEDGED}') as ack_p95_s"""
TREND = f"""select date_bin('30 minutes', i.queued_at, timestamptz 'epoch') as at, {SUMS}
    {SENT} group by 1
union all
    select null, {SUMS} from ledger_instruction i
    where i.tracked and i.id >= %(before_floor)s and i.id < %(before_ceiling)s
        and i.queued_at >= %(before_since)s and i.queued_at < %(before_until)s
        and (%(project)s::uuid is null or i.project_id = %(project)s)"""


def first_half_hour(now: datetime) -> datetime:
    """Return the start of the first of the 48 half hours that end with the current one."""
    now = now.astimezone(UTC)
    current = now.replace(minute=now.minute // 30 * 30, second=0, microsecond=0)
    return current - (HALF_HOURS_SHOWN - 1) * HALF_HOUR


def read_trend(project: Project | None, *, now: datetime) -> Trend:
    first = first_half_hour(now)
    rows = get_or_compute_slow(
        f"trend:{project.id if project else 'all'}:{first:%d%H%M}",
        lambda: read_trend_rows(project, first, now=now),
    )
    known = {row["at"]: HalfHour(**row) for row in rows if row["at"]}
    starts = (first + n * HALF_HOUR for n in range(HALF_HOURS_SHOWN))
    return Trend(
        [known.get(at) or HalfHour(at) for at in starts],
        day_of(next(row for row in rows if row["at"] is None)),
    )


def read_trend_rows(project: Project | None, first: datetime, *, now: datetime) -> list[sql.Row]:
    """Return a row for each half hour that has instructions, and one for the day before."""
    until, since = now - WINDOW, now - 2 * WINDOW
    return sql.run_custom_plan(
        TREND,
        **window_params(first),
        before_since=since,
        before_until=until,
        before_floor=first_id(since - SLACK),
        before_ceiling=first_id(until + SLACK),
        project=project.id if project else None,
    )


def day_of(row: sql.Row) -> Day:
    return Day(
        sent=row["sent"],
        acknowledged_share=share(row["first"] + row["reminded"], row["sent"]),
        retry_rate=share(row["retries"], row["sent"]),
        failed=row["failed"],
        ack_p95_s=row["ack_p95_s"],
    )
