"""Find the failure patterns that are new, recurred, or are more frequent than the day before."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from dashboard.charts.sparklines import Bars, bars
from dashboard.lists.shared_queries import hash_of, of_project
from dashboard.patterns.queries import count_by_step
from dashboard.patterns.rising import HOURS, find_reason
from ledger.database.optional_cache import get_or_compute
from ledger.models import Project
from retries.models import FailurePattern
from retries.states import TROUBLING

CONSIDERED = 60  # patterns considered, the last seen first
SHOWN = 4
BARS = 12
COUNTED_EVERY_S = 60  # a poll needs no newer hours
TALL = 14


@dataclass(frozen=True, slots=True)
class RisingPattern:
    """A pattern with its failures of the last day."""

    id: UUID
    template: str
    today: int
    why: str
    asked: int  # open escalations
    fingerprint: str
    project: str
    bars: Bars


def list_rising(
    project: Project | None, open_by_pattern: Mapping[UUID, int], *, now: datetime
) -> list[RisingPattern]:
    day = timedelta(hours=HOURS)
    rows = of_project(FailurePattern.objects.current().filter(state__in=TROUBLING), project)
    recent = list(
        rows.filter(last_seen__gte=now - day)
        .select_related("project")
        .only("id", "fingerprint", "template", "state", "first_seen", "project__name")
        .order_by("-last_seen", "-id")[:CONSIDERED]
    )
    ids = [row.pk for row in recent]
    if not ids:
        return []
    hours = get_or_compute(
        f"rising:{hash_of(ids)}",
        lambda: count_by_step(ids, step=timedelta(hours=1), steps=2 * HOURS, now=now),
        seconds=COUNTED_EVERY_S,
    )
    found = []
    for row in recent:
        today = hours[row.pk][HOURS:]
        why = find_reason(row, hours[row.pk], now=now)
        if why:
            pairs = [sum(today[n : n + 2]) for n in range(0, HOURS, HOURS // BARS)]
            drawn = bars(pairs, [0] * BARS, tall=TALL)
            found.append(
                RisingPattern(
                    id=row.pk,
                    template=row.template[:240],
                    today=sum(today),
                    why=why,
                    asked=open_by_pattern.get(row.pk, 0),
                    fingerprint=row.fingerprint,
                    project=row.project.name,
                    bars=drawn,
                )
            )
    return sorted(found, key=lambda each: (-each.today, str(each.id)))[:SHOWN]
