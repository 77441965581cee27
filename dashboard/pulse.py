"""The figures of Overview: today beside yesterday, and what became of what was sent."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.functions import Left

from dashboard.feed import SLACK, first_id
from dashboard.fleet import id_of
from dashboard.inbox import SNIPPET
from dashboard.selectors import WINDOW, of_project, remembered
from ledger import sql
from ledger.models import Instruction, Project
from ledger.states import InstructionState
from ledger.statistics import ACK_SECONDS, SENT, WAITING, share
from retries.models import Escalation

State = InstructionState

HALF_HOUR = timedelta(minutes=30)
BINS = 48
NEEDS_SHOWN = 3


# ---- what needs a person


def oldest_open(project: Project | None) -> list[Any]:
    """The escalations that wait longest, with what is shown of their instruction."""
    rows: QuerySet[Any] = of_project(Escalation.objects.open(), project)
    return list(
        rows.select_related("agent", "project")
        .defer("fix", "note")
        .annotate(
            start=Left("instruction__content", SNIPPET),
            deliveries=F("instruction__deliveries"),
            sender=F("instruction__sent_by_name"),
        )
        .order_by("id")[:NEEDS_SHOWN]
    )


def is_untouched(project: Project | None) -> bool:
    """Whether nothing was ever sent."""
    return not of_project(Instruction.objects.all(), project).exists()


# ---- half hours


@dataclass(frozen=True, slots=True)
class Bin:
    """What became of the instructions that were sent in half an hour."""

    at: datetime
    sent: int = 0
    first: int = 0  # acknowledged at the first sending
    reminded: int = 0  # acknowledged after a reminder
    failed: int = 0
    waiting: int = 0
    retries: int = 0
    ack_p95_s: float | None = None


BIN = f"""select date_bin('30 minutes', i.queued_at, timestamptz 'epoch') as at, count(*) as sent,
    count(*) filter (where i.state = '{State.ACKNOWLEDGED}' and i.deliveries <= 1) as first,
    count(*) filter (where i.state = '{State.ACKNOWLEDGED}' and i.deliveries > 1) as reminded,
    count(*) filter (where i.state = '{State.FAILED}') as failed,
    count(*) filter (where {WAITING}) as waiting, sum(i.retry_count)::int as retries,
    percentile_cont(0.95) within group (order by {ACK_SECONDS})
        filter (where i.state = '{State.ACKNOWLEDGED}') as ack_p95_s
{SENT} and i.id >= %(floor)s group by 1"""


def first_bin(now: datetime) -> datetime:
    """The beginning of the half hour that is 48 of them before the one after this."""
    now = now.astimezone(UTC)
    this = now.replace(minute=now.minute // 30 * 30, second=0, microsecond=0)
    return this - (BINS - 1) * HALF_HOUR


def bins(project: Project | None, *, now: datetime) -> list[Bin]:
    """The last 48 half hours, oldest first; the last one is not over yet."""
    first = first_bin(now)

    def read() -> dict[datetime, Bin]:
        rows = sql.run(
            BIN, since=first, floor=first_id(first - SLACK), project=id_of(project)
        )
        return {row["at"]: Bin(**row) for row in rows}

    found = remembered(f"bins:{project.id if project else 'all'}:{first:%d%H%M}", read)
    each = (first + n * HALF_HOUR for n in range(BINS))
    return [found.get(at) or Bin(at) for at in each]


# ---- the day before


@dataclass(frozen=True, slots=True)
class Day:
    """What today's figures are compared with."""

    sent: int = 0
    acknowledged_share: float = 0.0
    retry_rate: float = 0.0
    failed: int = 0
    ack_p95_s: float | None = None


DAY = f"""select count(*) as sent, count(*) filter (where i.state = '{State.FAILED}') as failed,
    count(*) filter (where i.state = '{State.ACKNOWLEDGED}') as acknowledged,
    sum(i.retry_count)::int as retries, percentile_cont(0.95) within group (order by {ACK_SECONDS})
        filter (where i.state = '{State.ACKNOWLEDGED}') as ack_p95_s
{SENT} and i.queued_at < %(until)s and i.id >= %(floor)s and i.id < %(ceiling)s"""


def day_before(project: Project | None, *, now: datetime) -> Day:
    """The 24 hours before the last 24."""

    def read() -> Day:
        until, since = now - WINDOW, now - 2 * WINDOW
        row = sql.run(
            DAY,
            since=since,
            until=until,
            floor=first_id(since - SLACK),
            ceiling=first_id(until + SLACK),
            project=id_of(project),
        )[0]
        sent = row["sent"]
        return Day(
            sent=sent,
            acknowledged_share=share(row["acknowledged"], sent),
            retry_rate=share(row["retries"] or 0, sent),
            failed=row["failed"],
            ack_p95_s=row["ack_p95_s"],
        )

    return remembered(f"day-before:{project.id if project else 'all'}", read)
