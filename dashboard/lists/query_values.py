"""Read the values of a query box that are not names (pure): ages, times and numbers.

A reader returns fields of a page's query, or raises ValueError with a sentence that says what to
type instead.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Reader = Callable[[str], Mapping[str, Any]]

AGE = re.compile(r"(?P<number>\d{1,5})(?P<unit>s|m|h|d|w)(?: ago)?")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
CLOCK = re.compile(r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?")
DAY = re.compile(r"\d{4}-\d\d-\d\d")
BOUND = re.compile(r"(?P<op>[<>]?)(?P<number>\d{1,4})")


@dataclass(frozen=True, slots=True)
class Period:
    """A range of time; an end is an age, which moves with the clock, or an instant."""

    start: timedelta | datetime | None = None
    end: timedelta | datetime | None = None


def parse_age(value: str) -> timedelta | None:
    """Return the time that 90s, 30m, 2h, 7d or 2w means.

    >>> parse_age("2h"), parse_age("1w"), parse_age("soon")
    (datetime.timedelta(seconds=7200), datetime.timedelta(days=7), None)
    """
    match = AGE.fullmatch(value)
    return timedelta(**{UNITS[match["unit"]]: int(match["number"])}) if match else None


def read_age(key: str) -> Reader:
    def read(value: str) -> dict[str, timedelta]:
        age = parse_age(value)
        if age is None:
            raise ValueError(
                f"“{key}:{value}” is not a duration. Try {key}:30m, {key}:2h or {key}:7d."
            )
        return {key: age}

    return read


def read_period(key: str, field: str = "") -> Reader:
    """Return the reader of a time range: 7d, 2026-11-20 or 2026-11-01..2026-11-20, in UTC."""

    # `field` is given if the key is a second name for another one.
    def read(value: str) -> dict[str, Period]:
        first, dots, last = value.partition("..")
        start, end = parse_end(first), parse_end(last)
        if not (first or last) or (first and start is None) or (last and end is None):
            raise ValueError(
                f"“{key}:{value}” is not a time range. Try {key}:24h, {key}:2026-11-20 or "
                f"{key}:2026-11-01..2026-11-20."
            )
        # a day lasts until it is over
        return {field or key: Period(start, end_of_day(last if dots else first) or end)}

    return read


def is_in_period(at: datetime | None, period: Period, *, now: datetime) -> bool:
    # A missing instant lies in no period.
    start, end = (
        now - each if isinstance(each, timedelta) else each for each in (period.start, period.end)
    )
    return at is not None and (start is None or at >= start) and (end is None or at < end)


def parse_end(value: str) -> timedelta | datetime | None:
    age = parse_age(value)
    return parse_date(value) if age is None else age


def end_of_day(value: str) -> datetime | None:
    """Return when the day that a value names is over, or None if it names no day."""
    at = parse_date(value) if is_a_day(value) else None
    return at + timedelta(days=1) if at else None


def parse_date(value: str) -> datetime | None:
    """Return the instant of a date with or without a time, in UTC unless it says otherwise."""
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    if not 1970 <= at.year <= 9000:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def parse_instant(value: str, *, now: datetime) -> datetime | None:
    """Return the instant that an age, a time of day, or a date means, or None."""
    if (age := parse_age(value)) is not None:
        return now - age
    if match := CLOCK.fullmatch(value):
        at = now.astimezone(UTC).replace(
            hour=int(match["hour"]),
            minute=int(match["minute"]),
            second=int(match["second"] or 0),
            microsecond=0,
        )
        # A time of day after now means yesterday's.
        return at if at <= now else at - timedelta(days=1)
    return parse_date(value)


def is_a_day(value: str) -> bool:
    return DAY.fullmatch(value) is not None


def read_bound(key: str) -> Reader:
    """Return the reader of a bound on a number: in the fields KEY_over and KEY_under."""

    def read(value: str) -> dict[str, int]:
        match = BOUND.fullmatch(value)
        if match is None:
            raise ValueError(f"“{key}:{value}” is not a number. Try {key}:>1 or {key}:<3.")
        number = int(match["number"])
        over, under = f"{key}_over", f"{key}_under"
        if match["op"]:
            return {over if match["op"] == ">" else under: number}
        return {over: number - 1, under: number + 1}

    return read
