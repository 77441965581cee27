"""The form for the two days, in UTC, between which a list's rows changed or were made.

A browser sends the days as parameters of their own. The list moves them into its query, where its
links keep them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from dashboard.frame.navigation import here_of
from dashboard.lists.query_box import BoxQuery
from dashboard.lists.query_values import Period, is_a_day, parse_date

# parameters that belong to the rows of another query
OF_ROWS = ("before", "after", "page", "open", "ask", "id", "every", "of")


@dataclass(frozen=True, slots=True)
class DateRange:
    """The first and the last day of the period of a key; an end may be open."""

    key: str
    start: str = ""
    end: str = ""

    def __bool__(self) -> bool:
        return bool(self.start or self.end)

    @property
    def label(self) -> str:
        """The days as text.

        >>> DateRange("sent", "2026-11-01", "2026-11-20").label
        '2026-11-01 to 2026-11-20'
        >>> DateRange("sent", "2026-11-01").label, DateRange("sent", end="2026-11-20").label
        ('since 2026-11-01', 'until 2026-11-20')
        """
        if self.start and self.end:
            return self.start if self.start == self.end else f"{self.start} to {self.end}"
        return f"since {self.start}" if self.start else f"until {self.end}"


def find_dates(key: str, period: Period | None) -> DateRange:
    """Return the days of a period; a period that is not of whole days has none."""
    start, end = (period.start, period.end) if period else (None, None)
    if not all(each is None or is_midnight(each) for each in (start, end)):
        return DateRange(key)
    last = end - timedelta(microseconds=1) if isinstance(end, datetime) else None
    return DateRange(
        key, f"{start:%F}" if isinstance(start, datetime) else "", f"{last:%F}" if last else ""
    )


def is_midnight(end: timedelta | datetime) -> bool:
    # A day begins at midnight in UTC.
    return isinstance(end, datetime) and end.astimezone(UTC).time() == time()


def names_of(key: str) -> tuple[str, str]:
    return f"{key}_from", f"{key}_to"


def read_dates(query: BoxQuery, key: str, typed: Mapping[str, Any]) -> str:
    """Return the query's text with the form's days, or without a period if the form has none."""
    start, end = (typed.get(name, "").strip() for name in names_of(key))
    days = [day if is_a_day(day) and parse_date(day) else "" for day in (start, end)]
    if all(days):
        days.sort()
    return query.having(key, f"{key}:{'..'.join(days)}" if any(days) else "")


def open_dates(request: HttpRequest, query: BoxQuery, key: str) -> HttpResponse | None:
    """Redirect to the list with the days of its form in the query, or return None without any."""
    if not any(name in request.GET for name in names_of(key)):
        return None
    params = here_of(request)
    for name in (*names_of(key), *OF_ROWS):
        params.pop(name, None)
    params["q"] = read_dates(query, key, request.GET)
    return redirect(f"{request.path}?{params.urlencode()}")
