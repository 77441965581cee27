"""Find the markers of a chart's time, and place them along its axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Window

from ledger.models import Marker, Project

DRAWN = 12  # of a chart, the newest


@dataclass(frozen=True, slots=True)
class ChartMarker:
    """A marker with its place in percent of the chart's width."""

    marker: Marker
    x: float


@dataclass(frozen=True, slots=True)
class ChartMarkers:
    """The newest markers of a chart, oldest first, and the number of older ones."""

    drawn: Sequence[ChartMarker] = ()
    more: int = 0

    def __bool__(self) -> bool:
        return bool(self.drawn)


def read_markers(project: Project | None, start: datetime, end: datetime) -> ChartMarkers:
    rows = Marker.objects.filter(at__gte=start, at__lt=end).order_by("-at", "-id")
    rows = rows.filter(project=project) if project else rows.select_related("project")
    found: list[Any] = list(rows.annotate(n=Window(Count("*"))).defer("text")[:DRAWN])
    length = (end - start).total_seconds()
    drawn = [
        ChartMarker(each, round(100 * (each.at - start).total_seconds() / length, 2))
        for each in reversed(found)
    ]
    return ChartMarkers(drawn, found[0].n - len(found) if found else 0)
