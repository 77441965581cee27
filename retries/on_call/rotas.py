"""The people on call at an instant, by weekday and local time (pure)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
SHIFT = re.compile(r"(\S+)\s+(\d\d?:\d\d)\s*-\s*(\d\d?:\d\d)\s+(\S.*)")
HOW = "Write a shift as 'mon-fri 18:00-08:00 mara, jon'"


class Unreadable(ValueError):
    """A line that is no shift or step."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The people on call on some weekdays; one that ends at or before its start ends a day later.

    A person on call comes before those named after.
    """

    days: frozenset[int]  # 0 is Monday
    starts: time
    ends: time
    people: tuple[str, ...]

    def on(self, day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
        last = day + DAY if self.ends <= self.starts else day
        return find_instant(day, self.starts, zone), find_instant(last, self.ends, zone)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The shifts of a rota, the first of which takes precedence, and the people outside of them."""

    timezone: str
    shifts: tuple[Shift, ...]
    fallback: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Period:
    """A time in which the same people are on call."""

    starts_at: datetime
    ends_at: datetime
    people: tuple[str, ...]


@lru_cache(maxsize=4096)  # a preview asks for the same times again and again
def find_instant(day: date, at: time, zone: ZoneInfo) -> datetime:
    """Return the instant of a local time, in UTC.

    A time that clocks skip is the instant at which they do; of one that comes twice, it is the
    first. So no later time comes before it, and each shift ends exactly where the next begins.

    >>> zone = ZoneInfo("Europe/Berlin")
    >>> [str(find_instant(date(2026, 3, 29), time(2, each), zone))[11:16] for each in (15, 45)]
    ['01:00', '01:00']
    >>> str(find_instant(date(2026, 10, 25), time(2, 30), zone))[11:16]
    '00:30'
    """
    local = datetime.combine(day, at, zone)
    before, after = local.utcoffset(), local.replace(fold=1).utcoffset()
    assert before is not None and after is not None  # the zone is known
    late, early = (local.replace(tzinfo=UTC) - offset for offset in (before, after))
    if before >= after:
        return late
    while late - early > SECOND:  # clocks skip it: they do so after `early`, not after `late`
        middle = early + (late - early) // 2
        middle = middle.replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    return late


def find_on_call(schedule: Schedule, at: datetime) -> tuple[str, ...]:
    zone = ZoneInfo(schedule.timezone)
    here = at.astimezone(zone).date()
    for shift in schedule.shifts:
        for day in (here - DAY, here, here + DAY):
            if day.weekday() in shift.days:
                starts_at, ends_at = shift.on(day, zone)
                if starts_at <= at < ends_at:
                    return shift.people
    return schedule.fallback


def list_periods(schedule: Schedule, *, since: datetime, until: datetime) -> list[Period]:
    """Return who is on call from one instant to another, each change once."""
    zone = ZoneInfo(schedule.timezone)
    first, last = (each.astimezone(zone).date() for each in (since, until))
    days = [first + DAY * n for n in range(-1, (last - first).days + 2)]
    changes = {
        at
        for shift in schedule.shifts
        for day in days
        if day.weekday() in shift.days
        for at in shift.on(day, zone)
        if since < at < until
    }
    found: list[Period] = []
    for begins, ends in pairwise(sorted({since, until} | changes)):
        people = find_on_call(schedule, begins)
        if found and found[-1].people == people:
            found[-1] = Period(found[-1].starts_at, ends, people)
        else:
            found.append(Period(begins, ends, people))
    return found


# ---- shifts as lines


def parse_shift(line: str) -> Shift:
    """Return the shift that a line describes; raise Unreadable.

    >>> shift = parse_shift("sat,sun 20:00-08:00 mara, jon")
    >>> sorted(shift.days), str(shift.starts), shift.people
    ([5, 6], '20:00:00', ('mara', 'jon'))
    >>> format_shift(parse_shift("Mon-Fri 9:00-17:00 mara"))
    'mon-fri 09:00-17:00 mara'
    """
    match = SHIFT.fullmatch(line.strip())
    if match is None:
        raise Unreadable(f"{HOW}, not '{line.strip()[:60]}'.")
    try:
        starts, ends = (time.fromisoformat(each.zfill(5)) for each in match.group(2, 3))
    except ValueError:
        raise Unreadable(f"{HOW}: a time of day is from 00:00 to 23:59.") from None
    return Shift(parse_days(match[1]), starts, ends, split_names(match[4]))


def parse_days(text: str) -> frozenset[int]:
    days = set[int]()
    for part in text.lower().split(","):
        first, _, last = part.partition("-")
        if part == "daily":
            days.update(range(7))
        elif first in DAYS and (last or first) in DAYS:
            begin, end = DAYS.index(first), DAYS.index(last or first)
            days.update(each % 7 for each in range(begin, (end if end >= begin else end + 7) + 1))
        else:
            raise Unreadable(f"{HOW}: '{text[:30]}' names no days. They are {', '.join(DAYS)}.")
    return frozenset(days)


def split_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in text.split(",") if (name := each.strip())))


def format_shift(shift: Shift) -> str:
    times = f"{shift.starts:%H:%M}-{shift.ends:%H:%M}"
    return f"{format_days(sorted(shift.days))} {times} {', '.join(shift.people)}"


def format_days(days: Sequence[int]) -> str:
    """Return weekdays as text.

    >>> format_days([0, 1, 2, 3, 4, 6]), format_days([*range(7)]), format_days([5, 6])
    ('mon-fri,sun', 'daily', 'sat,sun')
    """
    if len(days) == len(DAYS):
        return "daily"
    runs: list[list[int]] = []
    for day in days:
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ",".join(
        f"{DAYS[run[0]]}-{DAYS[run[-1]]}" if len(run) > 2 else ",".join(DAYS[day] for day in run)
        for run in runs
    )
